"""Items in files: what is written is read back exactly, what is wrong is named by file, line and field."""

import io
import zipfile
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.models import Project
from knowledge.drafts import ItemDraft, KnowledgeError, check_draft
from knowledge.exchange.archive import read_archive, write_archive
from knowledge.exchange.json_lines import read_lines, write_line
from knowledge.exchange.markdown import file_name, read_markdown, write_markdown
from knowledge.exchange.places import ImportFault, drafts_of
from knowledge.items import change_state, create_item, suspend_item
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

RULE = "Run `cool`."
PIECES = st.sampled_from(
    ["\n", "\n---\n", "---", "# ", "## Why\n", "\\#", "\\\\", "\r", "\r\n", "```", "````\n", ": ", '"', "'", " ", "\t",
     "- a", "[x]", "{y}", "&a", "*a", "!t", "%", "@", "\ufeff", "\u2028", "\x85", "\x1f", "\x7f", "😀", "Привет", "é",
     "no", "1.10", "~", "null", "<b>", "|", ">", "x"]
)  # fmt: skip
NASTY = st.lists(
    PIECES | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8), max_size=8
)
TEXT = NASTY.map("".join)
FULL = TEXT.filter(lambda text: bool(text.strip()))
IDS = TEXT.map(lambda text: "".join(char for char in text if char.isprintable()).strip()).filter(bool)
LISTS = st.lists(TEXT, max_size=3).map(tuple)
DRAFTS = st.builds(
    ItemDraft, knowledge_id=IDS, proposition=FULL, kind=st.sampled_from(["claim", "observation"]),
    state=st.sampled_from(["proposed", "confirmed", "challenged", "at_risk", "invalidated"]),
    why=TEXT, verify=TEXT, caution=TEXT, trigger=st.sampled_from(["", "tool.failed", "mcp.first_call"]), tool=TEXT,
    mcp_server=TEXT, version_scope=TEXT, entities=LISTS, topics=LISTS, error_examples=LISTS, evidence=LISTS,
    language=st.sampled_from(["en", "ru", ""]), suspended_dynamic=st.booleans(),
)  # fmt: skip
PLAIN = ItemDraft(
    "git-init", "Run `git init`.\n\nThen commit.", why="It is\nso.", topics=("git", "1.10"), language="en"
)


def is_allowed(draft: ItemDraft) -> bool:
    try:
        check_draft(draft)
    except KnowledgeError:
        return False
    return True


ROUND_TRIP = settings(max_examples=200, derandomize=True, database=None, deadline=None)


@ROUND_TRIP
@example(PLAIN)
@example(ItemDraft("a", " \n x \n ", why="---\n# a\n\\# b\n", error_examples=("", "\n", "```\nx\n```", "a\r\nb")))
@given(DRAFTS.filter(is_allowed))
def test_markdown_gives_back_every_field_exactly(draft: ItemDraft) -> None:
    """Whatever an item's texts hold, its file gives it back; also after an editor changed the ends of the lines."""
    written = write_markdown(draft)
    assert read_markdown(written.encode(), "a.md").draft == draft
    if "\r" not in written:
        assert read_markdown(("\ufeff" + written.replace("\n", "\r\n")).encode(), "a.md").draft == draft


@settings(ROUND_TRIP, max_examples=60)
@given(st.lists(DRAFTS.filter(is_allowed), max_size=3, unique_by=lambda draft: draft.knowledge_id))
def test_json_lines_and_archives_give_back_every_item(drafts: list[ItemDraft]) -> None:
    """Many in one file or one zip: all of them, each as it was."""
    lines = "".join(write_line(draft) + "\n" for draft in drafts)
    read = [one.draft for one in read_lines(lines.encode(), "a.jsonl")]
    # A field left out is its default; of an empty language that is English, so it is written.
    assert read == drafts
    packed = io.BytesIO()
    write_archive(drafts, packed)
    unpacked = read_archive(packed.getvalue(), most_files=3, most_bytes=10**6)
    assert [one.draft for one in unpacked] == drafts
    names = zipfile.ZipFile(packed).namelist()
    assert len({name.lower() for name in names}) == len(drafts)


def test_the_form_of_a_file() -> None:
    """A plain item reads as a person would write it."""
    draft = ItemDraft(
        "git-init", "Outside of a repository run `git init`.", state="confirmed", tool="shell", topics=("git", "no"),
        why="# of commits is zero.", error_examples=("fatal: not a git repository\n  (or any parent)",),
    )  # fmt: skip
    assert write_markdown(draft) == (
        "---\nknowledge_id: git-init\nkind: claim\nstate: confirmed\ntool: shell\ntopics:\n  - git\n  - 'no'\n"
        "language: en\n---\nOutside of a repository run `git init`.\n\n## Why\n\n\\# of commits is zero.\n\n"
        "## Error examples\n\n```\nfatal: not a git repository\n  (or any parent)\n```\n"
    )


