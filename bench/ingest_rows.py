"""Grows the journal to many rows in little time, inside the server, so that a rate can be measured on top of them.

Rows are copies of one stored run under other ids, one set of runs a day. They carry little data: what a writer meets
of the rows before it are their indexes, as the table itself is only appended to. A day is filled while it stands apart
without indexes and is attached afterwards, which builds them.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import psycopg

DAYS_OF_A_MONTH = 30
DATA = '{"note": "' + "a row of the journal that stands here to be in the way; " * 5 + '"}'
REPLACED = {
    "run_day": "%(day)s::date",
    "run_id": "md5(%(day)s::text || run)",
    "event_id": "left(md5(run || '/' || %(day)s::text || arrival), 16)",
    "data": "%(data)s::json",
}
REGISTER = """
    INSERT INTO ingest_run (project_id, run_id, run_day, first_received_at, last_received_at, last_arrival,
                            folded_arrival, n_conflicts)
    SELECT project_id, md5(%(day)s::text || run), %(day)s::date, first_received_at, last_received_at, last_arrival,
           last_arrival, 0
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS run
    JOIN ingest_run ON project_id = %(project)s AND run_id = %(pattern)s
"""
COLUMNS = """
    SELECT attname FROM pg_attribute WHERE attrelid = 'ingest_event'::regclass AND attnum > 0 AND NOT attisdropped
    ORDER BY attnum
"""

Connection = psycopg.Connection[Any]


def fill_month(dsn: str, last_day: date, n_rows: int) -> int:
    """Spread rows over the days of a month that ends with `last_day`; return how many were added."""
    days = [last_day - timedelta(days=ago) for ago in range(DAYS_OF_A_MONTH)]
    return fill_days(dsn, days, n_rows // len(days))


def fill_days(dsn: str, days: Sequence[date], rows_a_day: int) -> int:
    """Add about `rows_a_day` rows to each day's partition, made where it is missing; return how many were added."""
    from ingest.journal import partition_name  # noqa: PLC0415 - its models need the settings

    n_added = 0
    with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET maintenance_work_mem = '1GB'")
        project_id, pattern, n_events = _pattern(connection)
        for day in days:
            first = _one(connection, "SELECT count(*) + 1 FROM ingest_run")
            last = first + -(-rows_a_day // n_events) - 1
            given = {"day": day, "project": project_id, "pattern": pattern, "first": first, "last": last, "data": DATA}
            name = partition_name(day)
            _stand_apart(connection, name)
            n_added += _copy_pattern(connection, name, given)
            connection.execute(REGISTER, given)
            _attach(connection, name, day)
        connection.execute("ANALYZE ingest_run")
        connection.execute("CHECKPOINT")
    return n_added


def _one(connection: Connection, statement: str, *values: object) -> Any:
    found = connection.execute(statement.encode(), values).fetchone()
    return found[0] if found else None


def _pattern(connection: Connection) -> tuple[int, str, int]:
    """Keep the events of one usual run apart; return its project, its id and how many they are."""
    found = connection.execute(
        "SELECT project_id, run_id, last_arrival FROM ingest_run WHERE last_arrival BETWEEN 15 AND 60"
        " ORDER BY last_arrival DESC, run_id LIMIT 1"
    ).fetchone()
    if found is None:
        raise RuntimeError("there is no run yet whose events could be copied")
    connection.execute(
        "CREATE TEMPORARY TABLE bench_pattern AS SELECT * FROM ingest_event WHERE project_id = %s AND run_id = %s",
        found[:2],
    )
    return found[0], found[1], found[2]


def _stand_apart(connection: Connection, name: str) -> None:
    """Have the day's table exist, detached and without indexes."""
    if not _one(connection, "SELECT count(*) FROM pg_class WHERE relname = %s", name):
        connection.execute(f"CREATE TABLE {name} (LIKE ingest_event INCLUDING DEFAULTS)".encode())
        return
    connection.execute(f"ALTER TABLE ingest_event DETACH PARTITION {name}".encode())
    unique = connection.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('p', 'u')", [name]
    ).fetchall()
    for (constraint,) in unique:
        connection.execute(f'ALTER TABLE {name} DROP CONSTRAINT "{constraint}"'.encode())


def _copy_pattern(connection: Connection, name: str, given: dict[str, Any]) -> int:
    columns = [row[0] for row in connection.execute(COLUMNS).fetchall()]
    chosen = ", ".join(REPLACED.get(column, column) for column in columns)
    statement = (
        f"INSERT INTO {name} ({', '.join(columns)}) SELECT {chosen}"
        " FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS run CROSS JOIN bench_pattern"
    )
    return connection.execute(statement.encode(), given).rowcount


def _attach(connection: Connection, name: str, day: date) -> None:
    bounds = f"FROM ('{day}') TO ('{day + timedelta(days=1)}')"
    connection.execute(f"ALTER TABLE ingest_event ATTACH PARTITION {name} FOR VALUES {bounds}".encode())
    connection.execute(f"ANALYZE {name}".encode())
