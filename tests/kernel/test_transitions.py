"""The core is total: every observation in every phase follows the table or is refused with the state unchanged."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from kernel.core.decide import HANDLERS, decide, start
from kernel.core.state import Phase, RunState
from kernel.core.transitions import TABLE, IllegalObservation, diagram
from kernel.messages import (
    ApprovalDecided,
    CancelRequested,
    ContinueAsNew,
    DelegateFinished,
    Finish,
    HintsArrived,
    Limits,
    Member,
    ModelFailed,
    ModelReplied,
    Observation,
    OperationFinished,
    QuestionAnswered,
    Resumed,
    RunBroken,
    RunPrepared,
    ToolFinished,
)
from kernel.testing import hint
from tests.kernel.core_run import SPEC, CoreRun

PHASES: tuple[Phase, ...] = get_args(Phase)
SAMPLES: dict[str, Observation] = {
    "RunPrepared": RunPrepared(9, ()),
    "ModelReplied": ModelReplied(9, 8, text="done"),
    "ModelFailed": ModelFailed(9, 8, "timeout", "no answer"),
    "ToolFinished": ToolFinished(9, 8, "c3", "ok"),
    "OperationFinished": OperationFinished(9, "op-1", "ok"),
    "ApprovalDecided": ApprovalDecided(9, "c3", True),
    "QuestionAnswered": QuestionAnswered(9, "c1", "main"),
    "DelegateFinished": DelegateFinished(9, "c2", "completed", "done"),
    "HintsArrived": HintsArrived(9, 8, ()),
    "CancelRequested": CancelRequested(9),
    "RunBroken": RunBroken(9, "a defect"),
    "Resumed": Resumed(9),
}


def in_phase(phase: Phase) -> RunState:
    """A real state of each phase, reached by a run."""
    if phase == "preparing":
        return start(SPEC)[0]
    members = (Member("reviewer"),)
    run = CoreRun(replace(SPEC, approval_tools=("sql",), limits=Limits(turns_per_workflow=1), members=members))
    if phase in ("running", "approving", "waiting"):
        last = {"running": "shell", "approving": "sql", "waiting": "update_plan"}[phase]
        given = ("ask_human", {"question": "Which?"}), ("delegate", {"member": "reviewer", "task": "look"})
        run.ask(*given, (last, {"steps": ["one"]}))
    if phase == "searching":
        run.reply("shell")
    if phase == "searching":
        run.fail("c1", "fatal: no")
    if phase == "continuing":
        run.reply("shell")
        run.finish("c1")
    if phase == "finished":
        run.see(CancelRequested(9))
    assert run.state.phase == phase
    return run.state


def test_every_observation_has_a_sample_and_a_handler() -> None:
    """The union, the samples, the handlers and the table speak of the same observations."""
    names = [member.__name__ for member in get_args(Observation)]
    assert sorted(names) == sorted(SAMPLES) == sorted(HANDLERS)
    assert {observation for _, observation in TABLE} == set(names)
    assert {phase for phase, _ in TABLE} == set(PHASES) - {"finished"}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_table_is_total(phase: Phase, name: str) -> None:
    """What the table allows leads where it says; everything else is refused by name and changes nothing."""
    state = in_phase(phase)
    before = repr(state)
    if (phase, name) in TABLE:
        after, commands = decide(state, SAMPLES[name])
        assert after.phase in TABLE[phase, name]
        assert any(isinstance(command, Finish) for command in commands) == (after.phase == "finished")
    else:
        with pytest.raises(IllegalObservation, match=f"{name} cannot arrive while the run is {phase}"):
            decide(state, SAMPLES[name])
    assert repr(state) == before


@pytest.mark.parametrize(
    ("phase", "observation"),
    [("running", ToolFinished(9, 8, "c9", "ok")), ("approving", ApprovalDecided(9, "c9", True))],
)
def test_an_answer_to_another_call_is_refused(phase: Phase, observation: Observation) -> None:
    """An outcome of a call that is not the pending one is a defect, whatever the phase."""
    state = in_phase(phase)
    before = repr(state)
    with pytest.raises(IllegalObservation, match="c9"):
        decide(state, observation)
    assert repr(state) == before


def test_every_edge_of_the_table_that_ends_a_turn_can_be_taken() -> None:
    """A boundary leads to a search, a request, a new workflow run or the end, as configured."""
    reached: dict[str, Any] = {}
    for name, limits, fails in (
        ("searching", Limits(), True),
        ("calling", Limits(), False),
        ("continuing", Limits(turns_per_workflow=1), False),
        ("finished", Limits(max_turns=1, at_limit="fail"), False),
    ):
        run = CoreRun(replace(SPEC, limits=limits))
        run.reply("shell")
        run.fail("c1", "fatal: no") if fails else run.finish("c1")
        reached[name] = run.state.phase
    assert reached == {name: name for name in reached}


def test_continue_as_new_waits_for_the_boundary() -> None:
    """T03: suggested inside a group of calls, a new workflow run starts only after the last reply and the search."""
    run = CoreRun()
    run.reply("shell", "sql")
    run.fail("c1", "fatal: no", continue_suggested=True)
    assert not any(isinstance(command, ContinueAsNew) for command in run.commands)
    run.finish("c2")
    assert run.state.phase == "searching"
    run.answer(hint("k-1"))
    assert [type(command).__name__ for command in run.commands] == ["SendEvents", "ContinueAsNew"]
    assert run.state.calls == ()
    (append,) = run.state.appends
    assert append.message.origin == "hints"
    run.see(Resumed(run.tick()))
    assert run.commands[-1].append == (append,)  # type: ignore[union-attr]


def test_the_diagram_shows_every_transition() -> None:
    """The picture in the docs is the table: every way an observation may lead, and no other."""
    document = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    assert f"```mermaid\n{diagram()}\n```" in document, "put diagram()'s text into docs/architecture.md"
    drawn = {
        (phase, target, name)
        for phase, target, names in re.findall(r"^    (\w+) --> (\w+): (.+)$", diagram(), re.M)
        for name in names.split(", ")
    }
    assert drawn == {(phase, target, name) for (phase, name), targets in TABLE.items() for target in targets}
