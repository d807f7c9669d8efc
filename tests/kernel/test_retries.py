"""What is tried again and what is delivered twice: the same request, each event once, no answer or outcome twice."""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError

from contract.events import TERMINAL_TYPES
from kernel.edge.retry import ModelError
from kernel.messages import ApprovalAnswer, Limits, OperationFinished, QuestionAnswer, SendEvents
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.kernel.temporal_run import TemporalRun, temporal_run
from tests.kernel.test_scenarios import SPEC, works
from tests.kernel.worker_process import Kernel, kernel_at, until

HASTE = 0.01  # seconds a model asks to wait before it is asked again


def busy(n: int) -> list[ModelError]:
    """Failures worth another attempt."""
    return [ModelError("model_http_503", "busy", retryable=True, retry_after=HASTE) for _ in range(n)]


async def test_a_model_is_asked_again_with_the_same_request(temporal_address: str) -> None:
    """Each attempt sends the same messages; the record has one request and one reply."""
    edges = MemoryEdges(ScriptedModel([call("shell")], *busy(3), "done"), {"shell": works()})
    async with temporal_run(temporal_address, edges, SPEC) as run:
        assert (await run.result()).answer == "done"
    assert len(edges.model.requests) == 5
    assert all(list(request) == list(edges.model.requests[1]) for request in edges.model.requests[1:])
    kinds = Counter(edges.event_types())
    assert (kinds["model.requested"], kinds["model.completed"], kinds["model.failed"]) == (2, 2, 0)


async def test_a_model_that_fails_every_time_is_one_failure(temporal_address: str) -> None:
    """When no attempt is left the run fails, and says so once, in the model's own words."""
    edges = MemoryEdges(ScriptedModel(*busy(9)))
    async with temporal_run(temporal_address, edges, SPEC) as run:
        assert (await run.result()).status == "failed"
    assert len(edges.model.requests) == 5
    [failed] = edges.data_of("model.failed")
    assert (failed["error_class"], failed["error"]) == ("model_http_503", "busy")
    assert edges.event_types()[-3:] == ["model.failed", "turn.failed", "run.failed"]


async def waiting_for(run: TemporalRun, kind: str) -> str:
    while not (pending := getattr(await run.handle.query(AgentRun.status), f"pending_{kind}")):
        await asyncio.sleep(0.02)
    return str(pending[0].call_id)


async def test_an_approval_sent_twice_counts_once(temporal_address: str) -> None:
    """The same update again is the same update; another answer to the same call is refused and changes nothing."""
    edges = MemoryEdges(ScriptedModel([call("deploy")], "done"), {"deploy": works()})
    async with temporal_run(temporal_address, edges, replace(SPEC, approval_tools=("deploy",))) as run:
        call_id = await waiting_for(run, "approvals")
        answer = ApprovalAnswer(call_id, True, "ada")
        sends = [run.handle.execute_update(AgentRun.decide_approval, answer, id="one") for _ in range(3)]
        assert await asyncio.gather(*sends) == [None] * 3
        with pytest.raises((WorkflowUpdateFailedError, RPCError)):
            await run.handle.execute_update(AgentRun.decide_approval, ApprovalAnswer(call_id, False, "eve"))
        assert (await run.result()).status == "completed"
    assert edges.data_of("approval.decided") == [{"approved": True, "by": "ada"}]
    assert len(edges.executed) == 1


async def test_an_answer_sent_twice_counts_once(temporal_address: str) -> None:
    """A person who clicks twice answers once; the second is told that nothing waits."""
    edges = MemoryEdges(ScriptedModel([call("ask_human", question="Which?")], "done"))
    async with temporal_run(temporal_address, edges, replace(SPEC, tools=("ask_human",))) as run:
        call_id = await waiting_for(run, "questions")
        sends = [
            run.handle.execute_update(AgentRun.answer_question, QuestionAnswer(call_id, text, "ada"))
            for text in ("blue", "red")
        ]
        said = await asyncio.gather(*sends, return_exceptions=True)
        assert [isinstance(one, Exception) for one in said] in ([False, True], [True, False])
        assert (await run.result()).status == "completed"
    [answered] = edges.data_of("human.answered")
    [reply] = [message.text for message in edges.model.requests[1] if message.role == "tool"]
    assert reply == answered["answer"]


