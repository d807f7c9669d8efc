"""The Temporal runner: the scenarios of the in-process runner give the same run; approvals, cancels, losses, limits."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from kernel.messages import (
    ApprovalAnswer,
    Limits,
    RunStatus,
    Switches,
)
from kernel.runtime.local import LocalRun
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, call, hint
from tests.kernel.temporal_run import TemporalRun, temporal_run, without_times
from tests.kernel.test_scenarios import SCENARIOS, SPEC, Scenario, fails, on, works
from tests.kernel.worlds import Broken, hanging


async def deny_approvals(run: TemporalRun) -> None:
    """Answer no to every call that waits for a person, as the in-process runner does, until the run ends."""
    while True:
        try:
            status: RunStatus = await run.handle.query(AgentRun.status)
            for asked in status.pending_approvals:
                answer = ApprovalAnswer(asked.call_id, approved=False, by="nobody")
                await run.handle.execute_update(AgentRun.decide_approval, answer)
        except (RPCError, WorkflowUpdateFailedError):
            continue


async def on_temporal(address: str, scenario: Scenario) -> MemoryEdges:
    edges = scenario.edges()
    async with temporal_run(address, edges, scenario.spec) as run:
        denying = asyncio.create_task(deny_approvals(run)) if scenario.spec.approval_tools else None
        await run.result()
        if denying is not None:
            denying.cancel()
    return edges


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario_is_the_same_run_on_temporal(temporal_address: str, scenario: Scenario) -> None:
    """Both runners give the model the same requests, ask Observation the same and report the same events."""
    local = scenario.edges()
    await LocalRun(local, clock_ns=local.clock).run(scenario.spec)
    durable = await on_temporal(temporal_address, scenario)
    scenario.check(durable)
    assert durable.model.requests == local.model.requests
    assert durable.hint_requests == local.hint_requests
    assert without_times(durable.events) == without_times(local.events)


@pytest.mark.parametrize("name", ["several calls in one reply", "knowledge already injected"])
async def test_continue_as_new_changes_nothing_but_its_own_events(temporal_address: str, name: str) -> None:
    """With a new workflow run at every turn the model gets the same requests and the same hints are injected."""
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    plain = await on_temporal(temporal_address, scenario)
    limits = replace(scenario.spec.limits, turns_per_workflow=1)
    cut = await on_temporal(temporal_address, replace(scenario, spec=replace(scenario.spec, limits=limits)))
    assert cut.model.requests == plain.model.requests
    assert sorted(t for t in cut.event_types() if t != "run.continued") == sorted(plain.event_types())
    assert cut.event_types().count("run.continued") == len(plain.model.requests) - 1
    assert len({event.event_id for event in cut.events}) == len(cut.events)


async def test_approved_call_is_executed(temporal_address: str) -> None:
    """A run waits for a person for as long as it takes; their yes lets the call run, a second answer is refused."""
    edges = MemoryEdges(ScriptedModel([call("deploy")], "done"), {"deploy": works()})
    async with temporal_run(temporal_address, edges, replace(SPEC, approval_tools=("deploy",))) as run:
        status: RunStatus = await run.handle.query(AgentRun.status)
        while not status.pending_approvals:
            status = await run.handle.query(AgentRun.status)
        assert edges.executed == []
        with pytest.raises(WorkflowUpdateFailedError):
            await run.handle.execute_update(AgentRun.decide_approval, ApprovalAnswer("other", True))
        [asked] = status.pending_approvals
        await run.handle.execute_update(AgentRun.decide_approval, ApprovalAnswer(asked.call_id, True, "ada", "go"))
        assert (await run.result()).status == "completed"
        with pytest.raises((WorkflowUpdateFailedError, RPCError)):
            await run.handle.execute_update(AgentRun.decide_approval, ApprovalAnswer(asked.call_id, False))
    assert [name for name, _ in edges.executed] == ["deploy"]
    assert edges.data_of("approval.decided") == [{"approved": True, "by": "ada", "note": "go"}]


@pytest.mark.parametrize("place", ["model", "tool", "hints"])
async def test_cancel_ends_the_run_wherever_it_is(temporal_address: str, place: str) -> None:
    """A cancelled run ends at once, as cancelled, with one terminal event and nothing executed afterwards."""
    edges = hanging(place)
    spec = replace(SPEC, limits=Limits(retrieval_timeout_ms=60_000))
    async with temporal_run(temporal_address, edges, spec) as run:
        await edges.reached.wait()
        await run.handle.cancel()
        result = await run.result()
    assert result.status == "cancelled"
    assert edges.event_types()[-1] == "run.cancelled"
    assert sum(kind.startswith("run.") and kind != "run.started" for kind in edges.event_types()) == 1


async def test_cancel_while_waiting_for_a_person(temporal_address: str) -> None:
    """A run that waits for approval can be cancelled; the call is not executed."""
    edges = MemoryEdges(ScriptedModel([call("deploy")], "done"), {"deploy": works()})
    async with temporal_run(temporal_address, edges, replace(SPEC, approval_tools=("deploy",))) as run:
        while not (await run.handle.query(AgentRun.status)).pending_approvals:
            pass
        await run.handle.cancel()
        assert (await run.result()).status == "cancelled"
    assert edges.executed == []


async def test_retrieval_that_hangs_is_a_timeout_of_its_own(temporal_address: str) -> None:
    """A lost retrieval is reported as timeout and the run goes on to its end."""
    edges = hanging("hints")
    spec = replace(SPEC, limits=Limits(retrieval_timeout_ms=200))
    async with temporal_run(temporal_address, edges, spec) as run:
        assert (await run.result()).status == "completed"
    assert [data["result"] for data in edges.data_of("activation.completed")] == ["timeout"]
    assert [message.role for message in edges.model.requests[-1]] == ["system", "user", "assistant", "tool"]


async def test_a_lost_tool_is_answered_neutrally(temporal_address: str) -> None:
    """When the edge of a call is lost the model reads that the effect is not known."""
    edges = Broken(ScriptedModel([call("shell")], "done"), {"shell": works()})
    async with temporal_run(temporal_address, edges, SPEC) as run:
        assert (await run.result()).status == "completed"
    reply = edges.model.requests[1][3]
    assert (reply.role, reply.call_id) == ("tool", "c1")
    assert "whether it ran to its end is not known" in reply.text
    failed = edges.data_of("tool.failed")[0]
    assert (failed["status"], failed["effect"]) == ("timed_out", "uncertain")


async def test_no_argument_grows_past_the_limit(temporal_address: str) -> None:
    """A huge task does not leave the run stuck: what travels in commands stays small."""
    text = "an error of its own kind: " + "x" * 3_000_000
    edges = MemoryEdges(ScriptedModel([call("shell")], "done"), {"shell": fails(text)})
    edges.find_hints = on("tool.failed", hint("k-1"))
    async with temporal_run(temporal_address, edges, replace(SPEC, task="t" * 1_000_000)) as run:
        assert (await run.result()).status == "completed"
        history = await run.handle.fetch_history()
    largest = max(event.ByteSize() for event in history.events)
    assert largest < 2_000_000
    assert sum(event.ByteSize() > 100_000 for event in history.events) <= 2  # the input, and the preparation's own


async def activities_of_run(address: str, name: str, switches: Switches) -> Counter[str]:
    """How often each activity was scheduled in a run of the scenario."""
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    async with temporal_run(address, scenario.edges(), replace(scenario.spec, switches=switches)) as run:
        await run.result()
        history = await run.handle.fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    return Counter(one.activity_type.name for one in scheduled if one.activity_type.name)


async def test_activation_costs_an_activity_only_where_there_is_a_candidate(temporal_address: str) -> None:
    """Successes cost the same activities with activation on and off; a boundary with candidates costs one more."""
    on, off = Switches(off=("task.priming",)), Switches(off=("task.priming",), activation=False)
    quiet = "second call of the same MCP server"
    with_it, without = [await activities_of_run(temporal_address, quiet, one) for one in (on, off)]
    assert with_it - without == Counter({"fetch_hints": 1}), "the first call alone; the two after it ask nothing"
    assert without - with_it == Counter()
    several = "several calls in one reply"
    with_it, without = [await activities_of_run(temporal_address, several, one) for one in (on, off)]
    assert with_it - without == Counter({"fetch_hints": 1}), "two failures of one boundary are one search"
