"""Reads how far fold, sums and vectors are behind and how many partitions stand ready: by index, over any connection.

Each takes `fetch`, which runs one statement and returns its rows, so that a scrape can use a connection of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

Fetch = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

MOST_WAITING: Final = 50_000  # runs counted, the longest waiting ones, and items without a vector
# The partial index ingest_run_unfolded holds just these rows in this order: the rest of the table is not touched.
LAG_SQL: Final = """
    SELECT count(*), coalesce(sum(waiting.behind), 0),
           coalesce(extract(epoch FROM now() - min(waiting.last_received_at)), 0)
    FROM (SELECT last_arrival - folded_arrival AS behind, last_received_at FROM ingest_run
          WHERE folded_arrival < last_arrival {project}
          ORDER BY last_received_at LIMIT %s) waiting
"""
# The partial index item_embedding_pending holds just these rows.
VECTORS_SQL: Final = """
    SELECT count(*) FROM (SELECT 1 FROM knowledge_itemembedding WHERE model = '' {project} LIMIT %s) waiting
"""
# The partial index run_contribution_dirty holds just these rows.
SUMS_SQL: Final = "SELECT count(*) FROM (SELECT 1 FROM knowledge_runcontribution WHERE dirty LIMIT %s) waiting"
PARTITIONS_SQL: Final = """
    SELECT count(*) FROM pg_inherits JOIN pg_class child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'ingest_event'::regclass AND child.relname > %s
"""


@dataclass(frozen=True, slots=True)
class FoldLag:
    """What waits to be folded: runs, their events, and seconds since the last event of the one that waits longest."""

    n_runs: int
    n_events: int
    oldest_seconds: float

    @property
    def oldest_ms(self) -> float:
        return self.oldest_seconds * 1000

    @property
    def is_capped(self) -> bool:
        """Tell whether more runs may wait than were counted."""
        return self.n_runs >= MOST_WAITING


def fold_lag(fetch: Fetch, project_id: int | None = None) -> FoldLag:
    """Return what waits in one project, or in all of them."""
    statement = LAG_SQL.format(project="" if project_id is None else "AND project_id = %s")
    chosen = [] if project_id is None else [project_id]
    n_runs, n_events, seconds = fetch(statement, [*chosen, MOST_WAITING])[0]
    return FoldLag(int(n_runs), int(n_events), max(0.0, float(seconds)))


def vectors_waiting(fetch: Fetch, project_id: int | None = None) -> int:
    """Return how many items of a project, or of all, have no vector yet; at most MOST_WAITING are counted."""
    statement = VECTORS_SQL.format(project="" if project_id is None else "AND project_id = %s")
    chosen = [] if project_id is None else [project_id]
    return int(fetch(statement, [*chosen, MOST_WAITING])[0][0])


def sums_waiting(fetch: Fetch) -> int:
    """Return of how many runs something is not in the sums of the reports yet; at most MOST_WAITING are counted."""
    return int(fetch(SUMS_SQL, [MOST_WAITING])[0][0])


def partitions_ahead(fetch: Fetch, today: date) -> int:
    """Return how many days after today have their partition already; the names sort as the days do."""
    return int(fetch(PARTITIONS_SQL, [f"ingest_event_{today:%Y%m%d}"])[0][0])
