"""Makes the rows of items as the write path writes them, ready for COPY, in processes of its own."""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.hints_items import Maker, source
from knowledge.drafts import ItemDraft
from knowledge.facets import facets_of
from knowledge.find_hints.candidates import item_keys
from knowledge.find_hints.findings import ItemView
from knowledge.find_hints.v3.bags import write_bag
from knowledge.find_hints.v3.index import index_item, text_of

ITEM = ("id", "project_id", "knowledge_id", "kind", "state", "revision", "suspended_dynamic", "language", "keys",
        "facets")  # fmt: skip
REVISION = ("id", "item_id", "number", "proposition", "why", "verify", "caution", "trigger", "tool", "mcp_server",
            "version_scope", "entities", "topics", "error_examples", "evidence", "author", "reason")  # fmt: skip
SEARCH = ("item_id", "project_id", "revision", "keys", "bag")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of some items. `counts`: term -> in how many of them; `bases`: what each was varied from."""

    items: list[Row]
    revisions: list[Row]
    searches: list[Row]
    counts: Counter[str]
    bases: list[int]


@cache
def maker(seed: str) -> Maker:
    return Maker(_source(), seed)


@cache
def _source() -> Any:
    return source()


def view_of(draft: ItemDraft) -> ItemView:
    """Return the first revision of an item as the search sees it."""
    shared = ("knowledge_id", "kind", "state", "proposition", "why", "caution", "trigger", "tool", "mcp_server",
              "entities", "topics", "error_examples")  # fmt: skip
    return ItemView(revision=1, **{name: getattr(draft, name) for name in shared})


def text(seed: str, number: int, base_number: int | None) -> tuple[str, int]:
    """Return the text of an item that would be embedded, and what the item was varied from."""
    draft, base = maker(seed).item(number, base_number)
    return text_of(view_of(draft)), base


def block(given: tuple[str, int, int, int, int]) -> Block:
    """Return the rows of the items `first` to `end` of a project; the primary key of number 0 is `pk_0`."""
    seed, project_id, pk_0, first, end = given
    made = Block([], [], [], Counter(), [])
    for number in range(first, end):
        draft, base = maker(seed).item(number)
        _add(made, project_id, pk_0 + number, draft)
        made.bases.append(base)
    return made


def _add(made: Block, project_id: int, pk: int, draft: ItemDraft) -> None:
    view = view_of(draft)
    indexed = index_item(project_id, view)
    made.counts.update(["", *indexed.bag])
    made.searches.append((pk, project_id, 1, list(indexed.keys), write_bag(indexed.bag)))
    made.items.append(
        (pk, project_id, draft.knowledge_id, draft.kind, draft.state, 1, False, draft.language,
         item_keys(project_id, view), facets_of(project_id, draft))
    )  # fmt: skip
    lists = [json.dumps(one) for one in (draft.entities, draft.topics, draft.error_examples, draft.evidence)]
    made.revisions.append(
        (pk, pk, 1, draft.proposition, draft.why, draft.verify, draft.caution, draft.trigger, draft.tool,
         draft.mcp_server, draft.version_scope, *lists, "bench", "made for a measurement")
    )  # fmt: skip
