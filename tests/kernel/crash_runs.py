"""Disturbs runs in all their phases at once: one worker is killed, one cut off and then killed, one frozen for a while.

Three task queues, so that three workers lose what they hold at the same moment and all is waited for once.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from temporalio.client import Client

from kernel.messages import Message, RunResult
from tests.kernel.crash_phases import PHASES, PLANS, Flight, Phase, calls_file, seen, start
from tests.kernel.cuttable import Cuttable, cuttable
from tests.kernel.worker_process import Kernel, kernel_at

CUT = ("preparation", "model", "tool", "reading", "hints", "reporting", "awaiting", "closing", "finale", "asking")
FROZEN = ("model", "tool", "hints", "awaiting")
CALM = tuple(phase.name for phase in PHASES if not phase.lost)
THAW_SECONDS = 2.0  # what a worker that runs again may take to hand in what it holds


@dataclass
class Left:
    """What a run left behind."""

    flight: Flight
    result: RunResult
    messages: list[Message]
    events: list[dict[str, Any]]
    requests: list[list[dict[str, Any]]]
    ran: str = ""
    set_up: str = ""
    calls: str = ""
    child: "Left | None" = None

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def data_of(self, kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == kind]

    @property
    def n_searches(self) -> int:
        return self.flight.kernel.outside.hint_runs.count(self.flight.run_id)


@dataclass
class Group:
    """The runs of one worker, and how it is disturbed."""

    kernel: Kernel
    flights: list[Flight] = field(default_factory=list)
    locks: dict[str, psycopg.AsyncConnection[Any]] = field(default_factory=dict)

    async def launch(self, client: Client, names: Sequence[str], mark: str = "", *, hold: bool = True) -> None:
        """Start a run of each phase, held where it is to be disturbed."""
        await self.kernel.said("executing runs of")
        for phase in (phase for phase in PHASES if phase.name in names):
            run_id = self.kernel.run_id(f"{phase.name}{mark}")
            if phase.held and hold:
                self.kernel.outside.gates.close(f"{run_id} {phase.held}")
            if phase.name == "delegate" and hold:
                self.kernel.outside.gates.close(f"{run_id}.1 model 2")
            if phase.locked and hold:
                self.locks[run_id] = await self._lock(run_id, phase.locked)
            self.flights.append(await start(self.kernel, client, phase, mark=mark))

    async def _lock(self, run_id: str, seq: int) -> psycopg.AsyncConnection[Any]:
        """Let nobody write at a position of the transcript until the connection is closed."""
        connection = await psycopg.AsyncConnection.connect(self.kernel.environment["KERNEL_DATABASE_URL"])
        query = "INSERT INTO kernel.message (run_id, seq, message, outcome) VALUES (%s, %s, '', '')"
        await connection.execute(query, [run_id, seq])
        return connection

    async def reach(self) -> None:
        for flight in self.flights:
            await seen(flight, flight.phase.reached, "reached its phase")
            if flight.phase.name == "closing":
                await flight.handle.cancel()

    async def unlock(self) -> None:
        for connection in self.locks.values():
            await connection.close()
        self.locks.clear()

    def open(self, *, but: str = "") -> None:
        """Open every gate and file that holds a run, but not of the phase `but`."""
        for flight in self.flights:
            if flight.phase.name != but:
                self.kernel.outside.gates.open(flight.closed_gate(flight.phase.held))
                self.kernel.gate(flight.run_id).touch()

    async def finish(self) -> dict[str, Left]:
        """Wait for every run to end, giving those that wait for a person their answer, and gather what they left."""
        for flight in self.flights:
            if flight.phase.after is not None:
                await asyncio.wait_for(flight.phase.after(flight), 60)
        return {flight.phase.name: await gathered(flight) for flight in self.flights}


async def gathered(flight: Flight) -> Left:
    result = await asyncio.wait_for(flight.handle.result(), 90)
    child = None
    if flight.phase.name == "delegate":
        handle = flight.client.get_workflow_handle(f"{flight.run_id}.1", result_type=RunResult)
        child = await gathered(Flight(flight.kernel, flight.client, PLAIN, f"{flight.run_id}.1", handle))
    left = Left(flight, result, [], [], [], child=child)
    await look_again(left)
    return left


async def look_again(left: Left) -> None:
    """Take what the run left as it is now."""
    flight, kernel = left.flight, left.flight.kernel
    left.messages = await kernel.transcript(flight.run_id)
    left.events = kernel.outside.events_of(flight.run_id)
    left.requests = list(kernel.outside.requests.get(flight.run_id, []))
    left.ran = kernel.in_work(flight.run_id, "ran")
    left.set_up = kernel.in_work(flight.run_id, "set_up")
    calls = calls_file(kernel, flight.run_id)
    left.calls = calls.read_text() if calls.exists() else ""


PLAIN = next(phase for phase in PHASES if phase.name == "model")


@dataclass
class Aftermath:
    """What the runs left, by how their worker was disturbed and by phase."""

    killed: dict[str, Left]
    cut: dict[str, Left]
    frozen: dict[str, Left]
    calm: dict[str, Left]


@asynccontextmanager
async def three_workers(
    temporal: str, postgres: str, folder: Path
) -> AsyncIterator[tuple[list[Kernel], list[Cuttable]]]:
    """A kernel for each way to be disturbed; the second and third speak to Temporal on ways that can be cut."""
    async with AsyncExitStack() as stack:
        ways = [await stack.enter_async_context(cuttable(temporal)) for _ in range(2)]
        addresses = {"killed": temporal, "cut": ways[0].address, "frozen": ways[1].address}
        kernels = [
            await stack.enter_async_context(kernel_at(address, postgres, folder / name, PLANS))
            for name, address in addresses.items()
        ]
        yield kernels, ways


async def locked_writes(kernel: Kernel, count: int) -> None:
    """Wait until `count` writes to the transcript wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    async with asyncio.timeout(60):
        while (await kernel.rows(query, "INSERT INTO kernel.message%"))[0][0] < count:
            await asyncio.sleep(0.05)


