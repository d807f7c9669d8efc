"""The write path of items: lifecycle, immutable revisions, imports that change nothing the second time."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from contract.stages import ITEM_STATES
from ingest.models import Project
from knowledge.drafts import ItemDraft, KnowledgeError, parse_draft
from knowledge.items import (
    TRANSITIONS,
    change_state,
    create_item,
    import_items,
    revise_item,
    suspend_item,
)
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

RULE = "When the flux overheats run `cool`."
MOVES = [(one, other) for one in ITEM_STATES for other in ITEM_STATES]


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def draft(knowledge_id: str = "k-1", **fields: Any) -> ItemDraft:
    return ItemDraft(**{"knowledge_id": knowledge_id, "proposition": RULE, **fields})


def create(project: Project, knowledge_id: str = "k-1", **fields: Any) -> KnowledgeItem:
    return create_item(project, draft(knowledge_id, **fields), by="ada", reason="seen twice")


def snapshot() -> list[Any]:
    """Everything the write path can change."""
    return [
        list(model.objects.order_by("pk").values()) for model in (KnowledgeItem, KnowledgeRevision, KnowledgeChange)
    ]


def test_creating_writes_the_first_revision_and_the_first_change(project: Project) -> None:
    """A new item has revision 1, says who made it and why, and has keys of its own project."""
    item = create(project, entities=("flux",))
    (revision,) = KnowledgeRevision.objects.all()
    (change,) = KnowledgeChange.objects.all()
    assert (revision.number, revision.author, revision.reason) == (1, "ada", "seen twice")
    assert (change.from_state, change.to_state, change.by, change.reason) == (None, "proposed", "ada", "seen twice")
    assert item.keys
    assert all(key.startswith(f"{project.pk}:") for key in item.keys)


def test_revising_adds_a_revision_and_leaves_the_old_one(project: Project) -> None:
    """The text of revision 1 stays as it was; the state does not move."""
    create(project, state="confirmed")
    before = KnowledgeRevision.objects.values().get()
    item = revise_item(project, draft(proposition="Run `cool --fast`."), by="bob", reason="faster")
    assert KnowledgeRevision.objects.filter(number=1).values().get() == before
    assert (item.revision, item.state) == (2, "confirmed")
    assert KnowledgeRevision.objects.get(number=2).proposition == "Run `cool --fast`."


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_lifecycle_follows_the_table(project: Project, before: str, after: str) -> None:
    """Each allowed move is made and kept with who and why; each other one raises and changes nothing."""
    create(project, "live")
    replaced = "live" if before in ("superseded", "corrected") else ""
    create(project, state=before, replaced_by=replaced)
    by = "live" if after in ("superseded", "corrected") else None
    state = snapshot()
    if after in TRANSITIONS[before]:
        item = change_state(project, "k-1", after, by="bob", reason="evidence", replaced_by=by)
        change = KnowledgeChange.objects.latest("pk")
        assert (item.state, item.replaced_by) == (after, by)
        assert (change.from_state, change.to_state, change.by, change.reason) == (before, after, "bob", "evidence")
    else:
        with pytest.raises(KnowledgeError, match="may become"):
            change_state(project, "k-1", after, by="bob", reason="evidence", replaced_by=by)
        assert snapshot() == state


def test_changes_that_are_not_allowed_change_nothing(project: Project) -> None:
    """No reason, no replacement, a foreign or retired replacement, a retired or unknown item: refused."""
    other = Project.objects.create(slug="beta", name="Beta")
    create(project)
    create(project, "gone", state="invalidated")
    create(other, "foreign")
    state = snapshot()
    move: dict[str, Any] = {"by": "bob", "reason": "why"}
    attempts = [
        lambda: change_state(project, "k-1", "confirmed", by="bob", reason=" "),
        lambda: change_state(project, "k-1", "superseded", **move),
        lambda: change_state(project, "k-1", "superseded", replaced_by="k-1", **move),
        lambda: change_state(project, "k-1", "superseded", replaced_by="gone", **move),
        lambda: change_state(project, "k-1", "superseded", replaced_by="foreign", **move),
        lambda: change_state(project, "k-1", "confirmed", replaced_by="gone", **move),
        lambda: change_state(project, "foreign", "confirmed", **move),
        lambda: revise_item(project, draft("gone"), **move),
        lambda: revise_item(project, draft("unknown"), **move),
        lambda: create(project),
        lambda: suspend_item(project, "k-1", True, by="bob", reason=""),
    ]
    for attempt in attempts:
        with pytest.raises(KnowledgeError):
            attempt()
        assert snapshot() == state


def test_suspending_is_kept_as_a_change(project: Project) -> None:
    """Suspension has who and why, and doing it twice is one change."""
    create(project, state="confirmed")
    for _ in range(2):
        item = suspend_item(project, "k-1", True, by="bob", reason="harms")
    assert item.suspended_dynamic
    assert KnowledgeChange.objects.count() == 2
    assert "harms" in KnowledgeChange.objects.latest("pk").reason


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ([], "JSON object"),
        ({"knowledge_id": "k"}, "proposition"),
        ({"knowledge_id": "k", "proposition": " "}, "proposition"),
        ({"knowledge_id": "k", "proposition": "x" * 481}, "120"),
        ({"knowledge_id": "k", "proposition": RULE, "colour": "red"}, "colour"),
        ({"knowledge_id": "k", "proposition": RULE, "state": "great"}, "state"),
        ({"knowledge_id": "k", "proposition": RULE, "kind": "guess"}, "kind"),
        ({"knowledge_id": "k", "proposition": RULE, "trigger": "moon"}, "trigger"),
        ({"knowledge_id": "k", "proposition": RULE, "entities": "git"}, "entities"),
        ({"knowledge_id": "k", "proposition": RULE, "why": 1}, "why"),
        ({"knowledge_id": "k", "proposition": RULE, "suspended_dynamic": "no"}, "suspended_dynamic"),
        ({"knowledge_id": "k", "proposition": RULE, "state": "superseded"}, "replaced_by"),
        ({"knowledge_id": "k" * 201, "proposition": RULE}, "knowledge_id"),
        ({"knowledge_id": "k", "proposition": "nul \x00"}, "NUL"),
        ({"knowledge_id": "k", "proposition": "use ghp_" + "a1B2" * 9}, "secret"),
    ],
)
def test_drafts_are_checked(raw: object, word: str) -> None:
    """What is wrong with a draft is said with the name of the field."""
    with pytest.raises(KnowledgeError, match=word):
        parse_draft(raw)


def test_importing_twice_changes_nothing(project: Project) -> None:
    """The first import creates, the second finds all unchanged; a changed text becomes a revision."""
    drafts = [draft("a", state="confirmed"), draft("b", proposition="Run `b`.")]
    assert import_items(project, drafts, by="ada").created == 2
    state = snapshot()
    assert import_items(project, drafts, by="ada").unchanged == 2
    assert snapshot() == state
    result = import_items(project, [draft("a", proposition="Run `a2`.", state="proposed")], by="ada")
    assert (result.created, result.revised, result.unchanged) == (0, 1, 0)
    item = KnowledgeItem.objects.get(knowledge_id="a")
    assert (item.revision, item.state) == (2, "confirmed")


def test_import_is_all_or_nothing(project: Project) -> None:
    """One item that cannot be written takes the whole import back."""
    state = snapshot()
    with pytest.raises(KnowledgeError, match="replaced_by"):
        import_items(project, [draft("a"), draft("b", state="superseded", replaced_by="nowhere")], by="ada")
    assert snapshot() == state


def test_export_and_import_give_the_same_items(project: Project, tmp_path: Path) -> None:
    """What one project exports another imports, lifecycle and replacements included."""
    create(project, "old", state="superseded", replaced_by=create(project, "mid").knowledge_id)
    create(project, "new", entities=("flux",), error_examples=("flux: too hot",))
    change_state(project, "mid", "superseded", by="ada", reason="newer", replaced_by="new")
    suspend_item(project, "new", True, by="ada", reason="noise")
    other = Project.objects.create(slug="beta", name="Beta")
    file = tmp_path / "items.jsonl"
    file.write_text(export("alpha"))
    call_command("import_knowledge", str(file), project="beta", verbosity=0)
    assert export("beta") == export("alpha")
    assert KnowledgeItem.objects.filter(project=other).count() == 3


def export(slug: str) -> str:
    out = StringIO()
    call_command("export_knowledge", project=slug, stdout=out)
    return out.getvalue()


def test_import_names_file_and_line_of_a_bad_item(project: Project, tmp_path: Path) -> None:
    """A line that is not in order is named, and nothing of the file is imported."""
    file = tmp_path / "items.jsonl"
    file.write_text(json.dumps({"knowledge_id": "a", "proposition": RULE}) + '\n{"knowledge_id": "b"}\n')
    with pytest.raises(CommandError, match=r"items\.jsonl:2: proposition is required"):
        call_command("import_knowledge", str(file), project="alpha")
    with pytest.raises(CommandError, match="no project nowhere"):
        call_command("import_knowledge", str(file), project="nowhere")
    assert not KnowledgeItem.objects.exists()
