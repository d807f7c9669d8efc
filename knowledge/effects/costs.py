"""What offering cost and saved, a decision point and a good outcome. Pure.

Sums over points of each arm, divided; no interval is given, and none is to be read into them. Tokens and milliseconds
are spent whether or not a hint helps, so they are also told for each situation that was resolved, and for each that
would not have been without hints: the latter only where the effect is sure to be above 0. (Seed 001 §16.)
"""

from dataclasses import dataclass

from knowledge.effects.counts import ArmCounts, Arms
from knowledge.effects.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class ArmCosts:
    """Averages over the points of an arm, None without one; `error_rate` is that of the later calls."""

    n_points: int
    failed_after: float | None
    error_rate: float | None
    turns_after: float | None
    model_tokens_after: float | None
    hint_tokens: float | None
    search_ms: float | None


@dataclass(frozen=True, slots=True)
class CostReport:
    """Both arms; hint tokens for each resolved situation of the offered arm, and for each that hints resolved more."""

    offered: ArmCosts
    withheld: ArmCosts
    tokens_per_resolved: float | None
    tokens_per_gained: float | None


def costs_of(arms: Arms, verdict: Verdict | None = None) -> CostReport:
    """Return what both arms cost; `verdict` is that of the proximal outcome of the same points."""
    offered = arms.offered
    spent = _each(offered.hint_tokens, offered.n_points)
    gained = None
    if spent is not None and verdict is not None and verdict.word == "helps" and verdict.effect is not None:
        gained = spent / verdict.effect.value
    return CostReport(_arm(offered), _arm(arms.withheld), _each(offered.hint_tokens, offered.near_success), gained)


def _arm(counts: ArmCounts) -> ArmCosts:
    n = counts.n_points
    return ArmCosts(
        n_points=n,
        failed_after=_each(counts.failed_after, n),
        error_rate=_each(counts.failed_after, counts.calls_after),
        turns_after=_each(counts.turns_after, n),
        model_tokens_after=_each(counts.model_tokens_after, n),
        hint_tokens=_each(counts.hint_tokens, n),
        search_ms=_each(counts.search_ms, n),
    )


def _each(total: int, n: int) -> float | None:
    return total / n if n else None
