"""By what a list finds a run: what it waits for, and the words of its chain. Pure."""

import pytest

from knowledge.fold import fold_run
from knowledge.run_facets import run_facets
from tests.knowledge.streams import recorded, run_of


def waits(*steps: tuple[str, str | None]) -> str:
    """Return what a run with these asks and answers, each (type, call id), waits for."""
    told = [(kind, {"call_id": call_id} if call_id else {}) for kind, call_id in steps]
    return fold_run(run_of(("run.started", {}), *told)).run.waiting_for


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ((), ""),
        ((("approval.requested", "c1"),), "approval"),
        ((("human.asked", "c1"),), "question"),
        ((("human.asked", None),), "question"),
        ((("human.asked", "c1"), ("approval.requested", "c2")), "approval"),
        ((("approval.requested", "c1"), ("approval.decided", "c1")), ""),
        ((("approval.requested", "c1"), ("approval.decided", "c2")), "approval"),
        ((("approval.requested", "c1"), ("human.answered", "c1")), "approval"),
        ((("approval.requested", "c1"), ("tool.blocked", "c1")), ""),
        ((("approval.decided", "c1"), ("approval.requested", "c1")), "approval"),
        ((("human.asked", "c1"), ("run.completed", None)), ""),
    ],
)  # fmt: skip
def test_what_a_run_waits_for(steps: tuple[tuple[str, str | None], ...], wanted: str) -> None:
    """An ask is open until its own answer, the end of its call, or the end of the run."""
    assert waits(*steps) == wanted


def test_facets_hold_the_words_of_the_chain() -> None:
    """Each word once, with its name and the project; what a run does not have is not named."""
    events = recorded("hint_helped")
    start = next(event for event in events if event.type == "run.started")
    start.data["conversation_id"] = "talk-1"
    chain = fold_run(events)
    facets = run_facets(7, 20_000, chain)
    assert facets == sorted(set(facets))
    assert {
        "7:20000:status:completed", "7:20000:agent:scripted", "7:20000:injection:true", "7:20000:search_tool:shell",
        "7:20000:conversation:talk-1", "7:20000:trigger:tool.failed",
    } <= set(facets)  # fmt: skip
    assert {facet for facet in facets if ":tool:" in facet} == {f"7:20000:tool:{tool}" for tool in chain.run.tools}
    met = {candidate.knowledge_id for candidate in chain.candidates}
    assert {facet for facet in facets if ":knowledge_id:" in facet} == {f"7:20000:knowledge_id:{one}" for one in met}
    assert not [facet for facet in facets if facet.split(":")[2] in ("waiting", "arm", "experiment")]


def test_a_run_without_events_has_its_status_alone() -> None:
    """What is not known has no facet."""
    assert run_facets(1, 9, fold_run([])) == ["1:9:injection:false", "1:9:status:running"]
