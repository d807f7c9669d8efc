"""Hints under attack: texts and items that make a search offer what does not fit, lose what does, or take long."""

from collections.abc import Iterator

import pytest

from ingest.models import Project
from knowledge import embeddings
from knowledge.find_hints import explain_absence, find_hints
from knowledge.find_hints.findings import Findings, HintQuery
from knowledge.find_hints.v3 import engine
from knowledge.find_hints.v3.asked import ask
from knowledge.find_hints.v3.index import codes_of, phrase_of, prints_of
from knowledge.search_rows import embed_items
from tests.knowledge.asking import add_item, make_project

pytestmark = pytest.mark.django_db

ELSE = "Water the office plants on Fridays."  # a rule that no failure is about


def search(project: Project, text: str = "", **fields: object) -> Findings:
    asked = {"trigger": "tool.failed", "tool": "shell", "error_class": "exit_nonzero", **fields}
    return find_hints(project.pk, HintQuery("r-1", "r-1:a1", tool_result=text, **asked), engine.VERSION)  # type: ignore[arg-type]


def offered(findings: Findings) -> list[str]:
    return [finding.item.knowledge_id for finding in findings.offered]


@pytest.mark.parametrize(
    ("example", "output"),
    [
        ("1", "counted\n2\n3\n"),
        ("FAILED", "collected 3\nFAILED\n1 of 3"),
        ("}", "{\n}\n"),
        ("2026-11-30 10:00:00", "started\n2025-01-02 11:22:33\nended"),
        ("/tmp/project", "looked into\n/srv/project\nand left"),
    ],
)
def test_an_error_example_that_says_nothing_matches_no_line(example: str, output: str) -> None:
    """A number, a bracket, a time, a path or one word is no error that would be recognised in any line of an output."""
    project = make_project("says-nothing")
    add_item(project, "plants", proposition=ELSE, error_examples=(example,))
    found = search(project, output)
    assert offered(found) == []
    assert not any("fingerprint:" in reason for one in found.candidates for reason in one.matched_by)


def test_an_error_of_one_word_is_recognised_when_it_is_all_that_was_printed() -> None:
    """`Killed` says something alone, and nothing as a line among others; a number says nothing in either case."""
    project = make_project("one-word")
    add_item(project, "out-of-memory", proposition="Give the job more memory.", error_examples=("Killed", "137"))
    assert offered(search(project, "Killed\n")) == ["out-of-memory"]
    assert "fingerprint:error example" in search(project, "Killed\n").candidates[0].matched_by
    assert offered(search(project, "42")) == []
    lines = search(project, "Players:\nKilled\nDied\n").candidates
    assert not any("fingerprint:" in reason for one in lines for reason in one.matched_by)


def test_a_line_that_says_something_is_recognised_among_others() -> None:
    """Also with other names of paths and numbers in it."""
    project = make_project("says-something")
    add_item(project, "archive", proposition=ELSE, error_examples=("gzip: /tmp/a/1.gz: not in gzip format",))
    found = search(project, "start of the log\ngzip: /srv/b/1.gz: not in gzip format\nthe end of it")
    assert offered(found) == ["archive"] and found.candidates[0].matched_by[0] == "fingerprint:error example"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE IF NOT EXISTS t (a int)",
        "EXPLAIN EXECUTE a; CREATE EXTENSION b; EXCEPT ENABLE EXTERNAL",
        "SHA256 SHA-512 AES128 ED25519 RFC2119 ISO8859 ISO-8859 CP1251 X509 GMT-0300 UTC-0500 GB18030",
        "ERROR EXCEPTION ENVIRONMENT EVALUATION EXPECTED ENDPOINT ENTITY ENOUGH",
        "UTF8 E2E HTTP 404 S3 V8",
    ],
)
def test_words_in_capitals_and_names_of_standards_are_no_error_codes(text: str) -> None:
    """They stand in outputs of all kinds; as a code they would be an exact match of every one."""
    assert codes_of(text) == []


def test_error_codes_stay_codes() -> None:
    """Names of errno, of package managers, of compilers, linters and databases."""
    text = "ENOENT EACCES: EADDRINUSE, ECONNREFUSED ERESOLVE EUSAGE error[E0382] TS2304 ORA-00942 F401 SC2086 LNK2019"
    assert codes_of(text) == text.replace("error[", "").replace("]", "").replace(":", "").replace(",", "").split()


