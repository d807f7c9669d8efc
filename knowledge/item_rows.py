"""How the rows of items are locked and written; `items.py` decides which and when, and nobody else calls this.

Each writer locks in one order, so that no two lock crosswise, and writes the history row of what it does.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from contract import stages
from ingest.models import Project
from knowledge.drafts import LIST_FIELDS, ItemDraft, KnowledgeConflict, KnowledgeError, KnowledgeUnknown
from knowledge.facets import facets_of
from knowledge.find_hints.candidates import item_keys, view_of
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

REVISED_FIELDS: Final = (
    "proposition", "why", "verify", "caution", "trigger", "tool", "mcp_server", "version_scope",
    "entities", "topics", "error_examples", "evidence",
)  # fmt: skip
AT_ONCE: Final = 500  # rows of one statement


def create_rows(project: Project, drafts: Sequence[ItemDraft], by: str, reason: str) -> list[KnowledgeItem]:
    items = [
        KnowledgeItem(
            project=project, knowledge_id=draft.knowledge_id, kind=draft.kind, state=draft.state,
            language=draft.language, suspended_dynamic=draft.suspended_dynamic, replaced_by=draft.replaced_by or None,
        )
        for draft in drafts
    ]  # fmt: skip
    revisions = [_fill(item, draft, by, reason) for item, draft in zip(items, drafts, strict=True)]
    try:
        with transaction.atomic():
            KnowledgeItem.objects.bulk_create(items, batch_size=AT_ONCE)
    except IntegrityError as error:
        if "knowledge_item_unique" not in str(error):
            raise
        # Found free a moment ago: another write made it meanwhile.
        if len(items) == 1:
            raise taken(items[0].knowledge_id) from None
        raise KnowledgeConflict("another write made one of these items meanwhile; import them again") from None
    _write_revision(revisions)
    write_history(items, "created", by, reason)
    return items


def revise_rows(
    drafts: Sequence[tuple[KnowledgeItem, ItemDraft]], by: str, reason: str, run_id: str | None = None
) -> None:
    revisions = []
    for item, draft in drafts:
        item.revision += 1
        item.kind, item.language = draft.kind, draft.language
        revisions.append(_fill(item, draft, by, reason))
        save(item, "kind", "language", "revision", "keys", "facets")
    _write_revision(revisions)
    write_history([item for item, _ in drafts], "revised", by, reason, evidence_run=run_id)


def _fill(item: KnowledgeItem, draft: ItemDraft, by: str, reason: str) -> KnowledgeRevision:
    """Return the revision that the item counts as its current one, and give the item what it is found by."""
    text: dict[str, Any] = {name: getattr(draft, name) for name in REVISED_FIELDS}
    text.update({name: list(text[name]) for name in LIST_FIELDS})
    revision = KnowledgeRevision(item=item, number=item.revision, author=by, reason=reason, **text)
    item.keys = item_keys(item.project_id, view_of(revision))
    item.facets = facets_of(item.project_id, draft)
    return revision


def _write_revision(revisions: Sequence[KnowledgeRevision]) -> None:
    KnowledgeRevision.objects.bulk_create(revisions, batch_size=AT_ONCE)


def save(item: KnowledgeItem, *fields: str) -> None:
    item.updated_at = timezone.now()
    item.save(update_fields=[*fields, "updated_at"])


def write_history(items: Sequence[KnowledgeItem], what: str, by: str, reason: str, **told: Any) -> None:
    """Write one row of history for each item, as it stands after the change."""
    rows = []
    for item in items:
        before = None if what == "created" else item.state
        rest = {"from_state": before, "replaced_by": item.replaced_by if what == "created" else None, **told}
        row = KnowledgeChange(
            item=item, what=what, to_state=item.state, revision=item.revision, by=by, reason=reason, **rest
        )
        rows.append(row)
    KnowledgeChange.objects.bulk_create(rows, batch_size=AT_ONCE)


def lead_on(items: Sequence[KnowledgeItem], replaced_by: str, by: str, reason: str) -> None:
    for item in items:
        item.replaced_by = replaced_by
        save(item, "replaced_by")
    write_history(items, "replacement", by, reason, replaced_by=replaced_by)


def lock_item(project: Project, knowledge_id: str) -> KnowledgeItem:
    return named(lock_items(project, Q(knowledge_id=knowledge_id)), knowledge_id)


def lock_items(project: Project, which: Q) -> list[KnowledgeItem]:
    """Lock items in one order everywhere, so that no two writers lock crosswise."""
    return list(KnowledgeItem.objects.select_for_update().filter(which, project=project).order_by("knowledge_id"))


def lock_live(project: Project, knowledge_id: str, replaced_by: str) -> None:
    if replaced_by == knowledge_id:
        raise KnowledgeError("replaced_by must name another item", field="replaced_by")
    check_live(lock_items(project, Q(knowledge_id=replaced_by)), replaced_by)


def named(items: Iterable[KnowledgeItem], knowledge_id: str) -> KnowledgeItem:
    item = next((item for item in items if item.knowledge_id == knowledge_id), None)
    if item is None:
        raise KnowledgeUnknown(f"this project has no item {knowledge_id}", field="knowledge_id")
    return item


def check_live(items: Iterable[KnowledgeItem], knowledge_id: str) -> None:
    other = next((item for item in items if item.knowledge_id == knowledge_id), None)
    if other is None or other.state in stages.RETIRED_STATES:
        told = "replaced_by must name another item of this project that is not retired"
        raise KnowledgeError(told, field="replaced_by")


def taken(knowledge_id: str) -> KnowledgeConflict:
    return KnowledgeConflict(f"knowledge_id {knowledge_id} is taken; revise that item instead", field="knowledge_id")
