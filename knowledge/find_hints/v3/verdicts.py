"""What matched of each candidate, in which order they stand, and why each is offered or not. Pure.

Exact matches come first (the fingerprint of an error example, an error code of few items, the MCP server at its first
call), then names and phrases that stand whole, then the score. The gate holds back what is not sure enough, whatever
its rank; an exact match always passes it.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.find_hints.findings import Finding, HintQuery, ItemView
from knowledge.find_hints.v3.asked import Asked
from knowledge.find_hints.v3.index import codes_of, name_of, phrase_of, prints_of, servers_of
from knowledge.find_hints.v3.scores import Scored
from knowledge.find_hints.v3.words import terms

NEAR_DUPLICATE: Final = 0.8  # Jaccard similarity of two rules' terms
TOPIC_CAP: Final = 2  # hints that may share a first topic
TERMS_SHOWN: Final = 5  # shared terms named in a match reason
CODE_ITEMS: Final = 3  # items that may declare an error code for it to be an exact match
MEANING_SHOWN: Final = 0.35  # cosine from which meaning is named as a reason
EXACT: Final = 2
WHOLE: Final = 1
PARTLY: Final = 0
TOLD: Final = ("", "already_issued", "offered_in_batch", "suppressed", "skill_active")  # what the agent has, or had
BESIDE_FIRM: Final = 1.0  # confidence that a partial match needs where a firm one is told; hardly any has it
SURE: Final = {EXACT: 1.0, WHOLE: 0.9, PARTLY: 0.0}  # least confidence of a match
KINDS: Final = {"claim": 0, "observation": 1}
STATES: Final = {"confirmed": 0, "proposed": 1, "challenged": 2, "at_risk": 3}
RETIRED: Final = ("invalidated", "superseded", "corrected")


@dataclass(frozen=True, slots=True)
class Match:
    """An item, how firmly it matches, by what, and its numbers."""

    item: ItemView
    tier: int
    reasons: tuple[str, ...]
    numbers: Scored

    @property
    def confidence(self) -> float:
        return max(self.numbers.confidence, SURE[self.tier])


def match(asked: Asked, item: ItemView, numbers: Scored, held_codes: Mapping[str, int], *, named: bool = True) -> Match:
    """Return how an item matches. `held_codes`: error code -> how many candidates declare it.

    `named` False says that it was found by none of its names, phrases, fingerprints and codes: none is looked for.
    """
    exact = [*_prints(asked, item), *_codes(asked, item, held_codes), *_servers(asked, item)] if named else []
    whole = [*_names(asked, item), *_phrases(asked, item)] if named else []
    shared = [asked.words.get(term, term) for term in numbers.shared[:TERMS_SHOWN]]
    partly = [f"terms:{', '.join(dict.fromkeys(shared))}"] if shared else []
    if numbers.cosine is not None and numbers.cosine >= MEANING_SHOWN:
        partly.append(f"meaning:{numbers.cosine:.2f}")
    tier = EXACT if exact else WHOLE if whole else PARTLY
    return Match(item, tier, (*exact, *whole, *partly), numbers)


def codes_held(asked: Asked, items: Sequence[ItemView]) -> dict[str, int]:
    """Return how many of the items declare each error code of the query."""
    return dict(Counter(code for item in items for code in _declared(item) if code in asked.codes))


def _declared(item: ItemView) -> set[str]:
    return set(codes_of("\n".join((*item.entities, *item.error_examples))))


def _prints(asked: Asked, item: ItemView) -> list[str]:
    same = any(one in asked.prints for example in item.error_examples for one in prints_of(example))
    return ["fingerprint:error example"] if same else []


def _codes(asked: Asked, item: ItemView, held: Mapping[str, int]) -> list[str]:
    declared = _declared(item) if asked.codes else set()
    return [f"code:{code}" for code in asked.codes if code in declared and held.get(code, 0) <= CODE_ITEMS]


def _servers(asked: Asked, item: ItemView) -> list[str]:
    return [f"server:{server}" for server in servers_of(item) if asked.server and name_of(server) == asked.server]


def _names(asked: Asked, item: ItemView) -> list[str]:
    entities = [f"entity:{name}" for name in item.entities if name_of(name) in asked.names]
    return entities + [f"topic:{name}" for name in item.topics if name_of(name) in asked.topics]


def _phrases(asked: Asked, item: ItemView) -> list[str]:
    whole = [f"entity:{name}" for name in item.entities if asked.holds(phrase_of(name))]
    if any(asked.holds(phrase_of(example)) for example in item.error_examples):
        whole.append("phrase:error example")
    return whole


def in_its_place(retired: Match, other: ItemView, found: Match | None) -> Match:
    """Return the match of the live item that replaces a retired one; it keeps a better match of its own."""
    reason = f"replaces:{retired.item.knowledge_id}"
    if found is None or _order(found) > _order(replace(retired, item=other)):
        return replace(retired, item=other, reasons=(reason, *retired.reasons))
    return replace(found, reasons=(reason, *found.reasons))


def judge(query: HintQuery, matches: Sequence[Match], gate: float) -> tuple[Finding, ...]:
    """Walk down the ranking, say of each candidate whether it is offered or why not; the offered come first."""
    offered: list[Match] = []
    held: list[tuple[Match, str]] = []
    needed: dict[str, float] = {}
    # A firm match says what is the matter, now or earlier in this run; names that the sender gave say what it is about.
    is_told, telling = False, EXACT if query.entities or query.topics else WHOLE
    skills = frozenset(name_of(skill) for skill in query.active_skills if skill.strip())
    for one in sorted(matches, key=_order):
        reason = _own_reason(query, one.item, skills)
        needed[one.item.knowledge_id] = _needed(one, gate, is_told)
        if not reason and one.confidence < needed[one.item.knowledge_id]:
            reason = "gate"
        is_told = is_told or (one.tier >= telling and reason in TOLD)
        reason = reason or _relative_reason(one.item, [other.item for other in offered])
        if not reason and len(offered) >= query.limit:
            reason = "limit"
        if reason:
            held.append((one, reason))
        else:
            offered.append(one)
    verdicts = [*((one, "") for one in offered), *held]
    return tuple(
        Finding(one.item, rank, one.reasons, _numbers(one, needed[one.item.knowledge_id]), reason)
        for rank, (one, reason) in enumerate(verdicts, 1)
    )


def _needed(one: Match, gate: float, is_told: bool) -> float:
    """Return the confidence a match needs: more for a partial one where a firm one says what is the matter."""
    return BESIDE_FIRM if gate and is_told and one.tier == PARTLY else gate


def _order(one: Match) -> tuple[int, float, int, int, str]:
    item = one.item
    kind, state = KINDS.get(item.kind, len(KINDS)), STATES.get(item.state, len(STATES))
    return -one.tier, -one.numbers.score, kind, state, item.knowledge_id


def _numbers(one: Match, needed: float) -> dict[str, float]:
    numbers = one.numbers
    found = {
        "score": round(one.tier + numbers.score, 4),
        "confidence": round(one.confidence, 4),
        "needed": needed,
        "lexical": round(numbers.lexical, 3),
        "share": round(numbers.share, 4),
        "overlap": round(numbers.overlap, 4),
    }
    return found if numbers.cosine is None else {**found, "cosine": round(numbers.cosine, 4)}


def _own_reason(query: HintQuery, item: ItemView, skills: frozenset[str]) -> str:
    """Return why an item cannot be offered whatever else was found, or an empty string."""
    checks = (
        (item.knowledge_id in query.issued, "already_issued"),
        (item.knowledge_id in query.offered_before, "offered_in_batch"),
        (item.state in RETIRED, "retired"),
        (item.state == "at_risk", "ineligible_state"),
        (item.suspended and query.trigger != "task.priming", "suspended"),
        (_out_of_scope(query, item), "scope_mismatch"),
        (item.knowledge_id in query.suppressed, "suppressed"),
        (not skills.isdisjoint(map(name_of, (*item.topics, *item.entities))), "skill_active"),
    )
    return next((reason for applies, reason in checks if applies), "")


def _out_of_scope(query: HintQuery, item: ItemView) -> bool:
    """Return whether an item is for another moment, tool or server. An agent that asks by itself has no such moment."""
    moment = item.trigger if query.trigger == "agent.search" else query.trigger
    pairs = ((item.trigger, moment), (item.tool, query.tool), (item.mcp_server, query.mcp_server))
    return any(scope and scope.lower() != asked.lower() for scope, asked in pairs)


def _relative_reason(item: ItemView, offered: Sequence[ItemView]) -> str:
    """Return why an item adds nothing to those offered before it, or an empty string."""
    text = _plain(item.proposition)
    if any(_plain(other.proposition) == text for other in offered):
        return "duplicate_text"
    words = _rule_terms(item.proposition)
    if any(_similarity(words, _rule_terms(other.proposition)) >= NEAR_DUPLICATE for other in offered):
        return "near_duplicate"
    first = [name_of(other.topics[0]) for other in offered if other.topics]
    if item.topics and Counter(first)[name_of(item.topics[0])] >= TOPIC_CAP:
        return "topic_cap"
    return ""


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()


@functools.lru_cache(maxsize=4_096)
def _rule_terms(proposition: str) -> frozenset[str]:
    return frozenset(terms(proposition))


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
