"""Records one workflow history per shape of run into `histories/`: `python -m tests.kernel.record_histories`.

Record again only when a change of the workflow is meant to change its commands; runs under way on an older
worker then need a patch marker, because their recorded histories will no longer replay.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from temporalio.client import WorkflowHistory

from debugger.embedded.processes import stop_all
from debugger.embedded.temporal import await_temporal, start_temporal
from kernel.messages import ApprovalAnswer, Limits, RunSpec, Switches
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, call, hint
from tests.kernel.temporal_run import TemporalRun, temporal_run
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


def scenario_shape(name: str) -> Shape:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    return lambda address: record(address, scenario.edges(), scenario.spec)


def primed_and_answered(address: str) -> Awaitable[WorkflowHistory]:
    edges = MemoryEdges(ScriptedModel("done"), find_hints=on("task.priming", hint("k-1")))
    return record(address, edges, replace(SPEC, switches=Switches()))


def approved(address: str) -> Awaitable[WorkflowHistory]:
    async def approve(run: TemporalRun) -> None:
        while not (pending := (await run.handle.query(AgentRun.status)).pending_approvals):
            pass
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


def model_fails(address: str) -> Awaitable[WorkflowHistory]:
    return record(address, MemoryEdges(ScriptedModel(ConnectionError("refused"))))


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
}


def of_no_machine(text: str) -> str:
    """Return a history without what tells the machine it was recorded on: stack traces and worker identities."""
    text = re.sub(r'"stackTrace": "(?:[^"\\]|\\.)*"', '"stackTrace": ""', text)
    return re.sub(r'"identity": "(?:[^"\\]|\\.)*"', '"identity": "recorder"', text)


async def record_all(address: str) -> None:
    HISTORIES.mkdir(exist_ok=True)
    for name, shape in SHAPES.items():
        history = await shape(address)
        (HISTORIES / f"{name}.json").write_text(of_no_machine(history.to_json()))
        print(f"{name}: {len(history.events)} events")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_temporal(Path(folder), Path(folder) / "temporal.log", keep=False)
        try:
            await_temporal(server, address)
            asyncio.run(record_all(address))
        finally:
            stop_all([server])
    return 0


if __name__ == "__main__":
    sys.exit(main())
