"""The write path of items: lifecycle, immutable revisions, imports that change nothing the second time."""

import json
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from contract.stages import ITEM_STATES
from ingest.models import Project
from knowledge.drafts import ItemDraft, KnowledgeConflict, KnowledgeError, parse_draft
from knowledge.find_hints.candidates import fetch_replacements, load
from knowledge.items import (
    TRANSITIONS,
    add_evidence,
    change_state,
    create_item,
    import_items,
    revise_item,
    suspend_item,
)
from knowledge.lifecycle import CHANGES
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision
from tests.factories import make_project
from tests.ingest.test_journal import in_threads

MEANWHILE = "another write made one of these items meanwhile; import them again"
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


def history(knowledge_id: str = "k-1") -> list[tuple[Any, ...]]:
    told = ("what", "from_state", "to_state", "revision", "replaced_by", "evidence_run", "supports", "by", "reason")
    return list(KnowledgeChange.objects.filter(item__knowledge_id=knowledge_id).order_by("pk").values_list(*told))


def test_every_change_is_one_row_of_history(project: Project) -> None:
    """What, from where to where, at which revision, the run that shows it, who and why: once for each change."""
    create(project, "live")
    create(project)
    why: dict[str, Any] = {"by": "bob", "reason": "why"}
    revise_item(project, draft(proposition="Run `x`."), run_id="r-1", **why)
    change_state(project, "k-1", "confirmed", run_id="r-2", **why)
    suspend_item(project, "k-1", True, run_id="r-3", **why)
    suspend_item(project, "k-1", False, **why)
    for _ in range(2):
        add_evidence(project, "k-1", "r-4", False, note="it failed", by="eve")
    change_state(project, "k-1", "corrected", replaced_by="live", **why)
    assert history() == [
        ("created", None, "proposed", 1, None, None, None, "ada", "seen twice"),
        ("revised", "proposed", "proposed", 2, None, "r-1", None, "bob", "why"),
        ("state", "proposed", "confirmed", 2, None, "r-2", None, "bob", "why"),
        ("suspended", "confirmed", "confirmed", 2, None, "r-3", None, "bob", "why"),
        ("resumed", "confirmed", "confirmed", 2, None, None, None, "bob", "why"),
        ("evidence", "confirmed", "confirmed", 2, None, "r-4", False, "eve", "it failed"),
        ("state", "confirmed", "corrected", 2, "live", None, None, "bob", "why"),
    ]
    assert {row[0] for row in history()} | {"replacement"} == set(CHANGES)


@pytest.mark.parametrize("model", [KnowledgeRevision, KnowledgeChange])
@pytest.mark.parametrize("how", ["update", "delete", "save"])
def test_revisions_and_history_cannot_be_changed(project: Project, model: Any, how: str) -> None:
    """The database refuses, whoever asks: the write path, a shell, another program."""
    item = create(project)
    state = snapshot()
    attempts: dict[str, Callable[[], Any]] = {
        "update": lambda: model.objects.update(reason="other"),
        "delete": lambda: model.objects.all().delete(),
        "save": lambda: model.objects.get(item=item).save(),
    }
    with pytest.raises(IntegrityError, match="never changed"), transaction.atomic():
        attempts[how]()
    assert snapshot() == state


def test_a_stale_edit_is_refused_by_both_revisions(project: Project) -> None:
    """Each kind of change says from which revision it was made; one that is not current changes nothing."""
    create(project)
    revise_item(project, draft(proposition="Run `x`."), by="bob", reason="r", expected_revision=1)
    state = snapshot()
    why: dict[str, Any] = {"by": "bob", "reason": "why"}
    attempts: list[Callable[[int], Any]] = [
        lambda seen: revise_item(project, draft(proposition="Run `y`."), expected_revision=seen, **why),
        lambda seen: change_state(project, "k-1", "confirmed", expected_revision=seen, **why),
        lambda seen: suspend_item(project, "k-1", True, expected_revision=seen, **why),
        lambda seen: add_evidence(project, "k-1", "r", True, note="n", by="bob", expected_revision=seen),
    ]
    for attempt in attempts:
        with pytest.raises(KnowledgeConflict, match="at revision 2, and the change was made from revision 1"):
            attempt(1)
        assert snapshot() == state
    for attempt in reversed(attempts):
        attempt(2)
    assert KnowledgeItem.objects.get().revision == 3


