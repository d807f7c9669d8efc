"""The rows of the operations page: what came in, what waits to be folded, which days are kept and how large they are.

Each part is read for itself: one that fails says why and leaves the others standing. (Seed 001 §13, §14.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from django.db import DatabaseError, connection

from debugger.logs import describe
from debugger.queries.deliveries import SOURCES
from debugger.queries.lag import FoldLag, fold_lag, vectors_waiting
from ingest.partitions import Partition, list_partitions

T = TypeVar("T")

MOST_ROWS: Final = 200_000  # rows counted for one table, the newest ones
DAY: Final = timedelta(days=1)
DAYS_SHOWN: Final = 14
INTAKE_SQL: Final = """
    SELECT source, count(*), sum(n_accepted), sum(n_duplicates), sum(n_conflicts), sum(n_rejected),
           max(received_at), min(received_at)
    FROM (SELECT * FROM ingest_batch WHERE project_id = %s AND received_at > %s
          ORDER BY received_at DESC LIMIT %s) newest
    GROUP BY source ORDER BY source
"""
DAYS_SQL: Final = """
    SELECT run_day, count(*), sum(last_arrival)
    FROM (SELECT run_day, last_arrival FROM ingest_run WHERE project_id = %s AND first_received_at > %s
          ORDER BY first_received_at DESC LIMIT %s) newest
    GROUP BY run_day ORDER BY run_day DESC
"""


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """What came through one door."""

    name: str
    n_requests: int
    n_accepted: int
    n_duplicates: int
    n_conflicts: int
    n_rejected: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Intake:
    """The last day by source; `since` is later than a day ago when more requests came than are counted."""

    sources: tuple[SourceTotals, ...]
    since: datetime
    is_capped: bool


@dataclass(frozen=True, slots=True)
class DayRow:
    """One day of the project's own runs."""

    day: date
    n_runs: int
    n_events: int


@dataclass(frozen=True, slots=True)
class ShownPartition:
    """One partition of the whole journal, with its size for people."""

    partition: Partition
    size: str


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """A part of the page: its value, or why there is none."""

    title: str
    value: T | None = None
    problem: str = ""


def read(title: str, query: Callable[[], T]) -> Section[T]:
    """Read one part. A database that refuses is a problem to be shown; the error's own text may quote rows."""
    try:
        return Section(title, query())
    except DatabaseError as error:
        return Section(title, problem=describe(error.__cause__ or error))


def lag_section(project_id: int) -> Section[FoldLag]:
    return read("Fold", lambda: fold_lag(_fetch, project_id))


def vectors_section(project_id: int) -> Section[int]:
    return read("Vectors", lambda: vectors_waiting(_fetch, project_id))


def intake_section(project_id: int, now: datetime) -> Section[Intake]:
    return read("Intake", lambda: _intake(project_id, now))


def days_section(project_id: int, now: datetime) -> Section[list[DayRow]]:
    values = [project_id, now - DAYS_SHOWN * DAY, MOST_ROWS]
    return read("Days", lambda: [DayRow(day, n, int(events)) for day, n, events in _fetch(DAYS_SQL, values)])


def partitions_section() -> Section[list[ShownPartition]]:
    return read("Partitions", lambda: [ShownPartition(one, size_words(one.n_bytes)) for one in newest_partitions()])


def newest_partitions() -> list[Partition]:
    return list_partitions()[::-1]


def size_words(n_bytes: int) -> str:
    """Return a size as people write it: 24 kB, 1.3 MB."""
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004
            return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _intake(project_id: int, now: datetime) -> Intake:
    rows = _fetch(INTAKE_SQL, [project_id, now - DAY, MOST_ROWS])
    sources = tuple(
        SourceTotals(SOURCES.get(source, source), n, int(accepted), int(known), int(differ), int(rejected), last)
        for source, n, accepted, known, differ, rejected, last, _ in rows
    )
    is_capped = sum(source.n_requests for source in sources) >= MOST_ROWS
    since = min(row[7] for row in rows) if is_capped else now - DAY
    return Intake(sources, since, is_capped)


def _fetch(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
