"""What the kernel costs a turn beside its model and its tools: `python -m bench.kernel [--turns N] [--json]`.

Measured is the same loop everywhere: one model request, one tool call, its reply, N times in one run, then an answer;
model and tool are instant. On our side all of it is counted that a real run does in this process: the core's decisions,
the request built from the transcript and checked, redaction, the reply written once, every event built, turned into its
wire form and handed to an ingest that keeps it; with failures also the fingerprint, the search, its JSON there and
back, selection and injection. The peers run their loops as their documents show them, LangGraph with its in-memory
checkpointer. What the instant model and tool take by themselves is measured and subtracted. Times are of the
processor, as nothing here waits and the machine may have other work; what lived before a run (everybody's modules) is
kept out of garbage collection during it. Rounds alternate between the contestants, the median counts.

The peers are no part of the product: they are measured where they are installed (requirements-bench.txt) and named as
missing where not. `--temporal` adds what a run leaves in Temporal's history, which takes minutes.
"""

import argparse
import asyncio
import gc
import importlib
import json
import logging
import platform
import sys
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Protocol

from bench import temporal_history
from bench.flatness import WINDOW, Flatness, flatness
from bench.kernel_loop import KernelLoop

PEERS = ("bench.langgraph_loop", "bench.pydantic_ai_loop")
INSTALL = "python3 -m venv /tmp/bench && /tmp/bench/bin/pip install -c constraints.txt -r requirements-bench.txt"
PLAIN = KernelLoop("kernel, no triggers")
FAILING = KernelLoop("kernel, every call fails and gets a hint", failing=True)
CAPPED = KernelLoop("kernel, every call fails, default limits", failing=True, limits={})
FLAT_TURNS = 2_000


class Loop(Protocol):
    """A contestant: `run` and `fake` return seconds for a run of so many turns."""

    name: str
    version: str

    async def run(self, turns: int) -> float: ...

    async def fake(self, turns: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds a turn, without the model and the tool; `fake` is what was subtracted."""

    name: str
    version: str
    turns: int
    median: float
    best: float
    fake: float


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--turns", type=int, nargs="+", default=[50, 500], help="turns of a run")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--flat-turns", type=int, default=FLAT_TURNS, help="turns of the long run; 0 leaves it out")
    arguments.add_argument("--temporal", action="store_true", help="also count what Temporal's history holds")
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given = arguments.parse_args()
    logging.disable(logging.WARNING)
    found, missing = peers()
    report: dict[str, Any] = {"python": platform.python_version(), "missing": missing, "install": INSTALL}
    costs = [
        cost for turns in given.turns for cost in asyncio.run(compare((PLAIN, FAILING, *found), turns, given.rounds))
    ]
    report["costs"] = [asdict(cost) for cost in costs]
    long_runs = [asyncio.run(flatness(loop, given.flat_turns)) for loop in (PLAIN, CAPPED) if given.flat_turns]
    report["flatness"] = [
        {**asdict(run), "time_ratio": run.time_ratio, "memory_ratio": run.memory_ratio} for run in long_runs
    ]
    if given.temporal:
        report["temporal"] = temporal_history.count()
    print(json.dumps(report) if given.json else tables(report, costs, long_runs))
    return 0


def peers() -> tuple[list[Loop], list[str]]:
    """Return the peers that are installed, and what cannot be imported of the others."""
    found: list[Loop] = []
    missing: list[str] = []
    for name in PEERS:
        try:
            found.append(importlib.import_module(name).LOOP)
        except ImportError as error:
            missing.append(f"{name}: {error}")
    return found, missing


async def compare(loops: tuple[Loop, ...], turns: int, rounds: int) -> list[Cost]:
    """Measure every contestant once a round, after one round that does not count."""
    taken: list[list[float]] = [[] for _ in loops]
    fakes: list[list[float]] = [[] for _ in loops]
    for number in range(rounds + 1):
        for place, loop in enumerate(loops):
            gc.collect()
            gc.freeze()
            seconds, fake = await loop.run(turns), await loop.fake(turns)
            if number:
                taken[place].append(seconds / turns * 1e6)
                fakes[place].append(fake / turns * 1e6)
    costs = []
    for loop, seconds_of, fake_of in zip(loops, taken, fakes, strict=True):
        fake = median(fake_of)
        costs.append(Cost(loop.name, loop.version, turns, median(seconds_of) - fake, min(seconds_of) - fake, fake))
    return costs


def tables(report: dict[str, Any], costs: list[Cost], long_runs: list[Flatness]) -> str:
    """Return the report as text."""
    lines = [f"Python {report['python']}; microseconds a turn, without model and tool"]
    for cost in costs:
        who = f"{cost.name} ({cost.version})"
        lines.append(
            f"  {cost.turns:>5} turns  {who:<58} median {cost.median:>8,.0f}  best {cost.best:>8,.0f}"
            f"  subtracted {cost.fake:>5.1f}"
        )
    lines += [f"  ratio: {text}" for text in ratios(costs)]
    for name in report["missing"]:
        lines.append(f"  not measured: {name}; to install the peers: {report['install']}")
    for run in long_runs:
        lines.append(f"{run.name}: {len(run.micros) * WINDOW:,} turns, what a turn costs in each {WINDOW} of them")
        lines.append("  microseconds: " + " ".join(f"{value:,.0f}" for value in run.micros))
        lines.append("  bytes kept:   " + " ".join(f"{value:,.0f}" for value in run.kept_bytes))
        lines.append(
            f"  last/first: time {run.time_ratio:.2f}, memory {run.memory_ratio:.2f};"
            f" peak RSS of the process {run.peak_rss_mb:,.0f} MB"
        )
    if "temporal" in report:
        lines += ["Temporal", *(f"  {name}: {value}" for name, value in report["temporal"].items())]
    return "\n".join(lines)


def ratios(costs: list[Cost]) -> list[str]:
    """Return our cost over each peer's, for runs of the same length."""
    return [
        f"{cost.turns} turns: {ours.name} / {cost.name} = {ours.median / cost.median:.2f}"
        for cost in costs
        for ours in costs
        if cost.turns == ours.turns and ours.name.startswith("kernel") and not cost.name.startswith("kernel")
    ]


if __name__ == "__main__":
    sys.exit(main())
