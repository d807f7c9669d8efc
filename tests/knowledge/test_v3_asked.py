"""What of a query decides in hybrid.v3, by trigger and by the shape of what happened."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.find_hints.findings import HintQuery
from knowledge.find_hints.v3.asked import COMMAND_WORDS, LONG, REST_WEIGHT, Asked, ask
from knowledge.find_hints.v3.index import codes_of, prints_of
from knowledge.find_hints.v3.words import terms

TASK = "Prepare the next release of the parser: write its notes and tell the others once all of it is done"
ERROR = "fatal: not a git repository"


def asked(trigger: str = "tool.failed", **fields: Any) -> Asked:
    return ask(HintQuery("r-1", "r-1:a1", trigger, **fields))


@pytest.mark.parametrize("trigger", ["tool.failed", "operation.stalled"])
def test_at_runtime_a_task_says_nothing_beside_an_output(trigger: str) -> None:
    """The kernel's own triggers and one nobody knows: what happened decides."""
    found = asked(trigger, query=TASK, tool="shell", tool_result=ERROR)
    assert found == asked(trigger, tool_result=ERROR)
    assert set(found.weights) == set(terms(ERROR)) and found.texts == (ERROR,)


def test_at_priming_the_task_decides() -> None:
    """Alone, and beside what else is given."""
    assert set(asked("task.priming", query=TASK).weights) == set(terms(TASK))
    both = asked("task.priming", query=TASK, tool_result=ERROR)
    assert set(both.weights) == set(terms(TASK)) | set(terms(ERROR))


@pytest.mark.parametrize("trigger", ["tool.failed", "agent.search", "task.priming", "operation.stalled"])
def test_without_an_output_the_query_decides(trigger: str) -> None:
    """Blank output is none."""
    found = asked(trigger, query=TASK, tool_result=" \n")
    assert found.texts == (TASK,) and set(found.weights) == set(terms(TASK))


def test_at_a_first_call_only_names_decide() -> None:
    """The result of a success is data: neither its text nor the task is searched with, and the server is a name."""
    fields: dict[str, Any] = {"tool": "git_log", "mcp_server": "Git", "entities": ("branch",)}
    found = asked("mcp.first_call", query=TASK, tool_result=ERROR, **fields)
    assert (found.weights, found.texts, found.row, found.prints, found.codes) == ({}, (), (), frozenset(), ())
    assert found.server == "git"
    assert found.names == {"git_log git log", "branch"}


def test_the_server_is_a_name_at_a_first_call_only() -> None:
    """A failing tool of a server is no first call of it."""
    found = asked(mcp_server="git", tool_result=ERROR)
    assert found.server == "" and found.names == frozenset()


@pytest.mark.parametrize(
    ("command", "beside"),
    [
        ("git push", {"git", "push"}),
        ("sudo /usr/bin/git push --force origin main", {"git", "push", "origin"}),
        ("git -C /srv/app push ./here", {"git", "push"}),
        ("PAGER=cat git push", {"git", "push"}),
        ("pip install requests", {"pip", "instal", "request"}),
    ],
)
def test_a_short_query_is_the_command(command: str, beside: set[str]) -> None:
    """Its program, subcommand and object count; paths, flags and values do not."""
    found = asked(query=command, tool_result="boom happened")
    assert set(found.weights) - set(terms("boom happened")) == beside


def test_the_twelfth_word_makes_no_task_and_the_thirteenth_does() -> None:
    """A command may have so many words; with one more it is taken for the task."""
    command = " ".join(["git", "push", *(f"branch{chr(97 + n)}" for n in range(COMMAND_WORDS - 2))])
    assert "push" in asked(query=command, tool_result="boom").weights
    assert "push" not in asked(query=f"{command} more", tool_result="boom").weights


def test_a_tool_of_its_own_counts_and_a_shell_does_not() -> None:
    """The name of a tool says something; that a shell was used does not."""
    assert {"sqlite", "queri"} <= set(asked(tool="sqlite_query", tool_result="boom").weights)
    assert set(asked(tool="Bash", tool_result="boom").weights) == {"boom"}


def test_of_a_long_log_the_lines_that_tell_are_chosen() -> None:
    """Wherever the error stands; what else is near the end counts little, the middle not at all."""
    noise = [f"step {number}: compiling widget" for number in range(150)]
    noise[20], noise[-1] = "opening gasket store", "closing sprocket store"
    for place in (1, 75, 148):
        lines = [*noise[:place], "fatal: flux capacitor jammed", *noise[place:]]
        found = asked(tool_result="\n".join(lines))
        assert found.texts == ("fatal: flux capacitor jammed",)
        assert {found.weights[term] for term in terms("fatal flux capacitor jammed")} == {1.0}
        assert found.weights["sprocket"] == REST_WEIGHT and "gasket" not in found.weights
        assert found.holds(terms("flux capacitor jammed"))


