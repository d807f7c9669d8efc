"""THE write path of knowledge items: create, revise, change state, suspend, add evidence, import.

Revisions are never changed, and each change of an item is one row of its history: what, from where to where, by whom
and why. The lifecycle is a table (`lifecycle.py`); what it does not allow raises and changes nothing. Hints never
change an item. (Seed 001 §4.2, §7.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q

from ingest.models import Project
from knowledge import projection, search_rows
from knowledge.drafts import (
    ID_LIMIT,
    LIST_FIELDS,
    ItemDraft,
    KnowledgeError,
    check_draft,
    check_text,
    check_words,
)
from knowledge.item_rows import (
    AT_ONCE,
    REVISED_FIELDS,
    check_live,
    create_rows,
    lead_on,
    lock_item,
    lock_items,
    lock_live,
    named,
    revise_rows,
    save,
    taken,
    write_history,
)
from knowledge.lifecycle import (
    MOST_STEPS,
    TRANSITIONS,
    check_chains,
    check_move,
    check_not_retired,
    check_revision,
)
from knowledge.models import KnowledgeItem, KnowledgeRevision

__all__ = [
    "TRANSITIONS", "ImportResult", "add_evidence", "change_state", "create_item", "draft_of", "import_items",
    "revise_item", "suspend_item",
]  # fmt: skip

# What an import compares of an item it finds: where an item stands in its lifecycle is the store's to say.
LIFECYCLE_FIELDS: Final = ("state", "suspended_dynamic", "replaced_by")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many items an import made, revised and found unchanged; the ids of those it made and revised."""

    created: int
    revised: int
    unchanged: int
    created_ids: tuple[str, ...] = ()
    revised_ids: tuple[str, ...] = ()


@transaction.atomic
def create_item(project: Project, draft: ItemDraft, *, by: str, reason: str) -> KnowledgeItem:
    """Make an item with revision 1. Raises KnowledgeError when its id is taken or the draft is not in order."""
    check_words(by, reason)
    check_draft(draft)
    if draft.replaced_by:
        lock_live(project, draft.knowledge_id, draft.replaced_by)
    if KnowledgeItem.objects.filter(project=project, knowledge_id=draft.knowledge_id).exists():
        raise taken(draft.knowledge_id)
    (item,) = create_rows(project, [draft], by, reason)
    _changed(project.pk, [item])
    return item


@transaction.atomic
def revise_item(
    project: Project,
    draft: ItemDraft,
    *,
    by: str,
    reason: str,
    expected_revision: int | None = None,
    run_id: str | None = None,
) -> KnowledgeItem:
    """Add a revision with the draft's text; where the item stands in its lifecycle is not touched.

    Raises KnowledgeError for an unknown or retired item, for a draft that is not in order, and when the item is no
    longer at `expected_revision`, the one that was read. `run_id` names the run that is the reason's evidence.
    """
    check_words(by, reason)
    check_draft(draft)
    _check_run(run_id)
    item = lock_item(project, draft.knowledge_id)
    check_revision(item.knowledge_id, item.revision, expected_revision)
    check_not_retired(item.knowledge_id, item.state)
    revise_rows([(item, draft)], by, reason, run_id)
    _changed(project.pk, [item])
    return item


@transaction.atomic
def change_state(
    project: Project,
    knowledge_id: str,
    to_state: str,
    *,
    by: str,
    reason: str,
    replaced_by: str | None = None,
    expected_revision: int | None = None,
    run_id: str | None = None,
) -> KnowledgeItem:
    """Move an item along its lifecycle. Raises KnowledgeError for a move the table does not allow.

    `superseded` and `corrected` need `replaced_by`: the id of a live item of the same project. Items that this one had
    replaced lead to the new one from now on, so that chains stay short and end at what is live.
    """
    check_words(by, reason)
    _check_run(run_id)
    check_text("replaced_by", replaced_by or "", ID_LIMIT)
    near = Q(knowledge_id__in=[knowledge_id, replaced_by or knowledge_id]) | Q(replaced_by=knowledge_id)
    found = lock_items(project, near)
    item = named(found, knowledge_id)
    check_revision(knowledge_id, item.revision, expected_revision)
    check_move(knowledge_id, item.state, to_state, replaced_by)
    led_on = []
    if replaced_by is not None:
        check_live(found, replaced_by)
        led_on = [one for one in found if one.replaced_by == knowledge_id]
        lead_on(led_on, replaced_by, by, reason)
    before, item.state, item.replaced_by = item.state, to_state, replaced_by
    save(item, "state", "replaced_by")
    write_history([item], "state", by, reason, from_state=before, replaced_by=replaced_by, evidence_run=run_id)
    _changed(project.pk, [item, *led_on])
    return item


@transaction.atomic
def suspend_item(
    project: Project,
    knowledge_id: str,
    suspended: bool,
    *,
    by: str,
    reason: str,
    expected_revision: int | None = None,
    run_id: str | None = None,
) -> KnowledgeItem:
    """Keep an item from being offered at runtime triggers, or let it be again; its state stays.

    What is so already is no change. Raises KnowledgeError for an unknown item or a missing reason.
    """
    check_words(by, reason)
    _check_run(run_id)
    item = lock_item(project, knowledge_id)
    check_revision(knowledge_id, item.revision, expected_revision)
    if item.suspended_dynamic == suspended:
        return item
    item.suspended_dynamic = suspended
    save(item, "suspended_dynamic")
    write_history([item], "suspended" if suspended else "resumed", by, reason, evidence_run=run_id)
    _changed(project.pk, [item])
    return item


