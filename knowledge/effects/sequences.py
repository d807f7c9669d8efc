"""How sure one may be of an effect however often one looks: an interval that holds at all looks at once. Pure.

People watch a page and stop when they like what they see; a 95 % interval for one look then errs far more often than
once in twenty. The confidence sequence here is the asymptotic one of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas,
"Time-uniform central limit theory and asymptotic confidence sequences" (Annals of Statistics 2024, theorem 2.2), a
normal mixture after Robbins (1970), around the pooled difference with its variance by run. It is tightest at TIGHTEST
points. Few runs make a variance unsure; the ratio of Student's quantile to the normal one widens it then.
(Seed 001 §16.)
"""

import math
from typing import Final

from scipy.special import lambertw, ndtri

from knowledge.effects.estimates import Effect, clamped, student
from knowledge.effects.rates import LEVEL, Interval

TIGHTEST: Final = 500  # points with a known outcome, both arms together
ALPHA: Final = 1 - LEVEL


def _mixture(alpha: float, tightest: int) -> float:
    """Return the variance of the mixing normal that makes the interval narrowest at `tightest` points."""
    return float(-lambertw(-(alpha**2) / math.e, -1).real - 1) / tightest


MIXTURE: Final = _mixture(ALPHA, TIGHTEST)


def multiplier(n: float, alpha: float = ALPHA) -> float:
    """Return how many standard errors the interval reaches to either side at `n` > 0 points."""
    grown = n * MIXTURE + 1
    return math.sqrt(2 * grown / (n * MIXTURE) * math.log(math.sqrt(grown) / alpha))


def anytime(effect: Effect, alpha: float = ALPHA) -> Interval:
    """Return the interval that holds the effect at every look, with chance 1 - `alpha` in large numbers."""
    half = multiplier(effect.n_compared, alpha) * _deviation(effect)
    return clamped(effect.value - half, effect.value + half)


def p_value(effect: Effect) -> float:
    """Return the smallest alpha whose interval leaves out 0: a p-value that holds however often one looks."""
    grown = effect.n_compared * MIXTURE + 1
    distance = (effect.value / _deviation(effect)) ** 2
    return min(1.0, math.sqrt(grown) * math.exp(-distance * (grown - 1) / (2 * grown)))


def _deviation(effect: Effect) -> float:
    return math.sqrt(effect.variance) * student(effect.n_runs) / float(ndtri((1 + LEVEL) / 2))