def test_what_a_person_writes_is_read() -> None:
    """Any YAML of texts and lists; values are texts; empty sections are none; fences may name a language."""
    written = (
        "---\nknowledge_id: k   # a comment\nversion_scope: 1.10\ntopics: [git, no]\nsuspended_dynamic: true\nwhy:\n"
        "---\n\nRun `x`.\n\n## Verify\n\n## Error examples\n```text\nboom\n```\n\n````\n```\n````\n"
        "\n## Caution\n\nSlowly.\n"
    )
    draft = read_markdown(written.encode(), "k.md").draft
    assert draft == ItemDraft(
        "k", "Run `x`.", version_scope="1.10", topics=("git", "no"), suspended_dynamic=True, caution="Slowly.",
        error_examples=("boom", "```"),
    )  # fmt: skip


FLAG = "suspended_dynamic"
FRONT = "---\nknowledge_id: k\n"


@pytest.mark.parametrize(
    ("written", "told", "field"),
    [
        ("", "a.md:1: the file must begin with front matter", ""),
        ("Run it.\n", "a.md:1: the file must begin", ""),
        ("---\nknowledge_id: k\n", "a.md:1: the front matter has no end", ""),
        ("---\nknowledge_id: 'k\n---\nRun.\n", "a.md:3: the front matter is not valid YAML", ""),
        ("---\nknowledge_id: k\n\ttool: x\n---\nRun.\n", "a.md:3: the front matter is not valid YAML", ""),
        ("---\nknowledge_id: k\ntool: a\x07b\n---\nRun.\n", "a.md:3: the front matter holds a character", ""),
        ("---\n- a\n---\nRun.\n", "a.md:2: the front matter must be lines", ""),
        ("---\n" + "[" * 5000 + "\n---\nRun.\n", "a.md:2: the front matter is nested too deeply", ""),
        (FRONT + "tool: a\ntool: b\n---\nRun.\n", "a.md:4: tool stands in line 3 already", "tool"),
        (FRONT + "colour: red\n---\nRun.\n", "a.md:3: unknown field colour", "colour"),
        (FRONT + "topics: git\n---\nRun.\n", "a.md:3: topics must be a list", "topics"),
        (FRONT + "topics: [[git]]\n---\nRun.\n", "a.md:3: topics must be a text or a list", "topics"),
        (FRONT + "tool: [shell]\n---\nRun.\n", "a.md:3: tool must be one text", "tool"),
        (FRONT + "suspended_dynamic: yes\n---\nRun.\n", "a.md:3: suspended_dynamic must be true or", FLAG),
        (FRONT + "state: great\n---\nRun.\n", "a.md:3: state must be one of", "state"),
        (FRONT + "---\n", "a.md:1: proposition is required", "proposition"),
        ("---\nstate: confirmed\n---\nRun.\n", "a.md:1: knowledge_id is required", "knowledge_id"),
        (FRONT + "---\n" + "x" * 500 + "\n", "a.md:4: proposition has about", "proposition"),
        (FRONT + "why: so\n---\nRun.\n\n## Why\nNo.\n", "a.md:8: why stands in line 3 already", "why"),
        (FRONT + "---\nRun.\n## Reason\nNo.\n", "a.md:5: a line with # begins a section", ""),
        (FRONT + "---\n# Title\nRun.\n", "a.md:4: a line with # begins a section", ""),
        (FRONT + "---\nRun.\n## Why\nA.\n## Why\nB.\n", "a.md:7: this section stands above", "why"),
        (FRONT + "---\nRun.\n## Error examples\nboom\n", "a.md:6: each error example stands", "error_examples"),
        (FRONT + "---\nRun.\n## Error examples\n```\nboom\n", "a.md:6: this fence has no end", "error_examples"),
        (FRONT + "---\nRun.\n## Caution\nuse ghp_" + "a1B2" * 9 + "\n", "a.md:6: caution holds what looks", "caution"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(written: str, told: str, field: str) -> None:
    """Each refusal names file, line and field, and repeats nothing of the text."""
    with pytest.raises(ImportFault) as caught:
        read_markdown(written.encode(), "a.md")
    assert str(caught.value).startswith(told)
    assert caught.value.field == field
    assert "ghp_" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"knowledge_id": "k", "proposition": "x"}\n\n{oops}\n', "a.jsonl:3: the line is not valid JSON at"),
        (b'{"knowledge_id": "k", "proposition": "x", "tool": "a", "tool": "b"}', "a.jsonl:1: tool is given twice"),
        (b"[" * 100_000, "a.jsonl:1: the line is nested too deeply"),
        (b'{"knowledge_id": "k"}', "a.jsonl:1: proposition is required"),
        (b'\n{"knowledge_id": "\xff"}', "a.jsonl:2: the file is not UTF-8"),
        (b'{"knowledge_id": "k", "proposition": "\\ud800"}', "a.jsonl:1: proposition holds a NUL or half a surrogate"),
        (b"NaN", "a.jsonl:1: an item must be a JSON object"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_line_is_named(data: bytes, told: str) -> None:
    """Each refusal names file and line."""
    with pytest.raises(ImportFault) as caught:
        read_lines(data, "a.jsonl")
    assert str(caught.value).startswith(told)


def test_json_lines_end_at_newlines_only() -> None:
    """A byte order mark, ends of lines of another system, and texts with other characters that end lines."""
    data = '\ufeff{"knowledge_id": "k", "proposition": "a\u2028b\x85c"}\r\n'
    assert read_lines(data.encode(), "a.jsonl")[0].draft.proposition == "a\u2028b\x85c"


def test_an_id_that_comes_twice_is_refused_with_both_places() -> None:
    """Also across files and forms."""
    placed = [*read_lines(write_line(PLAIN).encode(), "a.jsonl"), read_markdown(write_markdown(PLAIN).encode(), "b.md")]
    with pytest.raises(ImportFault, match=r"^b\.md:2: knowledge_id stands at a\.jsonl:1 already"):
        drafts_of(placed)


@pytest.mark.parametrize(
    ("knowledge_id", "name"),
    [
        ("git-init", "git-init.md"),
        ("a.b_c-1", "a.b_c-1.md"),
        ("../../etc/passwd", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd~4c6b7a.md"),
        (".hidden", "%2Ehidden~.md"),
        ("Git", "Git~.md"),
        ("x" * 200, "x" * 100 + "~.md"),
        ("привет", "%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82~.md"),
    ],
)
def test_a_file_is_named_safely(knowledge_id: str, name: str) -> None:
    """One segment, of plain characters, short enough, and told apart from every other on any file system."""
    made = file_name(knowledge_id)
    assert made.split("~")[0].removesuffix(".md") == name.split("~")[0].removesuffix(".md")
    assert "/" not in made and not made.startswith(".") and len(made.encode()) < 200
    assert ("~" in made) == ("~" in name)


def zipped(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return packed.getvalue()


GOOD = write_markdown(PLAIN).encode()


def test_names_in_a_zip_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads out is a name: its item is read, and nothing is written anywhere."""
    monkeypatch.chdir(tmp_path)
    read = read_archive(
        zipped(("../../out.md", GOOD), ("/abs/__MACOSX/._x.md", b"\x00"), ("folder/", b"")),
        most_files=9,
        most_bytes=9_999,
    )
    assert [(one.draft, one.file) for one in read] == [(PLAIN, "../../out.md")]
    assert list(tmp_path.parent.glob("out.md")) == [] and list(tmp_path.iterdir()) == []


def lying() -> bytes:
    """A zip whose entry says that it holds ten bytes, and holds many."""
    data = bytearray(zipped(("a.md", GOOD + b"x" * 100_000)))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = data.index(mark) + offset
        data[place : place + 4] = (10).to_bytes(4, "little")
    return bytes(data)


CENTRAL = b"PK\x01\x02\x14\x03\x14\x00"  # what stands before an entry's flags


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: b"PK no zip", "the body is no zip"),
        (lambda: zipped(("a.md", GOOD))[:-30], "the body is no zip"),
        (lambda: zipped(*((f"{n}.md", GOOD) for n in range(4))), "the zip holds 4 files; the limit is 3"),
        (lambda: zipped(("a.md", b"\x00" * 3_000_000)), "the files take more than"),
        (lambda: zipped(("a.md", GOOD), ("b.md", b" " * 9_950)), "b.md:0: the files take more than"),
        (lambda: zipped(("a.txt", GOOD)), "a.txt:0: this is no Markdown file"),
        (lambda: zipped(("a.md", b"Run.\n")), "a.md:1: the file must begin with front matter"),
        (lambda: zipped(("a.md", GOOD)).replace(CENTRAL + b"\x00", CENTRAL + b"\x01"), "encrypted"),
        (lying, "a.md:0: this file is damaged"),
    ],
)  # fmt: skip
def test_a_zip_that_is_none_or_too_much_is_refused(make: Callable[[], bytes], told: str) -> None:
    """Damaged, encrypted, too many, too large when unpacked, or lying about it: refused, with the limit."""
    with pytest.raises(ImportFault) as caught:
        read_archive(make(), most_files=3, most_bytes=10_000)
    assert told in str(caught.value)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def filled(project: Project) -> None:
    create_item(project, ItemDraft("mid", RULE), by="ada", reason="seen")
    create_item(project, ItemDraft("old", RULE, state="superseded", replaced_by="mid"), by="ada", reason="seen")
    create_item(project, ItemDraft("New/one", RULE, why=" \n x", error_examples=("a", "")), by="ada", reason="seen")
    change_state(project, "mid", "superseded", by="ada", reason="newer", replaced_by="New/one")
    suspend_item(project, "New/one", True, by="ada", reason="noise")


def export(slug: str, **options: Any) -> str:
    out = StringIO()
    call_command("export_knowledge", project=slug, stdout=out, **options)
    return out.getvalue()


def rows() -> list[Any]:
    return [
        list(model.objects.order_by("pk").values()) for model in (KnowledgeItem, KnowledgeRevision, KnowledgeChange)
    ]


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_a_project_is_moved_whole_and_a_second_time_changes_nothing(
    project: Project, form: str, tmp_path: Path
) -> None:
    """Export to a folder, import it elsewhere: the same export; import again: not one row more."""
    Project.objects.create(slug="beta", name="Beta")
    filled(project)
    folder = tmp_path / "made" / "here"
    export("alpha", format=form, to=str(folder))
    assert len(list(folder.iterdir())) == (1 if form == "jsonl" else 3)
    call_command("import_knowledge", str(folder), project="beta", verbosity=0)
    assert export("beta") == export("alpha")
    kept = rows()
    out = StringIO()
    call_command("import_knowledge", str(folder), project="beta", stdout=out)
    assert "0 created, 0 revised, 3 unchanged" in out.getvalue()
    assert rows() == kept


def test_files_and_folders_are_imported_together_or_not_at_all(project: Project, tmp_path: Path) -> None:
    """Both forms in one call; one bad file, and nothing of the others is imported either."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_bytes(GOOD)
    (tmp_path / "b.jsonl").write_text(write_line(ItemDraft("b", RULE)))
    (tmp_path / "notes.txt").write_text("no item")
    bad = tmp_path / "z.md"
    bad.write_text("---\nknowledge_id: z\ncolour: red\n---\nRun.\n")
    with pytest.raises(CommandError, match=r"z\.md:3: unknown field colour"):
        call_command("import_knowledge", str(tmp_path), project="alpha")
    assert not KnowledgeItem.objects.exists()
    bad.unlink()
    call_command("import_knowledge", str(tmp_path), project="alpha", verbosity=0)
    assert set(KnowledgeItem.objects.values_list("knowledge_id", flat=True)) == {"git-init", "b"}


def test_what_cannot_be_imported_or_exported_is_said(project: Project, tmp_path: Path) -> None:
    """A file that is neither form, one that is not there, an empty folder, a place that is a file."""
    text = tmp_path / "a.txt"
    text.write_text("x")
    (tmp_path / "none").mkdir()
    for wrong, told in ((text, "neither"), (tmp_path / "b.md", "cannot be read"), (tmp_path / "none", "no items")):
        with pytest.raises(CommandError, match=told):
            call_command("import_knowledge", str(wrong), project="alpha")
    with pytest.raises(CommandError, match="cannot be written"):
        export("alpha", format="markdown", to=str(text))
    with pytest.raises(CommandError, match="--to"):
        export("alpha", format="markdown")
    assert text.read_text() == "x" and not KnowledgeItem.objects.exists()


def test_an_import_leaves_an_item_where_it_stands_in_its_lifecycle(project: Project, tmp_path: Path) -> None:
    """State and suspension of an item that exists are the store's: the file's differ, and nothing moves."""
    create_item(project, ItemDraft("k", RULE, state="confirmed"), by="ada", reason="seen")
    file = tmp_path / "k.md"
    file.write_text(write_markdown(ItemDraft("k", RULE, state="proposed", suspended_dynamic=True)))
    kept = rows()
    call_command("import_knowledge", str(file), project="alpha", verbosity=0)
    assert rows() == kept
    file.write_text(write_markdown(ItemDraft("k", "Run `cool -x`.", state="invalidated")))
    call_command("import_knowledge", str(file), project="alpha", verbosity=0)
    item = KnowledgeItem.objects.get()
    assert (item.revision, item.state, item.suspended_dynamic) == (2, "confirmed", False)


def test_the_starter_set_is_imported_once_and_survives_its_files(project: Project, tmp_path: Path) -> None:
    """What ships for a new project: imported twice it changes nothing, and as Markdown it is the same items."""
    starter = Path(__file__).parents[2] / "knowledge" / "starter"
    call_command("import_knowledge", str(starter), project="alpha", verbosity=0)
    kept, number = rows(), KnowledgeItem.objects.count()
    assert number >= 40
    export("alpha", format="markdown", to=str(tmp_path))
    assert len(list(tmp_path.glob("*.md"))) == number
    for folder in (starter, tmp_path):
        call_command("import_knowledge", str(folder), project="alpha", verbosity=0)
        assert rows() == kept
