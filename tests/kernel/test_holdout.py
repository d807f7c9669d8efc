"""Withholding on purpose: the draw is a matter of the run and the situation alone, and both arms are reported."""

import json
from dataclasses import replace
from typing import Any

import pytest

from contract.events import check_data
from kernel.core.holdout import is_withheld
from kernel.messages import Holdout, Limits, RunSpec, Switches
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call, hint
from tests.kernel.test_scenarios import SPEC, fails, on

KINDS = ("no such table", "permission denied", "syntax error near b")
OPEN = Limits(activations_per_tool=12, tokens_per_run=9_999)


async def made(holdout: Holdout, *, limits: Limits = OPEN, **switches: Any) -> MemoryEdges:
    """A run with three kinds of failures, for each of which there is a hint of its own."""
    replies = [[call("sql", text=text)] for text in KINDS]
    edges = MemoryEdges(
        ScriptedModel(*replies, "done"),
        {"sql": fails("{text}")},
        lambda request: [hint(f"k-{request.tool_result[:2]}")],
    )
    spec = replace(SPEC, holdout=holdout, limits=limits, switches=Switches(off=("task.priming",), **switches))
    await LocalRun(edges, clock_ns=edges.clock).run(spec)
    assert [check_data(event.type, json.loads(event.data)) for event in edges.events] == [None] * len(edges.events)
    return edges


def blocks(edges: MemoryEdges) -> int:
    return sum(message.role == "context" for message in edges.model.requests[-1])


async def test_all_is_withheld_and_reported_at_share_one() -> None:
    """Nothing stands in a request, nothing counts as issued or spent, and what would have gone in is told."""
    edges = await made(Holdout(1.0, "salt", "e-1"))
    assert blocks(edges) == 0
    completed = edges.data_of("activation.completed")
    assert [data["holdout"]["arm"] for data in completed] == ["withheld"] * 3
    assert all(data["holdout"]["experiment"] == "e-1" and data["holdout"]["share"] == 1.0 for data in completed)
    assert all(data["holdout"]["tokens"] > 0 and (data["tokens"], data["n_selected"]) == (0, 0) for data in completed)
    drops = edges.data_of("hint.delivery")
    assert [(data["stage"], data["drop_reason"], data["probability"]) for data in drops] == [
        ("dropped", "holdout", 1.0)
    ] * 3
    assert [request.issued_knowledge_ids for request in edges.hint_requests] == [()] * 3
    assert [request.suppressed for request in edges.hint_requests] == [()] * 3, "it would fit another time"
    assert [request.run_tokens for request in edges.hint_requests] == [9_999] * 3


async def test_without_a_share_no_draw_is_made() -> None:
    """Off by default: the hints go in, and no draw is reported."""
    edges = await made(Holdout())
    assert blocks(edges) == 3
    assert all("holdout" not in data for data in edges.data_of("activation.completed"))


async def test_both_arms_tell_their_draw() -> None:
    """In a run with both arms each activation says which it is in, and only the offered ones stand in requests."""
    edges = await made(Holdout(0.5, "salt-0"))
    arms = [data["holdout"]["arm"] for data in edges.data_of("activation.completed")]
    assert set(arms) == {"offered", "withheld"}
    assert blocks(edges) == arms.count("offered")
    again = await made(Holdout(0.5, "salt-0"))
    assert [data["holdout"]["arm"] for data in again.data_of("activation.completed")] == arms


async def test_no_draw_when_nothing_would_have_gone_in() -> None:
    """After the budget: an activation whose hints do not fit is in no arm."""
    edges = await made(Holdout(1.0, "salt"), limits=replace(OPEN, tokens_per_activation=5))
    assert all("holdout" not in data for data in edges.data_of("activation.completed"))
    assert {data["drop_reason"] for data in edges.data_of("hint.delivery")} == {"activation_tokens"}


async def test_shadow_comes_before_the_draw() -> None:
    """A run in shadow mode withholds everything anyway: it is in no arm, and says what it would have cost."""
    edges = await made(Holdout(0.5, "salt"), shadow=True)
    completed = edges.data_of("activation.completed")
    assert blocks(edges) == 0
    assert all("holdout" not in data and data["shadow_tokens"] > 0 for data in completed)
    assert {data["drop_reason"] for data in edges.data_of("hint.delivery")} == {"shadow"}


async def test_priming_takes_no_part() -> None:
    """The start of a run is no situation: primed knowledge goes in."""
    edges = MemoryEdges(ScriptedModel("done"), find_hints=on("task.priming", hint("k-1")))
    await LocalRun(edges, clock_ns=edges.clock).run(replace(SPEC, holdout=Holdout(1.0, "s"), switches=Switches()))
    assert blocks(edges) == 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_is_kept_and_each_salt_draws_anew(share: float) -> None:
    """Over 20,000 situations the withheld share is the one asked for (within five standard deviations)."""
    spec = RunSpec("r-1", "x", holdout=Holdout(share, "a"))
    other = replace(spec, holdout=Holdout(share, "b"))
    drawn = [is_withheld(spec, f"situation-{n}") for n in range(20_000)]
    deviation = (share * (1 - share) / len(drawn)) ** 0.5
    assert abs(sum(drawn) / len(drawn) - share) < 5 * deviation
    assert drawn == [is_withheld(spec, f"situation-{n}") for n in range(20_000)]
    agreeing = sum(one == is_withheld(other, f"situation-{n}") for n, one in enumerate(drawn)) / len(drawn)
    assert abs(agreeing - (share**2 + (1 - share) ** 2)) < 0.03
