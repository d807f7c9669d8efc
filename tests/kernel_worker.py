"""Executes runs that were started by name, as the kernel's worker does, on a thread of its own with edges in memory."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.worker import Worker

from debugger.kernel_client import Ask, NotDrivenHere, RunAddress, look
from debugger.launching import Runtime, start_run, wait_for_run
from ingest.models import Project
from kernel.conformance.served_edges import activities_of
from kernel.messages import RunSpec
from kernel.runtime.delivery import Delivery
from kernel.runtime.operation import Operation
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, Reply
from tests.factories import send
from tests.kernel.temporal_run import LooksOnce

SECONDS = 30.0
T = TypeVar("T")


@dataclass(frozen=True)
class KernelWorker:
    """A worker on a queue of its own; `edges` are the world of its runs. Safe beside a running event loop."""

    runtime: Runtime
    edges: MemoryEdges

    def start(self, spec: RunSpec, project: str) -> str:
        """Start a run of a fresh id for a project and return the id."""
        run_id = f"{spec.run_id}-{uuid.uuid4().hex[:8]}"
        aside(lambda: start_run(self.runtime, asdict(replace(spec, run_id=run_id)), project))
        return run_id

    def replies(self, *replies: Reply) -> None:
        """Prepare what the model says next."""
        self.edges.model._replies[:] = replies

    def await_asks(self, run_id: str, project: str, n: int = 1, besides: Ask | None = None) -> tuple[Ask, ...]:
        """Wait until the run waits for `n` things, and not for `besides`, and return them."""
        deadline, asks = time.monotonic() + SECONDS, tuple[Ask, ...]()
        while len(asks) != n or besides in asks:
            assert time.monotonic() < deadline, f"{asks} instead of {n} things to answer"
            time.sleep(0.05)
            with suppress(NotDrivenHere):  # a delegate's run is not there before it is delegated to
                asks = self.asks(run_id, project)
        return asks

    def asks(self, run_id: str, project: str) -> tuple[Ask, ...]:
        """Return what the run waits for now."""
        return aside(lambda: look(self.runtime, RunAddress(project, run_id)).asks)

    def await_end(self, run_id: str) -> str:
        """Wait for the run to end and return its status."""
        return aside(lambda: wait_for_run(self.runtime, run_id, SECONDS))

    def report(self, project: Project, run_id: str, kind: str) -> None:
        """Wait until the run has reported an event of `kind`; bring all it reported to ingest and derive its chains."""
        deadline, events = time.monotonic() + SECONDS, list[dict[str, Any]]()
        while kind not in [event["type"] for event in events]:
            assert time.monotonic() < deadline, f"no {kind} among {[event['type'] for event in events]}"
            time.sleep(0.02)
            events = [dict(event) for event in self.edges.wire if event["run_id"] == run_id]
        send(project, events)


@contextmanager
def kernel_worker(address: str, edges: MemoryEdges) -> Iterator[KernelWorker]:
    """Execute runs in the world of `edges` until the block is left."""
    runtime = Runtime(address, "default", f"queue-{uuid.uuid4().hex}")
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        client = await Client.connect(address)
        async with Worker(
            client,
            task_queue=runtime.task_queue,
            workflows=[AgentRun, Operation, Delivery],
            activities=activities_of(edges),
            workflow_runner=LooksOnce(),
        ):
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="test-kernel")
    thread.start()
    try:
        assert ready.wait(SECONDS), "the worker did not start"
        yield KernelWorker(runtime, edges)
    finally:
        done.set()
        thread.join(SECONDS)


def aside(work: Callable[[], T]) -> T:
    """Run `work` on a thread without an event loop: a browser's test has one running in its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
