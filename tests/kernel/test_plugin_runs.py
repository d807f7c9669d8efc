"""Whole runs driven by a runtime from outside: the core holds every gate the runtime might pass by."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract.events import check_data
from kernel.core.history import check_history
from kernel.drivers import DriverReply, ModelRequest
from kernel.drivers.plugin import RuntimeDriver, ToolAnswer, Turn
from kernel.edge.retry import ModelError
from kernel.messages import AskApproval, Limits, Message, RunResult, RunSpec
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel
from tests.kernel.temporal_run import temporal_run, without_times

DONE = {"type": "complete", "output": "done", "metadata": {"loops": 3}}
GRANTED: dict[str, Any] = {"tools": ("escalate",), "grants": ("*", "escalate")}
Work = Callable[[Turn, list[ToolAnswer]], Awaitable[object]]


class World:
    """A run of a runtime in memory: the tools `read` and `write`, and what went on."""

    def __init__(self, work: Work, *, grace_seconds: float = 60, **tools: Callable[..., Any]) -> None:
        self.answers: list[ToolAnswer] = []
        self.work = work
        self.driver = RuntimeDriver(self, grace_seconds=grace_seconds)
        known = {"read": lambda **_: "contents", "write": lambda **_: "written", **tools}
        self.edges = MemoryEdges(ScriptedModel(), known, models={"mine": self.driver})  # type: ignore[dict-item]
        self.run = LocalRun(self.edges, clock_ns=self.edges.clock)

    async def run_turn(self, turn: Turn) -> object:
        return await self.work(turn, self.answers)

    async def go(self, **spec: Any) -> RunResult:
        result = await asyncio.wait_for(self.run.run(RunSpec("run-1", "the task", agent="mine", **spec)), 60)
        for event in self.edges.events:
            assert check_data(event.type, json.loads(event.data)) is None
        return result

    def executed(self) -> list[str]:
        return [name for name, _ in self.edges.executed]

    def failure(self) -> tuple[str, str]:
        [data] = self.edges.data_of("turn.failed")
        return data["code"], data["source"]

    async def history(self) -> tuple[Message, ...]:
        state = self.run.state
        assert state is not None
        return await self.edges.store.read("run-1", state.next_seq)


def returns(outcome: object) -> Work:
    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        return outcome

    return work


async def test_calls_of_one_moment_are_one_turn() -> None:
    """Concurrent calls are a batch of the core, executed in the order they were made; the ending's metadata is kept."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers += await asyncio.gather(turn.invoke("write", {"n": 1}), turn.invoke("read", {"n": 2}))
        return DONE

    world = World(work)
    result = await world.go()
    assert (result.status, result.answer) == ("completed", "done")
    assert world.edges.executed == [("write", {"n": 1}), ("read", {"n": 2})]
    assert [answer.text for answer in world.answers] == ["written", "contents"]
    assert len(world.edges.data_of("turn.started")) == 2
    assert world.edges.data_of("run.completed")[0]["metadata"] == {"loops": 3}


@pytest.mark.parametrize(
    ("step", "n_executed"), [(None, 1), (0, 1), (2, 1), (3, 0), (99, 0)], ids=["own", "now", "ahead", "past", "far"]
)
async def test_a_step_is_a_claim(step: int | None, n_executed: int) -> None:
    """A step within the budget is taken as claimed, one out of it is refused; the loop is where it was either way."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers.append(await turn.invoke("write", step=step))
        answers.append(await turn.invoke("read"))
        return DONE

    world = World(work)
    result = await world.go(limits=Limits(max_turns=3))
    assert (result.status, world.executed()) == ("completed", ["write"] * n_executed + ["read"])
    assert world.answers[0].code == ("" if n_executed else "step_limit_exceeded")


@pytest.mark.parametrize("step", [0, True, -1, 1.5, "2"], ids=repr)
async def test_a_step_that_cannot_be(step: Any) -> None:
    """A step behind the loop, or none at all, is no decision: the run fails, and the call is not executed."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        await turn.invoke("read")
        await turn.invoke("write", step=step)
        return DONE

    world = World(work)
    result = await world.go()
    assert (result.status, world.failure()) == ("failed", ("invalid_driver_decision", "runtime"))
    assert world.executed() == ["read"]


