"""Runs a prepared world on a real Temporal server: the activities are the same edges the in-process runner gets."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import _Definition

from kernel.conformance.served_edges import activities_of
from kernel.messages import RunInput, RunResult, RunSpec
from kernel.runtime.delivery import Delivery
from kernel.runtime.edges import Edges
from kernel.runtime.operation import Operation
from kernel.runtime.workflow import AgentRun


class LooksOnce(SandboxedWorkflowRunner):
    """Temporal's sandbox, which imports each workflow class once to see that it can, not once for every worker.

    Every run still imports all of it anew, inside.
    """

    seen: ClassVar[set[type]] = set()

    def prepare_workflow(self, defn: _Definition) -> None:
        if defn.cls not in self.seen:
            super().prepare_workflow(defn)
            self.seen.add(defn.cls)


@dataclass(frozen=True)
class TemporalRun:
    """A run under way on Temporal."""

    client: Client
    handle: WorkflowHandle[Any, RunResult]

    async def result(self) -> RunResult:
        return await asyncio.wait_for(self.handle.result(), 60)


@asynccontextmanager
async def temporal_run(address: str, edges: Edges, spec: RunSpec) -> AsyncIterator[TemporalRun]:
    """Start `spec` on a worker of its own; a run of that id that a test left behind is ended."""
    client = await Client.connect(address)
    queue = uuid.uuid4().hex
    async with Worker(
        client,
        task_queue=queue,
        workflows=[AgentRun, Operation, Delivery],
        activities=activities_of(edges),
        workflow_runner=LooksOnce(),
    ):
        handle = await client.start_workflow(
            AgentRun.run,
            RunInput(spec),
            id=spec.run_id,
            task_queue=queue,
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
        )
        yield TemporalRun(client, handle)


def without_times(events: list[Any]) -> list[Any]:
    """Events in their order of numbers, without what differs between two runs of the same: times."""
    return [
        replace(event, occurred_ns=0, data=_without_durations(event.data))
        for event in sorted(events, key=lambda event: event.seq)
    ]


def _without_durations(data: str) -> str:
    head, found, tail = data.partition('"duration_ms": ')
    if not found:
        return data
    number = tail[: min(place for mark in ",}" if (place := tail.find(mark)) >= 0)]
    return head + found + "0" + _without_durations(tail[len(number) :])
