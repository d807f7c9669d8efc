"""What a report of effects says: for any choice of days and places, how far knowledge came and what offering it did.

Put together from rollups alone, in a number of queries that does not depend on how much was searched. Groups are by one
dimension; a group's verdict compares its own strata only. Pages and API say the same, because both say this.
(Seed 001 §13, §16.4, §17.)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models import Count, Max, Q, Sum

from knowledge.contributions import COUNTS
from knowledge.effects.counts import Arms, arms_by_stratum, merge
from knowledge.effects.estimates import Difference, Outcome, Strata, both_arms, by_stratum
from knowledge.effects.rates import Rate, Step, funnel, rate_of
from knowledge.effects.verdicts import Verdict, verdict_of
from knowledge.models import RunSummary
from knowledge.rollups import STRATA, Cell, n_waiting, points_by_stratum, read_cells

GROUPS: Final = ("trigger", "tool", "mcp_server", "algorithm_version", "experiment")
FILTERS: Final = ("trigger", "tool", "mcp_server", "algorithm_version", "experiment", "knowledge_id")
DAYS_MOST: Final = 366  # of one report
MOST_GROUPS: Final = 100  # those with most searches; the rest is counted in the total alone
STAGES: Final = ("retrieved", "offered", "selected", "injected", "used", "helpful")


@dataclass(frozen=True, slots=True)
class Asked:
    """Days (UTC, both included), the dimension to group by (one of GROUPS) and what dimensions must be (of FILTERS)."""

    since: date
    until: date
    group: str = "trigger"
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """The searches of one value of the grouping: counts and words of contributions, times in milliseconds, effects.

    `near` judges what followed within a few calls, `far` whether the runs succeeded. `tokens_per_resolved` is None
    where nothing was resolved.
    """

    value: str
    counts: Mapping[str, int]
    words: Mapping[str, Mapping[str, int]]
    waited_p50: float | None
    waited_p95: float | None
    steps: tuple[Step, ...]
    arms: Arms
    near: Verdict
    far: Verdict

    @property
    def resolved(self) -> Rate:
        """Of the failures of which it can be told, those that were overcome within the next calls, hints or not."""
        good, bad = self.counts["n_resolved"], self.counts["n_unresolved"]
        return rate_of(good, good + bad)

    @property
    def tokens_per_resolved(self) -> float | None:
        resolved = self.counts["n_resolved"]
        return self.counts["tokens"] / resolved if resolved else None


@dataclass(frozen=True, slots=True)
class Day:
    """One day: searches, and of its decision points the share of good outcomes in either arm, None without any."""

    day: date
    n_activations: int
    n_injecting: int
    tokens: int
    offered: float | None
    withheld: float | None


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs first received on the days asked for, whatever else is filtered: what part knowledge had in them."""

    n: int
    n_searching: int
    n_injected: int
    hint_tokens: int
    folded_at: datetime | None


@dataclass(frozen=True, slots=True)
class EffectReport:
    """`total` is all that was asked for; `groups` its parts, most searches first, `n_left_out` of them not listed."""

    asked: Asked
    total: Group
    groups: tuple[Group, ...]
    n_left_out: int
    strata: Mapping[Any, Difference]
    days: tuple[Day, ...]
    runs: Runs
    n_waiting: int


def make_report(project_id: int, asked: Asked) -> EffectReport:
    """Return the report. Raises KeyError for a group or filter that is no dimension."""
    given: dict[str, Any] = {"since_day": asked.since, "until_day": asked.until, "where": asked.where}
    plain = read_cells(project_id, by=(asked.group,), replicates=False, **given)
    drawn = read_cells(project_id, by=tuple(dict.fromkeys((asked.group, *STRATA))), words=False, **given)
    daily = read_cells(project_id, by=("day", "arm"), replicates=False, words=False, **given)
    largest = sorted(plain, key=lambda cell: (-cell.counts["n_activations"], str(cell.key[asked.group])))
    drawn_of: dict[Any, list[Cell]] = {}
    for cell in drawn:
        drawn_of.setdefault(cell.key[asked.group], []).append(cell)
    strata = arms_by_stratum(points_by_stratum(drawn))
    shown = largest[:MOST_GROUPS]
    return EffectReport(
        asked=asked,
        total=_group("", plain, strata),
        groups=tuple(_of_value(cell, cell.key[asked.group], drawn_of) for cell in shown),
        n_left_out=len(largest) - len(shown),
        strata=by_stratum(strata),
        days=_days(daily),
        runs=_runs(project_id, asked),
        n_waiting=n_waiting(project_id),
    )


def _of_value(cell: Cell, value: Any, drawn_of: Mapping[Any, Sequence[Cell]]) -> Group:
    strata = arms_by_stratum(points_by_stratum(drawn_of.get(value, [])))
    return _group("" if value is None else str(value), [cell], strata)


def _group(value: str, cells: Sequence[Cell], strata: Strata) -> Group:
    whole = sum_of(cells)
    return Group(
        value=value,
        counts=whole.counts,
        words=whole.words,
        waited_p50=whole.waited_ms(0.5),
        waited_p95=whole.waited_ms(0.95),
        steps=funnel([(stage, whole.counts[f"n_{stage}"]) for stage in STAGES]),
        arms=both_arms(strata),
        near=verdict_of(strata, Outcome.NEAR),
        far=verdict_of(strata, Outcome.FAR),
    )


def sum_of(cells: Sequence[Cell]) -> Cell:
    """Return the sums of cells of searches, or of cells of one item."""
    words: dict[str, Counter[str]] = {}
    for cell in cells:
        for kind, numbers in cell.words.items():
            words.setdefault(kind, Counter()).update(numbers)
    counts = {name: sum(cell.counts[name] for cell in cells) for name in COUNTS}
    return Cell({}, counts, words, merge(cell.points for cell in cells))


def _days(cells: Sequence[Cell]) -> tuple[Day, ...]:
    by_day: dict[date, list[Cell]] = {}
    for cell in cells:
        by_day.setdefault(cell.key["day"], []).append(cell)
    return tuple(_day(day, by_day[day]) for day in sorted(by_day))


def _day(day: date, cells: Sequence[Cell]) -> Day:
    counts = sum_of(cells).counts
    rates = {cell.key["arm"]: cell.points.near.rate for cell in cells}
    return Day(
        day,
        counts["n_activations"],
        counts["n_injecting"],
        counts["tokens"],
        rates.get("offered"),
        rates.get("withheld"),
    )


def _runs(project_id: int, asked: Asked) -> Runs:
    since = datetime.combine(asked.since, time(), UTC)
    until = datetime.combine(asked.until + timedelta(days=1), time(), UTC)
    of_days = RunSummary.objects.filter(
        project_id=project_id, first_received_at__gte=since, first_received_at__lt=until
    )
    found = of_days.aggregate(
        n=Count("run_id"),
        n_searching=Count("run_id", filter=Q(n_activations__gt=0)),
        n_injected=Count("run_id", filter=Q(n_injected__gt=0)),
        hint_tokens=Sum("hint_tokens", default=0),
        folded_at=Max("folded_at"),
    )
    return Runs(**found)
