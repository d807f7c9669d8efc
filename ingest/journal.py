"""The append-only journal: its partitions, writing by COPY, reading one run from one partition.

Only `accept.py` writes through here. The day a run was first seen is its `run_day` for good: a run is read from one
partition, identity needs no table of its own, and forgetting a day is dropping its partition. (Seed 001 §13.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import orjson
from django.db import connection

from contract.events import ID_FIELDS
from ingest.envelope import DRAFT_COLUMNS, EventDraft
from ingest.models import Run

PARTITION_LOCK: Final = 7_214_001  # advisory lock: one maker of partitions at a time
DAYS_AHEAD: Final = 3
READ_FIELDS: Final = (
    *ID_FIELDS, "arrival", "seq", "turn", "occurred_ns", "ended_ns", "received_at", "repairs", "data",
)  # fmt: skip
# Each run by itself, for the same reason as below.
READ_RUNS: Final = f"""
SELECT {", ".join(f"kept.{name}" for name in READ_FIELDS)} FROM unnest(%s::text[]) AS given(run_id)
CROSS JOIN LATERAL (
    SELECT {", ".join(READ_FIELDS)} FROM ingest_event
    WHERE project_id = %s AND run_day = %s AND run_id = given.run_id OFFSET 0
) kept
"""
COPY_NEW: Final = (
    f"COPY ingest_event (project_id, run_day, arrival, received_at, {', '.join(DRAFT_COLUMNS)}) FROM STDIN"
)

# Each event is looked up by itself, and asked for in the order of the primary key: a new day's partition has no
# statistics, and from none the planner would read the partition for a join, or the whole run through the other index.
STORED_DIGESTS: Final = """
SELECT given.run_id, given.event_id, kept.digest
FROM unnest(%s::text[], %s::text[]) AS given(run_id, event_id)
CROSS JOIN LATERAL (
    SELECT event_id, digest FROM ingest_event
    WHERE project_id = %s AND run_day = %s AND run_id = given.run_id AND event_id >= given.event_id
    ORDER BY event_id LIMIT 1
) kept
WHERE kept.event_id = given.event_id
"""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run's events go: its partition day and the arrival number given out last."""

    run_day: date
    last_arrival: int


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


def partition_name(day: date) -> str:
    return f"ingest_event_{day:%Y%m%d}"


def ensure_partitions(days: Iterable[date]) -> int:
    """Make the partitions of `days` that are missing, within the caller's transaction; return how many were made.

    One maker at a time: the others wait for the advisory lock and find the work done. A table is made and then
    attached, because that leaves writers of other partitions running, where CREATE … PARTITION OF stops them all.
    """
    missing = _without_partition(sorted(set(days)))
    if not missing:
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [PARTITION_LOCK])
        missing = _without_partition(missing)
        for day in missing:
            name = partition_name(day)
            cursor.execute(f"CREATE TABLE {name} (LIKE ingest_event INCLUDING ALL)")
            cursor.execute(
                f"ALTER TABLE ingest_event ATTACH PARTITION {name} "
                f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
            )
    return len(missing)


def _without_partition(days: Sequence[date]) -> list[date]:
    """Read the catalog as a table: to_regclass may answer from before another maker's commit."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relispartition AND relname = ANY(%s)"
            " AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'ingest_event'::regclass)",
            [[partition_name(day) for day in days]],
        )
        made = {row[0] for row in cursor.fetchall()}
    return [day for day in days if partition_name(day) not in made]


def lock_runs(project_id: int, run_ids: Iterable[str], today: date) -> dict[str, RunPlace]:
    """Register the runs, lock their rows until the transaction ends, and return where their events go.

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
            RETURNING run_id, run_day, last_arrival
            """,
            [project_id, today, sorted(run_ids)],
        )
        return {run_id: RunPlace(run_day, last_arrival) for run_id, run_day, last_arrival in cursor.fetchall()}


def stored_digests(
    project_id: int, places: Mapping[str, RunPlace], identities: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], bytes]:
    """Return the digests of those (run_id, event_id) that are stored already. The caller holds the runs' locks."""
    by_day: dict[date, list[tuple[str, str]]] = {}
    for identity in identities:
        place = places[identity[0]]
        if place.last_arrival:
            by_day.setdefault(place.run_day, []).append(identity)
    found: dict[tuple[str, str], bytes] = {}
    with connection.cursor() as cursor:
        for run_day, wanted in by_day.items():
            run_ids, event_ids = [run_id for run_id, _ in wanted], [event_id for _, event_id in wanted]
            cursor.execute(STORED_DIGESTS, [run_ids, event_ids, project_id, run_day])
            found.update({(run_id, event_id): bytes(digest) for run_id, event_id, digest in cursor.fetchall()})
    return found


