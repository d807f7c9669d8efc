"""FindHints v2: tiers, order, what is held back and why; the same answer for the same question, whatever it holds."""

import hashlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.stages import HOLD_REASONS
from knowledge import find_hints
from knowledge.find_hints import VERSIONS, v2
from knowledge.find_hints.findings import Findings, HintQuery, ItemView

# A frozen version is never edited: what it answered must stay explainable. A change is a new version, whose hash is
#   cat $(ls knowledge/find_hints/v3/*.py | LC_ALL=C sort) | sha256sum
FROZEN = {
    "lexical-entity-topic.v2": "53aaa6fde681aed55efc4ae3701695be23c39478900b997516eef7a7c77c6dcd",
    "hybrid.v3": "b0460ee85fbe2ceae0e57620280dc0be3437140360363ba8ff123a9188a520e3",
}
PLACES = {"lexical-entity-topic.v2": "v2.py", "hybrid.v3": "v3/*.py"}


def make_item(knowledge_id: str, proposition: str = "", **fields: object) -> ItemView:
    item = ItemView(
        knowledge_id, 1, "claim", "confirmed", proposition or f"Rule {knowledge_id * 3}: `act-{knowledge_id * 3}`."
    )
    return replace(item, **fields)  # type: ignore[arg-type]


def ask(*items: ItemView, text: str = "", replaced: dict[str, ItemView] | None = None, **fields: object) -> Findings:
    query = HintQuery("r-1", "r-1:a1", "tool.failed", tool_result=text)
    return v2.find(replace(query, **fields), items, replaced or {})  # type: ignore[arg-type]


def offered(findings: Findings) -> list[str]:
    return [finding.item.knowledge_id for finding in findings.offered]


def held(findings: Findings) -> dict[str, str]:
    return {f.item.knowledge_id: f.hold_reason for f in findings.candidates if f.hold_reason}


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_are_frozen(version: str) -> None:
    """The files of a released version, in the order of their names, have the bytes they were released with."""
    files = sorted(Path(find_hints.__file__).parent.glob(PLACES[version]))
    assert files
    assert hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest() == FROZEN[version]


def test_tokens_are_lower_case_runs_without_stop_words() -> None:
    """Runs of letters, digits, _ and -, longer than one; negations stay in both languages."""
    assert v2.tokens("The FILE my_file-2.TXT, is -b --amend a __init__") == [
        "file", "my_file-2", "txt", "amend", "__init__",
    ]  # fmt: skip
    assert v2.tokens("Это не ошибка, и нет модуля") == ["не", "ошибка", "нет", "модуля"]
    assert v2.tokens("do not, no") == ["not", "no"]


def test_tiers_order_entity_topic_phrase_terms() -> None:
    """An entity beats a topic, a topic a whole phrase, a phrase two shared terms."""
    items = [
        make_item("a-terms", "Widget assembler stalls: `restart`."),
        make_item("b-phrase", error_examples=("assembler jammed here",)),
        make_item("c-topic", topics=("conveyor",)),
        make_item("d-entity", entities=("widget press",)),
    ]
    findings = ask(*items, text="widget press: widget assembler jammed here", topics=("Conveyor",))
    assert offered(findings) == ["d-entity", "c-topic", "b-phrase", "a-terms"]
    assert [finding.scores["tier"] for finding in findings.offered] == [0, 1, 2, 3]
    assert [finding.rank for finding in findings.offered] == [1, 2, 3, 4]


def test_ties_are_broken_by_kind_state_and_id() -> None:
    """Within a tier claims go before observations, confirmed before proposed before challenged, then the id decides."""
    same = {"entities": ("flux",)}
    items = [
        make_item("a", kind="observation", **same),
        make_item("b", state="challenged", **same),
        make_item("c", state="proposed", **same),
        make_item("e", **same),
        make_item("d", **same),
    ]
    assert offered(ask(*items, text="flux")) == ["d", "e", "c", "b", "a"]


def test_one_shared_term_is_enough_only_when_there_is_one() -> None:
    """Two terms must be shared with one line, unless the query has a single term."""
    item = make_item("k", "Sprocket jam: `oil`.")
    assert offered(ask(item, text="sprocket")) == ["k"]
    assert offered(ask(item, text="sprocket broken")) == []
    assert offered(ask(item, text="sprocket broken by a jam")) == ["k"]
    assert offered(ask(item, text="sprocket broken\nno jam")) == []


def test_task_is_searched_at_priming_and_not_again_with_an_error() -> None:
    """The words of the task find at the start; with an error at hand only the error finds."""
    item = make_item("k", "Sprocket jam: `oil`.")
    assert offered(ask(item, trigger="task.priming", query="clear the sprocket jam")) == ["k"]
    assert offered(ask(item, text="disk quota reached", query="clear the sprocket jam")) == []


def test_first_call_counts_server_and_tool_as_entities() -> None:
    """The server's own rules and those naming the tool come; the words of the result bring nothing."""
    items = [
        make_item("server", mcp_server="git", trigger="mcp.first_call"),
        make_item("tool", entities=("git_status",)),
        make_item("result", "Sprocket jam: `oil`."),
        make_item("other", mcp_server="time", trigger="mcp.first_call"),
    ]
    fields = {"trigger": "mcp.first_call", "mcp_server": "git", "tool": "git_status"}
    assert offered(ask(*items, text="sprocket jam", **fields)) == ["server", "tool"]


