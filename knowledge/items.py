"""THE write path of knowledge items: create, revise, change state, suspend, import. Revisions are never changed.

The lifecycle is a table; what it does not allow raises and changes nothing. Hints never change an item. Each
lifecycle change is kept as a row with who and why. (Seed 001 §4.2, §7.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from django.db import transaction
from django.utils import timezone

from contract import stages
from ingest.models import Project
from knowledge.drafts import LIST_FIELDS, NEEDS_REPLACEMENT, ItemDraft, KnowledgeError, check_draft
from knowledge.find_hints.candidates import item_keys, view_of
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

TRANSITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "proposed": ("confirmed", "challenged", "invalidated", "superseded", "corrected"),
    "confirmed": ("challenged", "at_risk", "invalidated", "superseded", "corrected"),
    "challenged": ("confirmed", "at_risk", "invalidated", "superseded", "corrected"),
    "at_risk": ("confirmed", "challenged", "invalidated", "superseded", "corrected"),
    "invalidated": (),
    "superseded": (),
    "corrected": (),
}
REVISED_FIELDS: Final = (
    "proposition", "why", "verify", "caution", "trigger", "tool", "mcp_server", "version_scope",
    "entities", "topics", "error_examples", "evidence",
)  # fmt: skip
# What an import compares of an item it finds: where an item stands in its lifecycle is the store's to say.
LIFECYCLE_FIELDS: Final = ("state", "suspended_dynamic", "replaced_by")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many items an import made, revised and found unchanged."""

    created: int
    revised: int
    unchanged: int


@transaction.atomic
def create_item(project: Project, draft: ItemDraft, *, by: str, reason: str) -> KnowledgeItem:
    """Make an item with revision 1. Raises KnowledgeError when its id is taken or the draft is not in order."""
    if draft.replaced_by:
        _check_replacement(project, draft.knowledge_id, draft.replaced_by)
    return _create(project, draft, by, reason)


def _create(project: Project, draft: ItemDraft, by: str, reason: str) -> KnowledgeItem:
    check_draft(draft)
    _require_reason(reason)
    item, created = KnowledgeItem.objects.get_or_create(
        project=project,
        knowledge_id=draft.knowledge_id,
        defaults={
            "kind": draft.kind,
            "state": draft.state,
            "language": draft.language,
            "suspended_dynamic": draft.suspended_dynamic,
            "replaced_by": draft.replaced_by or None,
        },
    )
    if not created:
        raise KnowledgeError(f"knowledge_id {draft.knowledge_id} is taken; revise that item instead")
    _write_revision(item, draft, by, reason)
    KnowledgeChange.objects.create(item=item, from_state=None, to_state=draft.state, by=by, reason=reason)
    return item


@transaction.atomic
def revise_item(project: Project, draft: ItemDraft, *, by: str, reason: str) -> KnowledgeItem:
    """Add a revision with the draft's text; where the item stands in its lifecycle is not touched.

    Raises KnowledgeError for an unknown or retired item and for a draft that is not in order.
    """
    check_draft(draft)
    _require_reason(reason)
    item = _locked(project, draft.knowledge_id)
    if item.state in stages.RETIRED_STATES:
        raise KnowledgeError(f"{item.knowledge_id} is {item.state}: a retired item is not revised; make a new one")
    item.revision += 1
    item.kind, item.language = draft.kind, draft.language
    _write_revision(item, draft, by, reason)
    return item


@transaction.atomic
def change_state(
    project: Project, knowledge_id: str, to_state: str, *, by: str, reason: str, replaced_by: str | None = None
) -> KnowledgeItem:
    """Move an item along its lifecycle. Raises KnowledgeError for a move the table does not allow.

    `superseded` and `corrected` need `replaced_by`: the id of a live item of the same project.
    """
    _require_reason(reason)
    item = _locked(project, knowledge_id)
    if to_state not in TRANSITIONS[item.state]:
        allowed = ", ".join(TRANSITIONS[item.state]) or "nothing: it is retired"
        raise KnowledgeError(f"{knowledge_id} is {item.state}; it may become {allowed}")
    if to_state in NEEDS_REPLACEMENT:
        _check_replacement(project, knowledge_id, replaced_by or "")
    elif replaced_by is not None:
        raise KnowledgeError(f"replaced_by is only for {' and '.join(NEEDS_REPLACEMENT)}; leave it out")
    KnowledgeChange.objects.create(item=item, from_state=item.state, to_state=to_state, by=by, reason=reason)
    item.state, item.replaced_by, item.updated_at = to_state, replaced_by, timezone.now()
    item.save(update_fields=["state", "replaced_by", "updated_at"])
    return item


