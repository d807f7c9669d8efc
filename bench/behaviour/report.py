"""What a benchmark leaves: one JSON document with every row, for the pages, and the same told in markdown. Pure.

The document's form is its `format`: it says which agent, seeds, versions and command made it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.behaviour.arms import ARMS, CONTROL
from bench.behaviour.figures import ArmFigures, arm_figures, by_arm, difference, item_figures, plain
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
        "arms": [
            {
                "id": arm,
                "title": ARMS[arm].title,
                "about": ARMS[arm].about,
                "project": ARMS[arm].project,
                "on": subset,
                **asdict(arm_figures(arm, of_subset)),
            }
            for arm, of_arm in sorted(arms.items(), key=lambda pair: list(ARMS).index(pair[0]))
            for subset in SUBSETS
            if (of_subset := [row for row in of_arm if row.kind in SUBSETS[subset]])
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
        dropped = sum(row.n_budget_dropped for row in of_budget)
        lines.append({**asdict(figures), "budget_tokens": tokens, "budget_hints": hints, "dropped": dropped})
    return lines


def is_same(one: Iterable[Row], other: Iterable[Row]) -> bool:
    """Return whether two benchmarks had the same results, times aside."""
    return [row.outcome() for row in one] == [row.outcome() for row in other]


def _budget(name: str) -> tuple[int, int]:
    tokens, _, hints = name.partition("x")
    return int(tokens or 0), int(hints or 0)


def _check(id_: str, says: str, value: float, wanted: str, met: bool) -> dict[str, Any]:
    return {"id": id_, "says": says, "value": value, "wanted": wanted, "met": met}


__all__ = ["About", "ArmFigures", "checks", "document", "is_same", "sweep"]
