"""The list of a project's knowledge: filtered and sorted rows with their counts, one page at a time.

A page is one query over the project's items, one that counts them, and two for what the page's own items say and came
to. (Seed 001 §7, §13.)
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import BigIntegerField, Count, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from contract import stages
from debugger.queries.knowledge_moves import STATE_TONES
from ingest import cursors
from ingest.errors import IngestError
from knowledge.drafts import KINDS
from knowledge.item_queries import NEVER_FIRES_DAYS, ItemFilter, filter_items
from knowledge.models import Candidate, KnowledgeItem, KnowledgeRevision

PAGE: Final = 50  # items on a page
COUNTED: Final = 10_000  # items counted exactly; beyond it the page says "more than"
TEXT_LIMIT: Final = 200  # code points of a filter's text
FLAGS: Final = {"true": True, "false": False}
WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "state": stages.ITEM_STATES,
    "kind": KINDS,
    "suspended": {"true": "kept, not offered at runtime triggers", "false": "offered as its state allows"},
    "fires": {"never": f"confirmed, {NEVER_FIRES_DAYS} days old or more, and met by no search so far"},
}
TEXTS: Final = ("q", "topic", "tool", "mcp_server", "trigger")
# What the list may be sorted by: a word, what it means, the column, and whether the largest comes first.
SORTS: Final[Mapping[str, tuple[str, str, bool]]] = {
    "id": ("sorted by id", "knowledge_id", False),
    "changed": ("last changed", "updated_at", True),
    "offered": ("most offered", "n_offered", True),
    "used": ("most used", "n_used", True),
    "helpful": ("most helpful", "n_helpful", True),
    "harmful": ("most harmful", "n_harmful", True),
}
# How each count is taken of an item's candidates in the runs that are kept, reported or judged.
COUNTS: Final[Mapping[str, Count]] = {
    "n_offered": Count("offered_ns"),
    "n_injected": Count("injected_ns"),
    "n_used": Count("used_ns"),
    "n_helpful": Count("knowledge_id", filter=Q(outcome="helpful")),
    "n_harmful": Count("knowledge_id", filter=Q(outcome="harmful")),
}


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What the list is asked for: the filter of items, and the order."""

    items: ItemFilter
    sort: str = "id"


@dataclass(frozen=True, slots=True)
class ItemLine:
    """One row. All counts are of the runs that are kept."""

    knowledge_id: str
    proposition: str
    state: str
    tone: str
    meaning: str
    kind: str
    is_suspended: bool
    topics: tuple[str, ...]
    scope: tuple[str, ...]
    revision: int
    updated_at: datetime
    n_offered: int
    n_injected: int
    n_used: int
    n_helpful: int
    n_harmful: int


@dataclass(frozen=True, slots=True)
class ItemList:
    """One page. `n_matching` is None beyond COUNTED."""

    lines: tuple[ItemLine, ...]
    next: str | None
    n_matching: int | None


def read_filter(params: Mapping[str, str]) -> ListFilter:
    """Return the filter of the page's URL parameters. Raises IngestError naming the value that cannot be."""
    given = {name: params.get(name, "").strip() for name in (*TEXTS, *WORDS, "sort")}
    for name, words in (*WORDS.items(), ("sort", SORTS)):
        if given[name] and given[name] not in words:
            raise IngestError("invalid_filter", 400, f"{name} must be one of: {', '.join(words)}", field=name)
    for name in TEXTS:
        if len(given[name]) > TEXT_LIMIT or "\x00" in given[name]:
            raise IngestError(
                "invalid_filter", 400, f"{name} must be text of at most {TEXT_LIMIT} characters", field=name
            )
    fires, sort = given.pop("fires"), given.pop("sort")
    suspended = FLAGS.get(given.pop("suspended"))
    return ListFilter(ItemFilter(**given, suspended=suspended, never_fires=bool(fires)), sort or "id")


def list_items(project_id: int, wanted: ListFilter, cursor: str = "") -> ItemList:
    """Return one page of the items that `wanted` asks for. Raises IngestError for a cursor that is none of ours."""
    lines, following = read_items(project_id, wanted, cursor, PAGE)
    if not cursor and following is None:
        return ItemList(lines, None, len(lines))
    n_matching = filter_items(project_id, wanted.items, timezone.now()).order_by()[: COUNTED + 1].count()
    return ItemList(lines, following, n_matching if n_matching <= COUNTED else None)


