"""What may be said of an effect: the verdict, the number that decided it, and the words for a person. Pure.

The arms must have the share they were drawn with, else nothing is compared. Until there is enough, and in all that
follows, only the confidence sequence decides, so that looking often does no harm. (Seed 001 §16, §18.)
"""

from dataclasses import dataclass
from typing import Final

from scipy.special import chdtrc
from scipy.stats import binomtest
from statsmodels.stats.proportion import proportions_chisquare

from knowledge.effects.counts import Arms
from knowledge.effects.estimates import Effect, Outcome, Strata, both_arms, grouped, pooled, tally_of
from knowledge.effects.rates import Interval
from knowledge.effects.sequences import anytime

LEAST_OFFERED: Final = 30  # points with a known outcome
LEAST_WITHHELD: Final = 10
LEAST_RUNS: Final = 5  # an arm
LEAST_OF_EACH: Final = 5  # successes, and failures, of both arms together
PRACTICAL: Final = 0.03  # effects between minus and plus this do not matter
MISMATCH: Final = 0.001  # p below which arms do not have their share
LEAST_EXPECTED: Final = 5.0  # points in the smaller arm before its share is tested


@dataclass(frozen=True, slots=True)
class Verdict:
    """`word` is one of `contract.stages.VERDICTS`; `because` names the number that decided, with its limit.

    `effect` and `sequence` are None while nothing can be compared. `p_mismatch` and `p_unknown` are None while they
    cannot be tested: whether the arms have their share, and whether outcomes are unknown as often in both.
    """

    word: str
    because: str
    value: float
    limit: float
    words: str
    outcome: Outcome
    effect: Effect | None = None
    sequence: Interval | None = None
    p_mismatch: float | None = None
    p_unknown: float | None = None

    @property
    def warning(self) -> str:
        """What to be careful about beside the verdict; "" without any."""
        if self.p_unknown is None or self.p_unknown >= MISMATCH:
            return ""
        return "Outcomes are unknown more often in one arm than in the other: the comparison may be slanted by that."


def verdict_of(strata: Strata, outcome: Outcome = Outcome.NEAR) -> Verdict:
    """Return what may be said of the effect in these strata."""
    arms = both_arms(strata)
    effect = pooled(strata, outcome)
    mismatch = share_mismatch(strata)
    unknown = unknown_differs(arms, outcome)
    if mismatch is not None and mismatch < MISMATCH:
        words = _mismatch_in_words(strata, mismatch)
        return Verdict("invalid", "p_mismatch", mismatch, MISMATCH, words, outcome, None, None, mismatch, unknown)
    lacking = _lacking(arms, effect, outcome)
    sequence = anytime(effect) if effect else None
    if lacking or effect is None or sequence is None:
        because, value, limit, words = lacking or ("n_strata", 0, 1, "no stratum has outcomes in both arms yet")
        told = f"Still collecting: {words}."
        return Verdict("collecting", because, value, limit, told, outcome, effect, sequence, mismatch, unknown)
    word, because, value, limit = _judged(sequence)
    told = _judged_in_words(word, effect, sequence)
    return Verdict(word, because, value, limit, told, outcome, effect, sequence, mismatch, unknown)


def share_mismatch(strata: Strata) -> float | None:
    """Return the p-value of the arms' sizes against the shares they were drawn with: chi-square, exact for few points.

    All points count, also those of unknown outcome: a draw is complete when it is made. Every share is a group of its
    own, those of which too few points are to be expected are one together; shares that are not known are left out. 0
    when a point has an arm that its share never gives. None when there is too little to test.
    """
    sizes = _sizes_by_share(strata)
    if any(n_withheld > n * share or n_withheld < n * share for share, n, n_withheld in sizes if share in (0, 1)):
        return 0.0
    tested = [size for size in sizes if _least_expected(*size[:2]) >= LEAST_EXPECTED]
    few = [size for size in sizes if 0 < size[0] < 1 and size not in tested]
    exact = None
    if few:
        n = sum(size[1] for size in few)
        together = (sum(share * n_of for share, n_of, _ in few) / n, n, sum(size[2] for size in few))
        if _least_expected(*together[:2]) >= LEAST_EXPECTED:
            tested.append(together)
        elif n >= LEAST_OFFERED + LEAST_WITHHELD:
            exact = float(binomtest(together[2], n, together[0]).pvalue)
    statistic = sum((n_withheld - n * share) ** 2 / (n * share * (1 - share)) for share, n, n_withheld in tested)
    found = [p for p in (float(chdtrc(len(tested), statistic)) if tested else None, exact) if p is not None]
    return min(1.0, min(found) * len(found)) if found else None


