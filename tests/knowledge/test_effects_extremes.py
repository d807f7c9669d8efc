"""What estimates of effects say where counts are extreme: arms of successes alone, shares that cannot be."""

import pytest

from knowledge.effects.counts import OFFERED, WITHHELD, Arms, DecisionPoint, Stratum, cells_of_run, stratum_of
from knowledge.effects.estimates import Outcome, difference
from knowledge.effects.verdicts import share_mismatch, verdict_of


def arms_of(offered: tuple[int, int], withheld: tuple[int, int]) -> Arms:
    """Return arms of so many successes among so many points, each of a run of its own."""
    arms = Arms()
    for arm, (good, n) in ((OFFERED, offered), (WITHHELD, withheld)):
        for place in range(n):
            cells = cells_of_run(f"{arm}-{place}", [DecisionPoint(Stratum("tool.failed"), arm, place < good)])
            counts = next(iter(cells.values()))
            arms = arms + (Arms(offered=counts) if arm == OFFERED else Arms(withheld=counts))
    return arms


def strata_of(share: float | None, arms: Arms) -> dict[Stratum, Arms]:
    return {stratum_of("tool.failed", "git", 1, share): arms}


@pytest.mark.parametrize(
    ("offered", "withheld", "share"),
    [((134, 150), (20, 20), 0.1), ((81, 94), (13, 13), 0.1), ((564, 639), (40, 41), 0.05), ((26, 207), (0, 13), 0.05)],
)
def test_an_arm_that_never_failed_by_chance_makes_no_verdict(
    offered: tuple[int, int], withheld: tuple[int, int], share: float
) -> None:
    """Where one in ten fails in both arms, a small arm without a failure is common: nothing is told from it."""
    assert verdict_of(strata_of(share, arms_of(offered, withheld))).word == "inconclusive"


def test_an_arm_that_never_failed_still_shows_a_great_harm() -> None:
    """Fifty of fifty where two in five fail with hints is no chance."""
    assert verdict_of(strata_of(0.2, arms_of((120, 200), (50, 50)))).word == "harms"


def test_a_stratum_whose_arm_never_failed_is_as_unsure_as_its_other_arm() -> None:
    """Points of few runs tell less than as many runs, also in the arm that shows no spread of its own."""
    arms = Arms()
    for run in range(12):
        drawn = [(OFFERED, run % 2 == 0)] * 20 + [(WITHHELD, True)] * 20
        stratum = stratum_of("tool.failed", "git", 1, 0.5)
        for key, counts in cells_of_run(f"r{run}", [DecisionPoint(stratum, arm, near) for arm, near in drawn]).items():
            arms = arms + (Arms(offered=counts) if key.arm == OFFERED else Arms(withheld=counts))
    alone = difference(arms_of((120, 240), (240, 240)))
    clustered = difference(arms, Outcome.NEAR)
    assert alone.high is not None and clustered.high is not None
    assert clustered.value == alone.value == -0.5
    assert clustered.high - clustered.value > alone.high - alone.value + 0.1
    assert clustered.low is not None and alone.low is not None and clustered.low < alone.low - 0.1


@pytest.mark.parametrize(
    ("share", "offered", "withheld"),
    [(0.0, 200, 200), (1.0, 200, 200), (0.0, 400, 1), (0.01, 245, 245), (0.99, 60, 3), (0.001, 60, 12)],
)
def test_arms_that_their_share_cannot_have_made_are_not_compared(share: float, offered: int, withheld: int) -> None:
    """Withheld where nothing is withheld, or half of all where one in a hundred is: however few are expected."""
    strata = strata_of(share, arms_of((offered // 2, offered), (withheld // 2, withheld)))
    assert verdict_of(strata).word == "invalid"


@pytest.mark.parametrize(
    ("share", "offered", "withheld"), [(0.0, 400, 0), (1.0, 0, 400), (0.01, 300, 2), (0.01, 300, 8), (0.5, 3, 0)]
)
def test_arms_that_their_share_may_have_made_are_not_held_against_it(share: float, offered: int, withheld: int) -> None:
    """Few points, or a share that is kept to the letter, are no mismatch."""
    p = share_mismatch(strata_of(share, arms_of((offered // 2, offered), (withheld // 2, withheld))))
    assert p is None or p > 0.001