@transaction.atomic
def add_evidence(
    project: Project,
    knowledge_id: str,
    run_id: str,
    supports: bool,
    *,
    note: str,
    by: str,
    expected_revision: int | None = None,
) -> KnowledgeItem:
    """Keep in the item's history that a run speaks for it or against it. It moves nothing: that is a curator's to do.

    The same said again of the same revision is no change. Raises KnowledgeError for an unknown item or no note.
    """
    check_words(by, note, "note")
    _check_run(run_id)
    item = lock_item(project, knowledge_id)
    check_revision(knowledge_id, item.revision, expected_revision)
    said = {"what": "evidence", "evidence_run": run_id, "supports": supports, "reason": note, "by": by}
    if not item.changes.filter(revision=item.revision, **said).exists():
        write_history([item], "evidence", by, note, evidence_run=run_id, supports=supports)
        projection.bump(project.pk)
    return item


@transaction.atomic
def import_items(project: Project, drafts: Iterable[ItemDraft], *, by: str, reason: str = "import") -> ImportResult:
    """Create what is new, revise what differs, leave the rest: all of it or nothing; a second time changes nothing.

    An item that exists keeps its place in the lifecycle. Raises KnowledgeError as create_item and revise_item do, and
    for an id that comes twice.
    """
    check_words(by, reason)
    # In one order everywhere, so that no two imports lock crosswise.
    ordered = sorted(drafts, key=lambda draft: draft.knowledge_id)
    for one, other in zip(ordered, ordered[1:], strict=False):
        if one.knowledge_id == other.knowledge_id:
            raise KnowledgeError(f"{one.knowledge_id} comes twice; leave one of them out", field="knowledge_id")
    for draft in ordered:
        check_draft(draft)
    known = _current(project, [draft.knowledge_id for draft in ordered])
    differing = {
        draft.knowledge_id: draft
        for draft in ordered
        if draft.knowledge_id in known and not _same_text(known[draft.knowledge_id], draft)
    }
    new = [draft for draft in ordered if draft.knowledge_id not in known]
    revised = lock_items(project, Q(knowledge_id__in=list(differing))) if differing else []
    for item in revised:
        check_not_retired(item.knowledge_id, item.state)
    revise_rows([(item, differing[item.knowledge_id]) for item in revised], by, reason)
    created = create_rows(project, new, by, reason)
    _check_imported_chains(project, new)
    if created or revised:
        _changed(project.pk, [*created, *revised])
    return ImportResult(
        len(new), len(revised), len(ordered) - len(new) - len(revised),
        tuple(item.knowledge_id for item in created), tuple(item.knowledge_id for item in revised),
    )  # fmt: skip


def draft_of(revision: KnowledgeRevision) -> ItemDraft:
    """Return the draft that would make this revision's item again, for export."""
    item = revision.item
    text: dict[str, Any] = {name: getattr(revision, name) for name in REVISED_FIELDS}
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


def _changed(project_id: int, items: Sequence[KnowledgeItem]) -> None:
    """Announce, once in each writing transaction and last of all, that items have another current revision or state.

    THE place for whatever is derived from an item as it stands now: it sees the rows as they will be committed.
    """
    search_rows.refresh(project_id, items)
    projection.bump(project_id)


def _check_run(run_id: str | None) -> None:
    if run_id is not None:
        if not run_id.strip():
            raise KnowledgeError("run_id must not be empty; leave it out when no run shows it", field="run_id")
        check_text("run_id", run_id, ID_LIMIT)


def _current(project: Project, knowledge_ids: Sequence[str]) -> dict[str, KnowledgeRevision]:
    found = {}
    for start in range(0, len(knowledge_ids), AT_ONCE):
        some = knowledge_ids[start : start + AT_ONCE]
        rows = KnowledgeRevision.objects.filter(
            item__project=project, item__knowledge_id__in=some, number=F("item__revision")
        )
        found.update({row.item.knowledge_id: row for row in rows.select_related("item")})
    return found


def _same_text(current: KnowledgeRevision, draft: ItemDraft) -> bool:
    kept = asdict(draft_of(current))
    return all(kept[name] == value for name, value in asdict(draft).items() if name not in LIFECYCLE_FIELDS)


def _check_imported_chains(project: Project, drafts: Sequence[ItemDraft]) -> None:
    """Check where imported replacements lead; only after all are written, for one may name one further down."""
    chain = {draft.knowledge_id: draft.replaced_by for draft in drafts if draft.replaced_by}
    named = set(chain.values())
    for _ in range(MOST_STEPS):
        rows = KnowledgeItem.objects.filter(project=project, knowledge_id__in=named)
        found = dict(rows.values_list("knowledge_id", "replaced_by"))
        missing = sorted(named - set(found))
        if missing:
            first = min(old for old, new in chain.items() if new == missing[0])
            told = f"{first}: replaced_by names no item of this project; import that one too"
            raise KnowledgeError(told, field="replaced_by")
        chain |= {old: new for old, new in found.items() if new}
        named = {new for new in found.values() if new}
        if not named:
            break
    check_chains(chain)
