"""The numbers of a report, from the rows alone: each arm's, the differences between two arms, what each item did. Pure.

Proportions have Wilson intervals; two arms are paired by task and seed: McNemar's exact test, and an interval of the
difference from a bootstrap that draws whole tasks. The formulas are statsmodels'. (Seed 001 §16.4.)
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from bench.behaviour.rows import Row

DRAWS: Final = 4_000  # of the bootstrap
DRAWN_WITH: Final = 20_261_130  # where its throws begin, so that the same rows give the same interval


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its interval of 95%; all None of nothing."""

    count: int
    of: int
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """What one arm came to on some tasks. Means are a run's."""

    arm: str
    n: int
    success: Rate
    failed_repeats: float
    useless_repeats: float
    tokens: float
    injected_share: Rate
    used_share: Rate
    helpful: int
    harmful: int
    neutral: int
    foreign: Rate
    unanswered: int
    latency_p50: float | None
    latency_p95: float | None
    wait_p50: float | None
    wait_p95: float | None
    tokens_per_success: float | None
    tokens_per_resolved: float | None
    budget_use: float | None
    active_share: Rate


@dataclass(frozen=True, slots=True)
class Difference:
    """One arm's success over another's on the same tasks and seeds. `won`: only the first succeeded; `lost`: only the
    second."""

    arm: str
    against: str
    on: str
    n: int
    difference: float
    low: float
    high: float
    won: int
    lost: int
    p: float


@dataclass(frozen=True, slots=True)
class ItemFigures:
    """What the item of one task did where it was injected. `flag` is what most runs that acted on it say.

    A run says harmful when the fold says so (the same failure again) or its folder was not as wanted in the end, which
    `acted_failed` counts; otherwise it says helpful.
    """

    task: str
    kind: str
    injected: int
    used: int
    helpful: int
    harmful: int
    neutral: int
    acted_failed: int
    flag: str


def rate(count: int, of: int) -> Rate:
    if not of:
        return Rate(count, of, None, None, None)
    low, high = proportion_confint(count, of, method="wilson")
    return Rate(count, of, count / of, float(low), float(high))


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return a percentile of the values, None of none."""
    return float(np.percentile(values, share)) if values else None


def arm_figures(arm: str, rows: Sequence[Row]) -> ArmFigures:
    """Return what the rows of one arm came to."""
    latencies = [value for row in rows for value in row.latencies_ms]
    waits = [value for row in rows for value in row.waits_ms]
    tokens = sum(row.tokens for row in rows)
    n_success, n_resolved = sum(row.success for row in rows), sum(row.resolved for row in rows)
    injected = sum(row.n_injected for row in rows)
    limits = sum(row.token_limit for row in rows)
    return ArmFigures(
        arm=arm,
        n=len(rows),
        success=rate(n_success, len(rows)),
        failed_repeats=_mean(row.failed_repeats for row in rows),
        useless_repeats=_mean(row.useless_repeats for row in rows),
        tokens=_mean(row.tokens for row in rows),
        injected_share=rate(sum(row.n_injected > 0 for row in rows), len(rows)),
        used_share=rate(sum(row.used for row in rows), injected),
        helpful=sum(row.helpful for row in rows),
        harmful=sum(row.harmful for row in rows),
        neutral=sum(row.neutral for row in rows),
        foreign=rate(sum(row.foreign > 0 for row in rows), len(rows)),
        unanswered=sum(row.n_unanswered for row in rows),
        latency_p50=percentile(latencies, 50),
        latency_p95=percentile(latencies, 95),
        wait_p50=percentile(waits, 50),
        wait_p95=percentile(waits, 95),
        tokens_per_success=tokens / n_success if n_success else None,
        tokens_per_resolved=tokens / n_resolved if n_resolved else None,
        budget_use=tokens / limits if limits else None,
        active_share=rate(sum(row.n_activations > 0 for row in rows), len(rows)),
    )


def difference(rows: Iterable[Row], arm: str, against: str, on: str) -> Difference | None:
    """Return how much more often one arm succeeded than another, None when no task is in both."""
    given: dict[tuple[str, int], dict[str, bool]] = defaultdict(dict)
    for row in rows:
        if row.arm in (arm, against):
            given[row.task, row.seed][row.arm] = row.success
    pairs = [(task, both[arm], both[against]) for (task, _), both in sorted(given.items()) if len(both) == 2]
    if not pairs:
        return None
    won = sum(one and not other for _, one, other in pairs)
    lost = sum(other and not one for _, one, other in pairs)
    both, neither = sum(one and other for _, one, other in pairs), sum(not (one or other) for _, one, other in pairs)
    p = float(mcnemar([[both, won], [lost, neither]], exact=True).pvalue) if won + lost else 1.0
    low, high = _interval(pairs)
    return Difference(arm, against, on, len(pairs), (won - lost) / len(pairs), low, high, won, lost, p)


def item_figures(rows: Iterable[Row]) -> list[ItemFigures]:
    """Return what each task's own item did where it was injected at runtime; the caller gives the rows of such arms."""
    by_task: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.own_injected:
            by_task[row.task].append(row)
    return [_item(task, of_task) for task, of_task in sorted(by_task.items())]


def _item(task: str, rows: Sequence[Row]) -> ItemFigures:
    helpful, harmful = sum(row.helpful for row in rows), sum(row.harmful for row in rows)
    acted = [row for row in rows if row.used]
    acted_failed = sum(not row.success for row in acted)
    n_bad = sum(row.harmful > 0 or not row.success for row in acted)
    n_good = len(acted) - n_bad
    flag = "harmful" if n_bad > n_good else "helpful" if n_good > n_bad else ""
    return ItemFigures(
        task=task,
        kind=rows[0].kind,
        injected=sum(row.own_injected for row in rows),
        used=sum(row.used for row in rows),
        helpful=helpful,
        harmful=harmful,
        neutral=sum(row.neutral for row in rows),
        acted_failed=acted_failed,
        flag=flag,
    )


def _interval(pairs: Sequence[tuple[str, bool, bool]]) -> tuple[float, float]:
    """Return the 95% interval of the mean difference; whole tasks are drawn, because seeds of one are alike."""
    by_task: dict[str, list[int]] = defaultdict(list)
    for task, one, other in pairs:
        by_task[task].append(int(one) - int(other))
    sums = np.array([sum(values) for _, values in sorted(by_task.items())], dtype=float)
    sizes = np.array([len(values) for _, values in sorted(by_task.items())], dtype=float)
    drawn = np.random.default_rng(DRAWN_WITH).integers(0, len(sums), size=(DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return statistics.fmean(listed) if listed else 0.0


def by_arm(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    """Return the rows by arm, arms in the order they come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.arm, []).append(row)
    return found


def plain(value: Any) -> Any:
    """Return a figure as JSON has it: numbers with six places."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
