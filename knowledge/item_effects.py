"""What a report says of single items: how far each came, and, of those drawn often enough, what offering it did.

Items that were never near a verdict need no replicates: they are counted, and only the others are read in full.
(Seed 001 §17, §18.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db.models import F

from knowledge.effects.counts import ArmCounts, Arms, CellKey, arms_by_stratum
from knowledge.effects.estimates import both_arms
from knowledge.effects.items import ItemEffect, judge_items
from knowledge.models import KnowledgeRevision
from knowledge.rollups import STRATA, Cell, n_waiting, points_by_stratum, read_cells

MOST_JUDGED: Final = 200  # items with most decision points, which are compared with each other
MOST_LISTED: Final = 1_000  # items with most searches


@dataclass(frozen=True, slots=True)
class ItemLine:
    """One item: what was counted of it, and its effect among those judged (None for others).

    `state` is "" and `revision` 0 for an id that is no item of the project (any more).
    """

    knowledge_id: str
    proposition: str
    state: str
    revision: int
    is_suspended: bool
    counts: Mapping[str, int]
    arms: Arms
    effect: ItemEffect | None


@dataclass(frozen=True, slots=True)
class ItemReport:
    """Proposed for suspension first, then judged ones from the worst effect to the best, then by searches."""

    since: date
    until: date
    lines: tuple[ItemLine, ...]
    n_items: int
    n_judged: int
    n_waiting: int


def make_item_report(project_id: int, since: date, until: date, where: Mapping[str, str] | None = None) -> ItemReport:
    """Return the report of the days from `since` to `until` (UTC, both included); `where` as in `read_cells`."""
    given: dict[str, Any] = {"where": where or {}}
    counted = read_cells(project_id, since, until, by=("knowledge_id",), replicates=False, words=False, **given)
    drawn = sorted((cell for cell in counted if cell.points.n_points), key=lambda cell: -cell.points.n_points)
    judged = [cell.key["knowledge_id"] for cell in drawn[:MOST_JUDGED]]
    effects, arms = _judge(project_id, since, until, judged, where or {})
    listed = _listed(counted, effects)
    texts = KnowledgeRevision.objects.filter(
        item__project_id=project_id, item__knowledge_id__in=listed, number=F("item__revision")
    )
    about = {text.item.knowledge_id: text for text in texts.select_related("item")}
    by_id = {cell.key["knowledge_id"]: cell for cell in counted}
    lines = tuple(_line(by_id[name], about.get(name), arms.get(name, Arms()), effects.get(name)) for name in listed)
    return ItemReport(since, until, lines, len(counted), len(judged), n_waiting(project_id))


def _judge(
    project_id: int, since: date, until: date, judged: list[str], where: Mapping[str, str]
) -> tuple[dict[str, ItemEffect], dict[str, Arms]]:
    if not judged:
        return {}, {}
    only = {**where, "knowledge_id": judged}
    cells = read_cells(project_id, since, until, by=("knowledge_id", *STRATA), where=only, words=False, near_alone=True)
    of_item: dict[str, list[Cell]] = {}
    for cell in cells:
        of_item.setdefault(cell.key["knowledge_id"], []).append(cell)
    points: dict[str, list[tuple[CellKey, ArmCounts]]] = {name: points_by_stratum(of) for name, of in of_item.items()}
    strata = {name: arms_by_stratum(found) for name, found in points.items() if found}
    effects = {one.knowledge_id: one for one in judge_items(strata)}
    return effects, {name: both_arms(found) for name, found in strata.items()}


def _listed(counted: list[Cell], effects: Mapping[str, ItemEffect]) -> list[str]:
    """Return the items in the order of the report: `effects` keeps that of their judgement."""
    rest = [cell for cell in counted if cell.key["knowledge_id"] not in effects]
    rest.sort(key=lambda cell: (-cell.counts["n_activations"], cell.key["knowledge_id"]))
    return [*effects, *(cell.key["knowledge_id"] for cell in rest)][:MOST_LISTED]


def _line(cell: Cell, text: KnowledgeRevision | None, arms: Arms, effect: ItemEffect | None) -> ItemLine:
    item = text.item if text else None
    return ItemLine(
        knowledge_id=cell.key["knowledge_id"],
        proposition=text.proposition if text else "",
        state=item.state if item else "",
        revision=item.revision if item else 0,
        is_suspended=bool(item and item.suspended_dynamic),
        counts=cell.counts,
        arms=arms,
        effect=effect,
    )