def test_a_keyword_in_an_error_example_is_no_exact_match() -> None:
    """`EXISTS` in an example would otherwise be found in every statement that has it, with full confidence."""
    project = make_project("keyword")
    add_item(project, "reserved-word", proposition=ELSE, error_examples=('syntax error at or near "EXISTS"',))
    assert offered(search(project, "CREATE TABLE IF NOT EXISTS t (a int)\nERROR: out of memory")) == []
    assert offered(search(project, 'ERROR:  syntax error at or near "EXISTS"')) == ["reserved-word"]


class Counted(tuple[str, ...]):
    """Texts that count how often they are gone through."""

    n_read = 0

    def __iter__(self) -> Iterator[str]:
        self.n_read += 1
        return super().__iter__()


def test_skills_are_read_once_a_query() -> None:
    """Not once a candidate: with 1,000 skills that would be most of the time of a search."""
    project = make_project("skills")
    for number in range(20):
        add_item(project, f"push-{number}", proposition=f"Push number {number} to origin: `git push {number}`.")
    skills = Counted(f"skill {number}" for number in range(50))
    assert len(search(project, "git push to origin failed", active_skills=skills).candidates) >= 10
    assert skills.n_read == 1


def test_what_is_read_of_an_example_is_bounded_by_what_it_says() -> None:
    """Masks alone make no fingerprint."""
    assert list(prints_of("12345")) == [] == list(prints_of("---"))
    assert list(prints_of("Killed")) != []


COLOURED = "\x1b[31m\x1b[1mfatal\x1b[0m: \x1b[33mflux\x1b[0m \x1b[33mcapacitor\x1b[0m is jammed\x1b]0;title\x07"


def test_colours_of_a_terminal_change_nothing() -> None:
    """What drives the terminal is no part of words: terms, names, codes and texts are those of the plain output."""
    bare = "fatal: flux capacitor is jammed"
    asked, plain = (ask(HintQuery("r-1", "r-1:a1", "tool.failed", tool_result=text)) for text in (COLOURED, bare))
    assert asked == plain
    project = make_project("colours")
    add_item(project, "plants", proposition=ELSE, entities=("flux capacitor is jammed",))
    assert "entity:flux capacitor is jammed" in search(project, f"before\n{COLOURED}\nafter").candidates[0].matched_by


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_an_embedding_counts_by_its_direction_alone(scale: float) -> None:
    """Numbers a 32-bit float cannot hold would make it all zeros or no number, and silence what matches."""
    project = make_project("scales")
    add_item(project, "plants", proposition=ELSE)
    embed_items(project.pk)
    own = embeddings.embed("plants: Water the office plants on Fridays.").tolist()
    found = search(project, "x", embedding=tuple(scale * one for one in own), embedding_model=embeddings.MODEL)
    assert found.candidates[0].scores["cosine"] == pytest.approx(1.0, abs=0.01) and found.notes == ()


def test_an_embedding_of_zeros_is_not_used_and_that_is_told() -> None:
    """It has no direction: every item would be as far from it as can be, and the gate would hold back all of them."""
    project = make_project("zeros")
    add_item(project, "plants", proposition=ELSE)
    embed_items(project.pk)
    text = "plants in the office need water on fridays"
    zeros = search(project, text, embedding=(0.0,) * embeddings.DIMENSION, embedding_model=embeddings.MODEL)
    assert zeros.notes == ("the embedding was not used: all of its numbers are 0",)
    assert offered(zeros) == offered(search(project, text)) == ["plants"]


def told(project: Project, knowledge_id: str, text: str = "", **fields: object) -> str:
    asked = {"trigger": "tool.failed", **fields}
    query = HintQuery("r-1", "r-1:a1", tool_result=text, **asked)  # type: ignore[arg-type]
    considered = [one.item.knowledge_id for one in find_hints(project.pk, query, engine.VERSION).candidates]
    assert knowledge_id not in considered
    return explain_absence(project.pk, query, engine.VERSION, knowledge_id)


def test_why_an_item_is_no_candidate_is_true() -> None:
    """It does not say that others are nearer where none is, nor that meaning was compared where it was not."""
    project = make_project("absence")
    add_item(project, "plants", proposition=ELSE)
    embed_items(project.pk)
    assert "too far" in told(project, "plants", "kernel panic in module")
    assert "does not know the language of what happened" in told(project, "plants", "ошибка: на диске нет места")
    assert told(project, "plants") == "Nothing was asked that has words to compare."


