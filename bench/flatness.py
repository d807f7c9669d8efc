"""Whether the last turns of a long run cost what its first ones did: time and memory of each hundred turns."""

import gc
import resource
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.kernel_loop import InstantModel, KernelLoop
from kernel.runtime.local import LocalRun

WINDOW = 100  # turns
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Flatness:
    """What each window of WINDOW turns cost, a turn: microseconds (median of the rounds) and bytes that stayed."""

    name: str
    micros: tuple[float, ...]
    kept_bytes: tuple[float, ...]
    peak_rss_mb: float

    @property
    def time_ratio(self) -> float:
        """Last window over first."""
        return self.micros[-1] / self.micros[0]

    @property
    def memory_ratio(self) -> float:
        """Last window over first."""
        return self.kept_bytes[-1] / self.kept_bytes[0]


async def flatness(loop: KernelLoop, turns: int) -> Flatness:
    """Measure one long run several times for time and once more, being watched, for memory.

    The model lets the event loop run once a turn, so that reports are sent while the run goes on.
    """
    await _watched(loop, 2 * WINDOW, time.process_time)
    rounds = [await _watched(loop, turns, time.process_time) for _ in range(ROUNDS)]
    micros = tuple(median(window) * 1e6 for window in zip(*rounds, strict=True))
    tracemalloc.start()
    try:
        kept = await _watched(loop, turns, _traced_bytes)
    finally:
        tracemalloc.stop()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Flatness(loop.name, micros, tuple(kept), peak)


def _traced_bytes() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _watched(loop: KernelLoop, turns: int, look: Callable[[], float]) -> list[float]:
    """Return by how much what `look` returns grew in each window, a turn."""
    looks: list[float] = []

    def tick(turn: int) -> None:
        if turn % WINDOW == 1:
            looks.append(look())

    edges, spec = loop.world(turns, InstantModel(turns, tick, yields=True))
    gc.collect()
    gc.freeze()
    await LocalRun(edges, clock_ns=edges.clock).run(spec)
    return [(after - before) / WINDOW for before, after in zip(looks, looks[1:], strict=False)]
