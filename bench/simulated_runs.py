"""Makes runs whose true effect is known: the worlds that estimates of effects are tried in, and their decision points.

A point succeeds with the base rate of its place, moved by its run, its attempt and the time; offering adds the effect.
All of it stays within 0 and 1, so that what the world says is true on average is true exactly. A holdout is drawn for
every point by itself. Seeded: the same world, seed and number of points are the same runs.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from knowledge.effects.counts import OFFERED, WITHHELD, Arms, Costs, DecisionPoint, Stratum, cells_of_run, stratum_of

# trigger, tool, share of points, base rate of success
PLACES: Final = (
    ("tool.failed", "shell", 0.45, 0.50),
    ("tool.failed", "git", 0.30, 0.42),
    ("mcp.first_call", "notes", 0.25, 0.55),
)
LATER_ATTEMPT: Final = -0.04  # what each later attempt adds to the rate
UNKNOWN: Final = 0.05  # share of points whose outcome is not known
CALLS_AFTER: Final = 3


@dataclass(frozen=True, slots=True)
class World:
    """What is true: `effects` of offering by trigger, and how runs and time move rates.

    Spreads are how far a run lies from the average at most, drawn evenly: of its rate, of its effect. `drift` is how
    much the rate grows from the first point to the last. `shares` are drawn with one after the other, each for the same
    number of points; `lost` is the share of withheld points that never arrive.
    """

    name: str
    effects: dict[str, float] = field(default_factory=dict)
    shares: tuple[float, ...] = (0.2,)
    more_points: float = 2.0  # a run has 1 and, on average, so many more
    rate_spread: float = 0.1
    effect_spread: float = 0.0
    drift: float = 0.0
    lost: float = 0.0

    @property
    def truth(self) -> float:
        """The effect on the average point."""
        return sum(part * self.effects.get(trigger, 0.0) for trigger, _, part, _ in PLACES)


BETTER: Final = {"tool.failed": 0.1, "mcp.first_call": 0.1}
WORLDS: Final = (
    World("none"),
    World("helpful", {"tool.failed": 0.15, "mcp.first_call": 0.15}),
    World("harmful", {"tool.failed": -0.15, "mcp.first_call": -0.15}),
    World("heterogeneous", {"tool.failed": 0.2, "mcp.first_call": -0.1}),
    World("drifting", BETTER, drift=0.3),
    World("drifting, share changes", {}, shares=(0.5, 0.1), drift=0.4),
    World("unbalanced", BETTER, shares=(0.05,)),
    World("clustered", BETTER, more_points=7.0, rate_spread=0.15, effect_spread=0.15),
    World("clustered, no effect", {}, more_points=7.0, rate_spread=0.15, effect_spread=0.15),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    run_id: str
    points: tuple[DecisionPoint, ...]


def runs_of(world: World, seed: int, n_points: int) -> Iterator[SimulatedRun]:
    """Yield runs of the world until they have `n_points` draws; the last one is cut there."""
    chance = np.random.default_rng([seed, n_points, zlib.crc32(world.name.encode())])
    drawn = 0
    while drawn < n_points:
        size = min(1 + int(chance.poisson(world.more_points)), n_points - drawn)
        yield _run(world, chance, f"{world.name}-{seed}-{drawn}", size, drawn / n_points)
        drawn += size


def _run(world: World, chance: np.random.Generator, run_id: str, size: int, progress: float) -> SimulatedRun:
    share = world.shares[int(progress * len(world.shares))]
    moved = world.rate_spread * (2 * chance.random() - 1) + world.drift * (progress - 0.5)
    gain = world.effect_spread * (2 * chance.random() - 1)
    far = bool(chance.random() < 0.5 + moved)
    met: dict[tuple[str, str], int] = {}
    points = []
    for place in chance.choice(len(PLACES), size=size, p=[part for _, _, part, _ in PLACES]):
        trigger, tool, _, base = PLACES[place]
        met[trigger, tool] = attempt = met.get((trigger, tool), 0) + 1
        stratum = stratum_of(trigger, tool, attempt, share)
        arm = WITHHELD if chance.random() < share else OFFERED
        rate = base + LATER_ATTEMPT * (stratum.attempt - 1) + moved
        rate += world.effects.get(trigger, 0.0) + gain if arm == OFFERED else 0.0
        if not 0 <= rate <= 1:
            raise ValueError(f"world {world.name}: a rate of {rate} is none")
        near = None if chance.random() < UNKNOWN else bool(chance.random() < rate)
        costs = Costs(CALLS_AFTER, int(chance.binomial(CALLS_AFTER, 1 - rate)), 90 if arm == OFFERED else 0, 12, 1, 400)
        if arm == OFFERED or chance.random() >= world.lost:
            points.append(DecisionPoint(stratum, arm, near, far, costs))
    return SimulatedRun(run_id, tuple(points))


def add_run(strata: dict[Stratum, Arms], run: SimulatedRun) -> None:
    """Add what a run counts to both arms of each of its strata."""
    for key, counts in cells_of_run(run.run_id, run.points).items():
        before = strata.get(key.stratum, Arms())
        added = Arms(offered=counts) if key.arm == OFFERED else Arms(withheld=counts)
        strata[key.stratum] = before + added


def strata_of(world: World, seed: int, n_points: int) -> dict[Stratum, Arms]:
    """Return the counts of a whole simulated experiment."""
    strata: dict[Stratum, Arms] = {}
    for run in runs_of(world, seed, n_points):
        add_run(strata, run)
    return strata
