"""Files, texts and ids that nobody sends in good faith: each is refused by its place, quickly, and changes nothing."""

import io
import resource
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from knowledge.drafts import KnowledgeError
from knowledge.exchange.archive import read_archive
from knowledge.exchange.json_lines import read_lines
from knowledge.exchange.markdown import read_markdown
from tests.factories import make_project
from tests.knowledge.test_items_api import ITEMS, Curator, made, snapshot

FILE = "---\nknowledge_id: a\n---\nRun `x`.\n"
RULE = "Run `cool`."


def read_zip(data: bytes) -> Any:
    return read_archive(data, most_files=50, most_bytes=4 * 1024 * 1024)


def packed(*files: tuple[str, str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return data.getvalue()


def refusal(read: Callable[[bytes], Any], data: bytes) -> str:
    """Return what is said of a file; it can be said over the wire."""
    with pytest.raises(KnowledgeError) as told:
        read(data)
    str(told.value).encode()
    return str(told.value)


def front(text: str) -> bytes:
    return f"---\n{text}\n---\nRun `x`.\n".encode()


# ---- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_ways_of_packing_that_can_be_bounded_are_unpacked(method: int) -> None:
    """What bzip2 and LZMA unpack cannot be stopped half way: a file so packed is not unpacked at all."""
    bomb = packed(("a.md", "\0" * 60_000_000), method=method)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "a.md:0: " in refusal(read_zip, bomb) and "deflate" in refusal(read_zip, bomb)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b"\xc3\xa9.md", b"\xff\xff.md"),  # a name that is said to be UTF-8 and is not
        lambda data: data[:-22] + data[-22:-6] + b"\xff\xff\xff\x7f" + data[-2:],  # a folder from beyond the start
        lambda data: data[:-40],
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda _: b"PK\x05\x06" + b"\xff" * 18,
    ],
    ids=["name", "place", "end cut", "half", "empty", "end only"],
)
def test_a_damaged_zip_is_said_to_be_one(damage: Callable[[bytes], bytes]) -> None:
    whole = packed(("é.md", FILE))
    assert len(read_zip(whole)) == 1
    assert "pack" in refusal(read_zip, damage(whole))


def test_a_zip_with_any_byte_changed_is_read_or_refused() -> None:
    """Each byte in turn takes values that mean something in a zip: nothing but a refusal comes of it."""
    whole = packed(("é/b.md", FILE), ("c.md", FILE.replace(": a", ": c")))
    for place in range(len(whole)):
        for value in (0x00, 0x01, 0x08, 0x2F, 0x7F, 0xFF):
            try:
                read_zip(whole[:place] + bytes([value]) + whole[place + 1 :])
            except KnowledgeError as told:
                str(told).encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('knowledge_id: "\\UFFFFFFFF"', "a.md:2: "),
        ('knowledge_id: a\ntool: "\\U00110000"', "a.md:2: "),
        ('knowledge_id: a\n"\\ud800": x', ": unknown field"),
        ('knowledge_id: a\n"\\ud800": x\n"\\ud800": x', "a.md:4: "),
        ("knowledge_id: !!python/object/apply:os.system [touch /tmp/x]", "a.md:2: knowledge_id must be"),
        ("a: &a [x,x,x]\nb: &b [*a,*a,*a]\ntopics: [*b,*b,*b]", "a.md:2: a must be one text"),
        ("topics: &a [*a]", "a.md:2: topics must be"),
        ("topics: " + "[" * 400 + "]" * 400, "a.md:2: "),
    ],
    ids=["no code point", "beyond unicode", "half a pair", "half a pair twice", "python", "laughs", "circle", "deep"],
)
def test_front_matter_means_no_harm(text: str, said: str) -> None:
    assert said in refusal(lambda data: read_markdown(data, "a.md"), front(text))


@pytest.mark.parametrize(
    "text",
    [
        "topics: [" + "a," * 5_000 + "]",
        "\n".join(f"f{number}: x" for number in range(5_000)),
        "topics: " + "[" * 5_000,
    ],
    ids=["entries", "fields", "nesting"],
)
def test_front_matter_of_more_than_an_item_has_is_given_up_on(text: str) -> None:
    """It is not read to its end: 300 parts are more than an item with every list full has."""
    said = refusal(lambda data: read_markdown(data, "a.md"), front(f"knowledge_id: a\n{text}"))
    assert said.startswith("a.md:") and "front matter" in said


