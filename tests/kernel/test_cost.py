"""What a turn costs, counted in function calls: the same on every machine, and the same late in a run as early."""

import sys
from types import FrameType
from typing import Any

import pytest

from bench.kernel import compare, ratios
from bench.kernel_loop import InstantModel, KernelLoop
from kernel.runtime.local import LocalRun

TURNS, WINDOW = 400, 50


async def calls_by_window(loop: KernelLoop) -> list[float]:
    """Return the Python and C functions called a turn in each window of a long run."""
    looks: list[int] = []
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    def tick(turn: int) -> None:
        if turn % WINDOW == 1:
            looks.append(count)

    edges, spec = loop.world(TURNS, InstantModel(TURNS, tick, yields=True))
    sys.setprofile(seen)
    try:
        await LocalRun(edges, clock_ns=edges.clock).run(spec)
    finally:
        sys.setprofile(None)
    return [(after - before) / WINDOW for before, after in zip(looks, looks[1:], strict=False)]


@pytest.mark.parametrize(
    ("loop", "most"),
    [(KernelLoop("works"), 1_000), (KernelLoop("fails", failing=True, limits={}), 1_400)],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_a_late_turn_costs_what_an_early_one_did(loop: KernelLoop, most: int) -> None:
    """Work does not grow with the history, and stays below a bound a sixth above what it is today."""
    windows = await calls_by_window(loop)
    assert len(windows) == TURNS // WINDOW
    assert windows[-1] <= windows[1] * 1.05
    assert max(windows[1:]) <= most


async def test_the_benchmark_measures_the_run_it_means() -> None:
    """Every call of both kinds of run is executed, and in the failing one every search ends in an injected hint."""
    costs = await compare((KernelLoop("kernel"), KernelLoop("kernel, failing", failing=True)), 5, 1)
    assert [(cost.name, cost.turns) for cost in costs] == [("kernel", 5), ("kernel, failing", 5)]
    assert all(cost.median > 0 and cost.fake > 0 for cost in costs)
    assert ratios(costs) == []
