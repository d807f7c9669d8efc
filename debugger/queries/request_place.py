"""Finds a request among those of its run: its row, its number, the one before it and the one after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection

from debugger.queries.opening import BuiltRun
from debugger.queries.request_told import Place
from debugger.queries.rows import Row
from debugger.queries.stored import StoredRun
from debugger.queries.stored_form import read_row
from ingest.model_requests import REQUEST_TYPE

# The rows of requests stand in the array `model`, in their order; `places` leads from an event to its row.
PLACE: Final = """
SELECT * FROM (WITH kept AS MATERIALIZED (
    SELECT model, places FROM debugger_storedtimeline WHERE project_id = %(project)s AND run_id = %(run)s
), found AS MATERIALIZED (
    SELECT array_position(kept.model, kept.places[event.arrival]) AS place FROM ingest_event event, kept
    WHERE project_id = %(project)s AND run_day = %(day)s AND run_id = %(run)s AND event_id = %(event)s
)
SELECT place, cardinality(model), model[place - 1], model[place], model[place + 1] FROM found, kept
WHERE place IS NOT NULL) stands
"""
ROWS: Final = """
SELECT ordinal, row FROM debugger_timelinerow
WHERE project_id = %(project)s AND run_id = %(run)s AND ordinal = ANY(%(ordinals)s) ORDER BY ordinal
"""
LAST: Final = """
SELECT event_id FROM ingest_event
WHERE project_id = %s AND run_day = %s AND run_id = %s AND type = %s ORDER BY arrival DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A request's row and its place."""

    row: Row
    place: Place


def find_request(opened: BuiltRun | StoredRun, event_id: str) -> Found | None:
    """Return where a request stands, given any event of its row; None when that is no request. At most two queries."""
    if isinstance(opened, BuiltRun):
        return place_of(model_rows(opened.timeline.rows), event_id)
    if opened.timeline.foreign is not None:  # the rows of spans stand as they are nested, requests by their times
        return place_of(model_rows(_model_rows_of(opened)), event_id)
    return _stored_place(opened, event_id)


def model_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of requests in the order they were made."""
    found = [row for row in rows if row.kind == "model"]
    return sorted(found, key=lambda row: row.start_ns) if any(row.is_span for row in found) else found


def place_of(rows: Sequence[Row], event_id: str) -> Found | None:
    """Return the request an event belongs to among the rows of requests, None where it is none of them."""
    found = next((index for index, row in enumerate(rows) if event_id in row.event_ids), None)
    if found is None:
        return None
    before, after = rows[:found][-1:], rows[found + 1 :][:1]
    previous_id, next_id = ("".join(row.event_id for row in beside) for beside in (before, after))
    return Found(rows[found], Place(found + 1, len(rows), previous_id, next_id))


def last_request(project_id: int, run_day: date, run_id: str) -> str:
    """Return the event of the request that a run reported last, "" for none. Read from the run's end."""
    with connection.cursor() as cursor:
        cursor.execute(LAST, [project_id, run_day, run_id, REQUEST_TYPE])
        row = cursor.fetchone()
    return str(row[0]) if row else ""


def _stored_place(opened: StoredRun, event_id: str) -> Found | None:
    given = _keys(opened)
    with connection.cursor() as cursor:
        cursor.execute(PLACE, {**given, "event": event_id})
        found = cursor.fetchone()
    if found is None:
        return None
    number, n_requests, *ordinals = found
    rows = _rows(opened, [ordinal for ordinal in ordinals if ordinal is not None])
    before, here, after = (rows.get(ordinal) for ordinal in ordinals)
    if here is None:
        return None
    return Found(here, Place(number, n_requests, before.event_id if before else "", after.event_id if after else ""))


def _model_rows_of(opened: StoredRun) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT model FROM debugger_storedtimeline WHERE project_id = %(project)s AND run_id = %(run)s",
            _keys(opened),
        )
        found = cursor.fetchone()
    return list(_rows(opened, found[0]).values()) if found else []


def _rows(opened: StoredRun, ordinals: Sequence[int]) -> dict[int, Row]:
    with connection.cursor() as cursor:
        cursor.execute(ROWS, {**_keys(opened), "ordinals": list(ordinals)})
        return {ordinal: read_row(row) for ordinal, row in cursor.fetchall()}


def _keys(opened: StoredRun) -> dict[str, Any]:
    registry = opened.run.registry
    return {"project": opened.run.project.pk, "day": registry.run_day, "run": registry.run_id}
