"""The Temporal server is killed in mid-run and started again on what it kept: the runs go on and end properly."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client

from debugger.embedded.processes import Child, stop_all
from debugger.embedded.temporal import await_temporal, start_temporal
from tests.kernel.crash_phases import PHASES, PLANS, Flight, Phase, seen, start
from tests.kernel.crash_runs import gathered
from tests.kernel.test_crashes import check_nothing_twice
from tests.kernel.worker_process import kernel_at

NAMES = ("model", "tool", "approval", "question", "awaiting")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[list[tuple[Child, str]]]:
    """A server that keeps its database; what a test adds is stopped as well."""
    servers = [start_temporal(tmp_path, tmp_path / "temporal.log")]
    try:
        await_temporal(*servers[0])
        yield servers
    finally:
        stop_all([child for child, _ in servers])


def as_calm(phase: Phase) -> Phase:
    """The phase of a run that loses nothing: only the server goes, its worker stays."""
    return replace(phase, lost=False)


def kill_and_start_again(servers: list[tuple[Child, str]], folder: Path) -> None:
    """kill -9, then the same command on the same port and database."""
    [(child, address)] = servers
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    while child.exit_code() is None:
        pass
    again = Child(child.program, folder / "again.log")
    servers.append((again, address))


async def test_runs_outlive_the_server(server: list[tuple[Child, str]], postgres_url: str, tmp_path: Path) -> None:
    """Runs in a model call, a tool, waiting for a person and for an operation end as if nothing had been."""
    address = server[0][1]
    client = await Client.connect(address)
    async with kernel_at(address, postgres_url, tmp_path / "kernel", PLANS) as kernel:
        await kernel.start()
        await kernel.said("executing runs of")
        flights: list[Flight] = []
        for phase in (phase for phase in PHASES if phase.name in NAMES):
            if phase.held:
                kernel.outside.gates.close(f"{kernel.run_id(phase.name)} {phase.held}")
            flights.append(await start(kernel, client, as_calm(phase)))
        for flight in flights:
            await seen(flight, flight.phase.reached, "reached its phase")

        kill_and_start_again(server, tmp_path)
        await asyncio.to_thread(await_temporal, *server[1])
        for flight in flights:
            kernel.outside.gates.open(flight.closed_gate(flight.phase.held))
            kernel.gate(flight.run_id).touch()
        for flight in flights:
            if flight.phase.after is not None:
                await asyncio.wait_for(flight.phase.after(flight), 60)
        lefts = {flight.phase.name: await gathered(flight) for flight in flights}

    for left in lefts.values():
        assert left.result.status == "completed"
        check_nothing_twice(left)
        assert left.types().count("tool.failed") == (1 if left.flight.phase.name in ("model", "approval") else 0)
    assert [left.ran for name, left in lefts.items() if name != "question"] == ["x\n"] * 4
    assert lefts["awaiting"].data_of("operation.completed") == [{"result": ""}]
    assert len(lefts["model"].requests) == 2