def test_a_replaced_replacement_leads_to_the_live_one(project: Project) -> None:
    """However often what replaced an item is itself replaced, one step leads to what is live, and history says so."""
    names = [f"k-{number}" for number in range(9)]
    for name in names:
        create(project, name)
    for old, new in zip(names, names[1:], strict=False):
        change_state(project, old, "superseded", by="bob", reason=f"{new} is newer", replaced_by=new)
        found = fetch_replacements(project.pk, load(project.pk, names))
        assert {name: item.knowledge_id for name, item in found.items()} == dict.fromkeys(
            names[: names.index(new)], new
        )
    assert [row[0] for row in history("k-0")] == ["created", "state", *["replacement"] * 7]
    assert history("k-0")[-1][4] == "k-8"
    change_state(project, "k-8", "invalidated", by="bob", reason="wrong")
    assert fetch_replacements(project.pk, load(project.pk, names)) == {}


def test_nothing_replaces_in_a_circle(project: Project) -> None:
    """Not itself, not what is retired, and not by an import of items that name each other or too many in a row."""
    for name in ("a", "b"):
        create(project, name)
    change_state(project, "a", "superseded", by="bob", reason="r", replaced_by="b")
    state = snapshot()
    for other in ("b", "a"):
        with pytest.raises(KnowledgeError, match="replaced_by must name another item"):
            change_state(project, "b", "superseded", by="bob", reason="r", replaced_by=other)
    with pytest.raises(KnowledgeError, match="replaced_by must name another item"):
        create(project, "c", state="superseded", replaced_by="c")
    names = [f"n{number}" for number in range(8)]
    circle = [draft(x, state="superseded", replaced_by=y) for x, y in (("x", "y"), ("y", "z"), ("z", "x"))]
    alone = [draft("x", state="superseded", replaced_by="x")]
    long = [draft(x, state="superseded", replaced_by=y) for x, y in zip(names, names[1:], strict=False)]
    for drafts, told in ((circle, "circle"), (alone, "circle"), ([*long, draft(names[-1])], "more than 5")):
        with pytest.raises(KnowledgeError, match=told):
            import_items(project, drafts, by="ada")
    assert snapshot() == state
    assert import_items(project, [*long[2:], draft(names[-1])], by="ada").created == 6
    found = fetch_replacements(project.pk, load(project.pk, names))
    assert {item.knowledge_id for item in found.values()} == {names[-1]} and len(found) == 5


def test_an_import_of_one_id_twice_is_refused(project: Project) -> None:
    """Also when both say the same; nothing of it is written."""
    state = snapshot()
    with pytest.raises(KnowledgeError, match="a comes twice"):
        import_items(project, [draft("a"), draft("b"), draft("a")], by="ada")
    assert snapshot() == state


@pytest.mark.django_db(transaction=True)
def test_of_two_curators_at_once_one_wins() -> None:
    """Both read revision 1 and write at the same moment: one revision is made, the other curator is told."""
    project = make_project("alpha")
    create(project)

    def edit(name: str) -> str:
        try:
            text = draft(proposition=f"Run `{name}`.")
            revise_item(project, text, by=name, reason="mine", expected_revision=1)
        except KnowledgeConflict as error:
            return str(error)
        return "made"

    said = in_threads(*(partial(edit, name) for name in ("ann", "bob", "eve", "kim")))
    assert sorted(said)[-1] == "made" and said.count("made") == 1
    assert all("at revision 2" in one for one in said if one != "made")
    (first, second) = KnowledgeRevision.objects.order_by("number")
    assert second.proposition == f"Run `{second.author}`." and first.proposition == RULE


@pytest.mark.django_db(transaction=True)
def test_two_items_cannot_replace_each_other_at_once() -> None:
    """Each is live while the other asks: one is replaced, and the other curator is told."""
    project = make_project("alpha")
    for name in ("a", "b"):
        create(project, name)

    def replace(old: str, new: str) -> str:
        try:
            change_state(project, old, "superseded", by="bob", reason="r", replaced_by=new)
        except KnowledgeError as error:
            return str(error)
        return "made"

    said = in_threads(partial(replace, "a", "b"), partial(replace, "b", "a"))
    assert sorted(one == "made" for one in said) == [False, True]
    assert sorted(KnowledgeItem.objects.values_list("state", flat=True)) == ["proposed", "superseded"]


@pytest.mark.django_db(transaction=True)
def test_two_imports_of_the_same_items_at_once_make_each_once() -> None:
    """In opposite orders: each item is made once; an import that came second is told or finds all unchanged."""
    project = make_project("alpha")
    drafts = [draft(f"k-{number:02}") for number in range(30)]

    def bring(given: list[ItemDraft]) -> str:
        try:
            return f"{import_items(project, given, by='ada').created} made"
        except KnowledgeConflict as error:
            return str(error)

    said = in_threads(partial(bring, drafts), partial(bring, drafts[::-1]))
    assert "30 made" in said and set(said) <= {"30 made", "0 made", MEANWHILE}
    assert said.count("30 made") == 1
    assert KnowledgeItem.objects.count() == KnowledgeRevision.objects.count() == KnowledgeChange.objects.count() == 30
