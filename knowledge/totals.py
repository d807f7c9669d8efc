"""THE write path of totals: what becomes of the counts of runs that go, forgotten or deleted.

Called by ingest (INGEST_TOTALS, INGEST_UNCOUNT) inside the transaction that takes the runs away, so that a run is in
the journal or in the totals and never in both. (Seed 001 §13.)
"""

from collections.abc import Mapping, Sequence
from typing import Final

from django.db import connection

from knowledge import projection, rolling
from knowledge.projection import OF_AN_ITEM, REPORTED

_RUN_COUNTS: Final[Mapping[str, str]] = {
    "n_runs": "count(*)",
    "n_solved": "count(*) FILTER (WHERE summary.success)",
    "n_unsolved": "count(*) FILTER (WHERE NOT summary.success)",
    "n_events": "sum(run.last_arrival)",
    **{
        name: f"coalesce(sum(summary.{name}), 0)"
        for name in ("n_turns", "n_tool_calls", "n_tools_failed", "hint_tokens", "priming_tokens", "model_tokens")
    },
}


def _adding(table: str, key: str, counts: Mapping[str, str], source: str) -> str:
    """Return the statement that adds what `source` selects by `key` to the rows that are there."""
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in counts)
    return f"INSERT INTO {table} ({key}, {', '.join(counts)}) {source} ON CONFLICT ({key}) DO UPDATE SET {added}"


_ADD_RUNS: Final = _adding(
    "knowledge_daytotals",
    "project_id, day, status",
    _RUN_COUNTS,
    f"""
    SELECT run.project_id, run.run_day, coalesce(summary.status, 'running'), {", ".join(_RUN_COUNTS.values())}
    FROM ingest_run run
    LEFT JOIN knowledge_runsummary summary ON summary.project_id = run.project_id AND summary.run_id = run.run_id
    WHERE run.project_id = %s AND run.run_id = ANY(%s)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    """,
)
_ITEM_COUNTS: Final[Mapping[str, str]] = {
    "n_retrieved": "count(*)",
    "n_offered": "count(offered_ns)",
    "n_injected": "count(injected_ns)",
    **{name: f"count(*) FILTER (WHERE {which})" for name, which in REPORTED.items()},
}
_ADD_ITEMS: Final = _adding(
    "knowledge_itemtotals",
    "project_id, knowledge_id",
    _ITEM_COUNTS,
    f"""
    SELECT project_id, knowledge_id, {", ".join(_ITEM_COUNTS.values())} FROM knowledge_candidate
    WHERE project_id = %s AND run_id = ANY(%s) AND {OF_AN_ITEM} GROUP BY 1, 2 ORDER BY 1, 2
    """,
)


def add_to_totals(project_id: int, run_ids: Sequence[str]) -> None:
    """Add the runs' counts to those of their days. The caller holds their locks and deletes them in its transaction."""
    with connection.cursor() as cursor:
        for statement in (_ADD_RUNS, _ADD_ITEMS):
            cursor.execute(statement, [project_id, list(run_ids)])
    rolling.set_aside(project_id, run_ids)


def take_away(project_id: int, run_ids: list[str]) -> None:
    """Take runs that are being deleted out of all that is counted. The caller holds the runs' locks."""
    projection.take_away(project_id, run_ids)
    rolling.take_out(project_id, run_ids)