def append(project_id: int, places: Mapping[str, RunPlace], drafts: Sequence[EventDraft], received: datetime) -> None:
    """Write events that are new, in the order given, each run's arrival numbers going on from its last one.

    The caller holds the runs' locks and has left out what is stored already.
    """
    if not drafts:
        return
    last = {run_id: place.last_arrival for run_id, place in places.items()}
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(COPY_NEW) as copy:
        for draft in drafts:
            last[draft.run_id] += 1
            copy.write_row((project_id, places[draft.run_id].run_day, last[draft.run_id], received, *draft.columns))


def count_runs(project_id: int, added: Mapping[str, int], conflicts: Mapping[str, int]) -> None:
    """Add to the runs' last arrival numbers and conflict counts, under the caller's locks.

    The rows are there. An upsert finds each by the primary key, whatever the planner knows of the table.
    """
    run_ids = sorted({*added, *conflicts})
    if not run_ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ingest_run AS kept (project_id, run_id, run_day, first_received_at, last_received_at,
                                            last_arrival, folded_arrival, n_conflicts)
            SELECT %s, run_id, current_date, now(), now(), n_added, 0, n_differ
            FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS given(run_id, n_added, n_differ)
            ON CONFLICT (project_id, run_id) DO UPDATE
            SET last_arrival = kept.last_arrival + excluded.last_arrival,
                n_conflicts = kept.n_conflicts + excluded.n_conflicts
            """,
            [
                project_id,
                run_ids,
                [added.get(run_id, 0) for run_id in run_ids],
                [conflicts.get(run_id, 0) for run_id in run_ids],
            ],
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


def read_runs(project_id: int, days: Mapping[str, date]) -> dict[str, list[JournalEvent]]:
    """Return the events of several runs, given the day each was first seen on; in no order. One query a day."""
    found: dict[str, list[JournalEvent]] = {run_id: [] for run_id in days}
    by_day: dict[date, list[str]] = {}
    for run_id, day in days.items():
        by_day.setdefault(day, []).append(run_id)
    with connection.cursor() as cursor:
        for day, run_ids in by_day.items():
            cursor.execute(READ_RUNS, [run_ids, project_id, day])
            for event in map(_journal_event, cursor.fetchall()):
                found[event.run_id].append(event)
    return found


def read_named_events(project_id: int, run_day: date, run_id: str, event_ids: Iterable[str]) -> dict[str, JournalEvent]:
    """Return those of the named events of a run that there are, by id; each is looked up by its key. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(READ_FIELDS)} FROM ingest_event "
            "WHERE project_id = %s AND run_day = %s AND run_id = %s AND event_id = ANY(%s)",
            [project_id, run_day, run_id, sorted(event_ids)],
        )
        return {event.event_id: event for event in map(_journal_event, cursor.fetchall())}


def _journal_event(row: tuple[Any, ...]) -> JournalEvent:
    values = dict(zip(READ_FIELDS, row, strict=True))
    repairs = values["repairs"]  # Django leaves the jsonb of raw SQL as text
    values.update(repairs=tuple(orjson.loads(repairs)) if repairs else (), data=orjson.loads(values["data"]))
    return JournalEvent(**values)
