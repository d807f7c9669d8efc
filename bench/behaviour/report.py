"""What a benchmark leaves: one JSON document with every row, for the pages, and the same told in markdown. Pure.

The document's form is its `format`: it says which agent, seeds, versions and command made it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.behaviour.arms import ARMS, CONTROL
from bench.behaviour.figures import arm_figures, by_arm, difference, item_figures, plain
from bench.behaviour.rows import Row
from bench.behaviour.task import FITTING, KINDS

FORMAT: Final = 1
RUNTIME, PLACEBO, WITHHELD = "runtime", "placebo", "withheld"
SUBSETS: Final[Mapping[str, tuple[str, ...]]] = {"fitting": FITTING, "all": tuple(KINDS), **{k: (k,) for k in KINDS}}
COMPARED: Final = ((RUNTIME, CONTROL), (PLACEBO, CONTROL), (WITHHELD, CONTROL), (RUNTIME, PLACEBO), (RUNTIME, WITHHELD))
COMPARED_ON: Final = ("fitting", "invented", "known", "priming", "none", "wrong", "all")
NOISE: Final = 0.05  # p-value over which two arms are not told apart


@dataclass(frozen=True, slots=True)
class About:
    """How the rows were made. `base_url` is empty where the runs were thrown away; `cpu_seconds` is what this process
    and all it started took of the processors, `seconds` what a clock showed."""

    agent: str
    agent_note: str
    command: str
    seeds: tuple[int, ...]
    versions: Mapping[str, str]
    made_at: str
    base_url: str
    seconds: float
    cpu_seconds: float
    load: float
    any_moment: bool = False


def document(about: About, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the whole report. The rows of a sweep stand apart from those of the arms."""
    usual = [row for row in rows if row.part == "main"]
    arms = by_arm(usual)
    ordered = sorted(arms, key=list(ARMS).index)
    compared = [
        asdict(found)
        for arm, against in COMPARED
        for subset in COMPARED_ON
        if (found := difference((row for row in usual if row.kind in SUBSETS[subset]), arm, against, subset))
    ]
    items = item_figures(row for row in usual if ARMS[row.arm].activation and row.arm != PLACEBO)
    document = {
        "kind": "behaviour",
        "format": FORMAT,
        **asdict(about),
        "arms": [_summary(arm, arms[arm]) for arm in ordered],
        "figures": [
            {"id": arm, "on": subset, **asdict(arm_figures(arm, of_subset))}
            for arm in ordered
            for subset in SUBSETS
            if (of_subset := [row for row in arms[arm] if row.kind in SUBSETS[subset]])
        ],
        "comparisons": compared,
        "items": [asdict(one) for one in items],
        "checks": checks(usual) if about.agent == "scripted" else [],
        "sweep": sweep(rows),
        "runs": [asdict(row) for row in usual],
    }
    return dict(plain(document))


def checks(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return what the scripted agent must reach, each with what was found: the mechanism works, or it does not."""
    fitting = [row for row in rows if row.kind in FITTING]
    found: list[dict[str, Any]] = []
    arms = by_arm(fitting)
    if RUNTIME in arms:
        share = arm_figures(RUNTIME, arms[RUNTIME]).success.rate or 0.0
        found.append(_check("runtime", "tasks with a fitting item solved in runtime", share, "≥ 0.95", share >= 0.95))
    if CONTROL in arms:
        share = arm_figures(CONTROL, arms[CONTROL]).success.rate or 0.0
        found.append(_check("control", "the same solved with priming only", share, "≤ 0.20", share <= 0.20))
    for arm, says in ((PLACEBO, "placebo against control"), (WITHHELD, "withheld against control")):
        told = difference(fitting, arm, CONTROL, "fitting")
        if told:
            found.append(_check(arm, f"{says}: p of McNemar's test", told.p, f"> {NOISE}", told.p > NOISE))
    wrong = item_figures(row for row in rows if row.kind == "wrong" and row.arm == RUNTIME)
    if wrong:
        share = sum(item.flag == "harmful" for item in wrong) / len(wrong)
        found.append(
            _check("wrong", "wrong items that were injected and are flagged harmful", share, "1.0", share == 1.0)
        )
    return found


def sweep(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a line for each budget that was tried; none where no sweep was made."""
    swept = [row for row in rows if row.part == "sweep"]
    lines = []
    for name in sorted({row.budget for row in swept}, key=_budget):
        of_budget = [row for row in swept if row.budget == name]
        figures = arm_figures(RUNTIME, of_budget)
        tokens, hints = _budget(name)
        lines.append(
            {
                "tokens": tokens,
                "hints": hints,
                "n": figures.n,
                "success": figures.success.rate,
                "tokens_per_resolved": figures.tokens_per_resolved,
                "with_activation": figures.active_share.rate,
                "with_hint": figures.injected_share.rate,
                "budget_use": figures.budget_use,
                "dropped": sum(row.n_budget_dropped for row in of_budget),
                "latency_ms": {"p50": figures.latency_p50, "p95": figures.latency_p95},
                "wait_ms": {"p50": figures.wait_p50, "p95": figures.wait_p95},
            }
        )
    return lines


def is_same(one: Iterable[Row], other: Iterable[Row]) -> bool:
    """Return whether two benchmarks had the same results, times aside."""
    return [row.outcome() for row in one] == [row.outcome() for row in other]


def _summary(arm: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return what a page lists of an arm, over all tasks; counts and tokens are sums."""
    figures, told = arm_figures(arm, rows), ARMS[arm]
    return {
        "id": arm,
        "title": told.title,
        "about": told.about,
        "project": told.project,
        "n": len(rows),
        "success": {"n": figures.success.count, **{k: getattr(figures.success, k) for k in ("rate", "low", "high")}},
        "failed_repeats": sum(row.failed_repeats for row in rows),
        "useless_repeats": sum(row.useless_repeats for row in rows),
        "tokens": sum(row.tokens for row in rows),
        "latency_ms": {"p50": figures.latency_p50, "p95": figures.latency_p95},
        "used_share": figures.used_share.rate,
        "helpful": figures.helpful,
        "harmful": figures.harmful,
        "false_injections": sum(row.foreign for row in rows if arm != PLACEBO),
    }


def _budget(name: str) -> tuple[int, int]:
    tokens, _, hints = name.partition("x")
    return int(tokens or 0), int(hints or 0)


def _check(id_: str, says: str, value: float, wanted: str, met: bool) -> dict[str, Any]:
    return {"id": id_, "says": says, "value": value, "wanted": wanted, "met": met}
