"""The append-only journal: its partitions, writing by COPY, reading one run from one partition.

`accept.py` is the only caller of `append`. The day a run was first seen is its `run_day` for good, so that a
run is read from one partition and forgetting a day is dropping its partition.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.backends.utils import CursorWrapper

from contract.events import ID_FIELDS
from ingest.models import Run
from ingest.wire import WireEvent

PARTITION_LOCK: Final = 7_214_001  # advisory lock: one maker of partitions at a time
DAYS_AHEAD: Final = 3
READ_FIELDS: Final = (
    *ID_FIELDS, "arrival", "seq", "turn", "occurred_ns", "ended_ns", "received_at", "repairs", "data",
)  # fmt: skip
STAGED_FIELDS: Final = (
    "position", "project_id", "run_day", *ID_FIELDS, "seq", "turn", "occurred_ns", "ended_ns", "digest", "repairs",
    "data",
)  # fmt: skip
KEPT_FIELDS: Final = tuple(name for name in STAGED_FIELDS if name != "position")


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One journal row as the fold and the pages read it. Times in Unix nanoseconds but for `received_at`."""

    event_id: str
    run_id: str
    type: str
    caused_by: str | None
    task_id: str | None
    actor_id: str | None
    parent_run_id: str | None
    team_root: str | None
    call_id: str | None
    operation_id: str | None
    activation_id: str | None
    hint_id: str | None
    knowledge_id: str | None
    tool: str | None
    mcp_server: str | None
    arrival: int
    seq: int | None
    turn: int | None
    occurred_ns: int
    ended_ns: int | None
    received_at: datetime
    repairs: tuple[str, ...]
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Appended:
    """What one append did: events that were new, events already there, and those of them that differ."""

    n_new: int
    n_known: int
    conflicts: tuple[tuple[str, str], ...]  # (run_id, event_id)


def partition_name(day: date) -> str:
    return f"ingest_event_{day:%Y%m%d}"


def ensure_partitions(days: Sequence[date]) -> int:
    """Make the partitions of `days` that are missing and return how many were made."""
    missing = [day for day in sorted(set(days)) if not _exists(day)]
    if not missing:
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [PARTITION_LOCK])
        for day in missing:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {partition_name(day)} PARTITION OF ingest_event "
                f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
            )
    return len(missing)


def _exists(day: date) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [partition_name(day)])
        return bool(cursor.fetchone()[0])


def lock_runs(project_id: int, run_ids: Sequence[str], today: date) -> dict[str, date]:
    """Register the runs, lock their rows until the transaction ends, and return run_id -> run_day.

    The rows are taken in sorted order, so two writers of the same runs wait and never deadlock; the lock is what
    makes arrival numbers gapless and the first copy of an event win.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ingest_run (project_id, run_id, run_day, first_received_at, last_received_at,
                                    last_arrival, folded_arrival, n_conflicts)
            SELECT %s, run_id, %s, now(), now(), 0, 0, 0
            FROM unnest(%s::text[]) WITH ORDINALITY AS given(run_id, place) ORDER BY place
            ON CONFLICT (project_id, run_id) DO UPDATE SET last_received_at = now()
            RETURNING run_id, run_day
            """,
            [project_id, today, sorted(run_ids)],
        )
        return dict(cursor.fetchall())


def append(project_id: int, run_days: dict[str, date], events: Sequence[WireEvent]) -> Appended:
    """Write the events that are new, in the order given, inside the caller's transaction and run locks.

    `events` holds no event twice. Arrival numbers go on from the run's last one.
    """
    with connection.cursor() as cursor:
        _stage(cursor, project_id, run_days, events)
        cursor.execute(
            """
            SELECT staged.run_id, staged.event_id, staged.digest <> kept.digest
            FROM ingest_staging staged JOIN ingest_event kept USING (project_id, run_day, run_id, event_id)
            """
        )
        known = cursor.fetchall()
        conflicts = tuple((run_id, event_id) for run_id, event_id, differs in known if differs)
        if len(known) < len(events):
            cursor.execute(INSERT_NEW)
        if conflicts:
            cursor.execute(
                """
                UPDATE ingest_run SET n_conflicts = n_conflicts + counted.n
                FROM (SELECT run_id, count(*) AS n FROM unnest(%s::text[]) AS given(run_id) GROUP BY run_id) counted
                WHERE ingest_run.project_id = %s AND ingest_run.run_id = counted.run_id
                """,
                [[run_id for run_id, _ in conflicts], project_id],
            )
    return Appended(len(events) - len(known), len(known), conflicts)


