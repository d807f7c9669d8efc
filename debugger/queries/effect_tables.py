"""The tables of effects as files have them: the groups of a report, its items, the experiments; numbers as they are."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from debugger.exports import Table
from debugger.queries.effect_items import ItemsPage
from debugger.queries.effects import EffectPage
from debugger.queries.experiments import Experiments
from knowledge.contributions import COUNTS
from knowledge.effects.counts import Arms
from knowledge.effects.verdicts import Verdict

ARMS: Final = ("n_points", "near_success", "near_failure", "far_success", "far_failure")
ARM_COLUMNS: Final = tuple(f"{arm}_{name}" for arm in ("offered", "withheld") for name in ARMS)
EFFECT_COLUMNS: Final = (
    "verdict",
    "effect",
    "low",
    "high",
    "anytime_low",
    "anytime_high",
    "p_mismatch",
    "p_unknown",
    "words",
)
NEAR_COLUMNS: Final = tuple(f"near_{name}" for name in EFFECT_COLUMNS)
FAR_COLUMNS: Final = tuple(f"far_{name}" for name in EFFECT_COLUMNS)


def effects_table(page: EffectPage, asked: Mapping[str, str]) -> Table:
    """Return the groups of a report, and behind them its total, whose group is empty and `is_total` true."""
    columns = (page.asked.group, "is_total", *COUNTS, "waited_p50_ms", "waited_p95_ms", *ARM_COLUMNS, *NEAR_COLUMNS)
    rows = [
        [
            "" if row is page.total else row.group.value,
            row is page.total,
            *(row.group.counts[name] for name in COUNTS),
            row.group.waited_p50,
            row.group.waited_p95,
            *_arms(row.group.arms),
            *_effect(row.group.near),
            *_effect(row.group.far),
        ]
        for row in (*page.rows, page.total)
    ]
    return Table("effects", (*columns, *FAR_COLUMNS), rows, tuple(asked.items()))


def items_table(page: ItemsPage, asked: Mapping[str, str]) -> Table:
    """Return the items of the page in its order; what is not known of one that was in no holdout is empty."""
    columns = ("knowledge_id", "proposition", "state", "is_suspended", "is_proposed_for_suspension", *COUNTS)
    more = (*ARM_COLUMNS, *NEAR_COLUMNS, "p_adjusted", "shrunk")
    rows = [
        [
            row.line.knowledge_id,
            row.line.proposition,
            row.line.state,
            row.line.is_suspended,
            bool(row.proposal),
            *(row.line.counts[name] for name in COUNTS),
            *_arms(row.line.arms),
            *_effect(row.line.effect.verdict if row.line.effect else None),
            row.line.effect.p_adjusted if row.line.effect else None,
            row.line.effect.shrunk if row.line.effect else None,
        ]
        for row in page.rows
    ]
    return Table("effects-of-items", (*columns, *more), rows, tuple(asked.items()))


def experiments_table(page: Experiments) -> Table:
    """Return the experiments of the page."""
    columns = ("experiment", "shares_withheld", *ARM_COLUMNS, *NEAR_COLUMNS, *FAR_COLUMNS)
    rows = [[row.name, row.shares, *_arms(row.arms), *_effect(row.near), *_effect(row.far)] for row in page.rows]
    return Table("experiments", columns, rows, (("since", page.since.isoformat()), ("until", page.until.isoformat())))


def _arms(arms: Arms) -> Sequence[Any]:
    return [getattr(counts, name) for counts in (arms.offered, arms.withheld) for name in ARMS]


def _effect(verdict: Verdict | None) -> Sequence[Any]:
    """Return the columns of a verdict: differences are shares, 0.1 is ten points."""
    if verdict is None:
        return [None] * len(EFFECT_COLUMNS)
    effect, sequence = verdict.effect, verdict.sequence
    spans = [effect.value, effect.low, effect.high] if effect else [None] * 3
    anytime = [sequence.low, sequence.high] if sequence else [None] * 2
    return [verdict.word, *spans, *anytime, verdict.p_mismatch, verdict.p_unknown, verdict.words]
