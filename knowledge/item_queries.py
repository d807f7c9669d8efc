"""Reads lists of items for pages and programs: filtered by index, a page at a time, with their reported counts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from ingest import cursors
from knowledge.drafts import ItemDraft
from knowledge.facets import wanted_facets
from knowledge.item_rows import AT_ONCE
from knowledge.items import draft_of
from knowledge.models import Candidate, ItemCounts, ItemTotals, KnowledgeItem, KnowledgeRevision
from knowledge.projection import COUNTS

PAGE_SIZE: Final = 50
NEVER_FIRES_DAYS: Final = 14  # a confirmed item that no search has met for so long, since it was made, never fires


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """What a list is limited to; what is empty asks for nothing. `q`: part of the id or of the rule, in any case."""

    q: str = ""
    state: str = ""
    kind: str = ""
    topic: str = ""
    tool: str = ""
    mcp_server: str = ""
    trigger: str = ""
    suspended: bool | None = None
    never_fires: bool = False


@dataclass(frozen=True, slots=True)
class UseCounts:
    """What runs reported of an item, those that were forgotten included."""

    n_used: int = 0
    n_ignored: int = 0
    n_helpful: int = 0
    n_harmful: int = 0
    n_neutral: int = 0


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item with its current revision and its counts."""

    item: KnowledgeItem
    revision: KnowledgeRevision
    counts: UseCounts


@dataclass(frozen=True, slots=True)
class ItemListPage:
    """One page; `next` is the cursor of the following one, None at the end."""

    rows: tuple[ItemRow, ...]
    next: str | None


def item_list(
    project_id: int, filters: ItemFilter, cursor: str = "", limit: int = PAGE_SIZE, now: datetime | None = None
) -> ItemListPage:
    """Return a page of items in the order of their ids. Three queries. `now` is needed for `never_fires`.

    Raises IngestError 400 for a cursor that is none of ours.
    """
    items = filter_items(project_id, filters, now)
    if cursor:
        items = items.filter(knowledge_id__gt=cursors.unpack(cursor))
    found = list(items.order_by("knowledge_id")[: limit + 1])
    more = cursors.pack(found[limit - 1].knowledge_id) if len(found) > limit else None
    return ItemListPage(tuple(_with_texts(project_id, found[:limit])), more)


def use_counts(project_id: int, knowledge_ids: Sequence[str]) -> dict[str, UseCounts]:
    """Return the reported counts of those items of which anything was reported."""
    rows = ItemCounts.objects.filter(project_id=project_id, knowledge_id__in=knowledge_ids)
    return {row[0]: UseCounts(*row[1:]) for row in rows.values_list("knowledge_id", *COUNTS)}


def never_fires(project_id: int, now: datetime) -> Q:
    """Return the condition of confirmed items, made a while ago, that no search has ever met."""
    met = {"project_id": project_id, "knowledge_id": OuterRef("knowledge_id")}
    made_before = now - timedelta(days=NEVER_FIRES_DAYS)
    unmet = ~Exists(Candidate.objects.filter(**met)) & ~Exists(ItemTotals.objects.filter(**met, n_retrieved__gt=0))
    return Q(state="confirmed", created_at__lt=made_before) & unmet


def filter_items(project_id: int, filters: ItemFilter, now: datetime | None) -> "QuerySet[KnowledgeItem]":
    """Return the items that a list is limited to, in no order, without what only searches read of them."""
    items = KnowledgeItem.objects.filter(project_id=project_id).defer("keys", "facets")
    exact = {"state": filters.state, "kind": filters.kind}
    items = items.filter(**{name: word for name, word in exact.items() if word})
    scope = [(name, getattr(filters, name)) for name in ("tool", "mcp_server", "trigger", "topic")]
    if facets := wanted_facets(project_id, scope):
        items = items.filter(facets__contains=facets)
    if filters.suspended is not None:
        items = items.filter(suspended_dynamic=filters.suspended)
    if filters.q:
        in_rule = Q(revisions__number=F("revision"), revisions__proposition__icontains=filters.q)
        in_id = Q(revisions__number=F("revision"), knowledge_id__icontains=filters.q)
        items = items.filter(in_rule | in_id)
    if filters.never_fires and now is not None:
        items = items.filter(never_fires(project_id, now))
    return items


def _with_texts(project_id: int, items: Sequence[KnowledgeItem]) -> list[ItemRow]:
    rows = KnowledgeRevision.objects.filter(item__in=[item.pk for item in items], number=F("item__revision"))
    texts = {revision.item_id: revision for revision in rows}
    counts = use_counts(project_id, [item.knowledge_id for item in items])
    found = []
    for item in items:
        revision = texts[item.pk]
        revision.item = item
        found.append(ItemRow(item, revision, counts.get(item.knowledge_id, UseCounts())))
    return found


def all_drafts(project_id: int) -> Iterator[ItemDraft]:
    """Yield the drafts that would make the project's items again, in the order of their ids."""
    current = KnowledgeRevision.objects.filter(item__project_id=project_id, number=F("item__revision"))
    for revision in current.select_related("item").order_by("item__knowledge_id").iterator(AT_ONCE):
        yield draft_of(revision)