async def all_done(flights: list[Flight], look: Callable[[Phase], Any], what: str) -> None:
    for flight in flights:
        if look(flight.phase) is not None:
            await seen(flight, look(flight.phase), what)


async def disturb(temporal: str, postgres: str, folder: Path) -> Aftermath:
    """Hold runs in every phase, take their workers away, start new ones and return what the runs left."""
    client = await Client.connect(temporal)
    async with three_workers(temporal, postgres, folder) as (kernels, ways):
        killed, cut, frozen = (Group(kernel) for kernel in kernels)
        processes = [await kernel.start() for kernel in kernels]
        await killed.launch(client, [phase.name for phase in PHASES])
        await cut.launch(client, CUT)
        await frozen.launch(client, FROZEN)
        for group in (killed, cut, frozen):
            await group.reach()
        await locked_writes(killed.kernel, len(killed.locks) + len(cut.locks))

        processes[2].send_signal(signal.SIGSTOP)
        ways[0].cut()
        cut.open()
        await cut.unlock()
        await all_done(cut.flights, lambda phase: phase.worked, "did its work")
        for process in processes[:2]:
            process.kill()
            await process.wait()
        for way in ways:
            way.close()
        await killed.unlock()
        killed.open(but="operation")
        for kernel in kernels:
            kernel.environment["TEMPORAL_ADDRESS"] = temporal
            await kernel.start()

        calm = Group(killed.kernel)
        for phase in PHASES:
            killed.kernel.gate(killed.kernel.run_id(f"{phase.name}-calm")).touch()
        await calm.launch(client, CALM, mark="-calm", hold=False)
        lefts = [await group.finish() for group in (killed, cut, frozen, calm)]

        processes[2].send_signal(signal.SIGCONT)
        frozen.open()
        await asyncio.sleep(THAW_SECONDS)
        for left in lefts[2].values():
            await look_again(left)
        return Aftermath(*lefts)
