"""Estimates and verdicts of effects: known figures, what turns a verdict, and that nothing is ever NaN."""

import math
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare
from statsmodels.stats.proportion import power_proportions_2indep

from contract import stages
from knowledge.effects.costs import costs_of
from knowledge.effects.counts import OFFERED, WITHHELD, Arms, Costs, DecisionPoint, Stratum, cells_of_run, stratum_of
from knowledge.effects.estimates import Outcome, both_arms, by_stratum, difference, grouped, pooled
from knowledge.effects.items import judge_items
from knowledge.effects.power import POWER, needed, table
from knowledge.effects.rates import funnel, rate_of
from knowledge.effects.sequences import ALPHA, TIGHTEST, anytime, multiplier, p_value
from knowledge.effects.verdicts import PRACTICAL, share_mismatch, verdict_of

SHELL = stratum_of("tool.failed", "shell", 1, None)
GIT = stratum_of("tool.failed", "git", 1, None)
FIRST = stratum_of("mcp.first_call", "notes", 1, None)


def strata_from(points: list[tuple[str, DecisionPoint]]) -> dict[Stratum, Arms]:
    """Return the counts of points, given with the run that each belongs to."""
    by_run: dict[str, list[DecisionPoint]] = {}
    for run_id, point in points:
        by_run.setdefault(run_id, []).append(point)
    strata: dict[Stratum, Arms] = {}
    for run_id, members in by_run.items():
        for key, counts in cells_of_run(run_id, members).items():
            added = Arms(offered=counts) if key.arm == OFFERED else Arms(withheld=counts)
            strata[key.stratum] = strata.get(key.stratum, Arms()) + added
    return strata


def arm_of(stratum: Stratum, arm: str, good: int, bad: int, of: str = "") -> list[tuple[str, DecisionPoint]]:
    """Return that many points, each in a run of its own."""
    marks = [True] * good + [False] * bad
    return [(f"{stratum}{arm}{of}{n}", DecisionPoint(stratum, arm, near, near)) for n, near in enumerate(marks)]


def trial(offered: tuple[int, int], withheld: tuple[int, int], stratum: Stratum = SHELL) -> dict[Stratum, Arms]:
    return strata_from(arm_of(stratum, OFFERED, *offered) + arm_of(stratum, WITHHELD, *withheld))