def test_every_own_reason_to_hold_back() -> None:
    """Each candidate that is not offered says why."""
    same = {"entities": ("flux",)}
    items = [
        make_item("issued", **same),
        make_item("earlier", **same),
        make_item("dropped", **same),
        make_item("retired", state="invalidated", **same),
        make_item("risk", state="at_risk", **same),
        make_item("quiet", suspended=True, **same),
        make_item("scoped", tool="other", **same),
        make_item("versed", topics=("fluxing",), **same),
    ]
    findings = ask(
        *items, text="flux", tool="shell", issued=("issued",), offered_before=("earlier",), suppressed=("dropped",),
        active_skills=("Fluxing",),
    )  # fmt: skip
    assert held(findings) == {
        "issued": "already_issued", "earlier": "offered_in_batch", "dropped": "suppressed", "retired": "retired",
        "risk": "ineligible_state", "quiet": "suspended", "scoped": "scope_mismatch", "versed": "skill_active",
    }  # fmt: skip
    assert set(held(findings).values()) <= set(HOLD_REASONS)


def test_suspended_item_is_still_offered_at_priming() -> None:
    """Suspension is from runtime triggers only."""
    item = make_item("quiet", suspended=True, entities=("flux",))
    assert offered(ask(item, trigger="task.priming", query="flux")) == ["quiet"]


def test_duplicates_near_duplicates_topics_and_limit() -> None:
    """Each repetition of what is offered already is held back with its own reason, and the limit is last."""
    rule = "When the flux overheats reduce the current step by step and wait until it cools down: `cool now`."
    same = {"entities": ("flux",)}
    items = [
        make_item("a", rule, topics=("heat",), **same),
        make_item("b", rule.upper(), **same),
        make_item("c", rule.replace("cools", "chills"), **same),
        make_item("d", "Second: `two` about lamps.", topics=("heat",), **same),
        make_item("e", "Third: `three` about doors.", topics=("heat", "doors"), **same),
        make_item("f", "Fourth: `four` about roofs.", **same),
        make_item("g", "Fifth: `five` about walls.", **same),
    ]
    findings = ask(*items, text="flux", limit=3)
    assert offered(findings) == ["a", "d", "f"]
    assert held(findings) == {"b": "duplicate_text", "c": "near_duplicate", "e": "topic_cap", "g": "limit"}
    assert [finding.rank for finding in findings.candidates] == list(range(1, 8))


def test_retired_item_yields_its_live_replacement() -> None:
    """The retired one is held back, the live one offered with the reason that it replaces it."""
    old = make_item("old", state="superseded", entities=("flux",), replaced_by="new")
    new = make_item("new", "Nothing in common: `act`.")
    findings = ask(old, text="flux", replaced={"old": new})
    assert offered(findings) == ["new"]
    assert findings.offered[0].matched_by[0] == "replaces:old"
    assert held(findings) == {"old": "retired"}
    assert offered(ask(old, text="flux")) == []


HOSTILE = [
    "'; DROP TABLE knowledge_knowledgeitem; --",
    '"quoted" and \\ back \\" slash',
    "-b --not | & ! ( ) :*",
    "word " * 20_000,
    "\x00 nul \x00",
    "🙂🙃" * 2_000,
    "ошибка: не найден модуль " * 300,
    "x" * 8_192,
    "a-" * 4_096,
    "\ud800 lone",
    "",
    "\n\n\t",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    """Whatever the text is, the search ends and invents no match."""
    item = make_item("k", "Flux capacitor overheats: `cool`.", error_examples=("flux capacitor",))
    assert offered(ask(item, text=text)) == []
    assert offered(ask(item, text=f"{text}\nflux capacitor overheats")) == ["k"]


WORDS = st.sampled_from(["git", "not", "repository", "sqlite", "table", "flux", "jam", "не", "модуль", "branch"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
ITEMS = st.lists(
    st.builds(
        make_item,
        st.uuids().map(str),
        TEXTS.map(lambda text: text + " `act`"),
        kind=st.sampled_from(["claim", "observation"]),
        state=st.sampled_from(["confirmed", "proposed", "challenged", "at_risk", "invalidated"]),
        entities=st.lists(TEXTS, max_size=2).map(tuple),
        topics=st.lists(WORDS, max_size=2).map(tuple),
        error_examples=st.lists(TEXTS, max_size=2).map(tuple),
    ),
    max_size=12,
    unique_by=lambda item: item.knowledge_id,
)


@given(items=ITEMS, text=TEXTS, limit=st.integers(1, 20), seed=st.integers())
def test_answer_depends_on_the_question_only(items: list[ItemView], text: str, limit: int, seed: int) -> None:
    """Any order of the items gives the same findings; ranks are dense; offers keep the limit and their own rules."""
    findings = ask(*items, text=text, limit=limit)
    shuffled = random.Random(seed).sample(items, len(items))
    assert ask(*shuffled, text=text, limit=limit) == findings
    assert [finding.rank for finding in findings.candidates] == list(range(1, len(findings.candidates) + 1))
    assert len(findings.offered) <= limit
    assert all(finding.matched_by for finding in findings.candidates)
    assert {finding.item.state for finding in findings.offered} <= {"confirmed", "proposed", "challenged"}


@given(text=st.text(max_size=300))
def test_any_text_can_be_asked(text: str) -> None:
    """No text breaks the search."""
    ask(make_item("k", "Flux: `act`.", entities=("flux",)), text=text, query=text)
