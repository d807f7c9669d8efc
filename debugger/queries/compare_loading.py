"""Reads two runs for a comparison: whole, or of a long one its beginning, and then of both no more than that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from contract.events import TERMINAL_TYPES
from debugger.access import GuardedRun
from debugger.queries.compare_rows import Told, tell_rows
from debugger.queries.live import Cursor
from debugger.queries.loading import Loaded, load
from debugger.queries.rows import Row
from debugger.queries.run_header import RunHeader, build_header
from debugger.queries.timeline import build_timeline
from ingest.journal import JournalEvent, read_events
from knowledge.models import Activation, Candidate
from knowledge.run_bodies import duration_ms

EVENTS: Final = 15_000  # events of a run that are read, in the order they came


@dataclass(frozen=True, slots=True)
class Read:
    """A run with its head, as far as it was read. `n_events` counts all it has, read or not."""

    loaded: Loaded
    header: RunHeader
    n_events: int

    @property
    def is_cut(self) -> bool:
        return self.n_events > len(self.loaded.events)


def read_run(run: GuardedRun, now: datetime) -> Read:
    """Return a run as a comparison needs it; four queries."""
    n_events = run.registry.last_arrival
    loaded = load(run) if n_events <= EVENTS else _beginning(run)
    header = build_header(run, loaded.timeline, loaded.events, loaded.activations, now)
    if n_events > EVENTS and run.summary is not None:
        whole = duration_ms(run.summary.started_ns, run.summary.ended_ns)
        header = replace(header, duration_ms=header.duration_ms if whole is None else whole)
    return Read(loaded, header, max(n_events, len(loaded.events)))


def _beginning(run: GuardedRun) -> Loaded:
    project_id, run_id = run.project.pk, run.registry.run_id
    events = sorted(read_events(project_id, run_id, limit=EVENTS), key=_reading_order)
    activations = list(Activation.objects.filter(project_id=project_id, run_id=run_id).order_by("ordinal"))
    candidates = list(Candidate.objects.filter(project_id=project_id, run_id=run_id))
    timeline = build_timeline(events, activations, candidates)
    cursor = Cursor(run.registry.last_arrival, run.registry.folded_arrival, 0)
    return Loaded(run, events, activations, candidates, timeline, cursor)


def _reading_order(event: JournalEvent) -> tuple[bool, int, int, int]:
    return event.seq is None, event.seq or 0, event.occurred_ns, event.arrival


def told_rows(a: Read, b: Read) -> tuple[tuple[Told, ...], tuple[Told, ...]]:
    """Return what the rows of both tell. Where one was cut, the other's rows beyond that are left out as well."""
    rows_a, rows_b = a.loaded.timeline.rows, b.loaded.timeline.rows
    if a.is_cut or b.is_cut:
        rows_a, rows_b = _shared(rows_a, rows_b, last_turn(a, b))
    return _tell(a, rows_a), _tell(b, rows_b)


def last_turn(a: Read, b: Read) -> int | None:
    """Return the turn before which rows are compared, None when no cut run names one."""
    turns = [max(named) for one in (a, b) if one.is_cut and (named := _turns(one.loaded.timeline.rows))]
    return min(turns, default=None)


def _turns(rows: Sequence[Row]) -> list[int]:
    return [row.turn for row in rows if row.turn is not None]


def _shared(a: Sequence[Row], b: Sequence[Row], end: int | None) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    if end is None:
        n_rows = min(len(a), len(b))
        return tuple(a[:n_rows]), tuple(b[:n_rows])
    return _before(a, end), _before(b, end)


def _before(rows: Sequence[Row], end: int) -> tuple[Row, ...]:
    kept: list[Row] = []
    is_before = True
    for row in rows:
        is_before = row.turn < end if row.turn is not None else is_before  # what names no turn goes with the row before
        if is_before and row.kind not in TERMINAL_TYPES:
            kept.append(row)
    return tuple(kept)


def _tell(one: Read, rows: Sequence[Row]) -> tuple[Told, ...]:
    events = {event.event_id: event for event in one.loaded.events}
    return tell_rows(rows, events, one.loaded.run.registry.run_id)
