"""What the knowledge pages say, without a page: differences between revisions, moves, results of a tried query."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.http import QueryDict

from contract import stages
from debugger.queries.knowledge_diff import Part, compare, word_diff
from debugger.queries.knowledge_measured import operating_point
from debugger.queries.knowledge_moves import STATE_EFFECTS, moves_of
from debugger.queries.knowledge_try import explain
from debugger.views.knowledge_forms import read_form
from knowledge.drafts import ItemDraft
from knowledge.find_hints.findings import Finding, Findings, HintQuery, ItemView
from knowledge.items import TRANSITIONS

TEXTS = {
    **dict.fromkeys(("proposition", "why", "verify", "caution", "trigger", "tool", "mcp_server", "version_scope"), ""),
    **dict.fromkeys(("entities", "topics", "error_examples", "evidence"), ()),
}
QUERY = HintQuery("", "", trigger="tool.failed", tool="shell", tool_result="fatal: not a git repository", limit=3)


def test_a_changed_word_stands_beside_the_old_one() -> None:
    """Words are compared, not characters or lines; what is the same stays one run."""
    assert word_diff("Run `git init` first.", "Run `git init -b main` first.") == (
        Part("Run `git init"),
        Part(" -b main", "ins"),
        Part("` first."),
    )
    assert word_diff("one old word", "one new word") == (
        Part("one "),
        Part("old", "del"),
        Part("new", "ins"),
        Part(" word"),
    )


def test_only_fields_that_differ_are_compared() -> None:
    """Entries of a list are told one by one; one in another's place is compared with it word by word."""
    new = {**TEXTS, "tool": "git", "entities": ("not a git repository", "new"), "topics": ["git"]}
    diff = compare({**TEXTS, "entities": ("not a repository",), "topics": ("git",)}, new)
    assert [field.name for field in diff] == ["tool", "entities"]
    assert diff[0].lines == ((Part("git", "ins"),),)
    assert diff[1].lines == ((Part("not a "), Part("git ", "ins"), Part("repository")), (Part("new", "ins"),))
    assert compare(TEXTS, TEXTS) == ()


@pytest.mark.parametrize("state", stages.ITEM_STATES)
def test_only_moves_that_the_lifecycle_allows_are_offered(state: str) -> None:
    """Each move to a state is one of the table's; final ones come last; a retired item has none at all."""
    moves = moves_of(state, False)
    targets = [move.name for move in moves if move.is_state]
    assert sorted(targets) == sorted(TRANSITIONS[state])
    assert bool(moves) == (state not in stages.RETIRED_STATES)
    assert [move.is_final for move in moves] == sorted(move.is_final for move in moves)
    assert STATE_EFFECTS[state]


def test_a_suspended_item_may_be_resumed_and_another_suspended() -> None:
    """One of the two is offered, never both."""
    names = [{move.name for move in moves_of("confirmed", suspended)} for suspended in (True, False)]
    assert ["resume" in one for one in names] == [True, False]
    assert ["suspend" in one for one in names] == [False, True]


