"""Reads what runs of the behavioural benchmark left behind: which arms did how well on the same tasks, with what agent.

A report is a file of `python -m bench.behaviour`; one that cannot be read is listed with its problem. (Seed 001 §16.4.)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from debugger.queries.report_file import (
    ReportProblem,
    read_document,
    read_entries,
    read_id,
    read_mapping,
    read_moment,
    read_number,
    read_text,
    read_versions,
)

NAME: Final = re.compile(r"behaviour-[A-Za-z0-9._-]{1,120}\Z")
REPORTS_SHOWN: Final = 50  # newest first
MOST_RUNS: Final = 5_000  # of one report


@dataclass(frozen=True, slots=True)
class Success:
    """How many of `n` tasks were solved, with a 95 % interval; shares from 0 to 1."""

    n: int
    n_solved: int
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the tasks. Counts are sums over its runs, `tokens` of injected text, latencies milliseconds."""

    id: str
    title: str
    about: str
    success: Success
    numbers: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against another, paired by task: the difference of the shares solved, with its 95 % interval."""

    arm: str
    against: str
    on: str
    n: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n_won: int
    n_lost: int

    @property
    def tone(self) -> str:
        if self.low is None or self.high is None:
            return "soft"
        return "ok" if self.low > 0 else "bad" if self.high < 0 else "soft"


@dataclass(frozen=True, slots=True)
class Check:
    """Something the report holds itself to: what it says, what was found, whether that is what was wanted."""

    says: str
    value: str
    wanted: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """The runtime arm with other limits: at most `tokens` of hints and `hints` at once."""

    tokens: int
    hints: int
    numbers: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class TaskRun:
    task: str
    kind: str
    arm: str
    seed: int
    project: str
    run_id: str
    is_solved: bool


@dataclass(frozen=True, slots=True)
class BehaviourReport:
    """One run of the benchmark. `has_runs`: its runs are kept in this installation, and can be opened."""

    name: str
    made_at: datetime
    agent: str
    note: str
    command: str
    versions: tuple[tuple[str, str], ...]
    has_runs: bool
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    checks: tuple[Check, ...]
    sweep: tuple[BudgetPoint, ...]
    runs: tuple[TaskRun, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of the folder: its report, or why it cannot be shown."""

    name: str
    report: BehaviourReport | None
    problem: str = ""


ARM_NUMBERS: Final = (
    "failed_repeats",
    "useless_repeats",
    "tokens",
    "used_share",
    "helpful",
    "harmful",
    "false_injections",
)
SWEEP_NUMBERS: Final = ("success", "tokens_per_resolved", "with_activation", "budget_use")


def list_reports(folder: Path) -> list[Listed]:
    """Return the newest REPORTS_SHOWN reports of the folder, newest first; none when there is no folder."""
    try:
        names = [path.stem for path in folder.iterdir() if path.suffix == ".json" and NAME.match(path.stem)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [_listed(folder, name) for name in sorted(names, key=_stamp, reverse=True)[:REPORTS_SHOWN]]


def _stamp(name: str) -> tuple[str, str]:
    return name.rpartition("-")[2], name


def _listed(folder: Path, name: str) -> Listed:
    try:
        return Listed(name, read_behaviour(folder, name))
    except ReportProblem as problem:
        return Listed(name, None, str(problem))


def read_behaviour(folder: Path, name: str) -> BehaviourReport | None:
    """Return a report by its name, None for no such file. Raises ReportProblem for one that cannot be shown."""
    if not NAME.match(name):
        return None
    document = read_document(folder / f"{name}.json")
    if document is None:
        return None
    try:
        return lay_out(name, document)
    except RecursionError:
        raise ReportProblem("it is nested too deeply") from None


def lay_out(name: str, top: Mapping[str, Any]) -> BehaviourReport:
    """Return the report of a document. Raises ReportProblem naming the first field that does not fit. Pure."""
    if top.get("kind") != "behaviour" or top.get("format") != 1:
        raise ReportProblem("it is no report of the behavioural benchmark in format 1")
    return BehaviourReport(
        name=name,
        made_at=read_moment(top),
        agent=read_text(top, "agent", "the report"),
        note=read_text(top, "agent_note", "the report", is_required=False),
        command=read_text(top, "command", "the report", is_required=False),
        versions=read_versions(top),
        has_runs=bool(top.get("base_url")),
        arms=tuple(_arm(entry, f"arms[{n}]") for n, entry in read_entries(top, "arms")),
        comparisons=tuple(_comparison(entry, f"comparisons[{n}]") for n, entry in read_entries(top, "comparisons")),
        checks=tuple(_check(entry, f"checks[{n}]") for n, entry in read_entries(top, "checks")),
        sweep=tuple(_budget_point(entry, f"sweep[{n}]") for n, entry in read_entries(top, "sweep")),
        runs=tuple(_run(entry, f"runs[{n}]") for n, entry in read_entries(top, "runs", MOST_RUNS)),
    )


def _arm(entry: object, place: str) -> Arm:
    fields = read_mapping(entry, place)
    n = _count(fields, "n", place)
    solved = read_mapping(fields.get("success"), f"{place}.success")
    success = Success(
        n,
        _count(solved, "n", f"{place}.success"),
        *(read_number(solved, name, f"{place}.success") for name in ("rate", "low", "high")),
    )
    about = read_text(fields, "about", place, is_required=False)
    return Arm(read_id(fields, place), read_text(fields, "title", place), about, success, _numbers(fields, place))


def _numbers(fields: Mapping[str, Any], place: str, names: tuple[str, ...] = ARM_NUMBERS) -> dict[str, float | None]:
    """Return the numbers by name, with the two latencies beside them, in milliseconds."""
    latency = read_mapping(fields.get("latency_ms") or {}, f"{place}.latency_ms")
    found = {name: read_number(fields, name, place) for name in names}
    return found | {name: read_number(latency, name, f"{place}.latency_ms") for name in ("p50", "p95")}


def _comparison(entry: object, place: str) -> Comparison:
    fields = read_mapping(entry, place)
    arm, against, on = (read_text(fields, name, place) for name in ("arm", "against", "on"))
    difference, low, high, p = (read_number(fields, name, place) for name in ("difference", "low", "high", "p"))
    n, n_won, n_lost = (_count(fields, name, place) for name in ("n", "won", "lost"))
    return Comparison(arm, against, on, n, difference, low, high, p, n_won, n_lost)


def _check(entry: object, place: str) -> Check:
    fields = read_mapping(entry, place)
    value, wanted = (_told(fields.get(name)) for name in ("value", "wanted"))
    return Check(read_text(fields, "says", place), value, wanted, fields.get("met") is True)


def _told(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)[:200]


def _budget_point(entry: object, place: str) -> BudgetPoint:
    fields = read_mapping(entry, place)
    tokens, hints = _count(fields, "tokens", place), _count(fields, "hints", place)
    return BudgetPoint(tokens, hints, _numbers(fields, place, SWEEP_NUMBERS))


def _run(entry: object, place: str) -> TaskRun:
    fields = read_mapping(entry, place)
    task, arm, run_id = (read_text(fields, name, place) for name in ("task", "arm", "run_id"))
    kind, project = (read_text(fields, name, place, is_required=False) for name in ("kind", "project"))
    return TaskRun(task, kind, arm, _count(fields, "seed", place), project, run_id, fields.get("success") is True)


def _count(fields: Mapping[str, Any], name: str, place: str) -> int:
    number = read_number(fields, name, place)
    if number is None or number < 0:
        raise ReportProblem(f"{place}: {name} is no count")
    return int(number)
