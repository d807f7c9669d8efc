"""Lays a report of the behavioural benchmark out: arms, comparisons, the sweep over budgets, runs by task. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from debugger import charts
from debugger.queries.behaviour_reports import Arm, BehaviourReport, BudgetPoint, Comparison, TaskRun
from debugger.queries.effect_words import percent
from knowledge.effects.verdicts import in_points

ARM_TONES: Final = ("soft", "hint", "warn", "accent", "ok")
SWEEP_TONES: Final = ("accent", "hint", "warn", "ok")


@dataclass(frozen=True, slots=True)
class ArmRow:
    arm: Arm
    solved: str
    span: str
    used: str


@dataclass(frozen=True, slots=True)
class ComparedRow:
    one: Comparison
    difference: str
    span: str
    p: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task in one arm; several seeds are several runs, each with its address or ""."""

    arm: str
    n_solved: int
    n: int
    runs: tuple[tuple[str, bool], ...]

    @property
    def tone(self) -> str:
        return "" if not self.n else "ok" if self.n_solved == self.n else "bad" if not self.n_solved else "warn"


@dataclass(frozen=True, slots=True)
class TaskRow:
    task: str
    kind: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class SweepRow:
    point: BudgetPoint
    solved: str
    with_activation: str
    budget_use: str


@dataclass(frozen=True, slots=True)
class BehaviourPage:
    report: BehaviourReport
    arms: tuple[ArmRow, ...]
    compared: tuple[ComparedRow, ...]
    tasks: tuple[TaskRow, ...]
    sweep: tuple[SweepRow, ...]
    figures: Mapping[str, Any]


def behaviour_page(report: BehaviourReport, projects: Collection[str]) -> BehaviourPage:
    """Return the page; runs of `projects`, which the reader may see, have addresses when they are kept here."""
    return BehaviourPage(
        report=report,
        arms=tuple(_arm(arm) for arm in report.arms),
        compared=tuple(_compared(one) for one in report.comparisons),
        tasks=_tasks(report, projects if report.has_runs else ()),
        sweep=tuple(_sweep(point) for point in report.sweep),
        figures=_figures(report),
    )


def _arm(arm: Arm) -> ArmRow:
    one = arm.success
    known = one.low is not None and one.high is not None
    span = f"{percent(one.low)} to {percent(one.high)}" if known else "–"
    return ArmRow(arm, percent(one.rate), span, percent(arm.numbers["used_share"]))


def _compared(one: Comparison) -> ComparedRow:
    difference = "–" if one.difference is None else in_points(one.difference)
    span = "–" if one.low is None or one.high is None else f"{in_points(one.low)} to {in_points(one.high)}"
    return ComparedRow(one, difference, span, "–" if one.p is None else f"{one.p:.3g}")


def _sweep(point: BudgetPoint) -> SweepRow:
    numbers = point.numbers
    return SweepRow(point, *(percent(numbers[name]) for name in ("success", "with_activation", "budget_use")))


def _tasks(report: BehaviourReport, projects: Collection[str]) -> tuple[TaskRow, ...]:
    found: dict[tuple[str, str], dict[str, list[TaskRun]]] = {}
    for run in report.runs:
        found.setdefault((run.task, run.kind), {}).setdefault(run.arm, []).append(run)
    return tuple(
        TaskRow(task, kind, tuple(_outcome(arm, by_arm.get(arm.id, []), projects) for arm in report.arms))
        for (task, kind), by_arm in sorted(found.items())
    )


def _outcome(arm: Arm, runs: list[TaskRun], projects: Collection[str]) -> Outcome:
    addressed = tuple((_address(run, projects), run.is_solved) for run in runs)
    return Outcome(arm.title, sum(run.is_solved for run in runs), len(runs), addressed)


def _address(run: TaskRun, projects: Collection[str]) -> str:
    return f"/{run.project}/runs/{quote(run.run_id, safe='')}/" if run.project in projects else ""


def _figures(report: BehaviourReport) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    rows = [
        charts.Interval(arm.title, arm.success.rate, arm.success.low, arm.success.high, _tone(place))
        for place, arm in enumerate(report.arms)
        if arm.success.rate is not None and arm.success.low is not None and arm.success.high is not None
    ]
    if rows:
        figures["solved"] = charts.shares(rows, title="Tasks solved, with 95 % intervals")
    if report.sweep:
        figures["sweep"] = charts.lines(_sweep_lines(report), title="Tasks solved by budget", unit="", is_share=True)
    return figures


def _tone(place: int) -> str:
    return ARM_TONES[place % len(ARM_TONES)]


def _sweep_lines(report: BehaviourReport) -> list[charts.Line]:
    by_hints: dict[int, list[BudgetPoint]] = {}
    for point in sorted(report.sweep, key=lambda point: (point.hints, point.tokens)):
        by_hints.setdefault(point.hints, []).append(point)
    return [
        charts.Line(
            f"{hints} hint{'s' if hints > 1 else ''}",
            [point.tokens for point in of],
            [point.numbers["success"] for point in of],
            SWEEP_TONES[place % len(SWEEP_TONES)],
        )
        for place, (hints, of) in enumerate(by_hints.items())
    ]
