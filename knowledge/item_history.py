"""Reads one item whole: its revisions and history, how far it came and where, what came of it at each trigger."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from django.db import connection

from contract.stages import RETIRED_STATES
from knowledge.item_queries import NEVER_FIRES_DAYS, UseCounts, never_fires, use_counts
from knowledge.lifecycle import MOST_STEPS
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

LATEST: Final = 20  # activations that are listed
LISTED: Final = 200  # revisions, rows of history and replaced items that are listed

_BY_TRIGGER: Final = """
SELECT coalesce(activation.trigger, ''), count(*), count(offered_ns), count(selected_ns), count(injected_ns),
    count(dropped_ns) FILTER (WHERE injected_ns IS NULL), count(used_ns),
    count(ignored_ns) FILTER (WHERE used_ns IS NULL), count(*) FILTER (WHERE outcome = 'helpful'),
    count(*) FILTER (WHERE outcome = 'harmful'), count(*) FILTER (WHERE outcome = 'neutral')
FROM knowledge_candidate candidate
LEFT JOIN knowledge_activation activation USING (project_id, run_id, activation_id)
WHERE candidate.project_id = %s AND candidate.knowledge_id = %s
GROUP BY 1 ORDER BY 1
"""
_SEEN: Final = """
SELECT candidate.run_id, candidate.activation_id, coalesce(activation.trigger, ''), activation.requested_ns,
    candidate.revision, candidate.offered_ns, candidate.selected_ns, candidate.injected_ns, candidate.dropped_ns,
    candidate.used_ns, candidate.hold_reason, candidate.drop_reason, candidate.outcome, candidate.usage_source
FROM knowledge_candidate candidate
LEFT JOIN knowledge_activation activation USING (project_id, run_id, activation_id)
WHERE candidate.project_id = %s AND candidate.knowledge_id = %s
ORDER BY coalesce(activation.requested_ns, activation.completed_ns, candidate.offered_ns, 0) DESC,
    candidate.run_id, candidate.activation_id
LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Reached:
    """How often an item came how far in the runs that are kept; use and outcome as reported or judged by the fold."""

    n_retrieved: int = 0
    n_offered: int = 0
    n_selected: int = 0
    n_injected: int = 0
    n_dropped: int = 0
    n_used: int = 0
    n_ignored: int = 0
    n_helpful: int = 0
    n_harmful: int = 0
    n_neutral: int = 0


@dataclass(frozen=True, slots=True)
class TriggerOutcome:
    """What came of an item at one trigger; an empty trigger was not reported."""

    trigger: str
    reached: Reached


@dataclass(frozen=True, slots=True)
class Seen:
    """One activation that met the item: the last stage it reached (a word of STAGES, or dropped), what came of it."""

    run_id: str
    activation_id: str
    trigger: str
    requested_ns: int | None
    revision: int | None
    stage: str
    hold_reason: str
    drop_reason: str
    outcome: str
    usage_source: str


@dataclass(frozen=True, slots=True)
class ItemPage:
    """An item whole. Lists are newest first and bounded."""

    item: KnowledgeItem
    revision: KnowledgeRevision
    revisions: tuple[KnowledgeRevision, ...]
    history: tuple[KnowledgeChange, ...]
    counts: UseCounts
    reached: Reached
    by_trigger: tuple[TriggerOutcome, ...]
    seen: tuple[Seen, ...]
    replaces: tuple[str, ...]
    live_replacement: str | None
    never_fires: bool
    never_fires_days: int = NEVER_FIRES_DAYS


def item_page(project_id: int, knowledge_id: str, now: datetime) -> ItemPage | None:
    """Return an item whole, None when the project has none of that id."""
    item = KnowledgeItem.objects.filter(project_id=project_id, knowledge_id=knowledge_id).first()
    if item is None:
        return None
    revisions = tuple(item.revisions.order_by("-number")[:LISTED])
    history = tuple(item.changes.order_by("-pk")[:LISTED])
    by_trigger = tuple(
        TriggerOutcome(row[0], Reached(*row[1:])) for row in _rows(_BY_TRIGGER, project_id, knowledge_id)
    )
    same = KnowledgeItem.objects.filter(project_id=project_id)
    replaced = same.filter(replaced_by=knowledge_id).order_by("knowledge_id")
    return ItemPage(
        item=item,
        revision=revisions[0],
        revisions=revisions,
        history=history,
        counts=use_counts(project_id, [knowledge_id]).get(knowledge_id, UseCounts()),
        reached=_sum([one.reached for one in by_trigger]),
        by_trigger=by_trigger,
        seen=tuple(_seen(row) for row in _rows(_SEEN, project_id, knowledge_id, LATEST)),
        replaces=tuple(replaced.values_list("knowledge_id", flat=True)[:LISTED]),
        live_replacement=live_replacement(item),
        never_fires=same.filter(never_fires(project_id, now), pk=item.pk).exists(),
    )


def live_replacement(item: KnowledgeItem) -> str | None:
    """Return the id of the live item at the end of a retired one's replacements, None without one."""
    named = item.replaced_by
    for _ in range(MOST_STEPS):
        found = KnowledgeItem.objects.filter(project_id=item.project_id, knowledge_id=named or "").first()
        if found is None:
            return None
        if found.state not in RETIRED_STATES:
            return found.knowledge_id
        named = found.replaced_by
    return None


def _sum(counts: Sequence[Reached]) -> Reached:
    return Reached(*(sum(getattr(one, field.name) for one in counts) for field in fields(Reached)))


def _seen(row: Sequence[Any]) -> Seen:
    run_id, activation_id, trigger, requested_ns, revision, offered, selected, injected, dropped, used, *rest = row
    reached = {"used": used, "injected": injected, "dropped": dropped, "selected": selected, "offered": offered}
    stage = next((name for name, stamp in reached.items() if stamp is not None), "retrieved")
    return Seen(run_id, activation_id, trigger, requested_ns, revision, stage, *rest)


def _rows(query: str, *values: str | int) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())
