"""Reads a stored timeline by its indexes: windows, places of events, and the few rows and events a panel is about."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db import connection

from debugger.access import GuardedRun
from debugger.models import StoredTimeline
from debugger.queries.escalations import Escalation, escalation_of
from debugger.queries.live import Changes, Cursor, Shown, Window
from debugger.queries.loading import Loaded
from debugger.queries.pieces import said
from debugger.queries.rows import Row
from debugger.queries.run_header import RunHeader, head_of
from debugger.queries.sections import in_sections
from debugger.queries.stored_form import FILTERED, NOWHERE, VERSION, Head, read_head, read_row
from debugger.queries.strip import Stretch
from debugger.queries.timeline import WINDOW, Timeline
from ingest.journal import JournalEvent, read_named_events
from knowledge.models import Activation, Candidate

CHILDREN_AT_ONCE: Final = 50  # rows read behind the one a panel is about, again and again while they stand under it
ROWS_SQL: Final = "SELECT row FROM debugger_timelinerow WHERE project_id = %s AND run_id = %s"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run whose timeline is stored as it is now. Nothing here reads all of its events or rows."""

    run: GuardedRun
    head: Head

    @property
    def timeline(self) -> Timeline:
        """The timeline without its rows."""
        return self.head.timeline

    @property
    def cursor(self) -> Cursor:
        axis = self.timeline.axis
        return Cursor(self.run.registry.last_arrival, self.run.registry.folded_arrival, axis.end_ns - axis.start_ns)

    def window(self, shown: Shown) -> Window:
        """Return the window that `shown` asks for, as `live.cut_window` does."""
        found = self._found(shown)
        n_rows = self.timeline.counts[shown.show] if found is None else len(found)
        start = min(max(0, shown.start), max(0, (n_rows - 1) // WINDOW * WINDOW))
        if found is not None:
            rows = self._rows_at(found[start : start + WINDOW])
        elif shown.show == "all":
            rows = self._rows_from(start, WINDOW)
        else:
            rows = self._rows_at(self._passing(shown.show, start + 1, start + WINDOW))
        return Window(Shown(shown.show, shown.text, start), in_sections(rows, self.timeline.notes), len(rows), n_rows)

    def start_of_event(self, shown: Shown, event_id: str) -> int:
        """Return the start of the window that holds an event's row; 0 when no row of the filter does."""
        ordinal = self._place_of(event_id)
        if ordinal is None:
            return 0
        if shown.show == "all" and not shown.text.split():
            return ordinal // WINDOW * WINDOW
        found = self._found(shown)
        passing = self._passing(shown.show) if found is None else found
        index = bisect_left(passing, ordinal)
        return index // WINDOW * WINDOW if passing[index : index + 1] == [ordinal] else 0

    @property
    def strip(self) -> tuple[Stretch, ...]:
        return self.head.strip

    @property
    def starts(self) -> tuple[float, ...]:
        return self.head.starts

    def header(self, now: datetime) -> RunHeader:
        return head_of(self.run, self.timeline, self.head.facts, now)

    def escalation(self) -> Escalation | None:
        return escalation_of(self.run)

    def changes(self, window: Window, cursor: Cursor) -> Changes:
        """A page that followed the run to its end has all its rows drawn anew."""
        return Changes(anew=True)

    def about_panel(self, event_id: str) -> Loaded:
        """Return what the panel beside the timeline needs: that of the event's activation where it tells of one."""
        loaded = self.about_event(event_id) if event_id else self._part((), ())
        rows = loaded.timeline.rows
        return self.about_activation(rows[0].activation_id) if rows and rows[0].activation_id else loaded

    def about_event(self, event_id: str) -> Loaded:
        """Return what a panel about an event needs: its row with those under it, and the row's events."""
        ordinal = self._place_of(event_id)
        rows = self._with_children(ordinal) if ordinal is not None else []
        return self._part(rows, self._events([*(rows[0].event_ids if rows else ()), event_id]))

    def about_activation(self, activation_id: str) -> Loaded:
        """Return what a panel about an activation needs: its chain, its rows and what they rest on."""
        key = {"project_id": self.run.project.pk, "run_id": self.run.registry.run_id, "activation_id": activation_id}
        activations = list(Activation.objects.filter(**key))
        candidates = list(Candidate.objects.filter(**key)) if activations else []
        named = [activation_id, *(said(one.skip_detail, "same_as") for one in activations)]
        rows = self._rows("AND activation_id <> '' AND activation_id = ANY(%s) ORDER BY ordinal", named)
        wanted = {event_id for one in activations for event_id in _named_by(one)}
        wanted |= {
            said(usage, "event_id") for one in candidates if isinstance(usage := one.evidence.get("usage"), dict)
        }
        places = self._places(wanted - {""})
        others = self._rows_at(sorted(set(places.values()))) if places else []
        mine = [event_id for row in rows if row.activation_id == activation_id for event_id in row.event_ids]
        sources = [one.source_event_id for one in activations if one.source_event_id]
        known = {row.key for row in rows}
        both = [*rows, *(row for row in others if row.key not in known)]
        told = [event_id for row in others for event_id in row.event_ids]
        return self._part(both, self._events([*mine, *sources, *told]), activations, candidates)

    def _part(
        self,
        rows: Sequence[Row],
        events: Iterable[JournalEvent],
        activations: Sequence[Activation] = (),
        candidates: Sequence[Candidate] = (),
    ) -> Loaded:
        timeline = replace(self.timeline, rows=tuple(rows))
        return Loaded(self.run, list(events), list(activations), list(candidates), timeline, self.cursor)

    def _events(self, event_ids: Iterable[str]) -> list[JournalEvent]:
        registry = self.run.registry
        named = {event_id for event_id in event_ids if "\0" not in event_id}
        found = read_named_events(self.run.project.pk, registry.run_day, registry.run_id, named)
        return list(found.values())

    def _with_children(self, ordinal: int) -> list[Row]:
        """Return a row and those under it, with the first one behind them."""
        rows: list[Row] = []
        while True:
            more = self._rows_from(ordinal + len(rows), CHILDREN_AT_ONCE)
            rows += more
            if len(more) < CHILDREN_AT_ONCE or not more[-1].is_child or more[-1].is_span:
                return rows

    def _rows_from(self, start: int, number: int) -> list[Row]:
        return self._rows("AND ordinal >= %s AND ordinal < %s ORDER BY ordinal", start, start + number)

    def _rows_at(self, ordinals: Sequence[int]) -> list[Row]:
        return self._rows("AND ordinal = ANY(%s) ORDER BY ordinal", list(ordinals)) if ordinals else []

    def _rows(self, condition: str, *values: Any) -> list[Row]:
        return [read_row(row[0]) for row in self._select(f"{ROWS_SQL} {condition}", *values)]

    def _select(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement, [self.run.project.pk, self.run.registry.run_id, *values])
            return list(cursor.fetchall())

    def _passing(self, show: str, first: int = 1, last: int | None = None) -> list[int]:
        """Return ordinals of the rows that pass a filter word, from the `first` of them (counted from 1) to `last`."""
        name = FILTERED[FILTERED.index(show)]
        found = self._select(
            f"SELECT {name}[{first}:{'' if last is None else last}] FROM debugger_storedtimeline"
            " WHERE project_id = %s AND run_id = %s"
        )
        return list(found[0][0]) if found else []

    def _found(self, shown: Shown) -> list[int] | None:
        """Return the ordinals of the rows that pass the filter by text, None when there is none."""
        words = shown.text.casefold().split()
        if not words:
            return None
        if any("\0" in word for word in words):
            return []
        holds = " AND strpos(search, %s) > 0" * len(words)
        statement = f"SELECT ordinal FROM debugger_timelinerow WHERE project_id = %s AND run_id = %s{holds}"
        found = [row[0] for row in self._select(f"{statement} ORDER BY ordinal", *words)]
        if shown.show == "all":
            return found
        passing = set(self._passing(shown.show))
        return [ordinal for ordinal in found if ordinal in passing]

    def _place_of(self, event_id: str) -> int | None:
        return self._places([event_id]).get(event_id)

    def _places(self, event_ids: Iterable[str]) -> dict[str, int]:
        """Return event id -> ordinal of its row, for those events that have one."""
        given = [event_id for event_id in event_ids if "\0" not in event_id]
        registry = self.run.registry
        rows = self._select(
            "WITH held AS MATERIALIZED (SELECT places FROM debugger_storedtimeline"
            " WHERE project_id = %s AND run_id = %s)"
            " SELECT event_id, held.places[arrival] FROM ingest_event, held"
            " WHERE project_id = %s AND run_day = %s AND run_id = %s AND event_id = ANY(%s)",
            self.run.project.pk, registry.run_day, registry.run_id, given,
        )  # fmt: skip
        return {event_id: ordinal for event_id, ordinal in rows if ordinal is not None and ordinal != NOWHERE}


def find_stored(run: GuardedRun, least: int) -> StoredRun | None:
    """Return the stored timeline of a run of at least `least` events, None where there is none that is true now.

    One query, none for a shorter run.
    """
    registry, summary = run.registry, run.summary
    if summary is None or registry.last_arrival < least or registry.folded_arrival != registry.last_arrival:
        return None
    kept = StoredTimeline.objects.filter(
        project_id=run.project.pk, run_id=registry.run_id, version=VERSION,
        arrival=registry.last_arrival, folded_at=summary.folded_at,
    )  # fmt: skip
    text = kept.values_list("head", flat=True).first()
    return StoredRun(run, read_head(text)) if text else None


def _named_by(activation: Activation) -> list[str]:
    """Return the ids of the events that an activation's panel leads to."""
    calls = [call for call in activation.later_calls if isinstance(call, dict)]
    names = ("ended_event_id", "event_id", "requested_event_id")
    named = [activation.source_event_id or "", activation.inferred_event_id or ""]
    return [*named, *(said(call, name) for call in calls for name in names)]
