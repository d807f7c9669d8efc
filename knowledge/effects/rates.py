"""Rates with their uncertainty: how large a share is, how far off it may be, what each step of a funnel loses. Pure.

Wilson intervals of 95 % (statsmodels), which stay inside 0 to 1 and hold where few are counted. They take every count
as independent of the others: they describe a funnel and prove no effect. (Seed 001 §16.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from statsmodels.stats.proportion import proportion_confint

LEVEL: Final = 0.95


class Interval(NamedTuple):
    """From `low` to `high`, both finite."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n`, as a value from 0 to 1 with its interval; all three are None while n is 0."""

    count: int
    n: int
    value: float | None
    low: float | None
    high: float | None


def rate_of(count: int, n: int) -> Rate:
    """Return the rate. Raises ValueError when `count` does not lie between 0 and `n`."""
    if not 0 <= count <= n:
        raise ValueError(f"count is {count} of {n}: it must lie between 0 and n")
    if n == 0:
        return Rate(0, 0, None, None, None)
    low, high = wilson(count, n)
    return Rate(count, n, count / n, low, high)


def wilson(count: float, n: float) -> Interval:
    """Return the Wilson interval of `count` in `n` > 0; both may be fractions, as after a design effect."""
    low, high = proportion_confint(count, n, alpha=1 - LEVEL, method="wilson")
    return Interval(max(float(low), 0.0), min(float(high), 1.0))


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a funnel: how many of the step before came here, and how many of the first."""

    name: str
    of_previous: Rate
    of_first: Rate


def funnel(counts: Sequence[tuple[str, int]]) -> tuple[Step, ...]:
    """Return the steps of a funnel, given how many reached each stage in the order of the chain.

    A stage that counts more than the one before it (its reports came without those of the earlier stage) has a rate
    of 1 and keeps its count for the step after it.
    """
    steps = []
    for place, (name, count) in enumerate(counts):
        before = counts[place - 1][1] if place else count
        first = counts[0][1]
        steps.append(Step(name, rate_of(min(count, before), before), rate_of(min(count, first), first)))
    return tuple(steps)