async def test_guesses_cost_calls_and_refused_steps_do_not() -> None:
    """The budget of calls is the core's: a guess at a tool is counted, a step that is refused is not."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        for name, step in (("nowhere", None), ("read", 99), ("read", None), ("write", None)):
            answers.append(await turn.invoke(name, {"n": len(answers)}, step))
        return DONE

    world = World(work)
    await world.go(limits=Limits(max_tool_calls=2))
    assert [answer.code for answer in world.answers] == [
        "tool_unavailable",
        "step_limit_exceeded",
        "",
        "tool_call_limit_exceeded",
    ]
    assert world.executed() == ["read"]


async def test_t56_an_ask_as_the_first_thing() -> None:
    """A run may end in an ask at once, where it was offered: the reason, the reviewer and the metadata are recorded."""
    world = World(returns({"type": "escalate", "reason": "needs a key", "metadata": {"where": "vault"}}))
    result = await world.go(reviewer="anna", **GRANTED)
    [data] = world.edges.data_of("run.escalated")
    assert result.status == "escalated"
    assert (data["reason"], data["reviewer"], data["metadata"]) == ("needs a key", "anna", {"where": "vault"})


@pytest.mark.parametrize(
    "spec",
    [{}, {"tools": ("escalate",)}, {"tools": (), "grants": ("*", "escalate")}],
    ids=["none", "ungranted", "unasked"],
)
async def test_an_ask_outside_of_the_catalogue(spec: dict[str, Any]) -> None:
    """An ask of a run that was not offered the affordance fails it from outside, and nothing is escalated."""
    world = World(returns({"type": "escalate", "reason": "needs a key"}))
    result = await world.go(**spec)
    assert (result.status, world.failure()) == ("failed", ("tool_unavailable", "envelope"))
    assert "run.escalated" not in world.edges.event_types()
    assert "needs a key" not in json.dumps([world.edges.data_of("run.failed"), result.reason, result.answer])


async def test_an_ask_that_is_forwarded_ends_nothing() -> None:
    """A runtime that calls the affordance instead of ending in it is told so loudly; nobody is asked."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers.append(await turn.invoke("escalate", {"reason": "please"}))
        return DONE

    world = World(work)
    result = await world.go(**GRANTED)
    assert (result.status, [answer.code for answer in world.answers]) == ("completed", ["escalation_not_terminated"])
    assert "run.escalated" not in world.edges.event_types()


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(None, "invalid_runtime_outcome"), ([DONE], "invalid_runtime_outcome"), (ValueError("x"), "runtime_failed")],
)
async def test_a_runtime_that_misbehaves_fails_its_run(outcome: object, code: str) -> None:
    """The record says what was wrong and that it was found from outside; what was done before stays done."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        await turn.invoke("write")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    world = World(work)
    result = await world.go()
    assert (result.status, world.failure(), world.executed()) == ("failed", (code, "envelope"), ["write"])
    history = await world.history()
    check_history(history)
    assert [message.text for message in history if message.role == "tool"] == ["written"]


async def test_declared_failure() -> None:
    """A runtime may end its run as failed: the error is the run's, with the metadata it gave."""
    world = World(returns({"type": "fail", "error": "no such repository", "metadata": {"tried": 2}}))
    result = await world.go()
    [data] = world.edges.data_of("run.failed")
    assert (result.status, data["error"], data["metadata"]) == ("failed", "no such repository", {"tried": 2})


