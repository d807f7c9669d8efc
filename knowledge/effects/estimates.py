"""What offering did, as a difference between the two arms: by stratum and over strata. Pure.

A difference is always offered minus withheld and counts what is good: above 0 is better with hints. Within a stratum
its interval is Newcombe's, of counts that a design effect has reduced where a run has several points. Over strata it is
the Mantel-Haenszel risk difference (Greenland and Robins 1985; statsmodels pools ratios only) with the variance of the
cluster bootstrap by run, taken from the replicates of the cells. Nothing here is NaN: what cannot be said is None.
(Seed 001 §16.)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from statsmodels.stats.proportion import confint_proportions_2indep

from knowledge.effects.counts import ArmCounts, Arms, Stratum, Tally, merge
from knowledge.effects.rates import LEVEL, Interval
from knowledge.effects.replicates import Replicates

Floats = NDArray[np.float64]
Strata = Mapping[Stratum, Arms]
Key = TypeVar("Key")

FEWEST_REPLICATES: Final = 32  # fewer usable ones say nothing of a variance
ADDED: Final = 5.0  # successes, and failures, more: half the square of the errors that a confidence sequence reaches to


class Outcome(StrEnum):
    """What is compared; the words are those of `contract.stages.OUTCOME_MEASURES`."""

    NEAR = "near"
    FAR = "far"
    CALLS = "calls"  # of the later calls of the same tool or server, those that did not fail


@dataclass(frozen=True, slots=True)
class Difference:
    """Offered minus withheld within one stratum; the three numbers are None while an arm has no known outcome."""

    offered: Tally
    withheld: Tally
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """The pooled difference of any choice of strata, with its uncertainty by run.

    `offered` and `withheld` are what is compared: known outcomes in strata that have both arms. `low` and `high` are a
    95 % interval for one look; who looks again and again reads `sequences.anytime`. `variance` is above 0.
    """

    outcome: Outcome
    value: float
    variance: float
    low: float
    high: float
    offered: Tally
    withheld: Tally
    n_runs: int  # of the arm with fewer, and never too many
    n_strata: int

    @property
    def n_compared(self) -> int:
        return self.offered.n + self.withheld.n


def tally_of(counts: ArmCounts, outcome: Outcome) -> Tally:
    """Return successes and known outcomes of an arm; for CALLS the calls that did not fail, of all."""
    if outcome is Outcome.NEAR:
        return counts.near
    if outcome is Outcome.FAR:
        return counts.far
    return Tally(counts.calls_after - counts.failed_after, counts.calls_after)


def _replicated(counts: ArmCounts, outcome: Outcome) -> tuple[Floats, Floats]:
    """Return successes and known outcomes of an arm in every replicate."""
    row = counts.replicates.row
    if outcome is Outcome.CALLS:
        return row("calls_after") - row("failed_after"), row("calls_after")
    return row(f"{outcome.value}_success"), row(f"{outcome.value}_known")


def grouped(strata: Strata, by: Callable[[Stratum], Key]) -> dict[Key, dict[Stratum, Arms]]:
    """Return the strata by what `by` reads from them: a trigger, a tool class."""
    groups: dict[Key, dict[Stratum, Arms]] = {}
    for stratum, arms in strata.items():
        groups.setdefault(by(stratum), {})[stratum] = arms
    return groups


def both_arms(strata: Strata) -> Arms:
    """Return all strata added up: for counts and costs. Effects are never read from it."""
    members = list(strata.values())
    return Arms(merge(arms.offered for arms in members), merge(arms.withheld for arms in members))


def by_stratum(strata: Strata, outcome: Outcome = Outcome.NEAR) -> dict[Stratum, Difference]:
    """Return the difference within each stratum, the largest first."""
    order = sorted(strata, key=lambda stratum: (-strata[stratum].n_points, str(stratum)))
    return {stratum: difference(strata[stratum], outcome) for stratum in order}


def difference(arms: Arms, outcome: Outcome = Outcome.NEAR) -> Difference:
    """Return offered minus withheld with Newcombe's interval (Newcombe 1998, method 10)."""
    offered, withheld = tally_of(arms.offered, outcome), tally_of(arms.withheld, outcome)
    if not offered.n or not withheld.n:
        return Difference(offered, withheld)
    worth = [
        _design_effect(tally_of(counts, outcome), *_replicated(counts, outcome))
        for counts in (arms.offered, arms.withheld)
    ]
    known = max((effect for effect in worth if effect is not None), default=1.0)
    reduced = [
        number / (effect or known) for tally, effect in zip((offered, withheld), worth, strict=True) for number in tally
    ]
    low, high = confint_proportions_2indep(*reduced, method="newcomb", compare="diff", alpha=1 - LEVEL)
    value = offered.n_success / offered.n - withheld.n_success / withheld.n
    return Difference(offered, withheld, value, max(float(low), -1.0), min(float(high), 1.0))


