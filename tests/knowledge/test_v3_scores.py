"""The numbers and verdicts of hybrid.v3: what rarity, meaning and exact matches do to rank, confidence and gate."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.stages import HOLD_REASONS
from knowledge.find_hints.findings import Finding, HintQuery, ItemView
from knowledge.find_hints.v3.asked import ask
from knowledge.find_hints.v3.scores import GATE, Scored, Terms, rarity, scored
from knowledge.find_hints.v3.verdicts import (
    BESIDE_FIRM,
    CODE_ITEMS,
    EXACT,
    PARTLY,
    WHOLE,
    Match,
    codes_held,
    in_its_place,
    judge,
    match,
)
from tests.knowledge.test_find_hints import make_item

QUERY = HintQuery("r-1", "r-1:a1", "tool.failed", tool_result="flux jam")
NOTHING: dict[int, float] = {}


def numbers(item_id: int = 1, score: float = 0.5, confidence: float = 0.9, **fields: Any) -> Scored:
    given_ = {"lexical": 1.0, "share": 0.5, "overlap": 0.5, "cosine": None, **fields}
    return Scored(item_id=item_id, score=score, confidence=confidence, **given_)


def partly(item: ItemView, **fields: Any) -> Match:
    return Match(item, PARTLY, ("terms:flux",), numbers(**fields))


def judged(*matches: Match, gate: float = 0.5, **fields: Any) -> tuple[Finding, ...]:
    query = HintQuery("r-1", "r-1:a1", fields.pop("trigger", "tool.failed"), tool_result="flux jam", **fields)
    return judge(query, matches, gate)


def reasons(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {finding.item.knowledge_id: finding.hold_reason for finding in findings}


def matched_with(item: ItemView, text: str, held: int = 1, **fields: Any) -> Match:
    asked = ask(HintQuery("r-1", "r-1:a1", fields.pop("trigger", "tool.failed"), tool_result=text, **fields))
    return match(asked, item, numbers(confidence=0.0), dict.fromkeys(asked.codes, held))


def test_a_rare_term_is_worth_more_and_none_less_than_nothing() -> None:
    """Also when the counts are off: more items with a term than items."""
    assert rarity(1_000, 1) > rarity(1_000, 10) > rarity(1_000, 999) > 0
    assert rarity(10, 1_000_000) == 0.0
    off = Terms.of({"flux": 1.0}, 0, {"flux": 500})
    assert off.total == 0.0 and off.matched({"flux": 1.0})[1] == 0.0


def test_the_share_is_of_what_the_query_is_worth() -> None:
    """Everything shared is 1, nothing 0, and the shared terms come the rarest first."""
    terms = Terms.of({"flux": 1.0, "jam": 1.0, "error": 1.0}, 100, {"flux": 1, "jam": 9, "error": 90})
    lexical, share, _, shared = terms.matched({"error": 1.0, "jam": 1.0, "flux": 1.0, "more": 1.0})
    assert lexical > 0 and share == pytest.approx(1.0) and shared == ("flux", "jam", "error")
    assert terms.matched({"other": 1.0}) == (0.0, 0.0, 0.0, ())
    assert terms.matched({"flux": 1.0})[1] > terms.matched({"jam": 1.0, "error": 1.0})[1]


def test_nearness_of_meaning_moves_rank_and_confidence() -> None:
    """Of two items with the same terms the nearer is first; an item without a vector is judged by its terms."""
    terms = Terms.of({"flux": 1.0}, 100, {"flux": 3})
    bags = {1: {"flux": 1.0}, 2: {"flux": 1.0}, 3: {"flux": 1.0}}
    near, far, unread = scored(terms, bags, {1: 0.9, 2: 0.1}, by_meaning=True)
    assert near.score > far.score and near.confidence > far.confidence
    assert unread.cosine is None and near.score > unread.score > far.score
    assert unread.confidence == scored(terms, bags, NOTHING, by_meaning=False)[2].confidence


@given(
    cosine=st.none() | st.floats(-1.0, 1.0),
    bag=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.5, 40.0), max_size=6),
    n_items=st.integers(0, 10**9),
    counts=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**9)),
)
def test_confidence_is_a_share_whatever_the_numbers(
    cosine: float | None, bag: dict[str, float], n_items: int, counts: dict[str, int]
) -> None:
    """Between 0 and 1, never undefined, counts that are off included."""
    terms = Terms.of(dict.fromkeys("abc", 1.0), n_items, counts)
    cosines = {} if cosine is None else {1: cosine}
    (one,) = scored(terms, {1: bag}, cosines, by_meaning=cosine is not None)
    assert 0.0 <= one.confidence <= 1.0
    assert one.score == one.score and -1.0 <= one.score <= 1.0


@pytest.mark.parametrize(("confidence", "reason"), [(GATE, ""), (GATE - 1e-6, "gate"), (1.0, ""), (0.0, "gate")])
def test_the_gate_lets_pass_what_reaches_it(confidence: float, reason: str) -> None:
    """The threshold itself passes, the least below it does not."""
    assert reasons(judged(partly(make_item("k"), confidence=confidence), gate=GATE)) == {"k": reason}


def test_without_a_gate_everything_passes_it() -> None:
    """A gate of 0 holds nothing back."""
    assert reasons(judged(partly(make_item("k"), confidence=0.0), gate=0.0)) == {"k": ""}


@pytest.mark.parametrize("tier", [EXACT, WHOLE])
def test_a_firm_match_passes_the_gate_whatever_its_numbers(tier: int) -> None:
    """A better tier stands before a better score."""
    firm = Match(make_item("firm"), tier, ("entity:flux",), numbers(score=0.01, confidence=0.0))
    found = judged(partly(make_item("near"), score=1.0), firm, gate=GATE)
    assert [finding.item.knowledge_id for finding in found] == ["firm", "near"]
    assert found[0].hold_reason == "" and found[0].scores["confidence"] >= 0.9


def test_what_matches_exactly() -> None:
    """Fingerprint, error code and, at a first call, server; names and phrases stand whole; the rest is partly."""
    example = make_item("k", error_examples=("cat: /srv/a/notes.txt: Permission denied",))
    assert matched_with(example, "cat: /home/b/notes.txt: Permission denied").tier == EXACT
    code = make_item("k", error_examples=("line too long E501",))
    assert matched_with(code, "src/a.py:9:80: E501 too wide").reasons[0] == "code:E501"
    server = make_item("k", mcp_server="Git", trigger="mcp.first_call")
    assert matched_with(server, "", trigger="mcp.first_call", mcp_server="git").reasons == ("server:Git",)
    assert matched_with(server, "git", mcp_server="git").tier == PARTLY
    name = make_item("k", entities=("flux capacitor",), topics=("heat",))
    assert matched_with(name, "the flux-capacitor stalls").tier == WHOLE
    assert matched_with(name, "the Flux Capacitors stall").reasons == ("entity:flux capacitor",)
    assert matched_with(name, "boom", topics=("HEAT",)).reasons == ("topic:heat",)
    assert matched_with(name, "boom", entities=("flux capacitor",)).tier == WHOLE
    assert matched_with(name, "a capacitor of flux").tier == PARTLY


def test_a_code_that_many_items_declare_is_no_exact_match() -> None:
    """Up to three may; a code of four items says nothing."""
    items = [make_item(f"k{n}", error_examples=(f"TS2304 in part {n}",)) for n in range(CODE_ITEMS + 1)]
    asked = ask(HintQuery("r-1", "r-1:a1", "tool.failed", tool_result="again a TS2304 today"))
    few, many = codes_held(asked, items[:CODE_ITEMS]), codes_held(asked, items)
    assert (few, many) == ({"TS2304": CODE_ITEMS}, {"TS2304": CODE_ITEMS + 1})
    assert match(asked, items[0], numbers(), few).tier == EXACT
    assert match(asked, items[0], numbers(), many).tier == PARTLY


def test_every_own_reason_to_hold_back() -> None:
    """Each candidate that is not offered says why, before the gate is asked."""
    items = {
        "issued": {}, "earlier": {}, "dropped": {}, "retired": {"state": "invalidated"}, "risk": {"state": "at_risk"},
        "quiet": {"suspended": True}, "scoped": {"tool": "other"}, "versed": {"topics": ("fluxing",)},
        "timed": {"trigger": "task.priming"}, "served": {"mcp_server": "git"},
    }  # fmt: skip
    found = judged(
        *(partly(make_item(name, **fields), confidence=0.0) for name, fields in items.items()),
        tool="shell", issued=("issued",), offered_before=("earlier",), suppressed=("dropped",),
        active_skills=("Fluxing",),
    )  # fmt: skip
    assert reasons(found) == {
        "issued": "already_issued", "earlier": "offered_in_batch", "dropped": "suppressed", "retired": "retired",
        "risk": "ineligible_state", "quiet": "suspended", "scoped": "scope_mismatch", "versed": "skill_active",
        "timed": "scope_mismatch", "served": "scope_mismatch",
    }  # fmt: skip
    assert set(reasons(found).values()) <= set(HOLD_REASONS)
    quiet = partly(make_item("quiet", suspended=True))
    assert reasons(judged(quiet, trigger="task.priming")) == {"quiet": ""}


def test_duplicates_near_duplicates_topics_and_limit() -> None:
    """Each repetition of what is offered already is held back with its own reason, and the limit is last."""
    rule = "When the flux overheats reduce the current step by step and wait until it cools down: `cool now`."
    items = [
        make_item("a", rule, topics=("heat",)),
        make_item("b", rule.upper()),
        make_item("c", rule.replace("cools", "chills")),
        make_item("d", "Second: `two` about lamps.", topics=("heat",)),
        make_item("e", "Third: `three` about doors.", topics=("heat", "doors")),
        make_item("f", "Fourth: `four` about roofs."),
        make_item("g", "Fifth: `five` about walls."),
    ]
    found = judged(*map(partly, items), limit=3)
    assert reasons(found) == {
        "a": "", "d": "", "f": "", "b": "duplicate_text", "c": "near_duplicate", "e": "topic_cap", "g": "limit",
    }  # fmt: skip
    assert [finding.rank for finding in found] == list(range(1, 8))


def test_what_is_held_back_takes_nobodys_place() -> None:
    """Neither the limit nor a topic's cap counts it, nor is it what a duplicate repeats."""
    same = {"topics": ("heat",)}
    items = [make_item(name, "Rule: `act`.", state="at_risk", **same) for name in ("a", "b")]
    found = judged(*map(partly, [*items, make_item("c", "Rule: `act`.", **same)]), limit=1)
    assert reasons(found)["c"] == ""