def test_fields_that_come_twice_are_found_in_one_look() -> None:
    """A line of 150,000 fields took minutes when each was counted among all."""
    fields = ",".join(f'"k{number}":1' for number in range(150_000))
    said = refusal(lambda data: read_lines(data, "a.jsonl"), f'{{{fields},"k149999":2}}'.encode())
    assert "a.jsonl:1: k149999 is given twice" in said


@pytest.mark.parametrize("line", ['{"\\ud800": 1}', '{"\\ud800": 1, "\\ud800": 2}'])
def test_an_unknown_field_that_is_half_a_pair_is_told_as_something_that_can_be_told(line: str) -> None:
    assert "a.jsonl:1: " in refusal(lambda data: read_lines(data, "a.jsonl"), line.encode())


def test_line_ends_of_any_system() -> None:
    """Also of those that end a line with a carriage return alone."""
    assert read_markdown(FILE.replace("\n", "\r").encode(), "a.md").draft == read_markdown(FILE.encode(), "a.md").draft
    lines = '{"knowledge_id":"a","proposition":"x"}\r{"knowledge_id":"b","proposition":"x"}\r'
    assert [one.draft.knowledge_id for one in read_lines(lines.encode(), "a.jsonl")] == ["a", "b"]


# ---- the same over the API ------------------------------------------------------------------------------------


@pytest.fixture
def curator() -> Curator:
    return Curator(make_project("alpha"))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b'{"\\ud800": 1}', "application/jsonl"),
        (b'{"\\ud800": 1, "\\ud800": 1}', "application/jsonl"),
        (front('"\\ud800": 1'), "text/markdown"),
        (front('a: "\\UFFFFFFFF"'), "text/markdown"),
        (packed(("é.md", FILE)).replace(b"\xc3\xa9.md", b"\xff\xff.md"), "application/zip"),
        (packed(("a.md", FILE), method=zipfile.ZIP_LZMA), "application/zip"),
    ],
)
def test_a_hostile_file_is_refused_over_the_api(curator: Curator, data: bytes, form: str) -> None:
    before = snapshot()
    answer = curator.send(data, form)
    assert answer.status_code == 400, answer.content
    assert answer.json()["code"] == "invalid_item"
    assert snapshot() == before


@pytest.mark.django_db
@pytest.mark.parametrize(
    "bad", ["\x00", "a\x00b", "\ud800", "x" * 201, "x" * 100_000], ids=["nul", "nul in", "half", "long", "huge"]
)
@pytest.mark.parametrize(
    "where", ["state", "replaced_by", "run_id", "by", "reason", "knowledge_id", "unknown", "revise"]
)
def test_what_cannot_be_stored_is_refused_in_every_field(curator: Curator, where: str, bad: str) -> None:
    made(curator)
    before = snapshot()
    item = {"knowledge_id": "k-9", "proposition": RULE}
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "state": (f"{ITEMS}/k-1/state", {"state": bad, "reason": "r"}),
        "replaced_by": (f"{ITEMS}/k-1/state", {"state": "superseded", "replaced_by": bad, "reason": "r"}),
        "run_id": (f"{ITEMS}/k-1/evidence", {"run_id": bad, "supports": True, "note": "n"}),
        "by": (ITEMS, {"item": item, "reason": "r", "by": bad}),
        "reason": (f"{ITEMS}/k-1/suspension", {"suspended": True, "reason": bad * 20}),
        "knowledge_id": (ITEMS, {"item": {**item, "knowledge_id": bad}, "reason": "r"}),
        "unknown": (ITEMS, {"item": {**item, bad: 1}, "reason": "r"}),
        "revise": (f"{ITEMS}/k-1/revisions", {"item": {"proposition": RULE, "topics": [bad]}, "reason": "r"}),
    }
    answer = curator.post(*bodies[where])
    assert 400 <= answer.status_code < 500, answer.content
    assert snapshot() == before