@transaction.atomic
def suspend_item(project: Project, knowledge_id: str, suspended: bool, *, by: str, reason: str) -> KnowledgeItem:
    """Keep an item from being offered at runtime triggers, or let it be again; its state stays.

    Raises KnowledgeError for an unknown item or a missing reason.
    """
    _require_reason(reason)
    item = _locked(project, knowledge_id)
    if item.suspended_dynamic == suspended:
        return item
    word = "suspended from runtime offers" if suspended else "offered at runtime triggers again"
    KnowledgeChange.objects.create(
        item=item, from_state=item.state, to_state=item.state, by=by, reason=f"{word}: {reason}"
    )
    item.suspended_dynamic, item.updated_at = suspended, timezone.now()
    item.save(update_fields=["suspended_dynamic", "updated_at"])
    return item


@transaction.atomic
def import_items(project: Project, drafts: Iterable[ItemDraft], *, by: str, reason: str = "import") -> ImportResult:
    """Create what is new, revise what differs, leave the rest: all of it or nothing; a second time changes nothing.

    An item that exists keeps its place in the lifecycle. Raises KnowledgeError as create_item and revise_item do.
    """
    created = revised = unchanged = 0
    replacements: dict[str, str] = {}
    for draft in drafts:
        current = _current(project, draft.knowledge_id)
        if current is None:
            _create(project, draft, by, reason)
            replacements |= {draft.knowledge_id: draft.replaced_by} if draft.replaced_by else {}
            created += 1
        elif _same_text(current, draft):
            unchanged += 1
        else:
            revise_item(project, _with_lifecycle_of(current, draft), by=by, reason=reason)
            revised += 1
    # Only now, because an item may name one that stands further down.
    for knowledge_id, replaced_by in replacements.items():
        if not KnowledgeItem.objects.filter(project=project, knowledge_id=replaced_by).exists():
            raise KnowledgeError(f"{knowledge_id}: replaced_by names no item of this project; import that one too")
    return ImportResult(created, revised, unchanged)


def draft_of(revision: KnowledgeRevision) -> ItemDraft:
    """Return the draft that would make this revision's item again, for export."""
    item = revision.item
    text = {name: getattr(revision, name) for name in REVISED_FIELDS}
    text.update({name: tuple(text[name]) for name in LIST_FIELDS})
    return ItemDraft(
        knowledge_id=item.knowledge_id,
        kind=item.kind,
        state=item.state,
        language=item.language,
        suspended_dynamic=item.suspended_dynamic,
        replaced_by=item.replaced_by or "",
        **text,
    )


def _current(project: Project, knowledge_id: str) -> KnowledgeRevision | None:
    item = KnowledgeItem.objects.filter(project=project, knowledge_id=knowledge_id).first()
    if item is None:
        return None
    return KnowledgeRevision.objects.select_related("item").get(item=item, number=item.revision)


def _with_lifecycle_of(current: KnowledgeRevision, draft: ItemDraft) -> ItemDraft:
    kept = draft_of(current)
    return replace(draft, state=kept.state, suspended_dynamic=kept.suspended_dynamic, replaced_by=kept.replaced_by)


def _same_text(current: KnowledgeRevision, draft: ItemDraft) -> bool:
    kept = asdict(draft_of(current))
    return all(kept[name] == value for name, value in asdict(draft).items() if name not in LIFECYCLE_FIELDS)


def _locked(project: Project, knowledge_id: str) -> KnowledgeItem:
    item = KnowledgeItem.objects.select_for_update().filter(project=project, knowledge_id=knowledge_id).first()
    if item is None:
        raise KnowledgeError(f"this project has no item {knowledge_id}")
    return item


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise KnowledgeError("reason is required: say why the item changes")


def _check_replacement(project: Project, knowledge_id: str, replaced_by: str) -> None:
    others = KnowledgeItem.objects.filter(project=project, knowledge_id=replaced_by).exclude(knowledge_id=knowledge_id)
    if not others.exclude(state__in=stages.RETIRED_STATES).exists():
        raise KnowledgeError("replaced_by must name another item of this project that is not retired")


def _write_revision(item: KnowledgeItem, draft: ItemDraft, by: str, reason: str) -> None:
    """Write the revision the item counts as its current one, and the keys FindHints finds it by."""
    text = {name: getattr(draft, name) for name in REVISED_FIELDS}
    text.update({name: list(text[name]) for name in LIST_FIELDS})
    revision = KnowledgeRevision.objects.create(item=item, number=item.revision, author=by, reason=reason, **text)
    item.keys = item_keys(item.project_id, view_of(revision))
    item.updated_at = timezone.now()
    item.save(update_fields=["kind", "language", "revision", "keys", "updated_at"])
