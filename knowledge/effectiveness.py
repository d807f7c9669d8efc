"""Counts how far knowledge came, by trigger and stage, from the derived rows. Counts only: nothing is estimated."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.utils import timezone

from contract import stages

# Runs of the time asked for, then what the fold derived from them. A trigger that is not known yet is "".
RUNS: Final = """
WITH chosen AS (
    SELECT run_id, last_arrival - folded_arrival AS n_behind FROM ingest_run
    WHERE project_id = %(project)s AND first_received_at >= %(since)s AND first_received_at < %(until)s
)
"""
COVERED: Final = (
    RUNS
    + """
SELECT count(*), coalesce(sum(n_behind), 0), count(*) FILTER (WHERE n_behind > 0), (
    SELECT max(folded_at) FROM knowledge_runsummary summary JOIN chosen USING (run_id)
    WHERE summary.project_id = %(project)s
) FROM chosen
"""
)
ACTIVATIONS: Final = (
    RUNS
    + """
SELECT trigger, result, skip_reason, arm, resolved, count(*)
FROM knowledge_activation JOIN chosen USING (run_id) WHERE project_id = %(project)s
GROUP BY trigger, result, skip_reason, arm, resolved
"""
)
CANDIDATES: Final = (
    RUNS
    + """
SELECT activation.trigger, candidate.drop_reason, candidate.outcome, count(*), count(offered_ns), count(selected_ns),
    count(injected_ns), count(dropped_ns), count(used_ns), count(ignored_ns)
FROM knowledge_candidate candidate JOIN chosen USING (run_id)
JOIN knowledge_activation activation USING (project_id, run_id, activation_id)
WHERE candidate.project_id = %(project)s
GROUP BY activation.trigger, candidate.drop_reason, candidate.outcome
"""
)
REACHED: Final = ("n_retrieved", "n_offered", "n_selected", "n_injected", "n_dropped", "n_used", "n_ignored")
RESOLVED: Final = {True: "resolved", False: "not_resolved", None: "cannot_be_told"}
BROKEN_DOWN: Final = ("results", "skip_reasons", "arms", "followed_by", "drop_reasons", "outcomes")


def report(project_id: int, since: datetime, until: datetime) -> dict[str, Any]:
    """Return the counts of the runs first received from `since` until before `until`. Four queries.

    `as_of` is when the newest of the rows was derived; `n_unfolded` events of `n_runs_behind` runs are not in them.
    """
    given = {"project": project_id, "since": since, "until": until}
    (n_runs, n_unfolded, n_behind, folded_at), *_ = _rows(COVERED, given)
    triggers: dict[str, dict[str, Any]] = {}
    for trigger, result, skip_reason, arm, resolved, number in _rows(ACTIVATIONS, given):
        line = triggers.setdefault(trigger, _empty(trigger))
        line["n_skipped" if skip_reason else "n_activations"] += number
        _add(line["results"], result, number)
        _add(line["skip_reasons"], skip_reason, number)
        _add(line["arms"], arm, number)
        if not skip_reason:
            _add(line["followed_by"], RESOLVED[resolved], number)
    for trigger, drop_reason, outcome, *reached in _rows(CANDIDATES, given):
        line = triggers.setdefault(trigger, _empty(trigger))
        for name, number in zip(REACHED, reached, strict=True):
            line[name] += number
        _add(line["drop_reasons"], drop_reason, reached[0])
        _add(line["outcomes"], outcome, reached[0])
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        "as_of": folded_at.isoformat() if folded_at else None,
        "computed_at": timezone.now().isoformat(),
        "n_runs": n_runs,
        "n_runs_behind": n_behind,
        "n_unfolded": int(n_unfolded),
        "triggers": [triggers[name] for name in sorted(triggers)],
    }


def _empty(trigger: str) -> dict[str, Any]:
    return {
        "trigger": trigger,
        "meaning": stages.TRIGGERS.get(trigger, trigger or "the activation was not reported"),
        "n_activations": 0,
        "n_skipped": 0,
        **dict.fromkeys(REACHED, 0),
        **{name: {} for name in BROKEN_DOWN},
    }


def _add(counts: dict[str, int], word: str, number: int) -> None:
    if word:
        counts[word] = counts.get(word, 0) + number


def _rows(query: str, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        return list(cursor.fetchall())
