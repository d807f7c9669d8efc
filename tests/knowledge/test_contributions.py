"""What one run adds to the sums: the funnel, decision points by arm, items where they were at stake."""

import random
from typing import Any

import pytest

from contract import stages
from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts
from knowledge.contributions import COUNTS, RollupKey, contribute, pack, unpack
from knowledge.effects.counts import COLUMNS, Costs, DecisionPoint, cells_of_run, stratum_of
from knowledge.fold import fold_run
from tests.knowledge.streams import recorded, recorded_names


def search(name: str, **fields: Any) -> ActivationFacts:
    base: dict[str, Any] = {"trigger": "tool.failed", "tool": "shell", "result": "success", "algorithm_version": "v3"}
    return ActivationFacts(activation_id=name, **{**base, **fields})


def drawn(name: str, arm: str, situation: str, **fields: Any) -> ActivationFacts:
    return search(name, arm=arm, experiment="spring", share=0.2, situation_key=situation, **fields)


def sums(chain: RunChain, **wanted: Any) -> dict[str, int]:
    """Add up the cells of searches, or of one item, that have the wanted values."""
    wanted = {"knowledge_id": "", **wanted}
    total: dict[str, int] = {}
    for key, counts in contribute(chain).items():
        if all(getattr(key, name) == value for name, value in wanted.items()):
            total = {name: total.get(name, 0) + counts.get(name, 0) for name in {**total, **counts}}
    return total


@pytest.mark.parametrize("name", recorded_names())
def test_a_contribution_is_what_the_chain_counts(name: str) -> None:
    """Of every recorded run: the sums over its cells are the numbers of its summary, and all names are columns."""
    chain = fold_run(recorded(name))
    total, run = sums(chain), chain.run
    for count in ("n_activations", "n_skipped", "n_retrieved", "n_offered", "n_injected", "n_dropped"):
        assert total.get(count, 0) == getattr(run, count), count
    assert total.get("tokens", 0) == run.hint_tokens + run.priming_tokens
    cells = contribute(chain)
    assert {name for counts in cells.values() for name in counts if ":" not in name} <= {*COUNTS, *COLUMNS}
    assert all(number > 0 for counts in cells.values() for number in counts.values())


def test_pack_gives_the_same_bytes_in_any_order_and_can_be_read_again() -> None:
    """The stored form depends on what is counted alone, also where a share is not known."""
    arms = [drawn(f"a{number}", "offered", f"s{number}", resolved=True, near=True) for number in range(3)]
    cells = contribute(RunChain(RunFacts(), (*arms, search("a9", arm="withheld"), search("a10", duration_ms=3.5))))
    mixed = list(cells.items())
    random.Random(7).shuffle(mixed)
    assert pack(dict(mixed)) == pack(cells)
    assert unpack(pack(cells)) == cells
    assert (pack({}), unpack(b"")) == (b"", {})


def test_a_later_draw_of_a_situation_is_no_new_point() -> None:
    """The same situation falls into the same arm: it is one point, at the attempt of its first draw; others follow."""
    chain = RunChain(
        RunFacts(success=True),
        (
            drawn("a1", "offered", "s1", near=True, resolved=True, calls_after=2, failed_after=1),
            drawn("a2", "offered", "s1", near=False, resolved=False),
            drawn("a3", "withheld", "s2", near=False, resolved=False),
            search("a4"),
        ),
    )
    found = {(key.arm, key.attempt): counts for key, counts in contribute(chain).items()}
    first = found["offered", 1]
    assert (first["n_draws"], first["n_points"], first["near_success"], first["far_success"]) == (2, 1, 1, 1)
    assert (first["calls_after"], first["failed_after"], first.get("near_failure")) == (2, 1, None)
    assert found["withheld", 2]["near_failure"] == 1
    assert "n_points" not in found["", 0]
    assert {key.share_ppm for key in contribute(chain) if key.arm} == {200_000}