def test_rates_have_wilson_intervals() -> None:
    """The worked example of Newcombe (1998): 81 of 263. None of none has no rate."""
    rate = rate_of(81, 263)
    assert (rate.low, rate.high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert (rate_of(0, 0).value, rate_of(0, 0).low) == (None, None)
    assert rate_of(0, 10).low == 0
    with pytest.raises(ValueError, match="count is 3 of 2"):
        rate_of(3, 2)


def test_a_funnel_tells_each_step_of_the_one_before_and_of_the_first() -> None:
    """Rates follow the chain; a stage reported more often than the one before it has a rate of 1."""
    steps = funnel([("retrieved", 100), ("offered", 40), ("selected", 10), ("injected", 12)])
    assert [step.of_previous.value for step in steps] == [1, 0.4, 0.25, 1]
    assert [step.of_first.count for step in steps] == [100, 40, 10, 12]
    assert funnel([]) == ()


def test_a_difference_within_a_stratum_is_newcombes() -> None:
    """The worked example of Newcombe (1998, method 10): 56 of 70 against 48 of 80."""
    found = difference(trial((56, 14), (48, 32))[SHELL])
    assert found.value == pytest.approx(0.2)
    assert found.low is not None and found.high is not None
    # A design effect that chance alone shows may widen it by a little, never narrow it.
    assert found.low == pytest.approx(0.0524, abs=0.012) and found.low <= 0.0525
    assert found.high == pytest.approx(0.3339, abs=0.012) and found.high >= 0.3338


def test_small_unbalanced_strata_are_covered() -> None:
    """With 16 points against 4, enumerated at a rate of one half: at least 94 % of intervals hold the truth."""
    held = 0.0
    for good in range(17):
        for other in range(5):
            found = difference(trial((good, 16 - good), (other, 4 - other))[SHELL])
            if found.low is not None and found.high is not None and found.low <= 0 <= found.high:
                held += binom.pmf(good, 16, 0.5) * binom.pmf(other, 4, 0.5)
    assert held >= 0.94


def test_strata_are_compared_within_and_pooled_by_mantel_haenszel() -> None:
    """Where hints went mostly into hard places, raw rates say harm; like with like says help, as the formula does."""
    hard = trial((30, 70), (2, 18))
    easy = trial((18, 2), (70, 30), GIT)
    effect = pooled(hard | easy)
    assert effect is not None
    arms = both_arms(hard | easy)
    assert (arms.offered.near.rate or 0) < (arms.withheld.near.rate or 0)
    weight = 100 * 20 / 120
    assert effect.value == pytest.approx((weight * (0.3 - 0.1) + weight * (0.9 - 0.7)) / (2 * weight))
    assert (effect.n_strata, effect.n_compared, effect.offered.n_success) == (2, 240, 48)


def test_points_of_one_run_count_as_one_witness() -> None:
    """Ten equal points in each run are worth little more than one: the interval is that of runs, not of points."""
    alone = pooled(trial((30, 20), (10, 15)))
    tenfold = pooled(strata_from((arm_of(SHELL, OFFERED, 30, 20) + arm_of(SHELL, WITHHELD, 10, 15)) * 10))
    assert alone is not None and tenfold is not None
    assert tenfold.value == pytest.approx(alone.value)
    assert tenfold.variance == pytest.approx(alone.variance, rel=0.35)
    assert tenfold.n_runs == alone.n_runs


def test_a_stratum_with_many_points_of_a_run_has_a_wider_interval() -> None:
    """Newcombe's interval of a stratum knows of clusters through the design effect."""
    counted = [(f"{point[0]}", point[1]) for point in arm_of(SHELL, OFFERED, 30, 20) + arm_of(SHELL, WITHHELD, 10, 15)]
    once, tenfold = difference(strata_from(counted)[SHELL]), difference(strata_from(counted * 10)[SHELL])
    assert None not in (once.low, once.high, tenfold.low, tenfold.high)
    width = (tenfold.high or 0) - (tenfold.low or 0)
    assert width == pytest.approx((once.high or 0) - (once.low or 0), rel=0.25)


def test_the_distal_outcome_and_the_error_rate_have_effects_too() -> None:
    """Run success and the calls that did not fail are compared like the proximal outcome; better is above 0."""
    points = [
        (f"{arm}{n}", DecisionPoint(SHELL, arm, None, good, Costs(calls_after=5, failed_after=failed)))
        for arm, good, failed in ((OFFERED, True, 1), (WITHHELD, False, 3))
        for n in range(20)
    ]
    strata = strata_from(points)
    far, calls = pooled(strata, Outcome.FAR), pooled(strata, Outcome.CALLS)
    assert pooled(strata, Outcome.NEAR) is None
    assert far is not None and calls is not None
    assert (far.value, calls.value, calls.offered) == (1, pytest.approx(0.4), (80, 100))
    assert {outcome.value for outcome in Outcome} == set(stages.OUTCOME_MEASURES)


def test_strata_are_grouped_by_what_is_read_from_them() -> None:
    """A report by trigger has the strata of each trigger, and the largest stratum comes first."""
    strata = trial((3, 2), (1, 1)) | trial((9, 9), (2, 2), GIT) | trial((1, 0), (0, 0), FIRST)
    assert {key: set(members) for key, members in grouped(strata, lambda one: one.trigger).items()} == {
        "tool.failed": {SHELL, GIT},
        "mcp.first_call": {FIRST},
    }
    assert list(by_stratum(strata)) == [GIT, SHELL, FIRST]
    assert by_stratum(strata)[FIRST].value is None


def test_the_sequence_is_wider_than_one_look_and_tightest_where_it_says() -> None:
    """Looking often has its price: at least half as wide again, and least of all at TIGHTEST points."""
    effect = pooled(trial((300, 100), (50, 50)))
    assert effect is not None
    sequence = anytime(effect)
    assert sequence.high - sequence.low > 1.4 * (effect.high - effect.low)
    reach = {n: multiplier(n) / math.sqrt(n) * math.sqrt(TIGHTEST) for n in (50, TIGHTEST, 5_000)}
    assert reach[TIGHTEST] == pytest.approx(3.03, abs=0.05)
    others = [multiplier(TIGHTEST, ALPHA) <= multiplier(n) for n in (20, 50, 5_000, 50_000)]
    assert others == [True] * 4


@pytest.mark.parametrize("good", range(40, 101, 5))
def test_the_p_value_is_the_sequence_read_from_the_other_side(good: int) -> None:
    """It is below alpha exactly where the interval leaves out 0."""
    effect = pooled(trial((good, 100 - good), (20, 20)))
    assert effect is not None
    sequence = anytime(effect)
    assert (p_value(effect) < ALPHA) == (sequence.low > 0 or sequence.high < 0)
    assert 0 <= p_value(effect) <= 1


@pytest.mark.parametrize(
    ("offered", "withheld", "word", "because"),
    [
        ((0, 0), (0, 0), "collecting", "n_points"),
        ((20, 9), (20, 20), "collecting", "n_offered"),
        ((40, 20), (4, 5), "collecting", "n_withheld"),
        ((40, 0), (20, 4), "collecting", "n_failure"),
        ((1, 40), (3, 20), "collecting", "n_success"),
        ((40, 40), (20, 20), "inconclusive", "sequence"),
        ((380, 20), (50, 50), "helps", "sequence_low"),
        ((200, 200), (90, 10), "harms", "sequence_high"),
    ],
)
def test_the_number_that_decides_is_named(
    offered: tuple[int, int], withheld: tuple[int, int], word: str, because: str
) -> None:
    """Each verdict is a word of the vocabulary, with the number, its limit and a sentence."""
    verdict = verdict_of(trial(offered, withheld))
    assert (verdict.word, verdict.because) == (word, because)
    assert word in stages.VERDICTS
    assert verdict.words.endswith(".")
    assert verdict.value != verdict.limit or because == "n_points"


def test_few_runs_are_still_collecting() -> None:
    """Many points of four runs are the word of four runs."""
    points = [(f"run-{n % 4}", point[1]) for n, point in enumerate(arm_of(SHELL, OFFERED, 40, 40))]
    points += [(f"run-{n % 4}", point[1]) for n, point in enumerate(arm_of(SHELL, WITHHELD, 20, 20))]
    verdict = verdict_of(strata_from(points))
    assert (verdict.word, verdict.because, verdict.value, verdict.limit) == ("collecting", "n_runs", 4, 5)


def test_a_small_effect_that_is_known_well_is_no_practical_one() -> None:
    """An interval inside the practical limits is said to be so."""
    verdict = verdict_of(trial((1_520, 80), (1_521, 79)))
    assert (verdict.word, verdict.limit) == ("no_practical_effect", PRACTICAL)
    assert verdict.sequence is not None and verdict.value == max(-verdict.sequence.low, verdict.sequence.high)


def test_the_same_runs_again_are_no_more_evidence() -> None:
    """Counts that are added up with themselves do not make an interval narrower."""
    base = trial((100, 100), (50, 50))[SHELL]
    once, often = pooled({SHELL: base}), pooled({SHELL: base + base + base + base})
    assert once is not None and often is not None
    assert often.variance == pytest.approx(once.variance, rel=0.2)


def test_arms_without_their_share_are_invalid() -> None:
    """One in five was to be withheld; with half of these lost nothing is said of the effect, whatever it looks like."""
    stratum = stratum_of("tool.failed", "shell", 1, 0.2)
    good = verdict_of(trial((380, 20), (50, 50), stratum))
    lost = verdict_of(trial((380, 20), (25, 25), stratum))
    assert (good.word, lost.word, lost.because, lost.effect) == ("helps", "invalid", "p_mismatch", None)
    assert (good.p_mismatch or 0) > 0.9
    assert "50 of 450" in lost.words and "about 90" in lost.words


def test_shares_are_tested_each_by_itself() -> None:
    """Half and one in ten, each kept, are no mismatch together; unknown shares and too few points are not tested."""
    half, tenth = stratum_of("tool.failed", "shell", 1, 0.5), stratum_of("tool.failed", "shell", 1, 0.1)
    assert (share_mismatch(trial((50, 50), (50, 50), half) | trial((80, 100), (10, 10), tenth)) or 0) > 0.9
    off = trial((50, 50), (35, 35), half) | trial((80, 100), (6, 6), tenth)
    assert share_mismatch(off) == pytest.approx(chisquare([70, 100, 12, 180], [85, 85, 19.2, 172.8], ddof=1).pvalue)
    assert share_mismatch(trial((50, 50), (1, 1))) is None
    assert share_mismatch(trial((15, 15), (0, 0), tenth)) is None


def test_outcomes_unknown_in_one_arm_are_warned_of() -> None:
    """Where outcomes are lost in one arm only, the verdict stands with a warning beside it."""
    points = arm_of(SHELL, OFFERED, 380, 20) + arm_of(SHELL, WITHHELD, 50, 50)
    unknown = [(f"unknown-{n}", DecisionPoint(SHELL, WITHHELD)) for n in range(40)]
    assert verdict_of(strata_from(points)).warning == ""
    assert "unknown more often" in verdict_of(strata_from(points + unknown)).warning


def swapped(strata: dict[Stratum, Arms]) -> dict[Stratum, Arms]:
    return {stratum: Arms(arms.withheld, arms.offered) for stratum, arms in strata.items()}


def no_nan(value: object) -> bool:
    if is_dataclass(value):
        return all(no_nan(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, dict):
        return all(no_nan(one) for one in value.values())
    if isinstance(value, tuple | list):
        return all(no_nan(one) for one in value)
    return not isinstance(value, float) or math.isfinite(value)


drawn_points = st.tuples(
    st.sampled_from([f"run-{n}" for n in range(8)]),
    st.builds(
        DecisionPoint,
        st.sampled_from([SHELL, GIT, FIRST]),
        st.sampled_from([OFFERED, WITHHELD]),
        st.sampled_from([None, True, False]),
        st.sampled_from([None, True, False]),
        st.builds(Costs, st.integers(0, 5)),
    ),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(drawn_points, max_size=30), st.sampled_from(list(Outcome)))
def test_nothing_is_nan_and_swapped_arms_turn_the_sign(
    points: list[tuple[str, DecisionPoint]], outcome: Outcome
) -> None:
    """Whatever was counted, every number is one or None; with the arms swapped the effect is the same, turned."""
    strata = strata_from(points)
    verdict, effect, turned = verdict_of(strata, outcome), pooled(strata, outcome), pooled(swapped(strata), outcome)
    assert no_nan([verdict, by_stratum(strata, outcome), costs_of(both_arms(strata), verdict)])
    assert no_nan(judge_items({"item-1": strata, "item-2": swapped(strata)}, outcome))
    assert (effect is None) == (turned is None)
    if effect is not None and turned is not None:
        assert turned.value == pytest.approx(-effect.value, abs=1e-12)
        assert (turned.low, turned.high) == (pytest.approx(-effect.high), pytest.approx(-effect.low))
        assert effect.variance > 0 and effect.low <= effect.value <= effect.high


@settings(max_examples=15, deadline=None)
@given(st.lists(drawn_points, max_size=30), st.sampled_from([OFFERED, WITHHELD]))
def test_one_arm_alone_says_nothing(points: list[tuple[str, DecisionPoint]], arm: str) -> None:
    """Without the other arm there is no effect, and the verdict is collecting."""
    strata = strata_from([point for point in points if point[1].arm == arm])
    assert pooled(strata) is None
    assert verdict_of(strata).word == "collecting"


def test_costs_are_told_by_point_and_by_good_outcome() -> None:
    """Tokens for each resolved situation, and for each gained where the effect is sure."""
    points = [
        (run_id, DecisionPoint(SHELL, point.arm, point.near, None, Costs(4, 1, 50 if point.arm == OFFERED else 0, 20)))
        for run_id, point in arm_of(SHELL, OFFERED, 380, 20) + arm_of(SHELL, WITHHELD, 50, 50)
    ]
    strata = strata_from(points)
    report = costs_of(both_arms(strata), verdict_of(strata))
    assert report.tokens_per_resolved == pytest.approx(400 * 50 / 380)
    assert report.tokens_per_gained == pytest.approx(50 / (0.95 - 0.5))
    assert (report.offered.error_rate, report.withheld.hint_tokens, report.offered.search_ms) == (0.25, 0, 20)
    assert costs_of(Arms()).offered.error_rate is None
    assert costs_of(both_arms(strata)).tokens_per_gained is None


def items_of(n_equal: int) -> dict[str, dict[Stratum, Arms]]:
    items = {
        f"equal-{n}": strata_from(
            arm_of(SHELL, OFFERED, 80 + n % 5, 80, of=f"{n}") + arm_of(SHELL, WITHHELD, 20, 20 + n % 3, of=f"{n}")
        )
        for n in range(n_equal)
    }
    return {**items, "bad": trial((60, 140), (45, 5)), "tiny": trial((1, 3), (2, 0)), "unseen": {}}


def test_an_item_that_harms_is_proposed_for_suspension() -> None:
    """It comes first, with its evidence in words; the others are not proposed."""
    judged = judge_items(items_of(6))
    assert (judged[0].knowledge_id, judged[0].suspend, judged[0].verdict.word) == ("bad", True, "harms")
    assert "30 % of 200" in judged[0].words and "90 % of 50" in judged[0].words
    assert [item.suspend for item in judged[1:]] == [False] * 8
    assert all(item.words == "" for item in judged[1:])


def test_among_many_items_a_lucky_one_is_not_believed() -> None:
    """A verdict that stands alone is taken back where so many were looked at that chance explains it."""
    doubtful = trial((70, 110), (34, 14))
    assert verdict_of(doubtful).word == "harms"
    among = {item.knowledge_id: item for item in judge_items({**items_of(40), "doubtful": doubtful})}["doubtful"]
    assert (among.verdict.word, among.verdict.because, among.suspend) == ("inconclusive", "p_adjusted", False)
    assert among.p is not None and among.p_adjusted is not None and among.p <= ALPHA < among.p_adjusted


def test_small_items_are_drawn_to_all_items() -> None:
    """The effect of a tiny item moves most of its way to the mean, that of a large one hardly; none has none."""
    judged = {item.knowledge_id: item for item in judge_items(items_of(6))}
    moved = {}
    for name in ("tiny", "bad"):
        effect = judged[name].verdict.effect
        assert effect is not None
        moved[name] = abs((judged[name].shrunk or 0) - effect.value)
    assert moved["tiny"] > 5 * moved["bad"]
    span = judged["tiny"].shrunk_span
    assert span is not None and span.holds(judged["tiny"].shrunk or 0)
    assert judged["unseen"].shrunk is None
    assert judge_items({}) == ()


def test_points_needed_agree_with_the_power_they_promise() -> None:
    """With the points for one look statsmodels computes the power that was asked for; watching takes more."""
    one = needed(-0.15, 0.2)
    reached = power_proportions_2indep(-0.15, 0.5, one.one_look * 0.8, ratio=0.25, return_results=False)
    assert reached == pytest.approx(POWER, abs=0.01)
    assert all(row.watched > row.one_look for row in table())
    by_size = [row.watched for row in table() if row.share == 0.2]
    assert by_size == sorted(by_size, reverse=True)
    assert needed(-0.15, 0.2, design_effect=2).one_look == pytest.approx(2 * one.one_look, abs=2)


@pytest.mark.parametrize(
    ("change", "share", "rate", "said"), [(0.1, 0, 0.5, "share"), (0.6, 0.5, 0.5, "rates"), (0, 0.5, 0.5, "rates")]
)
def test_impossible_effects_are_refused(change: float, share: float, rate: float, said: str) -> None:
    """The error names what cannot be."""
    with pytest.raises(ValueError, match=said):
        needed(change, share, rate)
