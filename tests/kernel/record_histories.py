"""Records one workflow history per shape of run into `histories/`: `python -m tests.kernel.record_histories`.

Names of shapes behind it record those alone. Record again only when a change of the workflow is meant to change its
commands; runs under way on an older worker then need a patch marker, because their recorded histories will no longer
replay.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from temporalio.client import WorkflowHistory

from debugger.embedded.processes import stop_all
from debugger.embedded.temporal import await_temporal, start_temporal
from kernel.messages import ApprovalAnswer, Conversation, Limits, Member, QuestionAnswer, RunSpec, Switches
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, call, hint
from tests.kernel.temporal_run import TemporalRun, temporal_run
from tests.kernel.test_envelope import Recognising
from tests.kernel.test_scenarios import SCENARIOS, SPEC, fails, on, works
from tests.kernel.worlds import Broken, hanging

HISTORIES: Final = Path(__file__).with_name("histories")
Shape = Callable[[str], Awaitable[WorkflowHistory]]
Meanwhile = Callable[[TemporalRun], Awaitable[None]]


async def nothing(run: TemporalRun) -> None:
    """Let the run go."""


async def record(
    address: str, edges: MemoryEdges, spec: RunSpec = SPEC, meanwhile: Meanwhile = nothing
) -> WorkflowHistory:
    """Make one run and return the history of its first workflow run."""
    async with temporal_run(address, edges, spec) as run:
        await meanwhile(run)
        await run.result()
        handle = run.client.get_workflow_handle(run.handle.id, run_id=run.handle.first_execution_run_id)
        return await handle.fetch_history()


async def record_second(address: str, edges: MemoryEdges, spec: RunSpec, meanwhile: Meanwhile) -> WorkflowHistory:
    """Make one run and return the history of its last workflow run."""
    async with temporal_run(address, edges, spec) as run:
        await meanwhile(run)
        await run.result()
        return await run.client.get_workflow_handle(run.handle.id).fetch_history()


def scenario_shape(name: str) -> Shape:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    return lambda address: record(address, scenario.edges(), scenario.spec)


def primed_and_answered(address: str) -> Awaitable[WorkflowHistory]:
    edges = MemoryEdges(ScriptedModel("done"), find_hints=on("task.priming", hint("k-1")))
    return record(address, edges, replace(SPEC, switches=Switches()))


def approved(address: str) -> Awaitable[WorkflowHistory]:
    async def approve(run: TemporalRun) -> None:
        while not (pending := (await run.handle.query(AgentRun.status)).pending_approvals):
            await asyncio.sleep(0.02)
        answer = ApprovalAnswer(pending[0].call_id, True, "ada")
        await run.handle.execute_update(AgentRun.decide_approval, answer)

    edges = MemoryEdges(ScriptedModel([call("deploy")], "done"), {"deploy": works()})
    return record(address, edges, replace(SPEC, approval_tools=("deploy",)), approve)


def cancelled_in_a_tool(address: str) -> Awaitable[WorkflowHistory]:
    edges = hanging("tool")

    async def cancel(run: TemporalRun) -> None:
        await edges.reached.wait()
        await run.handle.cancel()

    return record(address, edges, meanwhile=cancel)


def retrieval_times_out(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, hanging("hints"), replace(SPEC, limits=Limits(retrieval_timeout_ms=200)))


def tool_is_lost(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, Broken(ScriptedModel([call("shell")], "done"), {"shell": works()}))


def goes_on_as_new(address: str) -> Awaitable[WorkflowHistory]:
    edges = MemoryEdges(ScriptedModel([call("shell")], "done"), {"shell": fails("fatal: it broke")})
    return record(address, edges, replace(SPEC, limits=Limits(turns_per_workflow=1)))


class Building(MemoryEdges):
    """Edges with an operation that ends when `end` is set."""

    end: asyncio.Event

    async def build(self) -> str:
        await self.end.wait()
        return "built"


def building(*replies: Any) -> Building:
    edges = Building(ScriptedModel([call("build")], *replies))
    edges.end = asyncio.Event()
    edges.tools, edges.background = {"build": edges.build, "shell": works()}, ("build",)
    return edges


async def phase_is(run: TemporalRun, phase: str) -> None:
    while (await run.handle.query(AgentRun.status)).phase != phase:
        await asyncio.sleep(0.02)


AWAITING: Final = replace(SPEC, tools=("await_operation",))
AWAIT: Final = [call("await_operation", operation_id="op-3")]


def operation_awaited(address: str) -> Awaitable[WorkflowHistory]:
    edges = building(AWAIT)

    async def end(run: TemporalRun) -> None:
        await phase_is(run, "waiting")
        edges.end.set()

    return record(address, edges, AWAITING, end)


def operation_told_later(address: str) -> Awaitable[WorkflowHistory]:
    edges = building([call("shell", n=1)], [call("shell", n=2)])
    build = edges.build

    async def shell(n: int) -> str:
        if n == 1:
            edges.end.set()
            await asyncio.sleep(0.5)
        return "fine"

    edges.tools = {"build": build, "shell": shell}
    return record(address, edges)


def operation_goes_on_as_new(address: str) -> Awaitable[WorkflowHistory]:
    edges = building(AWAIT)

    async def end(run: TemporalRun) -> None:
        await phase_is(run, "waiting")
        edges.end.set()

    return record(address, edges, replace(AWAITING, limits=Limits(turns_per_workflow=1)), end)


def resumed_with_operation(address: str) -> Awaitable[WorkflowHistory]:
    edges = building(AWAIT)

    async def end(run: TemporalRun) -> None:
        await phase_is(run, "waiting")
        edges.end.set()

    return record_second(address, edges, replace(AWAITING, limits=Limits(turns_per_workflow=1, max_turns=2)), end)


def operation_stopped_at_the_end(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, building())


def question_answered(address: str) -> Awaitable[WorkflowHistory]:
    async def answer(run: TemporalRun) -> None:
        while not (pending := (await run.handle.query(AgentRun.status)).pending_questions):
            await asyncio.sleep(0.02)
        answer = QuestionAnswer(pending[0].call_id, "blue", "ada")
        await run.handle.execute_update(AgentRun.answer_question, answer)

    edges = MemoryEdges(ScriptedModel([call("ask_human", question="Which?")]))
    return record(address, edges, replace(SPEC, tools=("ask_human",)), answer)


def question_times_out(address: str) -> Awaitable[WorkflowHistory]:
    edges = MemoryEdges(ScriptedModel([call("ask_human", question="Which?")]))
    return record(address, edges, replace(SPEC, tools=("ask_human",), limits=Limits(person_timeout_ms=200)))


def delegated(address: str) -> Awaitable[WorkflowHistory]:
    edges = MemoryEdges(ScriptedModel([call("delegate", member="bob", task="it")]), models={"b": ScriptedModel("42")})
    return record(address, edges, replace(SPEC, tools=("delegate",), members=(Member("bob", "b"),)))


async def cancel_waiting(run: TemporalRun) -> None:
    await phase_is(run, "waiting")
    await run.handle.cancel()


def cancelled_while_waiting(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, building(AWAIT), AWAITING, cancel_waiting)


def cancelled_while_delegating(address: str) -> Awaitable[WorkflowHistory]:
    model = ScriptedModel([call("delegate", member="bob", task="it")])
    edges = MemoryEdges(model, {"wait": asyncio.Event().wait}, models={"b": ScriptedModel([call("wait")])})
    return record(address, edges, replace(SPEC, tools=("delegate",), members=(Member("bob", "b"),)), cancel_waiting)


def cancelled_in_a_model_call(address: str) -> Awaitable[WorkflowHistory]:
    edges = hanging("model")

    async def cancel(run: TemporalRun) -> None:
        await edges.reached.wait()
        await run.handle.cancel()

    return record(address, edges, meanwhile=cancel)


def model_fails(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, MemoryEdges(ScriptedModel(ConnectionError("refused"))))


ROUND: Final = [call("shell")]
ONE_ROUND: Final = replace(SPEC, limits=Limits(max_turns=1))


def ends_in_the_finale(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, MemoryEdges(ScriptedModel(ROUND, "One of two."), {"shell": works()}), ONE_ROUND)


def finale_fails(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, MemoryEdges(ScriptedModel(ROUND, ConnectionError("refused")), {"shell": works()}), ONE_ROUND)


def fails_at_its_limit(address: str) -> Awaitable[WorkflowHistory]:
    spec = replace(SPEC, limits=Limits(max_turns=1, at_limit="fail"))
    return record(address, MemoryEdges(ScriptedModel(ROUND), {"shell": works()}), spec)


def escalated(address: str) -> Awaitable[WorkflowHistory]:
    """A call, an ask and a call after it, with an operation under way."""
    edges = Building(
        Recognising([call("build")], [call("shell"), call("escalate", reason="needs a key"), call("shell", n=2)])
    )
    edges.end = asyncio.Event()
    edges.tools, edges.background = {"build": edges.build, "shell": works()}, ("build",)
    return record(address, edges, replace(SPEC, tools=("escalate",), grants=("*", "escalate")))


def keeps_an_answer(address: str) -> Awaitable[WorkflowHistory]:
    talk = Conversation("talk-1", said_at="2026-11-30T10:00:00+08:00")
    return record(address, MemoryEdges(ScriptedModel("Good morning.")), replace(SPEC, conversation=talk))


SHAPES: Final[dict[str, Shape]] = {
    "primed_and_answered": primed_and_answered,
    "tool_fails_and_hint": scenario_shape("ordinary tool failure"),
    "first_mcp_call": scenario_shape("first successful MCP call"),
    "several_calls": scenario_shape("several calls in one reply"),
    "approved": approved,
    "cancelled_in_a_tool": cancelled_in_a_tool,
    "retrieval_times_out": retrieval_times_out,
    "tool_is_lost": tool_is_lost,
    "goes_on_as_new": goes_on_as_new,
    "model_fails": model_fails,
    "operation_awaited": operation_awaited,
    "operation_told_later": operation_told_later,
    "operation_goes_on_as_new": operation_goes_on_as_new,
    "resumed_with_operation": resumed_with_operation,
    "operation_stopped_at_the_end": operation_stopped_at_the_end,
    "question_answered": question_answered,
    "question_times_out": question_times_out,
    "delegated": delegated,
    "cancelled_while_waiting": cancelled_while_waiting,
    "cancelled_while_delegating": cancelled_while_delegating,
    "cancelled_in_a_model_call": cancelled_in_a_model_call,
    "ends_in_the_finale": ends_in_the_finale,
    "finale_fails": finale_fails,
    "fails_at_its_limit": fails_at_its_limit,
    "escalated": escalated,
    "keeps_an_answer": keeps_an_answer,
}


def of_no_machine(text: str) -> str:
    """Return a history without what tells the machine it was recorded on: stack traces and worker identities."""
    text = re.sub(r'"stackTrace": "(?:[^"\\]|\\.)*"', '"stackTrace": ""', text)
    return re.sub(r'"identity": "(?:[^"\\]|\\.)*"', '"identity": "recorder"', text)


async def record_all(address: str, names: Sequence[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    for name, shape in SHAPES.items():
        if names and name not in names:
            continue
        history = await shape(address)
        (HISTORIES / f"{name}.json").write_text(of_no_machine(history.to_json()))
        print(f"{name}: {len(history.events)} events")


def main(*names: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_temporal(Path(folder), Path(folder) / "temporal.log", keep=False)
        try:
            await_temporal(server, address)
            asyncio.run(record_all(address, names))
        finally:
            stop_all([server])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