def _sizes_by_share(strata: Strata) -> list[tuple[float, int, int]]:
    """Return each known share with its points and those of them that were withheld."""
    known = {stratum: arms for stratum, arms in strata.items() if stratum.share is not None}
    sizes = []
    for share, members in sorted(grouped(known, lambda stratum: stratum.share or 0.0).items()):
        n_withheld = sum(arms.withheld.n_points for arms in members.values())
        sizes.append((share, sum(arms.n_points for arms in members.values()), n_withheld))
    return sizes


def _least_expected(share: float, n: int) -> float:
    return n * min(share, 1 - share)


def unknown_differs(arms: Arms, outcome: Outcome) -> float | None:
    """Return the p-value of outcomes being unknown as often in both arms; None when it cannot be tested."""
    sizes = [arms.offered.n_points, arms.withheld.n_points]
    known = [tally_of(arms.offered, outcome).n, tally_of(arms.withheld, outcome).n]
    unknown = [size - n for size, n in zip(sizes, known, strict=True)]
    rate = sum(unknown) / max(sum(sizes), 1)
    if outcome is Outcome.CALLS or min(sizes) * min(rate, 1 - rate) < LEAST_EXPECTED:
        return None
    return float(proportions_chisquare(unknown, sizes)[1])


def _lacking(arms: Arms, effect: Effect | None, outcome: Outcome) -> tuple[str, float, float, str] | None:
    """Return the first number below its limit: its name, value, limit, words; None when there is enough."""
    if arms.n_points == 0:
        words = "no situation was drawn for a holdout; without one a funnel can be shown and no effect"
        return "n_points", 0, LEAST_OFFERED + LEAST_WITHHELD, words
    offered, withheld = tally_of(arms.offered, outcome), tally_of(arms.withheld, outcome)
    runs = [counts.replicates.n_runs_at_least for counts in (arms.offered, arms.withheld)]
    if effect is not None:
        offered, withheld, runs = effect.offered, effect.withheld, [effect.n_runs]
    good, bad = offered.n_success + withheld.n_success, offered.n_failure + withheld.n_failure
    numbers = (
        ("n_offered", offered.n, LEAST_OFFERED, "outcomes where hints went in"),
        ("n_withheld", withheld.n, LEAST_WITHHELD, "outcomes where they were withheld"),
        ("n_runs", min(runs), LEAST_RUNS, "runs in each arm"),
        ("n_success", good, LEAST_OF_EACH, "successes"),
        ("n_failure", bad, LEAST_OF_EACH, "failures"),
    )
    for name, value, limit, what in numbers:
        if value < limit:
            return name, value, limit, f"{value} of {limit} {what}"
    return None


def _judged(sequence: Interval) -> tuple[str, str, float, float]:
    """Return the word for an interval, and which of its ends passed which limit, or did not."""
    if sequence.low >= -PRACTICAL and sequence.high <= PRACTICAL:
        return "no_practical_effect", "sequence", max(-sequence.low, sequence.high), PRACTICAL
    if sequence.low > 0:
        return "helps", "sequence_low", sequence.low, 0.0
    if sequence.high < 0:
        return "harms", "sequence_high", sequence.high, 0.0
    return "inconclusive", "sequence", min(-sequence.low, sequence.high), 0.0


def in_points(value: float) -> str:
    """Return a difference in percentage points with its sign: +8.2, 0.0."""
    rounded = round(100 * value, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


def points(value: float) -> str:
    """Return the same with its unit: +8.2 points."""
    return f"{in_points(value)} points"


def _judged_in_words(word: str, effect: Effect, sequence: Interval) -> str:
    span = f"{points(sequence.low)} to {points(sequence.high)}, however often one looks"
    size = f"{points(effect.value)} ({span})"
    numbers = f"{effect.offered.n:,} outcomes with hints, {effect.withheld.n:,} without"
    said = {
        "helps": f"Better with hints: {size}",
        "harms": f"Worse with hints: {size}",
        "no_practical_effect": f"Less than {points(PRACTICAL).lstrip('+')} to either side: {size}",
        "inconclusive": f"Not yet clear: {size}",
    }
    return f"{said[word]}; {numbers}."


def _mismatch_in_words(strata: Strata, mismatch: float) -> str:
    sizes = _sizes_by_share(strata)
    n, n_withheld = sum(size[1] for size in sizes), sum(size[2] for size in sizes)
    expected = sum(share * n_of for share, n_of, _ in sizes)
    return (
        f"Not comparable: {n_withheld:,} of {n:,} situations were withheld where about "
        f"{expected:,.0f} were to be expected (p = {mismatch:.1g}). Something drops one arm or draws it otherwise."
    )
