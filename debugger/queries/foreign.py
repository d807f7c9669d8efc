"""What a run made of foreign spans says about itself as a whole, and what its page must not keep quiet. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.events import TERMINAL_TYPES
from debugger.queries.nesting import Nested
from debugger.queries.pieces import plural
from ingest.journal import JournalEvent
from knowledge.span_runs import GUESSED, earliest, read_run, standing_for_run
from knowledge.spans import RUN_TYPES, is_span, read_spans, superseded

ROOTLESS: Final = "The root span has not arrived: the run counts as running, with what is known so far."
GUESS: Final = "The root span has not arrived: the run is judged by its topmost agent's span."
ORPHANS: Final = "has not arrived. Until it comes, what lies in it stands at the top, marked."
CIRCLES: Final = "cut at the earliest span; the levels below it are a guess."
SKEWED: Final = "Clocks disagree, or the work outlived it. Drawn at its edge; the panel has the times as sent."
IMPOSSIBLE: Final = "drawn without the length that cannot be, and not counted with it; the panel has the times as sent."


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """How far the spans of a run tell its beginning and its end. `is_rootless` while nothing stands for the run."""

    started_ns: int
    is_over: bool
    status: str
    task: str
    is_rootless: bool
    is_guessed: bool


def read_foreign(events: Sequence[JournalEvent]) -> ForeignRun | None:
    """Return what the spans among `events` (in reading order) tell of their run.

    None when there are none, and when the runtime reports its run itself.
    """
    own = any(event.type in (*TERMINAL_TYPES, "run.started") for event in events if not _is_run_span(event))
    if own or not any(is_span(event) for event in events):
        return None
    unfinished = superseded(events)
    spans = read_spans([event for event in events if event.event_id not in unfinished])
    told, standing = read_run(spans), standing_for_run(spans)
    status = told.get("status", "running")
    started = earliest(standing or spans.events) or 0
    if standing and all("clock_far" in event.repairs for event in standing):
        started = earliest(spans.events) or 0
    is_guessed = GUESSED in told.get("status_reason", "")
    return ForeignRun(started, status != "running", status, told.get("task", ""), not standing, is_guessed)


def _is_run_span(event: JournalEvent) -> bool:
    return event.type in RUN_TYPES and is_span(event)


def span_warnings(run: ForeignRun | None, nested: Nested) -> tuple[str, ...]:
    """Return the sentences the page of a run with foreign spans must show above its rows."""
    rows = [row for row in nested.rows if row.is_span]
    n_wrong = sum(row.has_wrong_time for row in rows)
    found = (
        (run is not None and run.is_rootless and not run.is_guessed, ROOTLESS),
        (run is not None and run.is_guessed, GUESS),
        (nested.n_lost, f"Incomplete: the parent of {plural(nested.n_lost, 'row')} {ORPHANS}"),
        (nested.n_circles, f"Parents that name each other: {plural(nested.n_circles, 'circle')}, {CIRCLES}"),
        (nested.n_skewed, f"Outside the time of the parent: {plural(nested.n_skewed, 'span')}. {SKEWED}"),
        (n_wrong, f"Impossible times: {plural(n_wrong, 'span')}, {IMPOSSIBLE}"),
    )
    return tuple(sentence for is_so, sentence in found if is_so)
