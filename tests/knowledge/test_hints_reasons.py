"""Every reason for which a candidate goes no further, from the request to the stored chain, for every version.

The answer names it, hint.query lists it with what decided, and the fold keeps it as the candidate's. (Seed 001 §13.)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from contract.stages import HOLD_REASONS
from ingest.journal import read_events
from ingest.models import Project
from knowledge import embeddings
from knowledge.chains import refresh_run
from knowledge.find_hints import VERSIONS, v2, v3
from knowledge.items import change_state, suspend_item
from knowledge.models import Activation, Candidate
from tests.knowledge.asking import BATCH, ERROR, add_item, failed, key_for, make_project, post

RULE = "When the flux overheats reduce the current step by step and wait until it cools down: `cool now`."
OTHERS = (
    "Outside of a repository run `git init`.", "Go to the checkout first: `cd /src`.",
    "Clone it again: `git clone --depth 1 URL`.", "Point at it: `export GIT_DIR=/src/.git`.",
)  # fmt: skip
FOUND = {"entities": ("not a git repository",), "error_examples": (ERROR,)}


@dataclass(frozen=True, slots=True)
class Case:
    """How one item comes to be held back: what is known, what is asked before it, what is asked."""

    known: Callable[[Project], None]
    asked: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    bound: float | None = None


def plain(project: Project) -> None:
    add_item(project, "k", proposition=OTHERS[0], **FOUND)


def retired(project: Project) -> None:
    plain(project)
    change_state(project, "k", "invalidated", by="ada", reason="wrong")


def at_risk(project: Project) -> None:
    plain(project)
    change_state(project, "k", "at_risk", by="ada", reason="the tool has a new version")


def suspended(project: Project) -> None:
    plain(project)
    suspend_item(project, "k", True, by="ada", reason="not at runtime")


def scoped(project: Project) -> None:
    add_item(project, "k", proposition=OTHERS[0], tool="browser", **FOUND)


def with_topic(project: Project) -> None:
    add_item(project, "k", proposition=OTHERS[0], topics=("git",), **FOUND)


def same_text(project: Project) -> None:
    add_item(project, "a", proposition=RULE, **FOUND)
    add_item(project, "k", proposition=RULE.replace(" the ", "  THE "), **FOUND)


def near_text(project: Project) -> None:
    add_item(project, "a", proposition=RULE, **FOUND)
    add_item(project, "k", proposition=RULE.replace("cools", "chills"), **FOUND)


def many_of_a_topic(project: Project) -> None:
    for name, text in zip(("a", "b", "k"), OTHERS, strict=False):
        add_item(project, name, proposition=text, topics=("vcs",), **FOUND)


def two_rules(project: Project) -> None:
    for name, text in zip(("a", "k"), OTHERS, strict=False):
        add_item(project, name, proposition=text, **FOUND)


CASES = {
    "already_issued": Case(plain, {"issued_knowledge_ids": ["k"]}),
    "suppressed": Case(plain, {"suppressed_knowledge_ids": ["k"], "suppressed_revisions": {"k": 1}}),
    "retired": Case(retired, {}),
    "ineligible_state": Case(at_risk, {}),
    "suspended": Case(suspended, {}),
    "scope_mismatch": Case(scoped, {}),
    "skill_active": Case(with_topic, {"active_skills": ["Git"]}),
    "duplicate_text": Case(same_text, {}),
    "near_duplicate": Case(near_text, {}),
    "topic_cap": Case(many_of_a_topic, {}),
    "limit": Case(two_rules, {"limit": 1}, bound=1),
    "offered_in_batch": Case(plain, {}, before={}),
}


@pytest.fixture
def project(db: None) -> Project:
    return make_project("alpha")


def ask(project: Project, case: Case) -> dict[str, Any]:
    """Send the requests of a case as one call; return the answer to the last one."""
    one = failed(activation_id="r-1:a2", **case.asked)
    requests = [one] if case.before is None else [failed(activation_id="r-1:a1", **case.before), one]
    response = post(key_for(project), {"requests": requests}, BATCH)
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()["answers"][-1]
    return answer


def check_chain(project: Project, answer: dict[str, Any], reason: str, bound: float | None = None) -> Candidate:
    """Follow the one item held back for the reason from the answer through the journal into the stored chain."""
    (dropped,) = [one for one in answer["dropped"] if one["reason"] == reason]
    held = dropped["knowledge_id"]
    assert dropped.get("bound") == bound
    assert answer["counts"]["dropped_by_reason"][reason] == 1
    assert held not in [hint["knowledge_id"] for hint in answer["hints"]]
    asked = [event for event in read_events(project.pk, "r-1") if event.type == "hint.query"][-1]
    (listed,) = [one for one in asked.data["candidates"] if one["knowledge_id"] == held]
    assert (listed["hold_reason"], listed.get("bound")) == (reason, bound)
    refresh_run(project.pk, "r-1")
    stored = Candidate.objects.get(project=project, run_id="r-1", activation_id="r-1:a2", knowledge_id=held)
    assert (stored.hold_reason, stored.offered_ns, stored.hint_id) == (reason, None, None)
    assert stored.scores == listed["scores"] and stored.matched_by == listed["matched_by"]
    activation = Activation.objects.get(project=project, run_id="r-1", activation_id="r-1:a2")
    assert (activation.n_retrieved, activation.n_offered) == (answer["counts"]["retrieved"], answer["count"])
    return stored


def test_every_reason_has_its_case() -> None:
    """No word of the vocabulary is without a proof that it can be reached."""
    assert {*CASES, "gate"} == set(HOLD_REASONS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("reason", CASES)
def test_a_reason_is_kept_with_the_candidate(project: Project, settings: Any, version: str, reason: str) -> None:
    """From the request to the stored chain, with the version that answered."""
    settings.HINTS_ALGORITHM = version
    case = CASES[reason]
    case.known(project)
    answer = ask(project, case)
    assert answer["algorithm_version"] == version
    check_chain(project, answer, reason, case.bound)


def weak(project: Project) -> None:
    add_item(project, "k", proposition="When the harbor crane overheats let it rest: run `crane rest`.")


def test_a_candidate_below_the_gate_says_how_far_below(project: Project, settings: Any) -> None:
    """The gate stands in the answer and in hint.query, the confidence beside it; offering nothing is no error."""
    settings.HINTS_ALGORITHM = v3.VERSION
    weak(project)
    answer = ask(project, Case(weak, {"tool_result": "paper crane gallery: stylesheet color was overridden by theme"}))
    gate = answer["gate"]
    assert 0 < gate < 1 and answer["count"] == 0
    stored = check_chain(project, answer, "gate", gate)
    (dropped,) = answer["dropped"]
    assert dropped["value"] == stored.scores["confidence"] < gate
    (asked,) = read_events(project.pk, "r-1")
    assert (asked.data["gate"], asked.data["result"]) == (gate, "empty")
    assert asked.data["candidates"][0]["value"] == dropped["value"]


def test_a_version_without_a_gate_says_so(project: Project, settings: Any) -> None:
    """Its gate is null in the answer, and hint.query has none."""
    settings.HINTS_ALGORITHM = v2.VERSION
    plain(project)
    assert ask(project, Case(plain, {}))["gate"] is None
    assert "gate" not in read_events(project.pk, "r-1")[0].data


def test_a_vector_of_the_items_own_model_is_compared(project: Project, settings: Any) -> None:
    """Of the model and size of the items: meaning takes part and nothing is noted; else the search uses its own."""
    settings.HINTS_ALGORITHM = v3.VERSION
    plain(project)
    vector = [float(number) for number in embeddings.embed("fatal: not a git repository")]
    own = {"embedding": vector, "embedding_model": embeddings.MODEL}
    answer = ask(project, Case(plain, own))
    assert (answer["notes"], "meaning" in answer["matcher"]) == ([], True)
    for number, other in enumerate(({"embedding_model": "another"}, {"embedding_model": None}, {"embedding": [0.5]})):
        sent = failed(activation_id=f"r-1:b{number}", **{**own, **other})
        found = post(key_for(project), sent).json()
        assert [one for one in found["notes"] if "embedding" in one] != []
        assert ([hint["knowledge_id"] for hint in found["hints"]], "meaning" in found["matcher"]) == (["k"], True)


@pytest.mark.parametrize("version", VERSIONS)
def test_counts_say_where_candidates_went(project: Project, settings: Any, version: str) -> None:
    """Retrieved is offered and held back, and held back is the sum of its reasons."""
    settings.HINTS_ALGORITHM = version
    two_rules(project)
    add_item(project, "old", proposition="Long ago: `git init-db`.", state="invalidated", **FOUND)
    answer = ask(project, Case(plain, {"limit": 1, "issued_knowledge_ids": ["a"]}))
    counts = answer["counts"]
    assert counts["retrieved"] == counts["offered"] + counts["dropped"] == 3
    assert counts["dropped_by_reason"] == {"already_issued": 1, "retired": 1}
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["k"]