def item(knowledge_id: str = "git-init", **fields: object) -> ItemView:
    return replace(ItemView(knowledge_id, 2, "claim", "confirmed", "Run `git init`."), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", stages.HOLD_REASONS)
def test_every_reason_to_hold_back_is_explained(reason: str) -> None:
    """The meaning is the vocabulary's own."""
    found = Findings("v", "terms", (Finding(item(), 1, (), {}, reason),))
    (held,) = explain(QUERY, found, 1.0).held
    assert held.reason_meaning == stages.HOLD_REASONS[reason]


@pytest.mark.parametrize(
    ("reason", "fields", "scores", "decided"),
    [
        ("gate", {}, {"confidence": 0.31}, "confidence 0.31, needed 0.55"),
        ("gate", {}, {"confidence": 0.5496}, "confidence 0.5496, needed 0.5500"),
        ("gate", {}, {}, ""),
        ("limit", {}, {}, "at most 3 were asked for"),
        ("scope_mismatch", {"tool": "git"}, {}, "it is for the tool git, here it is shell"),
        ("scope_mismatch", {"mcp_server": "time"}, {}, "it is for the MCP server time, here there is none"),
        ("retired", {"state": "superseded", "replaced_by": "new"}, {}, "it is superseded, replaced by new"),
        ("ineligible_state", {"state": "at_risk"}, {}, "it is at risk"),
        ("near_duplicate", {}, {"similarity": 0.87}, "87% of its words are those of the other"),
        ("topic_cap", {"topics": ("git",)}, {}, "the topic is git"),
    ],
)
def test_what_decided_is_told(reason: str, fields: dict[str, object], scores: dict[str, float], decided: str) -> None:
    """A reason comes with the number, the scope or the state that it rests on."""
    found = Findings("v", "terms", (Finding(item(**fields), 1, (), scores, reason),), gate=0.55)
    assert explain(QUERY, found, 1.0).held[0].decided == decided


def test_a_result_tells_what_matched_and_its_parts() -> None:
    """Reasons in words, the replaced item apart, bars filled by the share of one, counts without a bar."""
    matched = ("fingerprint:error example", "entity:not a git repository", "replaces:old-one", "unheard:of")
    scores = {"shared_terms": 2, "odd": 0.5, "cosine": 0.62, "score": 1.0}
    found = Findings("v", "exact+lexical", (Finding(item(), 1, matched, scores),))
    tried = explain(QUERY, found, 1.0)
    (result,) = tried.offered
    assert tried.legs == ("exact", "lexical")
    assert [piece.text for piece in result.matched] == [
        "the same error as its example", "·", "names", "not a git repository", "·", "unheard", "of",
    ]  # fmt: skip
    assert result.replaces == "old-one"
    assert [(part.name, part.filled) for part in result.parts] == [
        ("score", 1000), ("cosine", 620), ("shared_terms", None), ("odd", 500),
    ]  # fmt: skip
    assert tried.tokens == result.tokens > 0


def test_many_held_back_are_shown_nearest_first_and_counted() -> None:
    """A few stand open, more are folded away, and the rest is counted."""
    many = tuple(Finding(item(f"k-{rank}"), rank, (), {}, "gate") for rank in range(1, 41))
    tried = explain(QUERY, Findings("v", "terms", many, gate=0.5), 1.0)
    assert [result.rank for result in (*tried.nearest, *tried.further)] == list(range(1, 31))
    assert (len(tried.nearest), tried.n_unshown, tried.n_held) == (5, 10, 40)


def test_a_form_tells_every_mistake_at_its_field_and_keeps_what_was_typed() -> None:
    """Three fields are wrong: three errors, and each value as it was sent."""
    post = QueryDict(mutable=True)
    post.update({"knowledge_id": "", "proposition": "word " * 200, "trigger": "Bad Trigger", "why": "because"})
    post.setlist("error_examples", ["fatal: one\r\ntwo", "", "second"])
    form = read_form(post)
    assert set(form.errors) == {"knowledge_id", "proposition", "trigger"}
    assert form.draft is None
    assert form.values["why"] == "because" and form.values["trigger"] == "Bad Trigger"
    assert form.values["error_examples"] == ["fatal: one\ntwo", "second"]


def test_a_form_in_order_is_a_draft() -> None:
    """One entry a line; of a revised item its id and its place in the lifecycle stay whatever was sent."""
    post = QueryDict(mutable=True)
    post.update(
        {"knowledge_id": "other", "proposition": " Do it. ", "entities": "one\r\n\r\n two \n", "state": "confirmed"}
    )
    made = read_form(post).draft
    assert made == ItemDraft("other", "Do it.", state="confirmed", entities=("one", "two"))
    kept = ItemDraft("mine", "Old.", state="challenged", suspended_dynamic=True)
    revised = read_form(post, kept).draft
    assert revised is not None
    assert (revised.knowledge_id, revised.state, revised.suspended_dynamic) == ("mine", "challenged", True)


def test_a_secret_is_refused_at_its_field() -> None:
    """What looks like a secret is an error there and the message does not repeat it."""
    post = QueryDict(mutable=True)
    secret = "ghp_" + "a1B2" * 9
    post.update({"knowledge_id": "k", "proposition": "Do it.", "why": f"with {secret}"})
    form = read_form(post)
    assert set(form.errors) == {"why"}
    assert secret not in form.errors["why"]


def test_the_operating_point_is_one_sentence_or_none(tmp_path: Path) -> None:
    """What was measured is told with its numbers; a version that was not measured, or no file, says nothing."""
    file = tmp_path / "measured.json"
    assert operating_point("v", file.with_name("absent.json")) == ""
    point = {"gate": 0.55, "right_passed": 0.834, "wrong_passed": 0.07, "n_answerable": 777, "n_unanswerable": 1000}
    file.write_text(json.dumps({"versions": {"v": {"operating_point": point}, "w": {"operating_point": None}}}))
    said = operating_point("v", file)
    assert "(0.55)" in said and "83% of the right hints pass" in said and "7% of the failures" in said
    assert "777 failures" in said and "1,000" in said
    assert operating_point("w", file) == "" == operating_point("x", file)
