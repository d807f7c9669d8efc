"""Going on in a new workflow run on the real server, with everything a run may carry along or have under way then."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from contract.events import TERMINAL_TYPES
from kernel.core.history import check_history
from kernel.messages import (
    Limits,
    Member,
    QuestionAnswer,
    SendEvents,
)
from kernel.runtime.local import LocalRun
from kernel.runtime.operation import operation_workflow_id
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.kernel.temporal_run import TemporalRun, temporal_run
from tests.kernel.test_scenarios import SCENARIOS, SPEC, Scenario, works

EVERY_TURN = Limits(max_turns=40, max_tool_calls=400, turns_per_workflow=1)


@dataclass
class Held(MemoryEdges):
    """Edges whose report of `held` waits for `go`; `holding` says that it was asked for."""

    held: str = ""
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def send_events(self, command: SendEvents) -> None:
        if self.held in [event.type for event in command.events] and not self.holding.is_set():
            self.holding.set()
            await self.go.wait()
        await super().send_events(command)


def check_record(edges: MemoryEdges, status: str) -> None:
    """The events of a run that ended: none twice, no number missing, one end."""
    numbers = sorted(event.seq for event in edges.events)
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event.type for event in edges.events if event.type in TERMINAL_TYPES] == [f"run.{status}"]


async def messages_of(edges: MemoryEdges, run_id: str) -> list[Any]:
    found = []
    while (entry := await edges.store.entry(run_id, len(found))) is not None:
        found.append(entry.message)
    return found


async def pending_question(run: TemporalRun) -> str:
    while not (questions := (await run.handle.query(AgentRun.status)).pending_questions):
        await asyncio.sleep(0.02)
    return str(questions[0].call_id)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_new_workflow_run_at_every_turn_changes_no_request(temporal_address: str, scenario: Scenario) -> None:
    """Deferred candidates, suppressed items and budgets are carried along: the model reads what it would have read."""
    spec = replace(scenario.spec, approval_tools=())
    plain, cut = scenario.edges(), scenario.edges()
    await LocalRun(plain, clock_ns=plain.clock).run(spec)
    limits = replace(spec.limits, turns_per_workflow=1)
    async with temporal_run(temporal_address, cut, replace(spec, limits=limits)) as run:
        result = await run.result()
    assert cut.model.requests == plain.model.requests
    shifted = [replace(request, source_event_id="") for request in cut.hint_requests]
    assert shifted == [replace(request, source_event_id="") for request in plain.hint_requests]
    assert cut.event_types().count("run.continued") == len(plain.model.requests) - 1
    check_record(cut, result.status)


async def test_a_question_and_a_delegate_in_the_turn_before(temporal_address: str) -> None:
    """What was answered from outside in one workflow run is read in the next."""
    model = ScriptedModel([call("ask_human", question="Which?")], [call("delegate", member="bob", task="it")])
    edges = MemoryEdges(model, models={"other": ScriptedModel("42")})
    spec = replace(SPEC, limits=EVERY_TURN, tools=("ask_human", "delegate"), members=(Member("bob", "other"),))
    async with temporal_run(temporal_address, edges, spec) as run:
        call_id = await pending_question(run)
        await run.handle.execute_update(AgentRun.answer_question, QuestionAnswer(call_id, "blue", "ada"))
        result = await run.result()
    assert result.status == "completed"
    assert [message.text for message in edges.model.requests[2] if message.role == "tool"] == ["blue", "42"]
    assert len(edges.model.requests) == 3


@dataclass
class Slow(Held):
    """Edges whose operations all end when `end` is set; each says a text of its own."""

    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def build(self, n: int) -> str:
        await self.end.wait()
        return f"result {n} " + "x" * 4_000


def slow(count: int, *replies: Any, held: str = "") -> Slow:
    starts = [call("build", n=n) for n in range(count)]
    edges = Slow(ScriptedModel(starts, *replies), held=held)
    edges.tools, edges.background = {"build": edges.build, "shell": works()}, ("build",)
    return edges


async def operations_over(run: TemporalRun, run_id: str, count: int) -> None:
    """Wait until `count` operations have started and ended."""
    for seq in range(3, 3 + count):
        operation = run.client.get_workflow_handle(operation_workflow_id(run_id, f"op-{seq}"))
        status: WorkflowExecutionStatus | None = None
        while status in (None, WorkflowExecutionStatus.RUNNING):
            await asyncio.sleep(0.02)
            with suppress(RPCError):
                status = (await operation.describe()).status


async def test_operations_go_on_under_a_run_that_goes_on_as_new(temporal_address: str) -> None:
    """They are awaited, or told of, in a later workflow run than the one that started them."""
    edges = slow(2, [call("shell", n=1)], [call("await_operation", operation_id="op-3")], [call("shell", n=2)])
    spec = replace(SPEC, limits=EVERY_TURN, tools=("await_operation",))
    async with temporal_run(temporal_address, edges, spec) as run:
        while (await run.handle.query(AgentRun.status)).phase != "waiting":
            await asyncio.sleep(0.02)
        assert edges.event_types().count("run.continued") == 2
        edges.end.set()
        assert (await run.result()).status == "completed"
    history = await messages_of(edges, spec.run_id)
    check_history(history)
    told = [message.text.split("\n")[1].split("x")[0].strip() for message in history if "[Background" in message.text]
    assert sorted(told) == ["result 0", "result 1"]
    assert edges.event_types().count("operation.completed") == 2
    check_record(edges, "completed")


async def test_signals_at_the_very_moment_of_going_on_lose_nothing(temporal_address: str) -> None:
    """Many outcomes with much text arrive while the run waits to go on as new: each is told and reported once."""
    edges = slow(8, [call("shell", n=1)], held="turn.completed")
    spec = replace(SPEC, limits=EVERY_TURN)
    async with temporal_run(temporal_address, edges, spec) as run:
        await edges.holding.wait()
        edges.end.set()
        await operations_over(run, spec.run_id, 8)
        edges.go.set()
        assert (await run.result()).status == "completed"
    history = await messages_of(edges, spec.run_id)
    told = "\n".join(message.text for message in history if message.origin == "operation")
    assert [told.count(f"result {n} ") for n in range(8)] == [1] * 8
    assert edges.event_types().count("operation.completed") == 8
    check_record(edges, "completed")


async def test_signals_around_going_on_are_taken_once(temporal_address: str) -> None:
    """Outcomes that arrive at any moment of a run that goes on as new at every turn are told and reported once."""
    replies = [[call("shell", n=n)] for n in range(6)]
    edges = slow(8, *replies)

    async def shell(n: int) -> str:
        if n == 1:
            edges.end.set()
        return "fine"

    edges.tools["shell"] = shell
    spec = replace(SPEC, limits=EVERY_TURN)
    async with temporal_run(temporal_address, edges, spec) as run:
        assert (await run.result()).status == "completed"
    told = "\n".join(message.text for message in edges.model.requests[-1] if message.origin == "operation")
    assert [told.count(f"result {n} ") for n in range(8)] == [1] * 8
    assert Counter(edges.event_types())["operation.completed"] == 8
    check_record(edges, "completed")


async def test_a_cancel_while_it_waits_to_go_on(temporal_address: str) -> None:
    """A run that is cancelled between two workflow runs ends there, once."""
    edges = Held(ScriptedModel([call("shell")]), {"shell": works()}, held="turn.completed")
    async with temporal_run(temporal_address, edges, replace(SPEC, limits=EVERY_TURN)) as run:
        await edges.holding.wait()
        await run.handle.cancel()
        await asyncio.sleep(0.1)
        edges.go.set()
        assert (await run.result()).status == "cancelled"
    check_record(edges, "cancelled")
    assert len(edges.model.requests) == 1


async def cancelled_after(address: str, number: int, seconds: float) -> MemoryEdges:
    """Cancel a run that goes on as new at every turn after a time."""
    edges = MemoryEdges(ScriptedModel(*[[call("shell", n=n)] for n in range(40)]), {"shell": works()})
    spec = replace(SPEC, run_id=f"r-{number}", limits=EVERY_TURN)
    async with temporal_run(address, edges, spec) as run:
        while len(edges.model.requests) < 3:
            await asyncio.sleep(0.005)
        await asyncio.sleep(seconds)
        await run.handle.cancel()
        assert (await run.result()).status == "cancelled"
    check_history(await messages_of(edges, spec.run_id))
    return edges


async def test_a_cancel_at_any_moment_around_going_on(temporal_address: str) -> None:
    """Wherever it hits, the run ends as cancelled, with one end, all numbers and a legal history."""
    ended = await asyncio.gather(*(cancelled_after(temporal_address, n, n * 0.012) for n in range(16)))
    for edges in ended:
        check_record(edges, "cancelled")


class SlowModel(ScriptedModel):
    """A model that answers its request number `turn` only when `go` is set."""

    def __init__(self, turn: int, *replies: Any) -> None:
        super().__init__(*replies)
        self.turn = turn
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def reply(self, request: Any) -> Any:
        if len(self.requests) + 1 == self.turn:
            self.asked.set()
            await self.go.wait()
        return await super().reply(request)


async def cancelled_at_start(address: str, number: int, seconds: float) -> tuple[WorkflowExecutionStatus | None, bool]:
    """Cancel a run about when its operation starts; return how the operation ended, and whether there was one."""
    model = SlowModel(2, [call("build")])
    edges = MemoryEdges(model, {"build": asyncio.Event().wait}, background=("build",))
    spec = replace(SPEC, run_id=f"s-{number}")
    async with temporal_run(address, edges, spec) as run:
        while not model.requests:
            await asyncio.sleep(0.001)
        await asyncio.sleep(seconds)
        await run.handle.cancel()
        assert (await run.result()).status == "cancelled"
        model.go.set()
        started = "operation.started" in edges.event_types()
        if not started:
            return None, False
        operation = run.client.get_workflow_handle(operation_workflow_id(spec.run_id, "op-3"))
        try:
            async with asyncio.timeout(60):
                while (status := (await operation.describe()).status) == WorkflowExecutionStatus.RUNNING:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return WorkflowExecutionStatus.RUNNING, True
        return status, True


async def test_no_operation_outlives_a_run_that_is_cancelled_as_it_starts(temporal_address: str) -> None:
    """Cancelled about when an operation starts, the run leaves none behind that runs on for nobody."""
    moments = [*(n * 0.004 for n in range(14)), 0.5, 5]  # the last ones for a machine that is slow
    ended = await asyncio.gather(*(cancelled_at_start(temporal_address, n, at) for n, at in enumerate(moments)))
    assert any(started for _, started in ended)
    assert WorkflowExecutionStatus.RUNNING not in [status for status, _ in ended]


async def test_a_reply_that_comes_after_the_end_is_not_written(temporal_address: str) -> None:
    """A model that answers a run that was cancelled meanwhile leaves no call without a reply in the history."""
    model = SlowModel(1, [call("shell")])
    edges = MemoryEdges(model, {"shell": works()})
    async with temporal_run(temporal_address, edges, SPEC) as run:
        await model.asked.wait()
        await run.handle.cancel()
        assert (await run.result()).status == "cancelled"
        model.go.set()
        while not model.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
    check_history(await messages_of(edges, SPEC.run_id))
