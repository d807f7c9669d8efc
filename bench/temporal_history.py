"""What a run leaves in Temporal's history: events a turn, and bytes of every workflow run of a long run.

Starts the embedded server and stops it; the edges are those of the other measurements, in memory. Workflow task events
are counted apart: how many of them there are is a matter of how outcomes happen to arrive together.
"""

import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from bench.kernel_loop import KernelLoop
from debugger.embedded.processes import stop_all
from debugger.embedded.temporal import await_temporal, start_temporal
from kernel.messages import RunSpec
from kernel.testing import MemoryEdges
from tests.kernel.temporal_run import temporal_run

FEW, MANY = 5, 10  # turns of the short runs: what ten have more than five is what five turns cost
LONG = 2_000
MEGABYTE = 1_000_000
SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
WORKFLOW_TASKS = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
)


def count() -> dict[str, Any]:
    """Return the counts by name."""
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_temporal(Path(folder), Path(folder) / "temporal.log", keep=False)
        try:
            await_temporal(server, address)
            return asyncio.run(_count(address))
        finally:
            stop_all([server])


async def _count(address: str) -> dict[str, Any]:
    works, fails = KernelLoop("works"), KernelLoop("fails", failing=True)
    off = await _a_turn(address, works, activation=False)
    on = await _a_turn(address, works, activation=True)
    failed_off = await _a_turn(address, fails, activation=False)
    failed_on = await _a_turn(address, fails, activation=True)
    edges, spec = works.world(LONG)
    sizes = await _history_bytes(address, edges, replace(spec, run_id="long"))
    return {
        "history events a successful turn, activation off": off["events"],
        "history events a successful turn, activation on": on["events"],
        "history events a failed turn, activation off": failed_off["events"],
        "history events a failed turn, activation on": failed_on["events"],
        "workflow task events a turn, off and on": (off["workflow tasks"], on["workflow tasks"]),
        "activities a failed turn, activation off": failed_off["activities"],
        "activities a failed turn, activation on": failed_on["activities"],
        f"workflow runs of a run of {LONG:,} turns": len(sizes),
        "largest history of a workflow run, MB": round(max(sizes) / MEGABYTE, 2),
        "all histories of the run, MB": round(sum(sizes) / MEGABYTE, 2),
    }


async def _a_turn(address: str, loop: KernelLoop, *, activation: bool) -> dict[str, float]:
    """Return what one more turn adds to the history."""
    short, long = [await _counted(address, loop, turns, activation=activation) for turns in (FEW, MANY)]
    return {name: (long[name] - short[name]) / (MANY - FEW) for name in ("events", "activities", "workflow tasks")}


async def _counted(address: str, loop: KernelLoop, turns: int, *, activation: bool) -> Counter[str]:
    edges, spec = loop.world(turns)
    switches = replace(spec.switches, activation=activation)
    counts: Counter[str] = Counter()
    async with temporal_run(address, edges, replace(spec, switches=switches, run_id=f"{loop.name}-{turns}")) as run:
        await run.result()
        async for event in run.handle.fetch_history_events():
            counts["workflow tasks" if event.event_type in WORKFLOW_TASKS else "events"] += 1
            counts["activities"] += event.event_type == SCHEDULED
    return counts


async def _history_bytes(address: str, edges: MemoryEdges, spec: RunSpec) -> list[int]:
    """Return the bytes of the history of each workflow run that the run went through."""
    async with temporal_run(address, edges, spec) as run:
        await run.handle.result()
    client = await Client.connect(address)
    sizes: list[int] = []
    async for workflow in client.list_workflows(f"WorkflowId = '{spec.run_id}'"):
        history = await client.get_workflow_handle(workflow.id, run_id=workflow.run_id).fetch_history()
        sizes.append(sum(event.ByteSize() for event in history.events))
    return sizes
