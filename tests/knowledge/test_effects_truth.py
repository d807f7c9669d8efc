"""Estimates of effects on simulated runs whose truth is known; `bench/simulated_truth.py` does the same at length."""

import math

import pytest

from bench.simulated_runs import World, runs_of, strata_of
from bench.simulated_truth import BY_NAME, HARM, RATE, SHARE, coverage, looks, noticed, print_power, suspended, watched
from knowledge.effects.estimates import pooled
from knowledge.effects.power import needed
from knowledge.effects.verdicts import verdict_of
from tests.source_rules import ROOT


@pytest.mark.parametrize("name", ["heterogeneous", "drifting, share changes", "unbalanced", "clustered"])
def test_intervals_hold_the_truth(name: str) -> None:
    """Most intervals for one look hold it (95 of 100 are meant to), more for all looks; estimates are centred."""
    found = coverage(BY_NAME[name], 20, 200)
    assert found.pooled >= 0.85
    assert found.anytime >= found.pooled
    assert abs(found.bias) < (0.12 if name == "unbalanced" else 0.06)


def test_a_watched_page_does_not_call_chance_an_effect() -> None:
    """Without an effect, looked at every 10 points: at most one in 20 says so, by intervals for one look several."""
    found = watched(BY_NAME["none"], 20, 300)
    assert found.helps + found.harms <= 0.05
    assert found.peeking > 0.1
    assert found.invalid == 0


def test_strata_by_share_keep_drift_from_looking_like_an_effect() -> None:
    """Rates grow while less is withheld: raw rates differ by much, compared within a share they do not."""
    world = BY_NAME["drifting, share changes"]
    strata = strata_of(world, 1, 1_500)
    effect = pooled(strata)
    assert effect is not None
    raw = (effect.offered.rate or 0) - (effect.withheld.rate or 0)
    assert raw > 0.08 > abs(effect.value)
    assert effect.low <= world.truth <= effect.high


def test_harm_is_found_within_the_points_of_the_power_table() -> None:
    """Most experiments say `harms` by then, none ever says `helps`."""
    n_points = math.ceil(needed(HARM, SHARE, RATE).watched / 0.95)
    verdicts = [[verdict_of(strata).word for strata in looks(BY_NAME["harmful"], seed, n_points)] for seed in range(4)]
    assert sum("harms" in words for words in verdicts) >= 3
    assert not any("helps" in words for words in verdicts)


def test_a_draw_that_loses_an_arm_is_noticed() -> None:
    """With half of the withheld points lost, every experiment of 600 draws is invalid; with none lost, none is."""
    assert noticed(World("broken", lost=0.5), 4, 600) == 1
    assert noticed(BY_NAME["clustered"], 4, 600) == 0


def test_harmful_items_are_found_and_good_ones_left() -> None:
    """Among six items the two harmful ones are proposed for suspension and no other."""
    assert suspended(1, 700, n_good=4) == (1, 0)


def test_the_same_seed_gives_the_same_runs() -> None:
    """A simulated experiment is its world, seed and number of points, and has that many draws."""
    world = BY_NAME["clustered"]
    once, again = (list(runs_of(world, 3, 120)) for _ in range(2))
    assert once == again
    assert sum(len(run.points) for run in once) == 120
    assert once != list(runs_of(world, 4, 120))


def test_a_world_with_impossible_rates_is_refused() -> None:
    """What is said to be true on average must be so exactly."""
    with pytest.raises(ValueError, match="a rate of"):
        strata_of(World("too good", {"tool.failed": 0.9}), 0, 50)


def test_the_power_table_of_the_document_is_that_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    """What the document promises of points is what is computed."""
    print_power()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| +")]
    document = (ROOT / "docs/effects.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) > 10
    assert [row for row in rows if row not in document] == []
