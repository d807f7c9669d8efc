"""Reads one page of a run's events in order of arrival, bounded in rows and in bytes. Pages join without a gap."""

from collections.abc import Sequence
from typing import Any, Final

import orjson
from django.db import connection

from ingest.journal import READ_FIELDS
from ingest.models import Run
from ingest.times import rfc3339

WITHOUT_DATA: Final = tuple(name for name in READ_FIELDS if name != "data")
# The byte count is of the rows before, so that a page holds one event at least. One row more tells of a next page.
READ_PAGE: Final = """
SELECT {columns} FROM (
    SELECT *, count(*) OVER () AS n_found, sum({size}) OVER (ORDER BY arrival) - ({size}) AS n_before FROM (
        SELECT * FROM ingest_event
        WHERE project_id = %(project)s AND run_day = %(day)s AND run_id = %(run)s AND arrival > %(after)s
        AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s)) ORDER BY arrival LIMIT %(rows)s
    ) listed
) measured WHERE n_before < %(bytes)s ORDER BY arrival
"""


def read_page(
    run: Run, after: int, limit: int, *, max_bytes: int, types: Sequence[str] = (), with_data: bool = True
) -> tuple[list[dict[str, Any]], int | None]:
    """Return (event bodies with arrival over `after`, `after` of the next page or None at the end).

    At most `limit` events, and data of about `max_bytes` bytes. With `types` only events of these; without data no
    data is read.
    """
    columns = READ_FIELDS if with_data else WITHOUT_DATA
    size = "octet_length(data::text)" if with_data else "0"
    given: dict[str, Any] = {
        "project": run.project_id,
        "day": run.run_day,
        "run": run.run_id,
        "after": after,
        "types": list(types) or None,
        "rows": limit + 1,
        "bytes": max_bytes,
    }
    with connection.cursor() as cursor:
        cursor.execute(READ_PAGE.format(columns=", ".join(("n_found", *columns)), size=size), given)
        rows = cursor.fetchall()
    bodies = [_body(dict(zip(columns, row[1:], strict=True))) for row in rows[:limit]]
    is_cut = bool(rows) and rows[0][0] > len(bodies)
    return bodies, bodies[-1]["arrival"] if is_cut else None


def _body(values: dict[str, Any]) -> dict[str, Any]:
    values["repairs"] = orjson.loads(values["repairs"]) if values["repairs"] else []
    if "data" in values:
        values["data"] = orjson.loads(values["data"])
    values["received_at"] = values["received_at"].isoformat()
    values["occurred_at"] = rfc3339(values["occurred_ns"])
    values["ended_at"] = None if values["ended_ns"] is None else rfc3339(values["ended_ns"])
    return values