async def test_an_outcome_signalled_twice_counts_once(temporal_address: str) -> None:
    """A second report of an operation, one of an operation nobody started, and one to a run that is over."""
    end = asyncio.Event()
    edges = MemoryEdges(ScriptedModel([call("build")], [call("await_operation", operation_id="op-3")], "done"))
    edges.tools, edges.background = {"build": end.wait}, ("build",)
    async with temporal_run(temporal_address, edges, replace(SPEC, tools=("await_operation",))) as run:
        while (await run.handle.query(AgentRun.status)).phase != "waiting":
            await asyncio.sleep(0.02)
        outcome = OperationFinished(1, "op-3", "ok", excerpt="built")
        for finished in (replace(outcome, operation_id="op-99"), outcome, replace(outcome, excerpt="again")):
            await run.handle.signal(AgentRun.operation_finished, finished)
        end.set()
        assert (await run.result()).status == "completed"
        with pytest.raises(RPCError):
            await run.handle.signal(AgentRun.operation_finished, outcome)
    assert edges.data_of("operation.completed") == [{"result": "built"}]
    assert edges.model.requests[2][-1].text.endswith("built")


@pytest.fixture
async def kernel(temporal_address: str, postgres_url: str, tmp_path: Path) -> AsyncIterator[Kernel]:
    async with kernel_at(temporal_address, postgres_url, tmp_path) as made:
        yield made


@pytest.mark.parametrize("turns", [50, 1], ids=["one workflow run", "a new one at every turn"])
async def test_an_ingest_that_is_down_for_a_while_gets_every_event_once(
    kernel: Kernel, temporal_address: str, turns: int
) -> None:
    """The run goes on without it; what it could not take is delivered when it is back, none twice, none missing."""
    client = await Client.connect(temporal_address)
    kernel.outside.refuses_events = True
    await kernel.start()
    limits = Limits(turns_per_workflow=turns, retrieval_timeout_ms=2_000)
    handle = await kernel.run(client, "plain", limits=limits)
    run_id = kernel.run_id("plain")
    # It does not wait for ingest before it goes on, but for a bounded time before it ends or goes on as new.
    reached = 2 if turns > 1 else 1
    await until(lambda: len(kernel.outside.requests.get(run_id, [])) == reached)
    await asyncio.sleep(3)
    assert kernel.outside.events == []
    kernel.outside.refuses_events = False
    assert (await asyncio.wait_for(handle.result(), 60)).status == "completed"
    events = kernel.outside.events_of(run_id)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len(kernel.outside.events) == len(events), "nothing was sent twice"
    assert [event["type"] for event in events if event["type"] in TERMINAL_TYPES] == ["run.completed"]
    assert json.dumps(kernel.outside.requests[run_id][-1]).count("<temporality.memory") == 1


class Away(MemoryEdges):
    """A world whose ingest is away until `back` is set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.back = asyncio.Event()

    async def send_events(self, command: SendEvents) -> None:
        if not self.back.is_set():
            raise ConnectionError("ingest is away")
        await super().send_events(command)


def complete(edges: MemoryEdges) -> bool:
    """Whether the last event is there, and every one before it."""
    last = [event.seq for event in edges.events if event.type == "run.completed"]
    return bool(last) and {event.seq for event in edges.events} == set(range(1, last[0] + 1))


async def test_reports_outlive_a_run_that_ended_without_ingest(temporal_address: str) -> None:
    """A run does not wait for an ingest that is away, at its end or at a new workflow run, and nothing is lost with
    it: once ingest is back every event arrives."""
    edges = Away(ScriptedModel([call("shell")], "done"), {"shell": works()})
    spec = replace(SPEC, run_id=f"r-{uuid.uuid4().hex[:8]}", limits=Limits(turns_per_workflow=1))
    async with temporal_run(temporal_address, edges, spec) as run:
        assert (await asyncio.wait_for(run.handle.result(), 45)).status == "completed"
        assert edges.events == []
        edges.back.set()
        async with asyncio.timeout(60):
            while not complete(edges):
                await asyncio.sleep(0.1)
    numbers = {event.seq for event in edges.events}
    assert numbers == set(range(1, max(numbers) + 1))
    assert sum(kind in TERMINAL_TYPES for kind in {e.event_id: e.type for e in edges.events}.values()) == 1
