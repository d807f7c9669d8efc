"""The matrix sees what is broken: each mutation of a driver, an edge, a runner or a record fails its named cell.

The same cells pass without the mutation (test_conformance.py), so a condition that cannot fail does not stay.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kernel.conformance.columns import ADVERSARY, IN_PROCESS, MCP, OPENAI, SCRIPTED, LocalColumn, TemporalColumn
from kernel.conformance.conditions import CONDITIONS
from kernel.conformance.edges import WorldEdges
from kernel.conformance.moves import Decisions
from kernel.conformance.playing import Column, LocalPlayer
from kernel.conformance.record import Record
from kernel.conformance.report import Cell, make_report
from kernel.conformance.worlds import Move, World
from kernel.drivers.escalation import ESCALATE
from tests.kernel.conformance_drivers import DRIVERS, decided_by
from tests.kernel.conformance_edges import EDGES, EndsTwice, ForgetsSteps, SwallowsTheAsk
from tests.kernel.conformance_runners import RUNNERS

MUTATIONS = (*DRIVERS, *EDGES, *RUNNERS)


# Shown to fail by the tests below instead.
BY_RECORD = {"second-end", "late-result", "after-end"}


def test_every_condition_can_fail() -> None:
    """No row is without something that fails it."""
    assert {one[2] for one in MUTATIONS} | BY_RECORD == {one.id for one in CONDITIONS}


async def cell_of(column: Column, condition: str) -> Cell:
    """The one cell of a column that a condition makes."""
    [row] = [one for one in CONDITIONS if one.id == condition]
    return (await make_report([column], [row])).cells[0]


@pytest.mark.parametrize(
    ("column", "condition", "reason"), [one[1:] for one in MUTATIONS], ids=[one[0] for one in MUTATIONS]
)
async def test_a_mutation_fails_its_cell(column: LocalColumn, condition: str, reason: str) -> None:
    """What is broken is tried, fails, and the cell says what was found."""
    cell = await cell_of(column, condition)
    assert (cell.result, cell.attempts != ()) == ("fail", True), cell
    assert reason in cell.reason


@pytest.mark.parametrize(
    ("edges", "condition", "reason"),
    [
        (ForgetsSteps, "step-past", "write ended as"),
        (SwallowsTheAsk, "ask-first", "the run ended completed"),
        (EndsTwice, "answered", "the run has 2 terminal events"),
    ],
)
async def test_a_mutation_fails_its_cell_on_temporal(
    temporal_address: str, edges: type[WorldEdges], condition: str, reason: str
) -> None:
    """The column of the real workflow sees what is broken as well."""
    cell = await cell_of(TemporalColumn(temporal_address, edges=edges), condition)
    assert cell.result == "fail"
    assert reason in cell.reason


ORIGINALS = {"adversary": ADVERSARY, "scripted": SCRIPTED, "openai": OPENAI, "mcp": MCP, "in_process": IN_PROCESS}


@pytest.mark.parametrize(("column", "condition"), sorted({(one[1].id, one[2]) for one in MUTATIONS}))
async def test_the_cell_passes_without_its_mutation(column: str, condition: str) -> None:
    """It is the mutation that fails the cell."""
    assert (await cell_of(ORIGINALS[column], condition)).result.startswith("pass")


class TakesInWhatIsLate(LocalPlayer):
    """Plays worlds whose runs do not withstand what comes after their end."""

    async def __call__(self, world: World) -> Record:
        record = await super().__call__(world)
        return replace(record, attacks=tuple(replace(one, refused=False, changed=True) for one in record.attacks))


@pytest.mark.parametrize("condition", ["second-end", "late-result"])
async def test_a_run_that_takes_in_what_is_late_fails(condition: str) -> None:
    """An observation after the end that is not turned away fails the cell."""
    cell = await cell_of(replace(IN_PROCESS, player=TakesInWhatIsLate), condition)
    assert cell.result == "fail"
    assert cell.reason.endswith("was taken in and changed something")


async def test_a_call_let_through_after_the_end_fails() -> None:
    """A call that is answered by anything but a refusal when the run is over fails the cell."""

    class Open(LocalPlayer):
        async def __call__(self, world: World) -> Record:
            record = await super().__call__(world)
            return replace(record, aside=tuple(replace(one, code="") for one in record.aside))

    cell = await cell_of(replace(ADVERSARY, player=Open), "after-end")
    assert (cell.result, cell.reason) == ("fail", "a call after the end was answered without a refusal")


async def test_what_is_not_tried_is_not_exercised() -> None:
    """A driver that claims no step and asks nobody passes and fails nothing there."""

    class Tame(Decisions):
        def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
            tame = replace(move, step=None, tool="read" if move.tool == ESCALATE else move.tool)
            return super().call_decision(tame, offered)

    for condition in ("step-past", "step-behind", "ask", "forwarded"):
        assert (await cell_of(decided_by(Tame), condition)).result == "not exercised"
