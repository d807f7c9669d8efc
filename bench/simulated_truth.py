"""Tries the estimates of effects on runs whose true effect is known: `python -m bench.simulated_truth`.

Prints how often intervals hold the truth, how often a page that is watched says something false, by when harm is found,
whether draws that have not their share are noticed, and what becomes of many items at once. Seeded: the same arguments
print the same figures. `--experiments` is how many simulated experiments stand behind a figure.
"""

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.simulated_runs import WORLDS, World, add_run, runs_of, strata_of
from knowledge.effects.counts import Arms, Stratum
from knowledge.effects.estimates import Effect, Outcome, by_stratum, pooled
from knowledge.effects.items import judge_items
from knowledge.effects.power import POWER, needed, table
from knowledge.effects.rates import rate_of
from knowledge.effects.sequences import anytime
from knowledge.effects.verdicts import Verdict, verdict_of

LOOK_EVERY = 10  # points
HARM = -0.15
SHARE = 0.2
ITEM_POINTS = 400
BROKEN = ((0.2, 1_000), (0.2, 3_000), (0.3, 1_000), (0.5, 1_000))  # share of withheld points that are lost, draws
RATE = 0.47  # success of the average withheld point of the worlds
BY_NAME = {world.name: world for world in WORLDS}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Over many experiments: how far off the estimate is on average, and how often each interval held the truth.

    `stratum` is the interval of the largest stratum, `far` that of the distal outcome, where the truth is 0.
    """

    world: str
    bias: float
    pooled: float
    anytime: float
    stratum: float
    far: float


@dataclass(frozen=True, slots=True)
class Watched:
    """Over many experiments watched from the start: how often any look said so.

    `peeking` is what the intervals for one look would have said, read at every look: that there is an effect.
    """

    world: str
    helps: float
    harms: float
    invalid: float
    peeking: float


def coverage(world: World, experiments: int, n_points: int) -> Coverage:
    """Return the figures of one look after `n_points` draws."""
    held: dict[str, list[bool]] = {"pooled": [], "anytime": [], "stratum": [], "far": []}
    off = 0.0
    for seed in range(experiments):
        strata = strata_of(world, seed, n_points)
        near, far = pooled(strata), pooled(strata, Outcome.FAR)
        if near is None or far is None:
            raise ValueError(f"{n_points} points of {world.name} compare nothing: make more")
        off += near.value - world.truth
        held["pooled"].append(near.low <= world.truth <= near.high)
        held["anytime"].append(anytime(near).holds(world.truth))
        held["far"].append(far.low <= 0 <= far.high)
        stratum, largest = next(iter(by_stratum(strata).items()))
        if largest.low is not None and largest.high is not None:
            held["stratum"].append(largest.low <= world.effects.get(stratum.trigger, 0.0) <= largest.high)
    return Coverage(world.name, off / experiments, **{name: sum(seen) / len(seen) for name, seen in held.items()})


def looks(world: World, seed: int, n_points: int) -> Iterator[dict[Stratum, Arms]]:
    """Yield what a page counts each time that LOOK_EVERY points, or a little more, have come: runs arrive whole."""
    strata: dict[Stratum, Arms] = {}
    new = 0
    for run in runs_of(world, seed, n_points):
        add_run(strata, run)
        new += len(run.points)
        if new >= LOOK_EVERY:
            new = 0
            yield strata


def watched(world: World, experiments: int, n_points: int) -> Watched:
    """Return the figures of a page that is looked at from the start until `n_points` were drawn."""
    tests: dict[str, Callable[[Verdict], bool]] = {
        "helps": lambda verdict: verdict.word == "helps",
        "harms": lambda verdict: verdict.word == "harms",
        "invalid": lambda verdict: verdict.word == "invalid",
        "peeking": lambda verdict: verdict.word != "collecting" and _seems_sure(verdict.effect),
    }
    said = dict.fromkeys(tests, 0)
    for seed in range(experiments):
        verdicts = [verdict_of(strata) for strata in looks(world, seed, n_points)]
        for name, is_said in tests.items():
            said[name] += any(is_said(verdict) for verdict in verdicts)
    return Watched(world.name, **{name: number / experiments for name, number in said.items()})


def _seems_sure(effect: Effect | None) -> bool:
    return effect is not None and (effect.low > 0 or effect.high < 0)


def noticed(world: World, experiments: int, n_points: int) -> float:
    """Return the share of experiments whose verdict after `n_points` draws is `invalid`."""
    words = [verdict_of(strata_of(world, seed, n_points)).word for seed in range(experiments)]
    return words.count("invalid") / experiments


def suspended(experiments: int, n_points: int, n_good: int = 18, n_bad: int = 2) -> tuple[float, float]:
    """Return how many of the harmful items are proposed for suspension, and in how many experiments a good one is.

    An experiment has `n_good` items without effect and `n_bad` that cost 25 points, each with `n_points` draws.
    """
    bad = World("bad item", dict.fromkeys(BY_NAME["helpful"].effects, -0.25), rate_spread=0.05)
    found, wrong = 0, 0
    for seed in range(experiments):
        items = {f"good-{n}": strata_of(BY_NAME["none"], 1_000 * seed + n, n_points) for n in range(n_good)}
        items |= {f"bad-{n}": strata_of(bad, 1_000 * seed + n, n_points) for n in range(n_bad)}
        proposed = [item.knowledge_id for item in judge_items(items) if item.suspend]
        found += sum(name.startswith("bad") for name in proposed)
        wrong += any(name.startswith("good") for name in proposed)
    return found / (n_bad * experiments), wrong / experiments


def share_in_words(value: float, experiments: int) -> str:
    rate = rate_of(round(value * experiments), experiments)
    return f"{value:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def print_power() -> None:
    """Print how many points it takes, as the document on effects has it."""
    print(f"\nDecision points for a power of {POWER:.0%}, at half of the withheld situations resolved\n")
    print("| effect | withheld | one planned look | watched |\n|---|---|---|---|")
    for row in table():
        print(f"| {row.difference:+.0%} | {row.share:.0%} | {row.one_look:,} | {row.watched:,} |")


def _print_coverage(experiments: int, n_points: int) -> None:
    print(f"\nIntervals of 95 % after {n_points} points: how often they hold the truth\n")
    print("| world | truth | bias | pooled | one stratum | run success | at any look |\n|---|---|---|---|---|---|---|")
    for world in WORLDS:
        one = coverage(world, experiments, n_points)
        shown = f"{share_in_words(one.pooled, experiments)} | {one.stratum:.1%} | {one.far:.1%} | {one.anytime:.1%}"
        print(f"| {world.name} | {world.truth:+.3f} | {one.bias:+.4f} | {shown} |", flush=True)


def _print_watched(experiments: int, n_points: int) -> None:
    print(f"\nNo effect, watched every {LOOK_EVERY} points up to {n_points}: how often any look is wrong\n")
    print("| world | false verdict | by intervals for one look | `invalid` |\n|---|---|---|---|")
    for name in ("none", "drifting, share changes", "clustered, no effect"):
        one = watched(BY_NAME[name], experiments, n_points)
        shown = f"{share_in_words(one.helps + one.harms, experiments)} | {one.peeking:.1%} | {one.invalid:.1%}"
        print(f"| {name} | {shown} |", flush=True)


def _print_found(experiments: int) -> None:
    n_points = math.ceil(needed(HARM, SHARE, RATE).watched / 0.95)  # a part of the outcomes is not known
    one = watched(BY_NAME["harmful"], experiments, n_points)
    print(f"\nHarm of {HARM:+.0%} is found within {n_points} points, as the power table says for {POWER:.0%}: ", end="")
    print(f"{share_in_words(one.harms, experiments)}; called help: {one.helps:.1%}")
    for lost, draws in BROKEN:
        seen = noticed(World("broken", lost=lost), experiments, draws)
        print(f"{lost:.0%} of withheld points lost, {draws:,} draws: {seen:.1%} `invalid`", flush=True)
    many = max(experiments // 10, 1)
    found, wrong = suspended(many, ITEM_POINTS)
    print(f"20 items, 2 of them at -25 points, {ITEM_POINTS} draws each, {many} times: {found:.1%} of the two are")
    print(f"proposed for suspension; another one is in {wrong:.1%} of the times")


def main() -> None:
    """Print every figure, with what they cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--experiments", type=int, default=1_000)
    parser.add_argument("--points", type=int, default=400, help="draws before the one look at intervals")
    parser.add_argument("--watched", type=int, default=1_000, help="draws until which a page is watched")
    parser.add_argument("--part", choices=("power", "intervals", "watched", "found"), help="only these figures")
    given = parser.parse_args()
    started = time.monotonic()
    watches = max(given.experiments // 2, 1)
    print(f"{given.experiments:,} experiments behind each figure of intervals, {watches:,} behind the others;")
    print("in brackets a figure's own uncertainty (95 %, Wilson)")
    if given.part in (None, "power"):
        print_power()
    if given.part in (None, "intervals"):
        _print_coverage(given.experiments, given.points)
    if given.part in (None, "watched"):
        _print_watched(watches, given.watched)
    if given.part in (None, "found"):
        _print_found(watches)
    took = f"{time.monotonic() - started:.0f} s, {time.process_time():.0f} s of them computing"
    print(f"\n{took}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
