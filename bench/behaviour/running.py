"""Makes the planned runs: the kernel in this process, asking and reporting over HTTP; each is judged by its folder."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.behaviour.plan import AGENT, Planned
from bench.behaviour.stack import World
from bench.behaviour.trying import is_done
from kernel.drivers import Driver
from kernel.edge.activities import Activities
from kernel.edge.observation_client import ObservationClient
from kernel.edge.telemetry_client import TelemetryClient
from kernel.edge.transcript import MemoryTranscript
from kernel.runtime.local import LocalRun
from kernel.tools.registry import Toolbox


@dataclass(frozen=True, slots=True)
class Made:
    """A run that was made: how it ended, whether its folder is as the task wants it, reports that were not taken."""

    planned: Planned
    status: str
    success: bool
    n_lost: int


async def make_runs(
    world: World, driver: Driver, runs: Sequence[Planned], folder: Path, parallel: int, tell: Callable[[Made], None]
) -> list[Made]:
    """Make the runs, `parallel` at a time, in folders below `folder`; return them in their order."""
    toolbox = Toolbox(folder)
    clients = {
        slug: (ObservationClient(world.base_url, key), TelemetryClient(world.base_url, key))
        for slug, key in world.keys.items()
    }
    places = asyncio.Semaphore(parallel)

    async def make(planned: Planned) -> Made:
        async with places:
            made = await _make(planned, driver, toolbox, clients[planned.arm.project])
            tell(made)
            return made

    try:
        return list(await asyncio.gather(*map(make, runs)))
    finally:
        await toolbox.close()
        await driver.close()
        for observation, telemetry in clients.values():
            await observation.close()
            await telemetry.close()


async def _make(
    planned: Planned, driver: Driver, toolbox: Toolbox, clients: tuple[ObservationClient, TelemetryClient]
) -> Made:
    observation, telemetry = clients
    activities = Activities(MemoryTranscript(), {AGENT: driver}, toolbox, observation, telemetry)
    run = LocalRun(activities)
    result = await run.run(planned.spec())
    success = await asyncio.to_thread(is_done, planned.task, toolbox.folders(planned.run_id))
    report = await telemetry.send([_outcome(planned.run_id, success)])
    return Made(planned, result.status, success, run.telemetry_failures + report.n_rejected + report.n_undelivered)


def _outcome(run_id: str, success: bool) -> Mapping[str, object]:
    """Return the event that tells what the checker found."""
    return {
        "event_id": f"{run_id}:checked",
        "run_id": run_id,
        "type": "run.outcome",
        "occurred_at": datetime.now(UTC).isoformat(),
        "data": {"success": success, "by": "checker"},
    }