INSERT_NEW: Final = f"""
WITH fresh AS (
    SELECT staged.*,
           run.last_arrival + row_number() OVER (PARTITION BY staged.run_id ORDER BY staged.position) AS number
    FROM ingest_staging staged
    JOIN ingest_run run ON run.project_id = staged.project_id AND run.run_id = staged.run_id
    WHERE NOT EXISTS (
        SELECT 1 FROM ingest_event kept
        WHERE kept.project_id = staged.project_id AND kept.run_day = staged.run_day
          AND kept.run_id = staged.run_id AND kept.event_id = staged.event_id)
), written AS (
    INSERT INTO ingest_event ({", ".join(KEPT_FIELDS)}, arrival, received_at)
    SELECT {", ".join(KEPT_FIELDS)}, number, now() FROM fresh
    RETURNING project_id, run_id, arrival
)
UPDATE ingest_run run SET last_arrival = counted.last
FROM (SELECT project_id, run_id, max(arrival) AS last FROM written GROUP BY project_id, run_id) counted
WHERE run.project_id = counted.project_id AND run.run_id = counted.run_id
"""


def _stage(cursor: CursorWrapper, project_id: int, run_days: dict[str, date], events: Sequence[WireEvent]) -> None:
    cursor.execute(
        """
        CREATE TEMPORARY TABLE IF NOT EXISTS ingest_staging (
            position bigint, project_id bigint, run_day date, event_id text, run_id text, type text, caused_by text,
            task_id text, actor_id text, parent_run_id text, team_root text, call_id text, operation_id text,
            activation_id text, hint_id text, knowledge_id text, tool text, mcp_server text, seq bigint, turn bigint,
            occurred_ns bigint, ended_ns bigint, digest bytea, repairs jsonb, data jsonb
        ) ON COMMIT DELETE ROWS
        """
    )
    cursor.execute("TRUNCATE ingest_staging")
    with cursor.copy(f"COPY ingest_staging ({', '.join(STAGED_FIELDS)}) FROM STDIN") as copy:
        for position, event in enumerate(events):
            copy.write_row(_row(position, project_id, run_days[event.run_id], event))


def _row(position: int, project_id: int, run_day: date, event: WireEvent) -> tuple[Any, ...]:
    return (
        position,
        project_id,
        run_day,
        *(event.ids[name] for name in ID_FIELDS),
        event.seq,
        event.turn,
        event.occurred_ns,
        event.ended_ns,
        event.digest,
        json.dumps(event.repairs) if event.repairs else None,
        json.dumps(event.data, ensure_ascii=False),
    )


def read_events(
    project_id: int, run_id: str, *, after_arrival: int = 0, limit: int | None = None
) -> list[JournalEvent]:
    """Return a run's events with arrival over `after_arrival`; an unknown run has none.

    With a `limit` the order is arrival (for cursors). Without, it is the order a person reads: the sender's
    `seq` where there is one, then occurred_ns, then arrival.
    """
    run = Run.objects.filter(project_id=project_id, run_id=run_id).values_list("run_day", flat=True).first()
    if run is None:
        return []
    order = "seq NULLS LAST, occurred_ns, arrival" if limit is None else "arrival"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(READ_FIELDS)} FROM ingest_event "
            f"WHERE project_id = %s AND run_day = %s AND run_id = %s AND arrival > %s ORDER BY {order} LIMIT %s",
            [project_id, run, run_id, after_arrival, limit],
        )
        return [_journal_event(row) for row in cursor.fetchall()]


def _journal_event(row: tuple[Any, ...]) -> JournalEvent:
    values = dict(zip(READ_FIELDS, row, strict=True))
    repairs, data = _decoded(values["repairs"]), _decoded(values["data"])
    values.update(repairs=tuple(repairs or ()), data=data)
    return JournalEvent(**values)


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value  # Django leaves jsonb of raw SQL as text