def read_items(project_id: int, wanted: ListFilter, cursor: str, size: int) -> tuple[tuple[ItemLine, ...], str | None]:
    """Return `size` of the items that `wanted` asks for after `cursor`, and the cursor of the next ones."""
    items = filter_items(project_id, wanted.items, timezone.now())
    _, column, is_falling = SORTS[wanted.sort]
    if column in COUNTS:
        items = items.annotate(**{column: _counted(project_id, column)})
    ordered = items.order_by(F(column).desc() if is_falling else column, "knowledge_id")
    if cursor:
        ordered = ordered.filter(_after(column, is_falling, *_read_cursor(cursor, wanted.sort)))
    rows = list(ordered[: size + 1])
    lines = _lines(project_id, rows[:size])
    if len(rows) <= size:
        return lines, None
    last = rows[size - 1]
    return lines, _make_cursor(wanted.sort, getattr(last, column), last.knowledge_id)


def has_items(project_id: int) -> bool:
    """Tell whether the project has any knowledge."""
    return KnowledgeItem.objects.filter(project_id=project_id).exists()


def _counted(project_id: int, column: str) -> Coalesce:
    own = Candidate.objects.filter(project_id=project_id, knowledge_id=OuterRef("knowledge_id")).order_by()
    counts = own.values("knowledge_id").annotate(number=COUNTS[column]).values("number")
    return Coalesce(Subquery(counts), Value(0), output_field=BigIntegerField())


def _lines(project_id: int, items: Sequence[KnowledgeItem]) -> tuple[ItemLine, ...]:
    """Add to the items of a page their current text and their counts. Two queries."""
    ids = [item.knowledge_id for item in items]
    current = KnowledgeRevision.objects.filter(item__in=items, number=F("item__revision"))
    texts = {revision.item_id: revision for revision in current}
    met = Candidate.objects.filter(project_id=project_id, knowledge_id__in=ids)
    rows: Iterable[Mapping[str, Any]] = met.values("knowledge_id").annotate(**COUNTS)
    counts = {row["knowledge_id"]: {name: row[name] for name in COUNTS} for row in rows}
    none = dict.fromkeys(COUNTS, 0)
    return tuple(_line(item, texts[item.pk], counts.get(item.knowledge_id, none)) for item in items)


def _line(item: KnowledgeItem, text: KnowledgeRevision, counts: Mapping[str, int]) -> ItemLine:
    return ItemLine(
        knowledge_id=item.knowledge_id,
        proposition=text.proposition,
        state=item.state,
        tone=STATE_TONES.get(item.state, ""),
        meaning=stages.ITEM_STATES.get(item.state, item.state),
        kind=item.kind,
        is_suspended=item.suspended_dynamic,
        topics=tuple(text.topics),
        scope=tuple(filter(None, (text.trigger, text.tool, text.mcp_server))),
        revision=item.revision,
        updated_at=item.updated_at,
        **counts,
    )


def _after(column: str, is_falling: bool, value: Any, knowledge_id: str) -> Q:
    if column == "knowledge_id":
        return Q(knowledge_id__gt=knowledge_id)
    further = Q(**{f"{column}__{'lt' if is_falling else 'gt'}": value})
    return further | Q(**{column: value, "knowledge_id__gt": knowledge_id})


def _make_cursor(sort: str, value: Any, knowledge_id: str) -> str:
    told = value.isoformat() if isinstance(value, datetime) else value
    return cursors.pack(json.dumps([sort, told, knowledge_id]))


def _read_cursor(cursor: str, sort: str) -> tuple[Any, str]:
    try:
        of_sort, value, knowledge_id = json.loads(cursors.unpack(cursor))
        if sort == "changed":
            value = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise cursors.bad_cursor() from None
    fits = isinstance(value, {"id": str, "changed": datetime}.get(sort, int)) and isinstance(knowledge_id, str)
    if of_sort != sort or not fits or "\x00" in knowledge_id or (isinstance(value, int) and abs(value) >= 2**63):
        raise cursors.bad_cursor()
    if isinstance(value, datetime) and value.tzinfo is None:
        raise cursors.bad_cursor()
    return value, knowledge_id
