"""How events made of foreign spans are read: one event is one span, its parent is its cause, its length is made sane.

A span that was sent while it ran (`<id>:open`) steps back behind its finished copy. Parents may be missing, late or
in a circle; a wrapper that repeats what the span inside it says is found here, so that nothing counts twice.
(Seed 001 §13.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingest.journal import JournalEvent
from ingest.times import LONGEST_NS
from knowledge import event_data as read
from knowledge.calls import tool_names
from knowledge.forest import Forest, plant

OPEN: Final = ":open"  # ends the event id of a span that was sent before it had ended
OPENERS: Final = ("run.started", "model.requested", "tool.requested")
RUN_TYPES: Final = ("run.started", "run.completed", "run.failed")
# Types that stand for a whole span; a span of any other type is the exact event its sender named.
WHOLE_TYPES: Final = (
    *RUN_TYPES, "model.requested", "model.completed", "model.failed",
    "tool.requested", "tool.completed", "tool.failed", "hint.query", "span",
)  # fmt: skip
KINDS: Final = {"run": "agent", "model": "model", "tool": "tool", "hint": "retriever"}
ENCLOSING: Final = ("agent", "tool", "model", "retriever")  # kinds that say what is done inside them


def is_span(event: JournalEvent) -> bool:
    return isinstance(event.data.get("span"), dict)


def span_of(event: JournalEvent) -> Mapping[str, Any]:
    """Return what the span itself said beside the event: name, kind, status, attributes …"""
    return read.mapping(event.data, "span")


def is_whole(event: JournalEvent) -> bool:
    """Say whether the event stands for a span from its start to its end."""
    return event.type in WHOLE_TYPES and is_span(event)


def base_id(event_id: str) -> str:
    """Return the id of the span, of its unfinished copy too."""
    return event_id.removesuffix(OPEN)


def kind_of(event: JournalEvent) -> str:
    """Return what kind of work a span is; of one whose sender named none, what its type says."""
    said = read.text(span_of(event), "kind")
    known = KINDS.get(event.type.partition(".")[0], "span")
    return said if known == "span" and said else "tool" if said == "mcp" else known


def is_open(event: JournalEvent) -> bool:
    """Say whether a span has not ended as far as it is known."""
    unfinished = event.event_id.endswith(OPEN) or event.type in OPENERS
    return unfinished or (event.type == "span" and event.ended_ns is None)


def has_failed(event: JournalEvent) -> bool:
    named = event.type == "span" and read.text(event.data, "error_class") != ""
    return named or event.type.endswith(".failed") or read.text(span_of(event), "status") == "error"


def end_of(event: JournalEvent) -> int:
    """Return when an event was over, for sums and drawings: never before its start, never years after it."""
    end = event.ended_ns
    return end if end is not None and 0 <= end - event.occurred_ns <= LONGEST_NS else event.occurred_ns


def failure_of(event: JournalEvent) -> str:
    """Return what a failed span says about its failure."""
    said = (read.text(event.data, name, read.TEXT_LIMIT) for name in ("error", "detail", "reason", "error_class"))
    message = read.text(span_of(event), "status_message", read.TEXT_LIMIT)
    return next((text for text in said if text), message)


def superseded(events: Iterable[JournalEvent]) -> dict[str, str]:
    """Return the unfinished copies whose span has finished: their event id -> that of the finished one."""
    known = {event.event_id for event in events}
    unfinished = (name for name in known if name.endswith(OPEN) and base_id(name) in known)
    return {name: base_id(name) for name in sorted(unfinished)}


@dataclass(frozen=True, slots=True)
class Spans:
    """A run's events, in order and without superseded copies, with the tree that those made of spans form.

    `missing` are the places of spans whose parent has not arrived. `inner` are those of model and tool spans that
    a wrapper around them tells as well, `counted` those of model spans whose tokens count.
    """

    events: Sequence[JournalEvent]
    places: tuple[int, ...]
    forest: Forest
    missing: frozenset[int]
    inner: frozenset[int]
    counted: tuple[int, ...]

    @property
    def cut(self) -> frozenset[int]:
        return self.forest.cut

    def roots(self) -> list[int]:
        """Return the places of spans that are nobody's children, those a circle was cut at among them."""
        return [place for place in self.places if self.events[place].caused_by is None or place in self.cut]

    def of_kind(self, *kinds: str) -> list[int]:
        return [place for place in self.places if kind_of(self.events[place]) in kinds]


def read_spans(events: Sequence[JournalEvent]) -> Spans:
    """Return the spans among `events` (in order, without superseded copies)."""
    places = tuple(place for place, event in enumerate(events) if is_span(event))
    index_of = {base_id(events[place].event_id): place for place in places}
    parents: list[int | None] = [None] * len(events)
    missing = []
    for place in places:
        cause = events[place].caused_by
        parents[place] = index_of.get(base_id(cause)) if cause is not None else None
        if cause is not None and parents[place] is None:
            missing.append(place)
    forest = plant(parents)
    around = _enclosing(events, forest)
    inner = frozenset(place for place, outer in around.items() if _is_told_by(events[outer], events[place]))
    return Spans(events, places, forest, frozenset(missing), inner, _counted(events, places, forest, around))


def _enclosing(events: Sequence[JournalEvent], forest: Forest) -> dict[int, int]:
    """Return place -> place of the nearest span around it that says what is done inside it."""
    found: dict[int, int] = {}
    for place in forest.from_above():
        parent = forest.parents[place]
        around = parent if parent is None or kind_of(events[parent]) in ENCLOSING else found.get(parent)
        if around is not None:
            found[place] = around
    return found


def _is_told_by(outer: JournalEvent, inner: JournalEvent) -> bool:
    """Say whether a span tells again what the one around it tells: the same request, the same call."""
    kind = kind_of(inner)
    if kind != kind_of(outer):
        return False
    return kind == "model" or (kind == "tool" and _is_same_call(outer, inner))


def _counted(
    events: Sequence[JournalEvent], places: Iterable[int], forest: Forest, around: Mapping[int, int]
) -> tuple[int, ...]:
    """Return the model spans whose tokens count: of those within each other the outermost that reports any."""
    models = frozenset(place for place in places if kind_of(events[place]) == "model")
    told: dict[int, bool] = {}  # model span -> it or one around it reports its tokens
    counted = []
    for place in forest.from_above():
        if place not in models:
            continue
        by_outer = told.get(around.get(place, -1), False)
        reports = tokens_of(events[place]) is not None
        told[place] = by_outer or reports
        if reports and not by_outer:
            counted.append(place)
    return tuple(counted)


def _is_same_call(outer: JournalEvent, inner: JournalEvent) -> bool:
    named = bool(inner.call_id) and inner.call_id == outer.call_id
    told_by_server = bool(inner.mcp_server) != bool(outer.mcp_server)
    same_tool = not tool_names(outer.tool or "").isdisjoint(tool_names(inner.tool or ""))
    return named or (told_by_server and same_tool)


def tokens_of(event: JournalEvent) -> int | None:
    """Return the tokens a model span reports, or None when it reports none."""
    reported = [read.whole(event.data, name) for name in ("input_tokens", "output_tokens")]
    known = [tokens for tokens in reported if tokens is not None]
    return sum(known) if known else None
