"""THE write path of totals: adds runs that are about to be forgotten to the counts of their day.

Called by ingest inside the transaction that takes the runs away (setting INGEST_TOTALS), so that a run is in the
journal or in the totals and never in both. (Seed 001 §13.)
"""

from collections.abc import Mapping, Sequence
from typing import Final

from django.db import connection

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
_CANDIDATE_COUNTS: Final[Mapping[str, str]] = {
    "n_used": "used_ns IS NOT NULL",
    "n_ignored": "used_ns IS NULL AND ignored_ns IS NOT NULL",
    "n_helpful": "outcome = 'helpful'",
    "n_harmful": "outcome = 'harmful'",
    "n_neutral": "outcome = 'neutral'",
}
_ACTIVATION_COUNTS: Final[Mapping[str, str]] = {
    "n_activations": "count(*) FILTER (WHERE activation.result <> 'skipped')",
    "n_skipped": "count(*) FILTER (WHERE activation.result = 'skipped')",
    "n_resolved": "count(*) FILTER (WHERE activation.resolved)",
    "n_unresolved": "count(*) FILTER (WHERE NOT activation.resolved)",
    **{name: f"sum(activation.{name})" for name in ("n_retrieved", "n_offered", "n_injected", "n_dropped", "tokens")},
    **{name: f"coalesce(sum(candidates.{name}), 0)" for name in _CANDIDATE_COUNTS},
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
_ADD_ACTIVATIONS: Final = _adding(
    "knowledge_triggertotals",
    'project_id, day, "trigger", arm',
    _ACTIVATION_COUNTS,
    f"""
    SELECT run.project_id, run.run_day, activation.trigger, activation.arm, {", ".join(_ACTIVATION_COUNTS.values())}
    FROM ingest_run run
    JOIN knowledge_activation activation ON activation.project_id = run.project_id AND activation.run_id = run.run_id
    LEFT JOIN LATERAL (
        SELECT {", ".join(f"count(*) FILTER (WHERE {which}) AS {name}" for name, which in _CANDIDATE_COUNTS.items())}
        FROM knowledge_candidate candidate
        WHERE candidate.project_id = activation.project_id AND candidate.run_id = activation.run_id
        AND candidate.activation_id = activation.activation_id
    ) candidates ON true
    WHERE run.project_id = %s AND run.run_id = ANY(%s)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
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
        for statement in (_ADD_RUNS, _ADD_ACTIVATIONS, _ADD_ITEMS):
            cursor.execute(statement, [project_id, list(run_ids)])