async def test_the_finale_of_a_runtime() -> None:
    """With the rounds spent a runtime is asked for its answer, and the call it makes instead is executed nowhere."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        while not turn.finale:
            answers.append(await turn.invoke("read", {"n": len(answers)}))
        answers.append(await turn.invoke("write"))
        return {"type": "complete", "output": "as far as I came"}

    world = World(work)
    result = await world.go(limits=Limits(max_turns=2))
    assert (result.status, result.answer) == ("limit_reached", "as far as I came")
    assert [answer.code for answer in world.answers] == ["", "", "step_limit_exceeded"]
    assert world.executed() == ["read", "read"]


async def test_a_run_that_is_cancelled_takes_its_runtime_along() -> None:
    """At a cancellation the runtime is stopped, also while its call is executed; nothing it does later is executed."""
    reached = asyncio.Event()
    ended: list[str] = []
    left: list[asyncio.Task[ToolAnswer]] = []

    async def slow() -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        async def later() -> ToolAnswer:
            await asyncio.sleep(0)
            while turn.position < 1 and not ended:
                await asyncio.sleep(0)
            return await turn.invoke("write")

        left.append(asyncio.create_task(later()))
        try:
            await turn.invoke("slow")
        finally:
            ended.append("runtime")
        return DONE

    world = World(work, slow=slow)
    running = asyncio.create_task(world.go())
    await reached.wait()
    world.run.cancel("enough")
    assert (await running).status == "cancelled"
    assert ended == ["runtime"]
    assert (await left[0]).code == "turn_draining"
    assert world.executed() == ["slow"]


async def test_a_runtime_that_hangs_holds_up_no_cancellation() -> None:
    """A run is cancelled while its runtime thinks, also when that does not listen; what it calls later is refused."""
    thinking, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        thinking.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        answers.append(await turn.invoke("write"))
        ended.set()
        return DONE

    world = World(work, grace_seconds=0.01)
    running = asyncio.create_task(world.go())
    await thinking.wait()
    world.run.cancel("enough")
    assert (await running).status == "cancelled"
    may_end.set()
    await ended.wait()
    assert ([answer.code for answer in world.answers], world.executed()) == (["turn_draining"], [])


class LosesOne:
    """A driver whose second reply is lost once on its way: the request is made again."""

    def __init__(self, driver: RuntimeDriver) -> None:
        self.driver = driver
        self.lost = 0
        self.end_run, self.close = driver.end_run, driver.close

    async def reply(self, request: ModelRequest) -> DriverReply:
        reply = await self.driver.reply(request)
        if request.turn == 2 and not self.lost:
            self.lost += 1
            raise ModelError("model_unreachable", "the reply was lost", retryable=True)
        return reply


async def test_the_same_run_on_temporal(temporal_address: str) -> None:
    """The durable runner makes the same run of a runtime, a request that was made twice included: nothing is called,
    executed or told twice."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers += await asyncio.gather(turn.invoke("write", {"n": 1}), turn.invoke("read", {"n": 2}))
        answers.append(await turn.invoke("write", {"n": 3}, step=7))
        answers.append(await turn.invoke("nowhere"))
        return {"type": "escalate", "reason": "needs a key", "metadata": {"where": "vault"}}

    local = World(work)
    assert (await local.go(**GRANTED)).status == "escalated"
    durable = World(work)
    losing = LosesOne(durable.driver)
    durable.edges = MemoryEdges(ScriptedModel(), durable.edges.tools, models={"mine": losing})  # type: ignore[dict-item]
    spec = RunSpec("run-1", "the task", agent="mine", **GRANTED)
    async with temporal_run(temporal_address, durable.edges, spec) as run:
        assert (await run.result()).status == "escalated"
    assert (losing.lost, durable.answers) == (1, local.answers)
    assert durable.edges.executed == local.edges.executed
    assert without_times(durable.edges.events) == without_times(local.edges.events)


async def test_a_run_cancelled_on_temporal(temporal_address: str) -> None:
    """A cancelled workflow takes its runtime along, which is thinking at that moment."""
    thinking = asyncio.Event()
    ended: list[str] = []

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        await turn.invoke("read")
        try:
            thinking.set()
            await asyncio.Event().wait()
        finally:
            ended.append(turn.run_id)
        return DONE

    world = World(work)
    spec = RunSpec("run-1", "the task", agent="mine")
    async with temporal_run(temporal_address, world.edges, spec) as run:
        await thinking.wait()
        await run.handle.cancel()
        assert (await run.result()).status == "cancelled"
        assert ended == ["run-1"]


async def test_a_person_between_runtime_and_tool() -> None:
    """A call that needs a yes waits for it as any other; a no comes back as the answer."""

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers += await asyncio.gather(turn.invoke("read"), turn.invoke("write"))
        return DONE

    async def refuse(command: AskApproval) -> bool:
        return False

    world = World(work)
    world.run = LocalRun(world.edges, refuse, world.edges.clock)
    await world.go(approval_tools=("write",))
    assert [answer.status for answer in world.answers] == ["ok", "denied"]
    assert world.executed() == ["read"]


async def test_a_background_operation_is_told_to_the_runtime() -> None:
    """News of an operation that ended comes beside the reply of a later call."""
    may_end = asyncio.Event()

    async def build() -> str:
        await may_end.wait()
        return "built"

    async def read() -> str:
        may_end.set()
        for _ in range(20):
            await asyncio.sleep(0)
        return "contents"

    async def work(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers.append(await turn.invoke("build"))
        answers.append(await turn.invoke("read"))
        answers.append(await turn.invoke("write"))
        return DONE

    world = World(work, build=build, read=read)
    world.edges.background = ("build",)
    assert (await world.go()).status == "completed"
    told = [text for answer in world.answers for text in answer.context]
    assert len(told) == 1 and "built" in told[0]
    assert world.answers[0].ok and not world.answers[0].context