def test_an_item_counts_in_the_withheld_arm_where_it_would_have_been_placed() -> None:
    """Withheld on purpose counts; what did not fit, or was not offered, was not at stake."""
    activation = drawn("a1", "withheld", "s1", near=False, resolved=False, n_retrieved=3, n_offered=2)
    chain = RunChain(
        RunFacts(success=False),
        (activation,),
        (
            CandidateFacts("a1", "k-1", offered_ns=1, dropped_ns=2, drop_reason="holdout"),
            CandidateFacts("a1", "k-2", offered_ns=1, dropped_ns=2, drop_reason="hint_limit"),
            CandidateFacts("a1", "k-3", hold_reason="retired"),
            CandidateFacts("a1", "? h-9", offered_ns=1),
        ),
    )
    points = {key.knowledge_id: counts.get("n_points", 0) for key, counts in contribute(chain).items()}
    assert points == {"": 1, "k-1": 1, "k-2": 0, "k-3": 0}
    assert sums(chain, knowledge_id="k-1")["near_failure"] == sums(chain)["far_failure"] == 1
    assert sums(chain)["drop:holdout"] == sums(chain)["hold:retired"] == 1


def test_an_item_counts_in_the_offered_arm_once_it_was_chosen() -> None:
    """Chosen and then lost with the run's end is still in its arm: as it was drawn, whatever became of it."""
    activation = drawn("a1", "offered", "s1", near=True, resolved=True)
    chosen = CandidateFacts("a1", "k-1", offered_ns=1, selected_ns=2, dropped_ns=3, drop_reason="run_ended")
    left = CandidateFacts("a1", "k-2", offered_ns=1, dropped_ns=2, drop_reason="hint_limit")
    chain = RunChain(RunFacts(), (activation,), (chosen, left))
    assert sums(chain, knowledge_id="k-1")["near_success"] == 1
    assert "n_points" not in sums(chain, knowledge_id="k-2")


def test_times_fall_into_their_step_and_hostile_ones_stay_in_bounds() -> None:
    """A time counts in the step that holds it; beyond a day it counts as a day, so that sums keep their range."""
    waited = (0.4, 1, 1.01, 10_000.5, 1e15)
    chain = RunChain(RunFacts(), tuple(search(f"a{number}", duration_ms=ms) for number, ms in enumerate(waited)))
    total = sums(chain)
    assert (total["ms:1"], total["ms:2"], total["ms:longer"], total["n_timed"]) == (2, 1, 2, 5)
    assert total["waited_us"] == 400 + 1_000 + 1_010 + 10_000_500 + 86_400_000_000


def test_where_an_outcome_came_from_is_counted() -> None:
    """Used and its verdict are counted by whoever says so; skipped searches by their reason."""
    used = CandidateFacts(
        "a1", "k-1", injected_ns=1, used_ns=2, usage_source="reported", outcome="harmful", outcome_source="person"
    )
    chain = RunChain(
        RunFacts(), (search("a1", n_injected=1), search("a2", result="skipped", skip_reason="turn_cap")), (used,)
    )
    total = sums(chain)
    assert (total["used_by:reported"], total["judged_by:person"], total["n_harmful"], total["n_acting"]) == (1, 1, 1, 1)
    assert (total["skip:turn_cap"], total["n_skipped"], total["n_activations"]) == (1, 1, 1)
    assert set(stages.OUTCOMES) == {"helpful", "harmful", "neutral"}


def test_a_point_is_counted_as_simulated_ones_are() -> None:
    """What estimates are tried on and what runs add are the same sums under the same names."""
    followed = {"calls_after": 3, "failed_after": 1, "turns_after": 2, "model_tokens_after": 900, "duration_ms": 12.0}
    first = drawn("a1", "offered", "s1", near=True, tokens=40, **followed)
    second = drawn("a2", "withheld", "s2", near=False, **followed)
    contributed = contribute(RunChain(RunFacts(success=True), (first, second)))
    points = [
        DecisionPoint(
            stratum_of("tool.failed", "shell", attempt, 0.2), one.arm, one.near, True,
            Costs(3, 1, one.tokens, 12, 2, 900),
        )
        for attempt, one in enumerate((first, second), 1)
    ]  # fmt: skip
    simulated = {(key.stratum.attempt, key.arm): cell for key, cell in cells_of_run("run-1", points).items()}
    assert len(simulated) == len(contributed) == 2
    for key, counts in contributed.items():
        cell = simulated[key.attempt, key.arm]
        assert {name: counts.get(name, 0) for name in COLUMNS} == {name: getattr(cell, name) for name in COLUMNS}


def test_keys_name_where_a_search_was_made() -> None:
    """Without a draw neither experiment nor share says anything."""
    chain = RunChain(RunFacts(), (search("a1", mcp_server="git", experiment="x", share=0.5),))
    assert list(contribute(chain)) == [RollupKey("tool.failed", "shell", "git", 0, "v3", "", "", None)]
