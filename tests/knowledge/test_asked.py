"""What a query says to hybrid.v3 of the call that failed: the same, whichever field it comes in; nothing breaks it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.find_hints.findings import HintQuery
from knowledge.find_hints.v3.asked import Asked, ask
from knowledge.find_hints.v3.called import READ, SAID, command_of

TASK = "Prepare the next release of this project, write its notes, and tell the others once all of it is done"
OUTPUT = "fatal: The current branch main has no upstream branch."


def asked(**fields: Any) -> Asked:
    return ask(HintQuery("r-1", "r-1:a1", "tool.failed", tool="shell", tool_result=OUTPUT, **fields))


@pytest.mark.parametrize(
    "arguments",
    [
        "git push",
        '{"command": "git push"}',
        '{"command": "git push", "timeout": 60}',
        '{"cwd": "/srv/app", "cmd": ["git", "push"]}',
        '{"script": "sudo git push --force"}',
        '{"arguments": {"command": "git push"}}',
        '{"command": "git push", "why": "to publish wh',
    ],
)
@pytest.mark.parametrize("query", [TASK, "ls", ""])
def test_the_call_says_the_same_as_a_query_that_is_a_command(arguments: str, query: str) -> None:
    """As text and as JSON, whole and cut, and whatever the query beside it is: what is searched with is equal."""
    told = asked(query="git push")
    assert {"git", "push"} <= told.words.keys()
    assert asked(query=query, tool_arguments=arguments) == told
    assert asked(query=query) != told


def test_a_task_stands_beside_nothing() -> None:
    """A query of many words is the task: without arguments the output is all there is, and the call's words weigh."""
    alone, beside = asked(query=TASK), asked(query=TASK, tool_arguments="git push")
    assert alone == asked(query="")
    assert len(alone.texts) == 1 and len(beside.texts) == 2
    assert beside.weights["git"] == 1.0 and "git" not in alone.weights


@pytest.mark.parametrize("arguments", ["{}", " { } ", "{", '{"a": 5}', '{"a": []}', '{"a": "/srv/x.py"}', "--force"])
def test_arguments_without_words_stand_for_the_command_all_the_same(arguments: str) -> None:
    """A short query is not taken for the command of a call whose arguments are known and say nothing."""
    assert asked(query="git push", tool_arguments=arguments) == asked(query="")
    assert asked(query="git push", tool_arguments=" \n") == asked(query="git push") != asked(query="")


@pytest.mark.parametrize("trigger", ["task.priming", "mcp.first_call"])
def test_other_triggers_ask_nothing_of_the_arguments(trigger: str) -> None:
    """The task is searched with at the start, a server's first success with its name."""
    query = HintQuery("r-1", "r-1:a1", trigger, query=TASK, tool="log", mcp_server="git", tool_result=OUTPUT)
    assert ask(replace(query, tool_arguments="git push")) == ask(query)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("git push", "git push"),
        ("[ -f a ] && { make; }", "[ -f a ] && { make; }"),
        ("{ make; } 2>&1", "{ make; } 2>&1"),
        ('{"command": "echo \\"hi\\"\\nmake"}', 'echo "hi"\nmake'),
        ('{"command": "git pu', "git pu"),
        ('{"command": "git push \\', "git push "),
        ('{"title": "Fix parser", "path": "src/a.py", "n": [1, {"b": "now"}]}', "Fix parser now"),
        ('{"command": 7, "title": "Fix parser"}', "Fix parser"),
        ('{"title": "of the cut one", "body": "many wo', "of the cut one many wo"),
        ('{"a": "\\ud83d x"}', "? x"),
        ("null", "null"),
    ],
)
def test_what_arguments_say(arguments: str, said: str) -> None:
    """A command is taken as it is; of other objects the words of their texts, without paths."""
    assert command_of(arguments) == said


def test_huge_and_deep_arguments_are_bounded() -> None:
    """Megabytes and thousands of levels cost what the start of them costs."""
    deep, quotes, slashes = '{"a": ' * 100_000 + '"x"', '{"' * 10**6, '{"a": "' + "\\" * 10**6
    for arguments in ("x " * 10**6, json.dumps({"command": "y " * 10**6}), deep, quotes, slashes):
        said = command_of(arguments)
        assert len(said) <= SAID
        assert said == command_of(arguments[:READ])


@given(
    st.text(max_size=80)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ).map(json.dumps),
    st.integers(0, 200),
)
def test_any_arguments_are_asked_with(arguments: str, cut: int) -> None:
    """Whatever a model wrote, cut anywhere: text that the database and the model of meanings take."""
    made = asked(query=TASK, tool_arguments=arguments[:cut])
    for text in (*made.texts, *made.words, *made.weights):
        assert "\0" not in text
        text.encode()
