"""Which message bodies a deleted run leaves behind that nobody else uses, and taking those away.

Bodies are shared inside a project, and writers do not lock the ones they find there. So a body goes in three steps:
the deletion marks it (`last_run_day` UNCLAIMED), whereupon every writer that carries it claims it again; writers who
looked before the mark are waited for; then what no event of the project names and nobody has claimed is deleted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from django.db import connection, transaction

from ingest.models import UNCLAIMED, Message

WAIT_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.05
SWEPT_AT_ONCE: Final = 5_000  # bodies looked for in one reading of the project's journal
_HASH: Final = "[0-9a-f]{64}"


@dataclass(frozen=True, slots=True)
class Swept:
    """How many bodies were deleted, how many stay because something names them, how many wait for the next time."""

    n_deleted: int = 0
    n_kept: int = 0
    n_waiting: int = 0


def mark_unused(project_id: int, run_id: str, run_day: date) -> int:
    """Mark the bodies that the run's events name and no newer run carries; return how many.

    Inside the transaction that deletes the run, before its journal rows go. The sweep decides about each.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE ingest_message SET last_run_day = %s WHERE project_id = %s AND hash IN (
                SELECT kept.hash FROM ingest_message kept WHERE kept.project_id = %s AND kept.last_run_day <= %s
                AND kept.hash IN (
                    SELECT named[1] FROM ingest_event, regexp_matches(data::text, '{_HASH}', 'g') AS named
                    WHERE project_id = %s AND run_day = %s AND run_id = %s
                )
                ORDER BY kept.hash FOR UPDATE
            )
            """,
            [UNCLAIMED, project_id, project_id, run_day, project_id, run_day, run_id],
        )
        return int(cursor.rowcount)


def sweep(project_id: int, *, wait_seconds: float = WAIT_SECONDS) -> Swept:
    """Delete the marked bodies that no event of the project names; give the others their day back.

    Reads the project's whole journal once for every SWEPT_AT_ONCE bodies. Outside of any transaction.
    """
    total = Swept()
    while marked := _marked(project_id):
        if not _earlier_writers_done(wait_seconds):
            return Swept(total.n_deleted, total.n_kept, len(marked))
        days = _days_of_use(project_id, marked)
        n_deleted = _settle(project_id, marked, days)
        total = Swept(total.n_deleted + n_deleted, total.n_kept + len(marked) - n_deleted)
    return total


def projects_to_sweep() -> list[int]:
    """Return the projects with marked bodies."""
    marked = Message.objects.filter(last_run_day=UNCLAIMED)
    return list(marked.order_by("project_id").values_list("project_id", flat=True).distinct())


def _marked(project_id: int) -> list[str]:
    marked = Message.objects.filter(project_id=project_id, last_run_day=UNCLAIMED)
    return list(marked.values_list("hash", flat=True)[:SWEPT_AT_ONCE])


def _earlier_writers_done(wait_seconds: float) -> bool:
    """Wait until every transaction that has looked at the message store by now is over; False if one goes on."""
    earlier = _readers()
    deadline = time.monotonic() + wait_seconds
    while earlier:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
        earlier &= _readers()
    return True


def _readers() -> set[str]:
    """Return the other transactions that hold the message store, as everybody who has read or written it does."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT virtualtransaction FROM pg_locks
            WHERE locktype = 'relation' AND relation = 'ingest_message'::regclass AND pid <> pg_backend_pid()
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
            """
        )
        return {row[0] for row in cursor.fetchall()}


def _days_of_use(project_id: int, hashes: Sequence[str]) -> dict[str, date]:
    """Return hash -> newest day of a run whose events name it, for those that are named at all."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT named[1], max(run_day) FROM ingest_event, regexp_matches(data::text, '{_HASH}', 'g') AS named
            WHERE project_id = %s AND named[1] = ANY(%s) GROUP BY 1
            """,
            [project_id, list(hashes)],
        )
        return dict(cursor.fetchall())


def _settle(project_id: int, marked: Sequence[str], days: dict[str, date]) -> int:
    """Give those with a day that day back and delete the others, unless somebody has claimed them meanwhile."""
    used = sorted(days)
    unused = sorted(set(marked) - set(days))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE ingest_message SET last_run_day = given.day
            FROM unnest(%s::text[], %s::date[]) AS given(hash, day)
            WHERE ingest_message.project_id = %s AND ingest_message.hash = given.hash AND last_run_day = %s
            """,
            [used, [days[name] for name in used], project_id, UNCLAIMED],
        )
        cursor.execute(
            "DELETE FROM ingest_message WHERE project_id = %s AND hash = ANY(%s) AND last_run_day = %s",
            [project_id, unused, UNCLAIMED],
        )
        return int(cursor.rowcount)