def test_shared_words_are_told_as_they_were_written() -> None:
    """Not as stems, and only those of the text that decides."""
    project = make_project("absence-words")
    for number in range(60):
        add_item(project, f"k{number:02}", proposition=f"Unstage it: `git reset number{number} repositories`.")
    query = HintQuery("r-1", "r-1:a1", "tool.failed", tool_result="fatal: repositories are broken")
    found = {one.item.knowledge_id for one in find_hints(project.pk, query, engine.VERSION).candidates}
    (absent, *_) = sorted({f"k{number:02}" for number in range(60)} - found)
    assert "It shares repositories with what happened" in explain_absence(project.pk, query, engine.VERSION, absent)


def test_why_an_item_is_no_candidate_at_a_first_call() -> None:
    """An item about the server may be for another trigger; without a server nothing decides."""
    project = make_project("absence-first")
    add_item(project, "failures", proposition=ELSE, mcp_server="git", trigger="tool.failed")
    first = {"trigger": "mcp.first_call", "tool": "git_log"}
    assert "for the trigger tool.failed" in told(project, "failures", mcp_server="git", **first)
    assert "none was given" in told(project, "failures", **first)
    assert "does not name it" in told(project, "failures", mcp_server="time", **first)


@pytest.mark.parametrize(
    "name", ["Aa" + 150 * "A" + "_", "a." * 60 + "Aa" + 50 * "A" + "-", 100 * "Aa" + "!", 1_000 * "aB_"]
)
def test_a_long_name_of_humps_is_told_in_no_time(name: str) -> None:
    """A pattern that could split a run of capitals in many ways would never end on these."""
    assert phrase_of(name) == ()


def test_names_of_errors_are_written_in_humps() -> None:
    """With or without what qualifies them; a word, a file and a shouted name are none."""
    for name in (
        "UndefinedTable",
        "psycopg2.errors.UndefinedTable",
        "ModuleNotFoundError",
        "SomeHTTPError",
        "DeadlockABC1",
    ):
        assert len(phrase_of(name)) >= 2, name
    for name in ("Undefined", "node_modules", "python3.11", "README.md", "UNDEFINED", "undefinedTable"):
        assert phrase_of(name) == (), name


@pytest.mark.parametrize("told_by", ["issued", "offered_before", "suppressed", "active_skills"])
def test_what_was_told_already_leaves_silence_behind(told_by: str) -> None:
    """The rule of this very error stands in the history: rules of other errors of the same tool are no help now."""
    project = make_project("told")
    locked, readonly = "sqlite3.OperationalError: database is locked", "attempt to write a readonly database"
    wait = "A locked database has another writer: wait for it with `PRAGMA busy_timeout = 5000`."
    check = "Writing to a read-only SQLite database fails also when only its folder cannot be written: see `ls -ld .`."
    add_item(project, "locked", proposition=wait, error_examples=(locked,), topics=("locks",))
    add_item(project, "readonly", proposition=check, error_examples=(f"sqlite3.OperationalError: {readonly}",))
    embed_items(project.pk)
    assert offered(search(project, locked))[:1] == ["locked"]
    found = search(project, locked, **{told_by: ("locks" if told_by == "active_skills" else "locked",)})
    assert offered(found) == []
    (other,) = (one for one in found.candidates if one.item.knowledge_id == "readonly")
    assert other.hold_reason == "gate" and other.scores["confidence"] >= engine.GATE
    assert offered(search(project, f"sqlite3.OperationalError: {readonly}", issued=("locked",))) == ["readonly"]


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("flux capacitor variant 0 failed", "flux capacitor variant 7 failed"),
        ("volume on drive C is full", "volume on drive D is full"),
        ("job ended with code 1", "job ended with code 2"),
    ],
)
def test_a_name_stands_whole_with_its_digits_and_letters(name: str, output: str) -> None:
    """What differs in one character that says which one it is does not stand there."""
    project = make_project("digits")
    add_item(project, "plants", proposition=ELSE, entities=(name,))
    reasons = [reason for one in search(project, output).candidates for reason in one.matched_by]
    assert f"entity:{name}" not in reasons
    assert f"entity:{name}" in search(project, f"error: {name}").candidates[0].matched_by
