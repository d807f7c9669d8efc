"""What is counted of decision points: additive in any order, exact when taken away, the same as bytes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import stages
from knowledge.effects.counts import (
    ATTEMPT_LIMIT,
    OFFERED,
    WITHHELD,
    ArmCounts,
    Arms,
    CellKey,
    Costs,
    DecisionPoint,
    Stratum,
    arms_by_stratum,
    cells_of_run,
    merge,
    stratum_of,
)
from knowledge.effects.replicates import LENGTH, N_MARKS, N_REPLICATES, ROWS, Replicates, halves_of, joined, weights_of

SHELL = stratum_of("tool.failed", "shell", 1, 0.2)
GIT = stratum_of("tool.failed", "git", 1, 0.2)

outcomes = st.sampled_from([None, True, False])
points = st.builds(
    DecisionPoint,
    stratum=st.sampled_from([SHELL, GIT]),
    arm=st.sampled_from([OFFERED, WITHHELD]),
    near=outcomes,
    far=outcomes,
    costs=st.builds(Costs, st.integers(3, 5), st.integers(0, 3), st.integers(0, 200), st.integers(0, 50)),
)
runs = st.lists(st.lists(points, max_size=6), max_size=6)


def parts_of(members: list[list[DecisionPoint]]) -> list[tuple[CellKey, ArmCounts]]:
    cells = [cells_of_run(f"run-{place}", one) for place, one in enumerate(members)]
    return [pair for cell in cells for pair in cell.items()]


def test_the_arms_are_the_words_of_the_draw() -> None:
    """An arm is counted under the word that telemetry reports of it."""
    assert {OFFERED, WITHHELD} == set(stages.HOLDOUT_ARMS)


@settings(max_examples=20, deadline=None)
@given(runs, st.randoms(use_true_random=False))
def test_order_and_grouping_of_adding_change_nothing(members: list[list[DecisionPoint]], chance: object) -> None:
    """Cells added in any order, one by one or in groups, are the same counts to the last number."""
    parts = [counts for _, counts in parts_of(members)]
    shuffled = list(parts)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    half = len(parts) // 2
    one_by_one = ArmCounts()
    for part in shuffled:
        one_by_one = one_by_one + part
    assert merge(parts) == one_by_one == merge(shuffled[:half]) + merge(shuffled[half:])


@settings(max_examples=20, deadline=None)
@given(runs)
def test_a_run_can_be_taken_away_again(members: list[list[DecisionPoint]]) -> None:
    """What is left without the first run is what the others count."""
    parts = [merge(cells_of_run(f"run-{place}", one).values()) for place, one in enumerate(members)]
    assert merge(parts) - merge(parts[:1]) == merge(parts[1:])


@settings(max_examples=20, deadline=None)
@given(runs)
def test_replicates_are_weighted_sums_over_runs(members: list[list[DecisionPoint]]) -> None:
    """Replicate b of a row is the sum over runs of the run's weight b times what the run counts."""
    cells = arms_by_stratum(parts_of(members))
    offered = merge(arms.offered for arms in cells.values())
    for name, count in (
        ("near_success", lambda point: point.near is True),
        ("far_known", lambda point: point.far is not None),
        ("failed_after", lambda point: point.costs.failed_after),
    ):
        plain = [sum(int(count(point)) for point in one if point.arm == OFFERED) for one in members]
        wanted = sum((weights_of(f"run-{place}") * n for place, n in enumerate(plain)), np.zeros(N_REPLICATES))
        assert np.array_equal(offered.replicates.row(name), wanted)