def _design_effect(tally: Tally, successes: Floats, known: Floats) -> float | None:
    """Return how many points of an arm tell as much as one independent point, at least 1.

    None where that cannot be told: all are successes or all failures, or few replicates have any.
    """
    rate = tally.n_success / tally.n
    alone = rate * (1 - rate) / tally.n
    usable = known > 0
    if alone == 0 or usable.sum() < FEWEST_REPLICATES:
        return None
    return max(1.0, float(np.mean((successes[usable] / known[usable] - rate) ** 2)) / alone)


def pooled(strata: Strata, outcome: Outcome = Outcome.NEAR) -> Effect | None:
    """Return the difference over all strata, or None while no stratum has a known outcome in both arms."""
    compared = [arms for arms in strata.values() if _is_compared(arms, outcome)]
    if not compared:
        return None
    arms = [[arms.offered for arms in compared], [arms.withheld for arms in compared]]
    offered, withheld = (_table([tally_of(counts, outcome) for counts in arm]) for arm in arms)
    value = float(_mantel_haenszel(offered, withheld)[0])
    n_runs = min(Replicates.total(counts.replicates for counts in arm).n_runs_at_least for arm in arms)
    drawn = [np.array([_replicated(counts, outcome) for counts in arm]).swapaxes(0, 1) for arm in arms]
    totals = [Tally(int(table[0].sum()), int(table[1].sum())) for table in (offered, withheld)]
    worth = [_design_effect(tally, *sums.sum(axis=1)) for tally, sums in zip(totals, drawn, strict=True)]
    known = max((effect for effect in worth if effect is not None), default=1.0)
    variance = max(_clustered(_mantel_haenszel(*drawn), value, n_runs), _independent(offered, withheld))
    variance += _hidden(offered, withheld, known)
    half = student(n_runs) * variance**0.5
    low, high = clamped(value - half, value + half)
    return Effect(outcome, value, variance, low, high, totals[0], totals[1], n_runs, len(compared))


def _is_compared(arms: Arms, outcome: Outcome) -> bool:
    return tally_of(arms.offered, outcome).n > 0 and tally_of(arms.withheld, outcome).n > 0


def _table(tallies: Sequence[Tally]) -> Floats:
    """Return successes and known outcomes by stratum, as one replicate: the truth itself."""
    return np.array(tallies, dtype=np.float64).T[:, :, None]


def _mantel_haenszel(offered: Floats, withheld: Floats) -> Floats:
    """Return the difference of each replicate, NaN where it compares nothing. Arms are 2 x strata x replicates."""
    total = offered[1] + withheld[1]
    safe = np.where(total > 0, total, 1.0)
    gained = ((offered[0] * withheld[1] - withheld[0] * offered[1]) / safe).sum(axis=0)
    weight = (offered[1] * withheld[1] / safe).sum(axis=0)
    return np.where(weight > 0, gained / np.where(weight > 0, weight, 1.0), np.nan)


def _clustered(replicated: Floats, value: float, n_runs: int) -> float:
    """Return the variance that resampling runs shows; 0 when too few replicates compare anything."""
    usable = replicated[np.isfinite(replicated)]
    if len(usable) < FEWEST_REPLICATES:
        return 0.0
    return float(np.mean((usable - value) ** 2)) * n_runs / max(n_runs - 1, 1)


def _independent(offered: Floats, withheld: Floats) -> float:
    """Return the variance that independent points of these numbers would have: what clusters only add to.

    It is above 0 also where an arm has successes alone: rates of a stratum are drawn to that of its arm by two points.
    """
    return _weighed(offered, withheld, _smoothed_spread(offered) + _smoothed_spread(withheld))


def _weighed(offered: Floats, withheld: Floats, spread: Floats) -> float:
    """Return the variance of the pooled difference, given that of the difference within each stratum."""
    weight = offered[1] * withheld[1] / (offered[1] + withheld[1])
    return float((weight**2 * spread).sum() / weight.sum() ** 2)


def _hidden(offered: Floats, withheld: Floats, design_effect: float) -> float:
    """Return the variance that an arm does not show because it has few failures, or few successes, by chance.

    Twenty successes of twenty look certain and are common where one in ten fails. As Agresti and Coull (1998) do, each
    arm is thought to have ADDED more of each; near a half, and in large numbers, this adds nothing.
    """
    spread = np.zeros_like(offered[1])
    for successes, known in (offered, withheld):
        good, n = successes.sum() / design_effect, known.sum() / design_effect
        thought = (good + ADDED) * (n - good + ADDED) / (n + 2 * ADDED) ** 2
        spread = spread + design_effect * max(0.0, thought - good * (n - good) / n**2) / known
    return _weighed(offered, withheld, spread)


def _smoothed_spread(arm: Floats) -> Floats:
    successes, known = arm
    overall = (successes.sum() + 1) / (known.sum() + 2)
    rate = (successes + 2 * overall) / (known + 2)
    spread: Floats = rate * (1 - rate) / known
    return spread


def student(n_runs: int) -> float:
    """Return how many standard errors a 95 % interval reaches to either side, when `n_runs` tell the standard error."""
    return float(stdtrit(max(n_runs - 1, 1), (1 + LEVEL) / 2))


def clamped(low: float, high: float) -> Interval:
    """Return an interval of differences, within -1 to 1."""
    return Interval(max(low, -1.0), min(high, 1.0))
