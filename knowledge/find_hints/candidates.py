"""Fetches from PostgreSQL the items a query could match: by index, a bounded number, never all of a project's.

An item is found by its keys, an indexed array: `<project>:t:<term>` for each term it can share, `<project>:s:<start>`
for the first two tokens of each name and phrase that must stand whole. The project is part of the key, so the index
never meets another project's items. Keys only find; a version of FindHints judges.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from django.db import connection
from django.db.models import F

from contract.stages import RETIRED_STATES
from knowledge.find_hints import v2
from knowledge.find_hints.findings import HintQuery, ItemView
from knowledge.models import KnowledgeRevision

MOST: Final = 200  # candidates judged for one query: those with a name or phrase first, then by terms shared
KEY_LIMIT: Final = 200  # code points of a key; an index entry must stay short
MOST_REPLACEMENTS: Final = 5  # steps from a retired item to the live one in its place

_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")  # what PostgreSQL takes for no text

FIND: Final = """
SELECT knowledge_id FROM (
    SELECT item.knowledge_id,
           (SELECT count(*) FROM unnest(item.keys) AS key WHERE key = ANY(%(starts)s::text[])) AS n_starts,
           (SELECT count(*) FROM unnest(item.keys) AS key WHERE key = ANY(%(terms)s::text[])) AS n_terms
    FROM knowledge_knowledgeitem item
    WHERE item.project_id = %(project)s AND item.keys && %(keys)s::text[]
) found
WHERE n_starts > 0 OR n_terms >= %(needed)s
ORDER BY n_starts > 0 DESC, n_terms DESC, n_starts DESC, knowledge_id
LIMIT %(most)s
"""


# field of an ItemView -> where it is stored, seen from a revision
_VIEWED: Final = {
    "knowledge_id": "item__knowledge_id", "revision": "number", "kind": "item__kind", "state": "item__state",
    "proposition": "proposition", "why": "why", "caution": "caution", "trigger": "trigger", "tool": "tool",
    "mcp_server": "mcp_server", "version_scope": "version_scope",
    "entities": "entities", "topics": "topics", "error_examples": "error_examples",
    "suspended": "item__suspended_dynamic", "replaced_by": "item__replaced_by",
}  # fmt: skip
_LISTS: Final = ("entities", "topics", "error_examples")


def item_keys(project_id: int, item: ItemView) -> list[str]:
    """Return the keys by which an item is found."""
    names = (*v2.entities_of(item), *item.topics)
    phrases = [v2.name_of(name).split() for name in names] + [v2.tokens(example) for example in item.error_examples]
    starts = {" ".join(phrase[:2]) for phrase in phrases if phrase}
    return _keys(project_id, starts, v2.terms_of(item))


def query_keys(project_id: int, query: HintQuery) -> tuple[list[str], list[str]]:
    """Return the start keys and the term keys of a query."""
    text = v2.tokens(v2.happened(query))
    names = [v2.name_of(name).split() for name in (*v2.named(query), *query.topics)]
    starts = {*text, *(f"{one} {two}" for one, two in zip(text, text[1:], strict=False))}
    starts |= {" ".join(name[:2]) for name in names if name}
    return _keys(project_id, starts, set()), _keys(project_id, set(), set().union(*v2.lines_of(query)))


def _keys(project_id: int, starts: set[str], terms: set[str]) -> list[str]:
    starts = {_UNSTORABLE.sub("\ufffd", start[:KEY_LIMIT]) for start in starts}
    named = [f"{project_id}:s:{start}" for start in sorted(starts)]
    return named + [f"{project_id}:t:{term[:KEY_LIMIT]}" for term in sorted(terms)]


def fetch(project_id: int, query: HintQuery) -> list[ItemView]:
    """Return the current revisions of at most MOST items that could match the query."""
    starts, terms = query_keys(project_id, query)
    if not starts and not terms:
        return []
    values: dict[str, int | list[str]] = {
        "project": project_id,
        "starts": starts,
        "terms": terms,
        "keys": [*starts, *terms],
        "needed": v2.terms_needed(v2.lines_of(query)),
        "most": MOST,
    }
    with connection.cursor() as cursor:
        cursor.execute(FIND, values)
        ids = [row[0] for row in cursor.fetchall()]
    return load(project_id, ids)


def fetch_replacements(project_id: int, items: Sequence[ItemView]) -> dict[str, ItemView]:
    """Return, for each retired item that has one, the live item in its place: id of the retired -> the live one."""
    pending = {item.knowledge_id: item.replaced_by for item in items if item.replaced_by}
    live: dict[str, ItemView] = {}
    for _ in range(MOST_REPLACEMENTS):
        if not pending:
            break
        loaded = {view.knowledge_id: view for view in load(project_id, sorted(set(pending.values())))}
        steps = {old: loaded[new] for old, new in pending.items() if new in loaded}
        live |= {old: view for old, view in steps.items() if view.state not in RETIRED_STATES}
        pending = {old: view.replaced_by for old, view in steps.items() if old not in live and view.replaced_by}
    return live


def load(project_id: int, knowledge_ids: Iterable[str]) -> list[ItemView]:
    """Return the current revisions of the named items, in no particular order."""
    named = [name for name in knowledge_ids if not _UNSTORABLE.search(name)]
    rows = KnowledgeRevision.objects.filter(
        item__project_id=project_id, item__knowledge_id__in=named, number=F("item__revision")
    ).select_related("item")
    return [view_of(row) for row in rows]


def load_by_pk(item_pks: Iterable[int]) -> dict[int, ItemView]:
    """Return the current revisions of items by their primary keys."""
    rows = KnowledgeRevision.objects.filter(item__in=list(item_pks), number=F("item__revision"))
    views = {}
    for pk, *values in rows.values_list("item_id", *_VIEWED.values()):
        fields = dict(zip(_VIEWED, values, strict=True))
        views[pk] = ItemView(**{**fields, **{name: tuple(fields[name]) for name in _LISTS}})
    return views


def view_of(revision: KnowledgeRevision) -> ItemView:
    item = revision.item
    return ItemView(
        knowledge_id=item.knowledge_id,
        revision=revision.number,
        kind=item.kind,
        state=item.state,
        proposition=revision.proposition,
        why=revision.why,
        caution=revision.caution,
        trigger=revision.trigger,
        tool=revision.tool,
        mcp_server=revision.mcp_server,
        version_scope=revision.version_scope,
        entities=tuple(revision.entities),
        topics=tuple(revision.topics),
        error_examples=tuple(revision.error_examples),
        suspended=item.suspended_dynamic,
        replaced_by=item.replaced_by,
    )
