"""How many decision points it takes to see an effect of a given size. Pure.

For one look that was fixed in advance, and for a page that is watched: there a verdict falls as soon as the confidence
sequence leaves out 0, and the number says by when it has fallen in the wanted share of cases. (Seed 001 §16.)
"""

import math
from dataclasses import dataclass
from typing import Final

from scipy.optimize import brentq
from scipy.special import ndtri
from statsmodels.stats.proportion import samplesize_proportions_2indep_onetail

from knowledge.effects.sequences import ALPHA, multiplier

POWER: Final = 0.8
MOST: Final = 1e9
DIFFERENCES: Final = (0.05, 0.10, 0.15, 0.20, 0.30)
SHARES: Final = (0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Needed:
    """Decision points of both arms together, for one planned look and when watched, to see `difference` at `share`."""

    difference: float
    share: float  # withheld
    one_look: int
    watched: int


def needed(difference: float, share: float, withheld_rate: float = 0.5, design_effect: float = 1.0) -> Needed:
    """Return the points it takes. `design_effect` is how many times runs enlarge the variance, 1 when they do not.

    Raises ValueError for a share outside of 0 to 1, or rates that do not lie between 0 and 1.
    """
    offered_rate = withheld_rate + difference
    if not 0 < share < 1:
        raise ValueError(f"share is {share}: it must lie between 0 and 1")
    if difference == 0 or not (0 < withheld_rate < 1 and 0 <= offered_rate <= 1):
        raise ValueError(f"rates are {withheld_rate} and {offered_rate}: they must differ and lie between 0 and 1")
    ratio = share / (1 - share)
    offered = samplesize_proportions_2indep_onetail(
        difference, withheld_rate, POWER, ratio=ratio, alpha=ALPHA, alternative="two-sided"
    )
    spread = offered_rate * (1 - offered_rate) / (1 - share) + withheld_rate * (1 - withheld_rate) / share
    one_look = math.ceil(float(offered) * (1 + ratio) * design_effect)
    return Needed(difference, share, one_look, _watched(abs(difference), spread * design_effect))


def _watched(difference: float, spread: float) -> int:
    """Return the points at which the sequence leaves out 0 with chance POWER; `spread` is the variance of one point."""
    reached = float(ndtri(POWER))

    def lacking(n: float) -> float:
        return (multiplier(n) + reached) * math.sqrt(spread / n) - difference

    return math.ceil(float(brentq(lacking, 1.0, MOST)))


def table(withheld_rate: float = 0.5, design_effect: float = 1.0) -> tuple[Needed, ...]:
    """Return what is needed for each of DIFFERENCES and SHARES that the rate allows."""
    return tuple(
        needed(difference, share, withheld_rate, design_effect)
        for difference in DIFFERENCES
        for share in SHARES
        if withheld_rate + difference <= 1
    )
