"""The journal's partitions as they stand: which days there are, whose rows lie in them, emptying and dropping them.

Making them is `journal.ensure_partitions`. Dropping needs the whole journal for a moment, so it gives up quickly and is
tried again later: writers never wait longer than DROP_WAIT_MS for it. (Seed 001 §13.)
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Final

from django.db import OperationalError, ProgrammingError, connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg.errors import LockNotAvailable, UndefinedTable

DROP_WAIT_MS: Final = 300  # milliseconds a drop waits for the journal, and so the most that writers wait for a drop
_NAME: Final = re.compile(r"ingest_event_(\d{8})")


@dataclass(frozen=True, slots=True)
class Partition:
    """One day of the journal. `n_rows` is the statistics' estimate; `n_bytes` counts rows, long values and indexes."""

    name: str
    day: date
    n_rows: int
    n_bytes: int


def list_partitions() -> list[Partition]:
    """Return the journal's partitions, oldest day first. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT child.relname,
                   CASE WHEN child.reltuples >= 0 THEN child.reltuples::bigint
                        ELSE pg_stat_get_live_tuples(child.oid) END,
                   pg_total_relation_size(child.oid)
            FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
            WHERE inhparent = 'ingest_event'::regclass ORDER BY child.relname
            """
        )
        rows = cursor.fetchall()
    found = ((_NAME.fullmatch(name), n_rows, n_bytes) for name, n_rows, n_bytes in rows)
    return [
        Partition(match[0], date.fromisoformat(match[1]), n_rows, n_bytes) for match, n_rows, n_bytes in found if match
    ]


@contextmanager
def _perhaps_gone() -> Iterator[CursorWrapper]:
    """Give a cursor for statements on a partition; one that was dropped meanwhile has no rows, which ends them."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            yield cursor
    except ProgrammingError as error:
        if not isinstance(error.__cause__, UndefinedTable):
            raise


def projects_in(partition: Partition) -> list[int]:
    """Return the ids of the projects with rows in the partition; one step of its key for each."""
    with _perhaps_gone() as cursor:
        cursor.execute(
            f"""
            WITH RECURSIVE owner(id) AS (
                (SELECT project_id FROM {partition.name} ORDER BY project_id LIMIT 1)
                UNION ALL
                SELECT (SELECT project_id FROM {partition.name} WHERE project_id > owner.id ORDER BY project_id LIMIT 1)
                FROM owner WHERE owner.id IS NOT NULL
            )
            SELECT id FROM owner WHERE id IS NOT NULL
            """
        )
        return [row[0] for row in cursor.fetchall()]
    return []


def delete_rows(partition: Partition, project_id: int, limit: int) -> int:
    """Delete up to `limit` rows of a project from the partition; return how many there were."""
    with _perhaps_gone() as cursor:
        cursor.execute(
            f"DELETE FROM {partition.name} WHERE ctid = ANY(ARRAY("
            f"SELECT ctid FROM {partition.name} WHERE project_id = %s LIMIT %s))",
            [project_id, limit],
        )
        return int(cursor.rowcount)
    return 0


def drop_partition(partition: Partition, may_drop: Callable[[], bool]) -> bool:
    """Drop the partition if `may_drop` still says so under the lock; return whether it is gone.

    False also when the journal could not be had within DROP_WAIT_MS.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{DROP_WAIT_MS}ms'")
            cursor.execute("LOCK TABLE ONLY ingest_event IN ACCESS EXCLUSIVE MODE")
            if not may_drop():
                return False
            cursor.execute(f"DROP TABLE IF EXISTS {partition.name}")
            cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return False
        raise
    return True
