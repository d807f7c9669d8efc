"""What a row of the matrix is: what is required, the world to try it in, what shows the attempt, what must hold. Pure.

A condition passes when its attempt is seen in the record, the record is legal as any must be, and its own check finds
nothing.
"""

from dataclasses import dataclass
from typing import Final

from kernel.conformance import attempts as a
from kernel.conformance import checks as c
from kernel.conformance import expectations as e
from kernel.conformance import world_set as w
from kernel.conformance.attempts import Tried
from kernel.conformance.checks import Check
from kernel.conformance.worlds import World

ENVELOPE: Final = "seed 003"
TURN: Final = "seed 001 §5-6"
FINALE: Final = "seed 000"
INVALID: Final = "invalid_driver_decision"
OUTCOME: Final = "invalid_runtime_outcome"


@dataclass(frozen=True, slots=True)
class Condition:
    """One row. `tried` returns the ids of the attempts, none when it was not made; `holds` what is wrong."""

    id: str
    title: str
    about: str
    requirement: str
    world: World
    tried: Tried
    holds: Check


def row(world: World, title: str, about: str, requirement: str, tried: Tried, *checks: Check) -> Condition:
    """Return the condition of a world, which has its id."""
    return Condition(world.id, title, about, requirement, world, tried, c.all_of(c.legal, *checks))


def invalid(world: World, title: str, about: str) -> Condition:
    """Return the condition of a decision that is none: the turn fails as malformed, and nothing after it happens."""
    fails = c.turn_failed(INVALID, "runtime", OUTCOME, "envelope")
    return row(world, title, about, ENVELOPE, a.declarations, fails, c.nobody_asked, e.never("write"))


def bad_step(world: World, title: str, about: str) -> Condition:
    """Return the condition of a step that no driver and no runtime may claim."""
    fails = c.turn_failed(INVALID, "runtime")
    return row(world, title, about, ENVELOPE, a.declarations, fails, e.never("write"))


def ceiling(world: World, n: int) -> Condition:
    """Return the condition of n rounds and one request after them."""
    about = f"{n} replies with calls, then exactly one request more, which offers no tools; its answer ends the run."
    limit = c.all_of(c.ended("limit_reached"), e.limit("tool_rounds"), c.answered_with(w.ANSWER.say))
    return row(
        world, f"{n} rounds, {n + 1} requests", about, FINALE, a.after_rounds(n),
        c.requests(n + 1), c.last_without_tools, limit, c.executed(*["read"] * n),
    )  # fmt: skip


def spent(world: World, limit: str, about: str) -> Condition:
    """Return the condition of a limit other than that of the rounds: the end is the same, under its own name."""
    return row(
        world, f"Spent {limit} have the same safe end", about, FINALE, a.after_rounds(1),
        c.requests(2), c.last_without_tools, c.ended("limit_reached"), e.limit(limit), c.answered_with(w.ANSWER.say),
    )  # fmt: skip