def test_a_log_is_long_past_its_limit() -> None:
    """Exactly at the limit it is taken as it is."""
    text = "fatal: flux\n" + "word " * LONG
    assert asked(tool_result=text[:LONG]).texts == (text[:LONG],)
    assert asked(tool_result=text[: LONG + 1]).texts == ("fatal: flux",)


def test_a_phrase_stands_whole_or_not_at_all() -> None:
    """In a row and in its order, inflected or not; an empty one stands nowhere."""
    found = asked(tool_result="the flux capacitor has jammed, flux again")
    assert found.holds(terms("flux capacitor")) and found.holds(terms("Capacitors jamming"))
    assert not found.holds(terms("capacitor flux")) and not found.holds(terms("flux jammed"))
    assert not found.holds(terms("again later")) and not found.holds(())


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("a.py:1:80: E501 line too long, E501 again", ["E501"]),
        ("ORA-00942: table or view does not exist", ["ORA-00942"]),
        ("error TS2304: Cannot find name; ENOENT: no such file", ["TS2304", "ENOENT"]),
        ("ERROR EMPTY EXIT EVERY EVENT EXISTS EXPLAIN EXCEPTION", []),
        ("SHA256 SHA-512 AES256 RFC2616 X509 ISO8859 CP1252", []),
        ("EIO E50 e501 xE501 E501x a/E501 --E501 1.E501 ABCDEFG123", []),
    ],
)
def test_error_codes_are_told_from_words(text: str, codes: list[str]) -> None:
    """Each once, in order; capital words, short ones and parts of others are none."""
    assert codes_of(text) == codes
    assert asked(tool_result=text).codes == tuple(codes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cat: /srv/a/notes.txt: No such file or directory", "cat: /home/me/notes.txt: No such file or directory"),
        ("worker 17 died at 2026-11-30T10:00:00Z after 35 ms", "worker 4 died at 2025-01-02T03:04:05Z after 9 ms"),
        ("bash: line 1: frobnicate: command not found", "bash: line 22: frobnicate: command not found"),
    ],
)
def test_fingerprints_are_equal_across_what_varies(one: str, other: str) -> None:
    """Paths, numbers and times; alone and as a line among others."""
    (print_,) = prints_of(one)
    assert print_ in asked(tool_result=other).prints
    assert print_ in asked(tool_result=f"some line before\n{other}\nand one behind").prints
    assert print_ not in asked(tool_result="fatal: not a git repository").prints


def test_an_empty_query_asks_for_nothing() -> None:
    """Blank fields are as none, whatever the trigger."""
    for trigger in ("tool.failed", "task.priming", "agent.search", "mcp.first_call", "unknown"):
        found = asked(trigger, query=" ", tool_result="\n", entities=("",), topics=(" ",), mcp_server=" ")
        assert not (found.weights or found.names or found.topics or found.prints or found.texts or found.server)


HOSTILE = [
    "\x00 nul",
    "\ud800 half",
    "'; DROP TABLE x; --",
    "-b --not | & ! ( ) :*",
    "-" * 8_192,
    "漢" * 8_192,
    "ab." * 2_730,
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("trigger", ["tool.failed", "task.priming", "mcp.first_call"])
def test_hostile_text_is_only_text(text: str, trigger: str) -> None:
    """In every field at once; every term has a weight and a word, and what is told is no longer than a term."""
    found = asked(trigger, query=text, tool=text, tool_result=text, error_class=text, mcp_server=text, entities=(text,))
    assert set(found.weights) <= set(found.words)
    assert set(found.row) <= set(found.words)


@given(text=st.text(max_size=1_000), trigger=st.sampled_from(["tool.failed", "task.priming", "mcp.first_call"]))
def test_any_text_can_be_asked(text: str, trigger: str) -> None:
    """No text breaks it; every weight counts, and what happened holds all of itself."""
    found = asked(trigger, query=text, tool_result=text, entities=(text,), topics=(text,))
    assert all(weight > 0 for weight in found.weights.values())
    assert found.holds(found.row) == bool(found.row)


def test_an_agent_that_searches_asks_in_its_own_words() -> None:
    """Its question counts beside the output, however long it is."""
    found = asked("agent.search", query=TASK, tool="shell", tool_result=ERROR)
    assert {"parser", "git"} <= found.weights.keys()
    assert not found.is_task


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cd repo && git push", "git push"),
        ("bash -lc 'git push origin'", "git push"),
        ("export A=1; cd x; npm run build", "npm run build"),
        ("FOO=1 make all", "make all"),
        ("cd repo", "cd repo"),
    ],
)
def test_the_command_proper_is_taken(line: str, said: str) -> None:
    """Not the shell that runs it, nor the folder it is run in."""
    found = asked(tool="shell", tool_arguments=line, tool_result=ERROR)
    assert found == asked(tool="shell", tool_arguments=said, tool_result=ERROR)
