"""Reads what process trees cost: memory and processor seconds, from /proc."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
MEBIBYTE = 1024 * 1024
SAMPLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """One process and all below it. `cpu_seconds` includes children that ended and were waited for."""

    n_processes: int
    rss_mib: float
    pss_mib: float
    cpu_seconds: float


def tree(root: int, *, memory: bool = True) -> TreeFigures:
    """Return the figures of `root` and its descendants now; processes that end meanwhile are left out."""
    pids = [root]
    rss = pss = 0
    cpu = 0.0
    for pid in pids:
        folder = PROC / str(pid)
        try:
            # utime, stime, cutime, cstime: the 14th to 17th fields, counted after the name in parentheses
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            cpu += sum(int(part) for part in stat[11:15]) / TICKS
            for task in (folder / "task").iterdir():
                pids += [int(child) for child in (task / "children").read_text().split()]
            if memory:
                found = _rollup(folder)
                rss, pss = rss + found.get("Rss", 0), pss + found.get("Pss", 0)
        except OSError:
            continue
    return TreeFigures(len(pids), round(rss / 1024, 1), round(pss / 1024, 1), cpu)


def _rollup(folder: Path) -> dict[str, int]:
    """Return the process's sums in KiB. Shared pages count whole in Rss and by their share in Pss."""
    lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def _cpu_of_children(root: int) -> dict[int, float]:
    children = (PROC / str(root) / "task" / str(root) / "children").read_text().split()
    return {int(child): tree(int(child), memory=False).cpu_seconds for child in children}


class Watch:
    """Between `with` and its end: the processor seconds of each named tree, and its peak memory, sampled."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self.cpu_seconds: dict[str, float] = {}
        self.peak_rss_mib: dict[str, float] = dict.fromkeys(roots, 0.0)
        self.peak_pss_mib: dict[str, float] = dict.fromkeys(roots, 0.0)
        self._roots = dict(roots)
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_ended, name="memory", daemon=True)

    def __enter__(self) -> "Watch":
        self._before = {name: tree(pid, memory=False).cpu_seconds for name, pid in self._roots.items()}
        self._children_before = {name: _cpu_of_children(pid) for name, pid in self._roots.items()}
        self._sampler.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._sampler.join()
        self._sample()
        for name, pid in self._roots.items():
            self.cpu_seconds[name] = round(tree(pid, memory=False).cpu_seconds - self._before[name], 2)

    def cpu_seconds_of_children(self, name: str) -> list[float]:
        """Return the seconds of each child of the named root, from the start until now: how evenly they worked."""
        before = self._children_before[name]
        return [round(now - before.get(pid, 0.0), 2) for pid, now in _cpu_of_children(self._roots[name]).items()]

    def _sample_until_ended(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        for name, pid in self._roots.items():
            now = tree(pid)
            self.peak_rss_mib[name] = max(self.peak_rss_mib[name], now.rss_mib)
            self.peak_pss_mib[name] = max(self.peak_pss_mib[name], now.pss_mib)
