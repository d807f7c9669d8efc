"""THE write path of counted use: what runs reported of items, and the number that says that knowledge has changed.

One allow-list says which events may change it: reports of use and outcome. Activations and deliveries never do. A
fold compares what its run reported before and after and writes the difference, so that a run counts once however
often it is folded; a deleted run is taken away again, and one that retention takes leaves its counts. (Seed 001 §13.)
"""

from collections.abc import Iterable, Mapping
from typing import Final

from django.db import connection, transaction

from knowledge.chain_facts import UNKNOWN_ITEM
from knowledge.models import KnowledgeVersion

KNOWLEDGE_EVENT_TYPES: Final = ("hint.used", "hint.ignored", "hint.outcome")
COUNTS: Final = ("n_used", "n_ignored", "n_helpful", "n_harmful", "n_neutral")

Counts = tuple[int, ...]  # in the order of COUNTS
Uses = Mapping[str, Counts]  # knowledge_id -> what one run reported of it

# What counts as reported, of one row of candidates: what a runtime said, and what a person did.
REPORTED: Final[Mapping[str, str]] = {
    "n_used": "usage_source = 'reported' AND used_ns IS NOT NULL",
    "n_ignored": "usage_source = 'reported' AND used_ns IS NULL AND ignored_ns IS NOT NULL",
    "n_helpful": "outcome_source IN ('reported', 'person') AND outcome = 'helpful'",
    "n_harmful": "outcome_source IN ('reported', 'person') AND outcome = 'harmful'",
    "n_neutral": "outcome_source IN ('reported', 'person') AND outcome = 'neutral'",
}
_COUNTED: Final = ", ".join(f"count(*) FILTER (WHERE {REPORTED[name]})" for name in COUNTS)
OF_AN_ITEM: Final = f"knowledge_id NOT LIKE '{UNKNOWN_ITEM}%%'"  # a hint alone counts nowhere
_OF_ITEMS: Final = f"(usage_source = 'reported' OR outcome_source IN ('reported', 'person')) AND {OF_AN_ITEM}"
_READ: Final = f"""
SELECT knowledge_id, {_COUNTED} FROM knowledge_candidate
WHERE project_id = %s AND run_id = ANY(%s) AND {_OF_ITEMS} GROUP BY knowledge_id
"""
_ADD: Final = f"""
INSERT INTO knowledge_itemcounts (project_id, knowledge_id, {", ".join(COUNTS)})
VALUES (%s, %s, {", ".join(["%s"] * len(COUNTS))})
ON CONFLICT (project_id, knowledge_id) DO UPDATE
SET {", ".join(f"{name} = knowledge_itemcounts.{name} + excluded.{name}" for name in COUNTS)}
"""
_BUMP: Final = """
INSERT INTO knowledge_knowledgeversion (project_id, version) VALUES (%s, 1)
ON CONFLICT (project_id) DO UPDATE SET version = knowledge_knowledgeversion.version + 1
"""
_RECOUNT: Final = f"""
INSERT INTO knowledge_itemcounts (project_id, knowledge_id, {", ".join(COUNTS)})
SELECT %(project)s, knowledge_id, {", ".join(f"sum({name})" for name in COUNTS)} FROM (
    SELECT knowledge_id, {", ".join(COUNTS)} FROM knowledge_itemtotals WHERE project_id = %(project)s
    UNION ALL
    SELECT knowledge_id, {_COUNTED} FROM knowledge_candidate
    WHERE project_id = %(project)s AND {_OF_ITEMS} GROUP BY knowledge_id
) counted GROUP BY knowledge_id HAVING sum({" + ".join(COUNTS)}) > 0
"""


def affects_knowledge(event_type: str) -> bool:
    """Say whether an event of that type may change what is known of an item."""
    return event_type in KNOWLEDGE_EVENT_TYPES


def version_of(project_id: int) -> int:
    """Return the project's knowledge version: 0 before the first change. Whatever was cached under it still holds."""
    return KnowledgeVersion.objects.filter(project_id=project_id).values_list("version", flat=True).first() or 0


def bump(project_id: int) -> None:
    """Count one change of what is known. Locks the project's row until the transaction ends: call it last."""
    with connection.cursor() as cursor:
        cursor.execute(_BUMP, [project_id])


def reported(project_id: int, run_ids: Iterable[str]) -> Uses:
    """Return what the runs reported of items, as their chains stand now."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [project_id, list(run_ids)])
        return {row[0]: tuple(row[1:]) for row in cursor.fetchall()}


def apply(project_id: int, before: Uses, after: Uses) -> bool:
    """Put what a run reports now in the place of what it reported before; return whether that changed anything."""
    none = (0,) * len(COUNTS)
    changes = {
        knowledge_id: tuple(
            new - old for new, old in zip(after.get(knowledge_id, none), before.get(knowledge_id, none), strict=True)
        )
        for knowledge_id in sorted({*before, *after})  # in one order everywhere, so that no two folds lock crosswise
    }
    changes = {knowledge_id: counts for knowledge_id, counts in changes.items() if any(counts)}
    if changes:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, [(project_id, name, *counts) for name, counts in changes.items()])
        bump(project_id)
    return bool(changes)


def take_away(project_id: int, run_ids: list[str]) -> None:
    """Take the reports of runs that are being deleted out of the counts. The caller holds the runs' locks."""
    apply(project_id, reported(project_id, run_ids), {})


def recount(project_id: int) -> None:
    """Count everything anew: kept chains, and the totals of those that are forgotten.

    A fold under way waits, and adds what it changes to what is counted here: the chain it replaces is in that.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE knowledge_itemcounts IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute("DELETE FROM knowledge_itemcounts WHERE project_id = %s", [project_id])
        cursor.execute(_RECOUNT, {"project": project_id})
        bump(project_id)