def test_ties_are_broken_by_kind_state_and_id() -> None:
    """Of equal scores claims go first, then confirmed, proposed, challenged, then the id decides."""
    items = [
        make_item("a", kind="observation"), make_item("b", state="challenged"), make_item("c", state="proposed"),
        make_item("e"), make_item("d"),
    ]  # fmt: skip
    assert list(reasons(judged(*map(partly, items)))) == ["d", "e", "c", "b", "a"]


@pytest.mark.parametrize("own", ["worse", "better", "none"])
def test_a_replacement_keeps_the_better_match(own: str) -> None:
    """Of the retired item and of its own; either way it says whose place it takes."""
    retired = Match(make_item("old", state="superseded"), WHOLE, ("entity:flux",), numbers(score=0.5))
    other = make_item("new")
    of_its_own = {
        "worse": Match(other, WHOLE, ("phrase:error example",), numbers(score=0.4)),
        "better": Match(other, EXACT, ("code:E501",), numbers(score=0.1)),
        "none": None,
    }
    found = in_its_place(retired, other, of_its_own[own])
    assert found.item == other and found.reasons[0] == "replaces:old"
    assert (found.tier, found.numbers.score) == ((EXACT, 0.1) if own == "better" else (WHOLE, 0.5))
    assert found.reasons[1:] == (("code:E501",) if own == "better" else ("entity:flux",))


