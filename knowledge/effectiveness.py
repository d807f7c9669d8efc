"""How far knowledge came, by trigger and stage, out of the rollups. Counts only: nothing is estimated."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db import connection
from django.utils import timezone

from contract import stages
from ingest.times import start_of
from knowledge.rollups import Cell, read_cells

# Runs of the days asked for, and what of them is not in the sums yet.
COVERED: Final = """
WITH chosen AS (
    SELECT run_id, last_arrival - folded_arrival AS n_behind FROM ingest_run
    WHERE project_id = %(project)s AND first_received_at BETWEEN %(since)s AND %(until)s
)
SELECT count(*), coalesce(sum(n_behind), 0), count(*) FILTER (WHERE n_behind > 0), (
    SELECT coalesce(sum(n_runs), 0) FROM knowledge_daytotals
    WHERE project_id = %(project)s AND day BETWEEN %(first)s AND %(last)s
), (
    SELECT count(*) FROM knowledge_runcontribution
    WHERE project_id = %(project)s AND dirty AND day BETWEEN %(first)s AND %(last)s
), (
    SELECT folded_at FROM knowledge_runsummary
    WHERE project_id = %(project)s AND first_received_at BETWEEN %(since)s AND %(until)s
    ORDER BY first_received_at DESC, run_id DESC LIMIT 1
) FROM chosen
"""
REACHED: Final = ("n_retrieved", "n_offered", "n_selected", "n_injected", "n_dropped", "n_used", "n_ignored")
SPENT: Final = ("tokens", "n_timed", "waited_us")
BROKEN_DOWN: Final = {
    "results": "result", "skip_reasons": "skip", "hold_reasons": "hold", "drop_reasons": "drop",
    "used_by": "used_by", "judged_by": "judged_by",
}  # fmt: skip


def report(project_id: int, since: datetime, until: datetime) -> dict[str, Any]:
    """Return the counts of the days (UTC) that `since` and the moments before `until` lie in. Three queries.

    `as_of` is when the chain of the newest run was derived; `n_unfolded` events of `n_runs_behind` runs are not in the
    counts, and `n_runs_waiting` runs are in them as they were before, or not at all.
    """
    first, last = days_of(since, until)
    given: dict[str, Any] = {"project": project_id, "first": first, "last": last}
    whole = {"since": start_of(first), "until": datetime.combine(last, time.max, UTC)}
    with connection.cursor() as cursor:
        cursor.execute(COVERED, {**given, **whole})
        n_runs, n_unfolded, n_behind, n_forgotten, n_waiting, folded_at = cursor.fetchone()
    triggers: dict[str, dict[str, Any]] = {}
    for cell in read_cells(project_id, first, last, by=("trigger", "arm"), replicates=False):
        _add(triggers.setdefault(cell.key["trigger"], _empty(cell.key["trigger"])), cell)
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        "first_day": first.isoformat(),
        "last_day": last.isoformat(),
        "as_of": folded_at.isoformat() if folded_at else None,
        "computed_at": timezone.now().isoformat(),
        "n_runs": int(n_runs + n_forgotten),
        "n_runs_behind": n_behind,
        "n_runs_waiting": n_waiting,
        "n_unfolded": int(n_unfolded),
        "triggers": [triggers[name] for name in sorted(triggers)],
    }


def days_of(since: datetime, until: datetime) -> tuple[date, date]:
    """Return the first and the last day (UTC) of a time; that of `since` when nothing lies between the two."""
    last = until - timedelta(microseconds=1) if until > since else since
    return since.astimezone(UTC).date(), last.astimezone(UTC).date()


def _empty(trigger: str) -> dict[str, Any]:
    return {
        "trigger": trigger,
        "meaning": stages.TRIGGERS.get(trigger, trigger or "the activation was not reported"),
        **dict.fromkeys(("n_activations", "n_skipped", *REACHED, *SPENT), 0),
        **{name: {} for name in (*BROKEN_DOWN, "arms", "followed_by", "outcomes")},
    }


def _add(line: dict[str, Any], cell: Cell) -> None:
    """Add one arm's cell to the line of its trigger."""
    counts = cell.counts
    for name in ("n_activations", "n_skipped", *REACHED, *SPENT):
        line[name] += counts[name]
    for name, kind in BROKEN_DOWN.items():
        for word, number in cell.words[kind].items():
            _count(line[name], word, number)
    unknown = counts["n_activations"] - counts["n_resolved"] - counts["n_unresolved"]
    for word, number in (
        ("resolved", counts["n_resolved"]),
        ("not_resolved", counts["n_unresolved"]),
        ("cannot_be_told", unknown),
    ):
        _count(line["followed_by"], word, number)
    for outcome in stages.OUTCOMES:
        _count(line["outcomes"], outcome, counts[f"n_{outcome}"])
    if cell.key["arm"]:
        _count(line["arms"], cell.key["arm"], counts["n_draws"])


def _count(counts: dict[str, int], word: str, number: int) -> None:
    if word and number:
        counts[word] = counts.get(word, 0) + number
