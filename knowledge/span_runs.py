"""What spans say about their run: when it began and ended, how, what was asked and answered, its turns and tokens.

The span that stands for the run says it; without one those that are nobody's children; and while none of these has
come, the topmost agent's span as far as it holds everything that has. (Seed 001 §13.)
"""

from collections.abc import Sequence
from typing import Any, Final

from ingest.journal import JournalEvent
from knowledge import event_data as read
from knowledge.event_data import fill
from knowledge.spans import RUN_TYPES, Spans, end_of, failure_of, has_failed, is_open, kind_of, span_of, tokens_of

GUESSED: Final = "judged by its topmost agent's span: the span above it has not arrived"
CALLS: Final = ("model", "tool", "retriever", "reranker", "embedding")  # what an agent makes, and is not
FAR: Final = "clock_far"  # the repair that says an event is dated where it cannot belong


def read_run(spans: Spans) -> dict[str, Any]:
    """Return the fields of RunFacts that the spans tell; what they do not tell is absent. `status` while it is over."""
    row: dict[str, Any] = {}
    standing = standing_for_run(spans)
    top = [*standing, *_agents(spans)]
    for event in top:
        fill(row, task=read.text(event.data, "task", read.TEXT_LIMIT), agent=_agent(event))
        fill(row, model=read.identity(event.data, "model"))
    if standing and kind_of(standing[0]) not in CALLS:
        fill(row, agent=read.identity(span_of(standing[0]), "name"))
    for event in reversed(top):
        fill(row, answer=read.text(event.data, "answer", read.TEXT_LIMIT))
    if standing:
        fill(row, started_ns=min(event.occurred_ns for event in standing))
        _take_end(row, standing)
    elif (guess := _guessed(spans)) is not None:
        fill(row, started_ns=guess.occurred_ns)
        _take_end(row, [guess])
        row["status_reason"] = GUESSED if not row.get("status_reason") else f"{row['status_reason']} ({GUESSED})"
    return row


def standing_for_run(spans: Spans) -> list[JournalEvent]:
    """Return the events that say when the run began and ended: of runs, else of spans that are nobody's children."""
    runs = [spans.events[place] for place in spans.places if spans.events[place].type in RUN_TYPES]
    return runs or [spans.events[place] for place in spans.roots()]


def _agents(spans: Spans) -> list[JournalEvent]:
    """Return the agents' spans, the topmost first."""
    places = sorted(spans.of_kind("agent", "chain"), key=lambda place: (spans.forest.depths[place], place))
    return [spans.events[place] for place in places]


def _agent(event: JournalEvent) -> str | None:
    return read.identity(event.data, "agent") or event.actor_id


def _guessed(spans: Spans) -> JournalEvent | None:
    """Return the topmost agent's span when it has ended and everything that arrived lies within it."""
    top = next((event for event in _agents(spans) if kind_of(event) == "agent"), None)
    if top is None or is_open(top):
        return None
    others = (spans.events[place] for place in spans.places)
    held = all(top.occurred_ns <= event.occurred_ns and end_of(event) <= end_of(top) for event in others)
    return top if held else None


def _take_end(row: dict[str, Any], standing: Sequence[JournalEvent]) -> None:
    """A run is over when all that stands for it is; the last of it says how it went."""
    if any(is_open(event) for event in standing):
        return
    last = max(standing, key=lambda event: (end_of(event), event.event_id))
    failed = has_failed(last)
    fill(row, status="failed" if failed else "completed", ended_ns=max(end_of(event) for event in standing))
    fill(row, status_reason=failure_of(last) if failed else "")


def earliest(events: Sequence[JournalEvent]) -> int | None:
    """Return the earliest time anything happened; events dated where they cannot belong count only among themselves."""
    near = [event.occurred_ns for event in events if FAR not in event.repairs]
    return min(near or (event.occurred_ns for event in events), default=None)


def model_turns(spans: Spans) -> list[JournalEvent]:
    """Return one event for each request to a model."""
    return [spans.events[place] for place in spans.of_kind("model") if place not in spans.inner]


def model_tokens(spans: Spans) -> int:
    """Return the tokens reported on model spans; wrappers that repeat them, and agents, do not count."""
    return sum(tokens_of(spans.events[place]) or 0 for place in spans.counted)
