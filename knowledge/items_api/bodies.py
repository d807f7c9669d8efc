"""What the API tells of an item: its current text and place, its counts, its revisions and history."""

from dataclasses import asdict
from typing import Any, Final

from contract import stages
from ingest.path_ids import segment
from knowledge.item_history import ItemPage
from knowledge.item_queries import ItemRow
from knowledge.item_rows import REVISED_FIELDS
from knowledge.lifecycle import CHANGES
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

ITEMS: Final = "/v1/knowledge/items/"


def row_body(row: ItemRow) -> dict[str, Any]:
    return item_body(row.item, row.revision) | {"counts": asdict(row.counts)}


def item_body(item: KnowledgeItem, revision: KnowledgeRevision) -> dict[str, Any]:
    return {
        "knowledge_id": item.knowledge_id,
        "url": ITEMS + segment(item.knowledge_id),
        "kind": item.kind,
        "language": item.language,
        "state": item.state,
        "state_meaning": stages.ITEM_STATES.get(item.state, item.state),
        "revision": item.revision,
        "suspended_dynamic": item.suspended_dynamic,
        "replaced_by": item.replaced_by,
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
        **{name: getattr(revision, name) for name in REVISED_FIELDS},
    }


def detail_body(page: ItemPage) -> dict[str, Any]:
    return {
        **item_body(page.item, page.revision),
        "counts": asdict(page.counts),
        "live_replacement": page.live_replacement,
        "replaces": list(page.replaces),
        "reached": asdict(page.reached),
        "by_trigger": [{"trigger": one.trigger, **asdict(one.reached)} for one in page.by_trigger],
        "never_fires": page.never_fires,
        "revisions": [revision_body(revision) for revision in page.revisions],
        "history": [change_body(change) for change in page.history],
    }


def revision_body(revision: KnowledgeRevision) -> dict[str, Any]:
    return {
        "number": revision.number,
        "author": revision.author,
        "reason": revision.reason,
        "created_at": revision.created_at.isoformat(),
        **{name: getattr(revision, name) for name in REVISED_FIELDS},
    }


def change_body(change: KnowledgeChange) -> dict[str, Any]:
    return {
        "what": change.what,
        "what_meaning": CHANGES.get(change.what, change.what),
        "from_state": change.from_state,
        "to_state": change.to_state,
        "revision": change.revision,
        "replaced_by": change.replaced_by,
        "run_id": change.evidence_run,
        "supports": change.supports,
        "by": change.by,
        "reason": change.reason,
        "at": change.at.isoformat(),
    }