def test_weights_of_a_run_never_change() -> None:
    """Stored sums stay comparable: the weights of an id are these, on every machine and in every version."""
    assert weights_of("run-1")[:16].tolist() == [2, 2, 0, 2, 0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert weights_of("run-\ud800").sum() > 0


def test_weights_are_poisson_and_of_no_relation_between_runs() -> None:
    """Mean and variance are 1, zeros as many as Poisson has, and two runs share nothing."""
    drawn = np.array([weights_of(f"run-{n}") for n in range(1_500)])
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.var() == pytest.approx(1, abs=0.01)
    assert (drawn == 0).mean() == pytest.approx(math.exp(-1), abs=0.005)
    assert np.abs(np.corrcoef(drawn[:40])[np.triu_indices(40, 1)]).max() < 0.3


def test_distinct_runs_are_counted_once() -> None:
    """A run with points in many cells is one run; few are counted exactly, many about right and never too many."""
    few = [cells_of_run(f"run-{n}", [DecisionPoint(where, OFFERED)]) for n in range(6) for where in (SHELL, GIT)]
    assert merge(part for cells in few for part in cells.values()).n_runs == 6
    many = merge(part for n in range(700) for part in cells_of_run(f"r{n}", [DecisionPoint(SHELL, OFFERED)]).values())
    assert many.n_runs == pytest.approx(700, rel=0.15)
    assert many.replicates.n_runs_at_least <= N_MARKS


def test_points_are_counted_by_stratum_and_arm() -> None:
    """A point counts where it was drawn, whatever became of it; what is not known is no outcome."""
    cells = cells_of_run(
        "run-1",
        [
            DecisionPoint(SHELL, OFFERED, near=True, far=False, costs=Costs(3, 1, 90, 12, 2, 400)),
            DecisionPoint(SHELL, OFFERED, near=None, far=None, costs=Costs(1, 1, 60, 8, 1, 100)),
            DecisionPoint(SHELL, WITHHELD, near=False, far=False),
            DecisionPoint(GIT, WITHHELD, near=True),
        ],
    )
    assert set(cells) == {CellKey(SHELL, OFFERED), CellKey(SHELL, WITHHELD), CellKey(GIT, WITHHELD)}
    shell = cells[CellKey(SHELL, OFFERED)]
    assert (shell.n_points, shell.near.n, shell.far.n_failure) == (2, 1, 1)
    assert (shell.hint_tokens, shell.calls_after, shell.failed_after, shell.search_ms) == (150, 4, 2, 20)
    assert (shell.turns_after, shell.model_tokens_after, shell.n_runs) == (3, 500, 1)
    assert arms_by_stratum(cells.items())[GIT] == Arms(withheld=cells[CellKey(GIT, WITHHELD)])


def test_a_stratum_has_one_form() -> None:
    """Later attempts are one stratum, a missing tool is empty, shares that are equal to six digits are equal."""
    late = stratum_of("tool.failed", None, 9, 0.1 + 0.2)
    assert late == Stratum("tool.failed", "", ATTEMPT_LIMIT, 0.3)
    assert stratum_of("tool.failed", "shell", 1, None).share is None


@pytest.mark.parametrize(("attempt", "share", "said"), [(0, 0.2, "attempt"), (1, 1.2, "share"), (1, -0.1, "share")])
def test_an_impossible_stratum_is_refused(attempt: int, share: float, said: str) -> None:
    """The error names the field."""
    with pytest.raises(ValueError, match=said):
        stratum_of("tool.failed", "shell", attempt, share)


def test_an_unknown_arm_is_refused() -> None:
    """A word that is no arm counts nowhere."""
    with pytest.raises(ValueError, match="arm is 'placebo'"):
        cells_of_run("run-1", [DecisionPoint(SHELL, "placebo")])


@pytest.mark.parametrize("stored", [b"", b"\x01", b"\x02\x01" + bytes(LENGTH), b"\x01\x03" + bytes(3 * LENGTH)])
def test_other_bytes_are_no_replicates(stored: bytes) -> None:
    """Bytes of another form or length are refused, with the remedy."""
    with pytest.raises(ValueError, match="rebuild"):
        Replicates.from_bytes(stored)
    with pytest.raises(ValueError, match="rebuild"):
        Replicates.total_stored([stored])


@pytest.mark.parametrize(("times", "width"), [(1, 1), (200, 2), (40_000, 4)])
def test_stored_numbers_take_the_width_they_need(times: int, width: int) -> None:
    """A small cell takes a byte a number, a large one what it needs, and all come back."""
    replicates = Replicates.of_run("run-1", [times] * len(ROWS))
    stored = replicates.to_bytes()
    assert len(stored) == 2 + width * LENGTH
    assert Replicates.from_bytes(stored) == replicates
    one = Replicates.of_run("r-2", (1,) * len(ROWS))
    assert Replicates.total_stored([stored, one.to_bytes(), stored]) == replicates + one + replicates
    assert Replicates.total_stored([]) == Replicates.empty()


@pytest.mark.parametrize("times", [1, 300, 70_000])
def test_many_runs_are_summed_up_as_one_by_one(times: int) -> None:
    """Some of them taken away again; the numbers of one outcome are found in half of what is stored."""
    one = [(f"r-{n}", (4 * times, n, 3, 2, 9, n % 3), 1) for n in range(40)]
    gone = [(f"r-{n}", (4 * times, n, 3, 2, 9, n % 3), -1) for n in range(7)]
    whole = Replicates.total(Replicates.of_run(run_id, sums) for run_id, sums, _ in one[7:])
    assert Replicates.of_runs([*one, *gone]) == whole
    assert Replicates.of_runs([]) == Replicates.empty()
    near, rest = halves_of(whole.to_bytes())
    assert joined(near, rest) == whole.to_bytes()
    summed = Replicates.total_near([near, near, halves_of(Replicates.of_run("r-1", [1] * 6).to_bytes())[0]])
    expected = whole + whole + Replicates.of_run("r-1", [1] * 6)
    for name in ("near_known", "near_success"):
        assert list(summed.row(name)) == list(expected.row(name))
    assert summed.n_runs == expected.n_runs and not summed.row("far_known").any()


def test_taking_away_what_was_never_added_is_not_stored() -> None:
    """A sum below 0 shows a mistake of who refreshed the rollup, and does not become a row."""
    with pytest.raises(ValueError, match="below 0"):
        (Replicates.empty() - Replicates.of_run("run-1", [1] * len(ROWS))).to_bytes()
