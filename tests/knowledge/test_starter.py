"""The starter knowledge: in order, found by its own real errors, silent on what it does not know, in every version."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from contract.text import estimate_tokens
from ingest.models import Project
from knowledge.drafts import PROPOSITION_TOKENS, ItemDraft, parse_draft
from knowledge.find_hints import find_hints, v2
from knowledge.find_hints.findings import Findings, HintQuery, ItemView
from knowledge.items import import_items
from knowledge.search_rows import embed_items
from tests.factories import make_project

STARTER = Path(__file__).parents[2] / "knowledge" / "starter"
DRAFTS = [parse_draft(json.loads(line)) for file in sorted(STARTER.glob("*.jsonl")) for line in file.open()]
EXAMPLES = [(draft.knowledge_id, draft.mcp_server, text) for draft in DRAFTS for text in draft.error_examples]
RECALL_FLOOR = 0.95

# Real outputs of programs the starter set says nothing about.
FOREIGN_ERRORS = [
    "E: Invalid operation saerch",
    "docker: Error response from daemon: pull access denied for foo, repository does not exist.",
    "error[E0308]: mismatched types: expected `u32`, found `&str`",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "IndexError: list index out of range",
    "parse error: Invalid numeric literal at line 1, column 3",
    'jq: error (at <stdin>:1): Cannot index array with string "a"',
    "grep: Unmatched ( or \\(",
    "sed: -e expression #1, char 5: unterminated `s' command",
    "bash: line 1: kill: (999999) - No such process",
    "HTTP 503 Service Unavailable",
    "AssertionError: assert 3 == 4",
    "patch: **** Only garbage was found in the patch input.",
    "Segmentation fault (core dumped)",
    "ERROR:  division by zero",
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "ssh: Could not resolve hostname nohost.invalid: Name or service not known",
    "ОШИБКА: деление на ноль",
]


def view_of(draft: ItemDraft) -> ItemView:
    return ItemView(
        knowledge_id=draft.knowledge_id,
        revision=1,
        kind=draft.kind,
        state=draft.state,
        proposition=draft.proposition,
        caution=draft.caution,
        trigger=draft.trigger,
        tool=draft.tool,
        mcp_server=draft.mcp_server,
        entities=draft.entities,
        topics=draft.topics,
        error_examples=draft.error_examples,
    )


ITEMS = [view_of(draft) for draft in DRAFTS]


def search(text: str = "", **fields: str) -> Findings:
    query = HintQuery("r-1", "r-1:a1", fields.pop("trigger", "tool.failed"), tool_result=text, **fields)
    return v2.find(query, ITEMS, {})


@pytest.fixture
def starter(db: None) -> Project:
    """A project with the starter set as it is imported; its vectors are still to be made."""
    project = make_project("alpha")
    import_items(project, DRAFTS, by="tester")
    return project


def ask_v3(project: Project, text: str, **fields: str) -> Findings:
    query = HintQuery("r-1", "r-1:a1", fields.pop("trigger", "tool.failed"), tool_result=text, **fields)
    return find_hints(project.pk, query, "hybrid.v3")


def offered(findings: Findings) -> list[str]:
    return [finding.item.knowledge_id for finding in findings.offered]


def test_items_are_many_distinct_and_short() -> None:
    """At least thirty items, each with an id of its own and a rule within the limit of tokens."""
    assert len(DRAFTS) >= 30
    assert len({draft.knowledge_id for draft in DRAFTS}) == len(DRAFTS)
    assert max(estimate_tokens(draft.proposition) for draft in DRAFTS) <= PROPOSITION_TOKENS


@pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: draft.knowledge_id)
def test_rule_holds_the_action_and_can_be_found(draft: ItemDraft) -> None:
    """A rule names its concrete action in backticks; an item for failures brings an example of the error."""
    assert draft.proposition.count("`") >= 2
    assert draft.topics
    assert draft.error_examples or draft.trigger != "tool.failed"


def test_each_error_finds_its_own_item_first(record_property: Callable[[str, object], None]) -> None:
    """Recall at rank 1 over all error examples of the set."""
    missed = [
        (knowledge_id, text)
        for knowledge_id, server, text in EXAMPLES
        if offered(search(text, mcp_server=server, tool="shell", error_class="exit_nonzero"))[:1] != [knowledge_id]
    ]
    recall = 1 - len(missed) / len(EXAMPLES)
    record_property("recall_at_1", recall)
    assert recall >= RECALL_FLOOR, missed


@pytest.mark.parametrize("text", FOREIGN_ERRORS)
def test_unknown_error_finds_nothing(text: str) -> None:
    """An error the set knows nothing about brings no hint, whatever the task was."""
    assert offered(search(text, tool="shell", error_class="exit_nonzero", query="Release the parser package")) == []


def test_task_alone_does_not_find_what_only_the_error_tells() -> None:
    """The rule for the missing repository comes with the error, first and alone, not with the task."""
    task = "Release the parser package: record its present state as version 1.0."
    primed = search(trigger="task.priming", query=task)
    assert "git-not-a-repository" not in [finding.item.knowledge_id for finding in primed.candidates]
    error = "fatal: not a git repository (or any of the parent directories): .git"
    assert offered(search(error, query=task, tool="shell", error_class="exit_nonzero")) == ["git-not-a-repository"]


@pytest.mark.parametrize("server", ["git", "time"])
def test_first_call_brings_practices_of_that_server_only(server: str) -> None:
    """A first successful call finds rules scoped to its server and trigger, and no rule for failures."""
    findings = search("On branch main", trigger="mcp.first_call", mcp_server=server, tool=f"{server}__any")
    found = {finding.item.mcp_server for finding in findings.offered}
    assert found == {server}
    assert {finding.item.trigger for finding in findings.offered} == {"mcp.first_call"}


def test_v3_finds_the_item_of_each_error_first(starter: Project) -> None:
    """Each example is an exact match of its own item, ahead of all others and past the gate."""
    assert embed_items(starter.pk) == len(DRAFTS)
    missed = [
        (knowledge_id, text)
        for knowledge_id, server, text in EXAMPLES
        if offered(ask_v3(starter, text, mcp_server=server, tool="shell", error_class="exit_nonzero"))[:1]
        != [knowledge_id]
    ]
    assert missed == []


@pytest.mark.parametrize("by_meaning", [True, False], ids=["vectors", "words"])
def test_v3_offers_nothing_for_unknown_errors(starter: Project, by_meaning: bool, settings: Settings) -> None:
    """What the set knows nothing about brings no hint, with vectors and by words alone, whatever the task was."""
    settings.HINTS_EMBEDDINGS = by_meaning
    assert not by_meaning or embed_items(starter.pk) == len(DRAFTS)
    task = "Release the parser package: record its present state as version 1.0, and tell those who wait for it"
    told = {
        text: offered(ask_v3(starter, text, tool="shell", error_class="exit_nonzero", query=task))
        for text in FOREIGN_ERRORS
    }
    assert {text: ids for text, ids in told.items() if ids} == {}


def test_v3_finds_by_the_error_what_the_task_does_not_tell(starter: Project) -> None:
    """The rule for the missing repository comes with the error and not with the task."""
    task = "Release the parser package: record its present state as version 1.0."
    assert "git-not-a-repository" not in offered(ask_v3(starter, "", trigger="task.priming", query=task))
    error = "fatal: not a git repository (or any of the parent directories): .git"
    assert offered(ask_v3(starter, error, query=task, tool="shell"))[:1] == ["git-not-a-repository"]


@pytest.mark.parametrize("server", ["git", "time"])
def test_v3_brings_practices_of_a_server_at_its_first_call(starter: Project, server: str) -> None:
    """Those of that server and trigger only."""
    findings = ask_v3(starter, "On branch main", trigger="mcp.first_call", mcp_server=server, tool=f"{server}__any")
    assert {finding.item.mcp_server for finding in findings.offered} == {server}
    assert {finding.item.trigger for finding in findings.offered} == {"mcp.first_call"}