def test_beside_an_exact_match_a_partial_one_needs_more() -> None:
    """What is the matter is known then; a firm match of another kind and one that is nearly sure still stand."""
    exact = Match(make_item("a-exact"), EXACT, ("fingerprint:error example",), numbers())
    whole = Match(
        make_item("b-whole", proposition="Open the valve."), WHOLE, ("entity:valve",), numbers(confidence=0.0)
    )
    weak = partly(make_item("c-weak", proposition="Close the pump."), item_id=3, confidence=BESIDE_FIRM - 0.01)
    sure = partly(make_item("d-sure", proposition="Wait for steam."), item_id=4, confidence=BESIDE_FIRM)
    findings = judged(exact, whole, weak, sure)
    assert reasons(findings) == {"a-exact": "", "b-whole": "", "d-sure": "", "c-weak": "gate"}
    assert {one.item.knowledge_id: one.scores["needed"] for one in findings}["c-weak"] == BESIDE_FIRM
    assert reasons(judged(whole, weak, sure))["c-weak"] == "gate"
    assert reasons(judged(whole, weak, sure, topics=("valves",)))["c-weak"] == ""
    assert reasons(judged(exact, weak, gate=0.0))["c-weak"] == ""


def test_an_agent_that_asks_by_itself_is_told_what_is_meant_for_any_moment() -> None:
    """The trigger of an item says when it is offered unasked; tool and server limit it still."""
    moment, tool = make_item("a", trigger="tool.failed"), make_item("b", tool="other")
    assert reasons(judged(partly(moment), trigger="agent.search")) == {"a": ""}
    assert reasons(judged(partly(moment), trigger="task.priming")) == {"a": "scope_mismatch"}
    assert reasons(judged(partly(tool), trigger="agent.search")) == {"b": "scope_mismatch"}


def test_what_was_told_is_told_whether_or_not_the_exact_match_is_offered_again() -> None:
    """In the history, offered in this batch or dropped before: the partial ones beside it say no more than they did."""
    exact = Match(make_item("a-exact"), EXACT, ("fingerprint:error example",), numbers())
    weak = partly(make_item("c-weak", proposition="Close the pump."), item_id=3, confidence=0.8)
    for fields in ({"issued": ("a-exact",)}, {"offered_before": ("a-exact",)}, {"suppressed": ("a-exact",)}):
        assert reasons(judged(exact, weak, **fields))["c-weak"] == "gate"
    retired = Match(make_item("a-exact", state="invalidated"), EXACT, ("fingerprint:error example",), numbers())
    assert reasons(judged(retired, weak))["c-weak"] == ""


def test_phrases_differ_by_a_digit_or_a_single_capital() -> None:
    """`variant 0` does not stand whole where `variant 7` is told."""
    item = make_item("k", entities=("flux capacitor variant 0 failed",), error_examples=("drive C is full",))
    assert matched_with(item, "the flux capacitor variant 0 failed").tier == WHOLE
    assert matched_with(item, "the flux capacitor variant 7 failed").tier == PARTLY
    assert matched_with(item, "now drive D is full").tier == PARTLY
    assert matched_with(item, "now drive C is full").tier == WHOLE
