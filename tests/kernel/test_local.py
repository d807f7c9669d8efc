"""The in-process runner: stops at once when told to, and no lost edge is raised into its caller."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from contract.events import EVENT_TYPES, TERMINAL_TYPES, check_data
from kernel.messages import (
    CallModel,
    FetchHints,
    Hint,
    HintRequest,
    HintsArrived,
    Limits,
    ModelAnswer,
    PrepareRun,
    RunPrepared,
    RunResult,
    RunSpec,
    SendEvents,
    Switches,
)
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call, hint
from tests.kernel.test_scenarios import SCENARIOS, SPEC, Scenario, fails, on, works
from tests.kernel.worlds import Broken, Hanging, hanging


async def go(edges: MemoryEdges, spec: RunSpec = SPEC) -> RunResult:
    return await asyncio.wait_for(LocalRun(edges, clock_ns=edges.clock).run(spec), 20)


@pytest.mark.parametrize(("place", "code"), [("model", "model.failed"), ("tool", "tool.blocked"), ("hints", "")])
async def test_cancel_stops_what_hangs(place: str, code: str) -> None:
    """A run is cancelled wherever it is, at once; what was pending is closed in the record and no number is missing."""
    edges = hanging(place)
    run = LocalRun(edges, clock_ns=edges.clock)
    task = asyncio.create_task(run.run(replace(SPEC, limits=Limits(retrieval_timeout_ms=60_000))))
    await edges.reached.wait()
    run.cancel("enough")
    result = await asyncio.wait_for(task, 60)
    assert (result.status, result.reason) == ("cancelled", "enough")
    assert edges.event_types()[-1] == "run.cancelled"
    assert not code or code in edges.event_types()
    assert sorted(event.seq for event in edges.events) == list(range(1, len(edges.events) + 1))


def hanging_world(place: str, replies: list[Any], tools: dict[str, Any]) -> Hanging:
    edges = Hanging(ScriptedModel(*replies), tools)
    edges.hangs, edges.reached = place, asyncio.Event()
    return edges


async def test_cancel_says_what_was_started() -> None:
    """Of the running call the effect is not known; of those behind it it is known that nothing was done."""
    edges = hanging_world("tool", [[call("shell"), call("other")]], {"shell": works(), "other": works()})
    run = LocalRun(edges, clock_ns=edges.clock)
    task = asyncio.create_task(run.run(SPEC))
    await edges.reached.wait()
    run.cancel()
    await asyncio.wait_for(task, 60)
    assert [(data["effect"], data["detail"].partition("; ")[2]) for data in edges.data_of("tool.blocked")] == [
        ("uncertain", "whether it took effect is not known"),
        ("none", "it was not started"),
    ]
    assert edges.executed == []


async def test_t59_a_lost_tool_is_answered_neutrally() -> None:
    """T59: the reply made up for a lost call blames nobody and says that the effect is not known."""
    edges = Broken(ScriptedModel([call("shell"), call("shell")], "done"), {"shell": works()})
    assert (await go(edges)).status == "completed"
    first, copy = edges.model.requests[1][3:5]
    assert first.text == (
        "No result of shell was received; whether it ran to its end is not known (effect: uncertain). "
        "It may have taken effect: check before you do anything consequential again."
    )
    assert (first.role, first.call_id, copy.call_id) == ("tool", "c1", "c2")
    assert copy.text == first.text
    assert not any(word in first.text.lower() for word in ("user", "person", "cancel", "stopped"))


class Lost(MemoryEdges):
    """Edges of which one is lost: it raises instead of answering."""

    lost: str = ""

    def _raise(self, name: str) -> None:
        if self.lost == name:
            raise RuntimeError("the machine is on fire, password=hunter2hunter2")

    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        self._raise("prepare")
        return await super().prepare_run(command)

    async def call_model(self, command: CallModel) -> ModelAnswer:
        self._raise("model")
        return await super().call_model(command)

    async def fetch_hints(self, command: FetchHints) -> HintsArrived:
        self._raise("hints")
        return await super().fetch_hints(command)

    async def send_events(self, command: SendEvents) -> None:
        await super().send_events(command)
        self._raise("telemetry")


@pytest.mark.parametrize(
    ("lost", "status"),
    [("prepare", "failed"), ("model", "failed"), ("hints", "completed"), ("telemetry", "completed")],
)
async def test_a_lost_edge_is_a_result(lost: str, status: str) -> None:
    """Preparation and model are needed, knowledge and telemetry are not; nothing is raised, no secret is told."""
    edges = Lost(ScriptedModel([call("shell")], "done"), {"shell": fails("fatal: no")}, on("tool.failed", hint("k-1")))
    edges.lost = lost
    run = LocalRun(edges, clock_ns=edges.clock)
    assert (await run.run(SPEC)).status == status
    assert sum(kind in TERMINAL_TYPES for kind in edges.event_types()) == 1
    assert "hunter2" not in json.dumps([event.data for event in edges.events])
    assert (run.telemetry_failures > 0) == (lost == "telemetry")


async def test_hints_that_hang_are_a_timeout() -> None:
    """The run waits for a retrieval as long as its limit says, reports it, and goes on."""
    edges = hanging("hints")
    result = await go(edges, replace(SPEC, limits=Limits(retrieval_timeout_ms=50)))
    assert result.status == "completed"
    assert [data["result"] for data in edges.data_of("activation.completed")] == ["timeout"]


async def test_an_operation_that_ends_during_a_call_is_let_in_before_its_end() -> None:
    """What ends in the background while a tool runs happened before that tool's end, is told at that boundary, and a
    long report of it is sent like any other."""
    linked, built = asyncio.Event(), asyncio.Event()

    async def build() -> str:
        await linked.wait()
        built.set()
        return "🙈" * 4_000

    async def test() -> str:
        linked.set()
        await built.wait()
        await asyncio.sleep(0.01)
        return "fine"

    model = ScriptedModel([call("build")], [call("test")], "done")
    edges = MemoryEdges(model, {"build": build, "test": test}, background=("build",))
    assert (await go(edges, SPEC)).status == "completed"
    order = [event.type for event in sorted(edges.events, key=lambda event: event.seq)]
    assert order.index("operation.completed") < len(order) - 1 - order[::-1].index("tool.completed")
    assert edges.data_of("operation.completed") == [{"result": "🙈" * 4_000}]
    assert [message.origin for message in model.requests[2]][-2:] == ["tool", "operation"]
    assert sorted(event.seq for event in edges.events) == list(range(1, len(edges.events) + 1))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_every_event_fits_its_schema(scenario: Scenario) -> None:
    """All that a run reports is of a known type, with the data that type is to have, in an unbroken sequence."""
    edges = scenario.edges()
    await go(edges, replace(scenario.spec, switches=replace(scenario.spec.switches, off=())))
    for event in edges.events:
        assert event.type in EVENT_TYPES
        assert check_data(event.type, json.loads(event.data)) is None
        assert event.event_id == f"{scenario.spec.run_id}:{event.seq}"
    assert sorted(event.seq for event in edges.events) == list(range(1, len(edges.events) + 1))
    known = {event.event_id for event in edges.events}
    assert all(event.caused_by in known for event in edges.events if event.caused_by)
    assert sum(event.type in TERMINAL_TYPES for event in edges.events) == 1
    assert len(edges.wire) == len(edges.events)


def two_hints(request: HintRequest) -> list[Hint]:
    return [hint("k-1"), hint("k-2")]


async def test_requests_can_be_rebuilt_from_the_events() -> None:
    """Each request is what it kept of the one before and its new messages, with the hashes hints were sent under."""
    edges = MemoryEdges(
        ScriptedModel([call("shell")], [call("shell", n=2)], "done"), {"shell": fails("fatal: no")}, two_hints
    )
    await go(edges, replace(SPEC, switches=Switches()))
    rebuilt: list[dict[str, Any]] = []
    requested = [event for event in edges.wire if event["type"] == "model.requested"]
    for event, sent in zip(requested, edges.model.requests, strict=True):
        data = event["data"]
        rebuilt = [*rebuilt[: data["n_kept"]], *data["new_messages"]]
        assert [(one["role"], one["text"]) for one in rebuilt] == [(one.role, one.text) for one in sent]
        assert data["n_messages"] == len(sent)
    injected = [one["data"] for one in edges.wire if one["data"].get("stage") == "injected"]
    assert len(injected) == 2
    for data in injected:
        assert rebuilt[data["position"]]["hash"] == data["message_hash"]
        assert rebuilt[data["position"]]["role"] == "context"


async def test_a_person_who_cannot_be_asked_decides_nothing() -> None:
    """A caller's own error while it answers for a person is nobody answering: nothing is executed, the run goes on."""

    async def lost(command: Any) -> Any:
        raise RuntimeError("the phone is off")

    model = ScriptedModel([call("deploy"), call("ask_human", question="Which?")], "done")
    edges = MemoryEdges(model, {"deploy": works()})
    spec = replace(SPEC, tools=("ask_human",), approval_tools=("deploy",))
    result = await asyncio.wait_for(LocalRun(edges, lost, edges.clock, lost).run(spec), 60)
    assert result.status == "completed"
    assert [data["code"] for data in edges.data_of("tool.blocked")] == ["approval_timeout", "question_unanswered"]
    assert edges.executed == []
