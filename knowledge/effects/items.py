"""What single items do: their effects beside each other, which of them are told from chance, which to suspend. Pure.

Many items are looked at, so some look harmful by luck: only those that Benjamini-Hochberg keeps at FALSE_SHARE are said
to help or harm, by p-values that hold at every look. Small items lie far off by chance: each effect is also shown drawn
to that of all items, as far as its own uncertainty against the spread between items asks for (empirical Bayes with the
spread of Paule and Mandel 1982; Morris 1983). The effect of an item is that of all that was placed with it.
(Seed 001 §16, §18.)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import ndtri
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.multitest import fdrcorrection

from knowledge.effects.estimates import Effect, Outcome, Strata, clamped
from knowledge.effects.rates import LEVEL, Interval
from knowledge.effects.sequences import p_value
from knowledge.effects.verdicts import Verdict, points, verdict_of

FALSE_SHARE: Final = 0.05  # of the items said to help or harm, how many may be there by chance
JUDGED: Final = ("helps", "harms", "no_practical_effect", "inconclusive")  # verdicts that rest on enough counts


@dataclass(frozen=True, slots=True)
class ItemEffect:
    """One item: its verdict among all items, and its effect drawn to theirs.

    `p` holds at every look; `p_adjusted` is that of Benjamini-Hochberg. Both are None while the counts are too few.
    `shrunk` is None unless two items have an effect. `suspend` is the proposal to suspend it; `words` say why.
    """

    knowledge_id: str
    verdict: Verdict
    p: float | None = None
    p_adjusted: float | None = None
    shrunk: float | None = None
    shrunk_span: Interval | None = None
    suspend: bool = False
    words: str = ""


def judge_items(items: Mapping[str, Strata], outcome: Outcome = Outcome.NEAR) -> tuple[ItemEffect, ...]:
    """Return all items, those to suspend first, then from the worst effect to the best, those without one last."""
    verdicts = {knowledge_id: verdict_of(strata, outcome) for knowledge_id, strata in items.items()}
    adjusted = _adjusted(verdicts)
    shrunk = _shrunk({name: verdict.effect for name, verdict in verdicts.items() if verdict.effect is not None})
    judged = []
    for knowledge_id, verdict in verdicts.items():
        p, p_adjusted = adjusted.get(knowledge_id, (None, None))
        value, span = shrunk.get(knowledge_id, (None, None))
        told = _among_all(verdict, p_adjusted)
        suspend = told.word == "harms"
        words = _proposal(told, p_adjusted) if suspend else ""
        judged.append(ItemEffect(knowledge_id, told, p, p_adjusted, value, span, suspend, words))
    return tuple(sorted(judged, key=_place))


def _place(item: ItemEffect) -> tuple[bool, float, str]:
    effect = item.verdict.effect
    return not item.suspend, math.inf if effect is None else effect.value, item.knowledge_id


def _adjusted(verdicts: Mapping[str, Verdict]) -> dict[str, tuple[float, float]]:
    """Return p and adjusted p of each item with enough counts."""
    tested = {
        name: p_value(verdict.effect)
        for name, verdict in verdicts.items()
        if verdict.word in JUDGED and verdict.effect is not None
    }
    if not tested:
        return {}
    corrected = fdrcorrection(list(tested.values()), alpha=FALSE_SHARE)[1]
    return {name: (p, float(changed)) for (name, p), changed in zip(tested.items(), corrected, strict=True)}


def _among_all(verdict: Verdict, p_adjusted: float | None) -> Verdict:
    """Return the verdict, taken back where so many items were looked at that chance explains it."""
    if verdict.word not in ("helps", "harms") or p_adjusted is None or p_adjusted <= FALSE_SHARE:
        return verdict
    words = f"{verdict.words} Among so many items this may be chance (adjusted p = {p_adjusted:.2g})."
    return replace(verdict, word="inconclusive", because="p_adjusted", value=p_adjusted, limit=FALSE_SHARE, words=words)


def _shrunk(effects: Mapping[str, Effect]) -> dict[str, tuple[float, Interval]]:
    """Return each effect drawn to the mean of all, with its 95 % span; nothing for fewer than two items."""
    if len(effects) < 2:
        return {}
    values = np.array([effect.value for effect in effects.values()])
    variances = np.array([effect.variance for effect in effects.values()])
    with np.errstate(divide="ignore"):  # of a number that is not read: how much of the spread is real
        combined = combine_effects(values, variances, method_re="iterated")
    spread = max(float(combined.tau2), 0.0)
    mean, mean_variance = float(combined.mean_effect_re), float(combined.sd_eff_w_re) ** 2
    reach = float(ndtri((1 + LEVEL) / 2))
    drawn = {}
    for name, effect in effects.items():
        pull = effect.variance / (effect.variance + spread)
        value = pull * mean + (1 - pull) * effect.value
        half = reach * math.sqrt((1 - pull) * effect.variance + pull**2 * mean_variance)
        drawn[name] = (value, clamped(value - half, value + half))
    return drawn


def _proposal(verdict: Verdict, p_adjusted: float | None) -> str:
    """Return why an item is proposed for suspension."""
    effect, sequence = verdict.effect, verdict.sequence
    if effect is None or sequence is None or p_adjusted is None:
        raise ValueError(f"a verdict of {verdict.word} without an effect")
    with_hint, without = effect.offered.rate or 0.0, effect.withheld.rate or 0.0
    return (
        f"Proposed for suspension: where it went in, {100 * with_hint:.0f} % of {effect.offered.n:,} outcomes were "
        f"good, where it was withheld {100 * without:.0f} % of {effect.withheld.n:,}. Compared like with like that is "
        f"{points(effect.value)}, and at best {points(sequence.high)} however often one looks (adjusted p = "
        f"{p_adjusted:.2g}). {verdict.warning}"
    ).rstrip()
