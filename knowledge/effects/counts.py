"""What is counted to estimate what hints do: decision points, their two arms, and sums that can be added up. Pure.

A *decision point* is the first draw of a holdout for a situation of a run: something would have been placed, and a
keyed hash decided whether it was. The same situation of a run falls into the same arm however often it comes back, so
its later draws are no new points. Every point counts in the arm it was drawn into, whatever became of its hints after
that (intention to treat): an arm is a word of `contract.stages.HOLDOUT_ARMS`, `offered` or `withheld`.

`knowledge/contributions.py` counts the points of a run under the names COLUMNS, by stratum and arm among others; a row
of rollups is the sum of such cells with, as bytes, their replicates. `cells_of_run` makes the same of points that are
simulated. `merge` adds cells of any choice; `Arms` pairs the two arms for the estimates. All sums are whole numbers:
order and batching change nothing, and what a run added can be taken away again (`-`) when it is folded anew. Cells of
different items are not to be added to each other: a point with two hints counts once for each of the two.
(Seed 001 §16, §17.)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from contract import stages
from knowledge.effects.replicates import Replicates

OFFERED: Final = "offered"
WITHHELD: Final = "withheld"
ATTEMPT_LIMIT: Final = 3  # the third attempt and all later ones are one stratum
SHARE_DIGITS: Final = 6


class Stratum(NamedTuple):
    """What is known of a point before its draw, and within which alone arms are compared.

    `tool_class` is the MCP server's key, else the tool's name, else "". `attempt` is 1 for the first decision point of
    this trigger and tool class in the run, 2 for the second, ATTEMPT_LIMIT for all later ones. `share` is the share
    withheld that was drawn with, None where it was not reported: points that were drawn with other odds, at other
    times perhaps, are never compared raw.
    """

    trigger: str
    tool_class: str = ""
    attempt: int = 1
    share: float | None = None


class CellKey(NamedTuple):
    """A stratum and an arm: what a cell of points is about."""

    stratum: Stratum
    arm: str


def stratum_of(trigger: str, tool_class: str | None, attempt: int, share: float | None) -> Stratum:
    """Return the stratum of a point, in the form that equal points share.

    Raises ValueError for an attempt below 1 or a share outside of 0 to 1.
    """
    if attempt < 1:
        raise ValueError(f"attempt is {attempt}: the first one is 1")
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"share is {share}: it must lie between 0 and 1")
    rounded = None if share is None else round(share, SHARE_DIGITS)
    return Stratum(trigger, tool_class or "", min(attempt, ATTEMPT_LIMIT), rounded)


@dataclass(frozen=True, slots=True)
class Costs:
    """What followed a point, as whole numbers; what is not known is 0.

    The window of a trigger (3 calls of the tool after `tool.failed`, 5 of the server after `mcp.first_call`) bounds
    `calls_after`, `failed_after`, `turns_after` and `model_tokens_after`.
    """

    calls_after: int = 0  # later calls of the same tool or server
    failed_after: int = 0  # those of them that failed
    hint_tokens: int = 0  # tokens of the hints that were placed; 0 where they were withheld
    search_ms: int = 0  # how long the run waited for the search, milliseconds
    turns_after: int = 0  # turns until the situation was resolved or the window ended
    model_tokens_after: int = 0  # tokens of the requests and replies of these turns


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """One point as the fold saw it.

    `near` is the proximal outcome: the situation was resolved within the window (`tool.failed`), no call of the window
    failed (`mcp.first_call`); None while it cannot be told. `far` is the distal one: the run succeeded; None while it
    is not reported. Neither may depend on the arm for whether it is known.
    """

    stratum: Stratum
    arm: str
    near: bool | None = None
    far: bool | None = None
    costs: Costs = field(default_factory=Costs)


class Tally(NamedTuple):
    """Points whose outcome is known: successes among `n`."""

    n_success: int
    n: int

    @property
    def n_failure(self) -> int:
        return self.n - self.n_success

    @property
    def rate(self) -> float | None:
        """Successes of those known, None without any."""
        return self.n_success / self.n if self.n else None


# The columns of a row of rollups that count points, each a sum of whole numbers; `replicates` beside them is bytes.
COLUMNS: Final = (
    "n_points",
    "near_success",
    "near_failure",
    "far_success",
    "far_failure",
    "calls_after",
    "failed_after",
    "hint_tokens",
    "search_ms",
    "turns_after",
    "model_tokens_after",
)


@dataclass(frozen=True, slots=True)
class ArmCounts:
    """The points of one arm, summed: COLUMNS, and replicates for uncertainty by run. Without a point, all are 0."""

    n_points: int = 0
    near_success: int = 0
    near_failure: int = 0
    far_success: int = 0
    far_failure: int = 0
    calls_after: int = 0
    failed_after: int = 0
    hint_tokens: int = 0
    search_ms: int = 0
    turns_after: int = 0
    model_tokens_after: int = 0
    replicates: Replicates = field(default_factory=Replicates.empty)

    @property
    def near(self) -> Tally:
        return Tally(self.near_success, self.near_success + self.near_failure)

    @property
    def far(self) -> Tally:
        return Tally(self.far_success, self.far_success + self.far_failure)

    @property
    def n_runs(self) -> int:
        """Distinct runs with a point here: exact while they are few, about right up to 1,600."""
        return self.replicates.n_runs

    def __add__(self, other: "ArmCounts") -> "ArmCounts":
        sums = {name: getattr(self, name) + getattr(other, name) for name in COLUMNS}
        return ArmCounts(**sums, replicates=self.replicates + other.replicates)

    def __sub__(self, other: "ArmCounts") -> "ArmCounts":
        """Return what is left when a run (or cell) that was added before is taken away."""
        sums = {name: getattr(self, name) - getattr(other, name) for name in COLUMNS}
        return ArmCounts(**sums, replicates=self.replicates - other.replicates)


@dataclass(frozen=True, slots=True)
class Arms:
    """Both arms of one stratum, or of anything else that is compared."""

    offered: ArmCounts = field(default_factory=ArmCounts)
    withheld: ArmCounts = field(default_factory=ArmCounts)

    def __add__(self, other: "Arms") -> "Arms":
        return Arms(self.offered + other.offered, self.withheld + other.withheld)

    @property
    def n_points(self) -> int:
        return self.offered.n_points + self.withheld.n_points


def merge(parts: Iterable[ArmCounts]) -> ArmCounts:
    """Return the sum of any number of cells, in one pass."""
    cells = list(parts)
    if len(cells) == 1:
        return cells[0]
    sums = {name: sum(getattr(cell, name) for cell in cells) for name in COLUMNS}
    return ArmCounts(**sums, replicates=Replicates.total(cell.replicates for cell in cells))


def arms_by_stratum(cells: Iterable[tuple[CellKey, ArmCounts]]) -> dict[Stratum, Arms]:
    """Return the two arms of every stratum, given the cells of a report: what all estimates take.

    Keys may repeat (other days, versions, projects of the same stratum); their counts are added up.
    """
    parts: dict[Stratum, dict[str, list[ArmCounts]]] = {}
    for key, counts in cells:
        parts.setdefault(key.stratum, {arm: [] for arm in stages.HOLDOUT_ARMS})[key.arm].append(counts)
    return {stratum: Arms(merge(of[OFFERED]), merge(of[WITHHELD])) for stratum, of in parts.items()}


def cells_of_run(run_id: str, points: Iterable[DecisionPoint]) -> dict[CellKey, ArmCounts]:
    """Return what one run adds to each cell, given all of its decision points.

    Call it once a run (and once an item, with the points at which that item would have been placed): a run counted
    twice is counted as two runs of the same weights. Raises ValueError for an arm that is no word of HOLDOUT_ARMS.
    """
    by_cell: dict[CellKey, list[DecisionPoint]] = {}
    for point in points:
        if point.arm not in stages.HOLDOUT_ARMS:
            raise ValueError(f"arm is {point.arm!r}: it must be one of {', '.join(stages.HOLDOUT_ARMS)}")
        by_cell.setdefault(CellKey(point.stratum, point.arm), []).append(point)
    return {key: _sum_up(run_id, members) for key, members in by_cell.items()}


def _sum_up(run_id: str, points: list[DecisionPoint]) -> ArmCounts:
    near = Tally(sum(point.near is True for point in points), sum(point.near is not None for point in points))
    far = Tally(sum(point.far is True for point in points), sum(point.far is not None for point in points))
    costs = {name: sum(getattr(point.costs, name) for point in points) for name in Costs.__slots__}
    weighted = (near.n, near.n_success, far.n, far.n_success, costs["calls_after"], costs["failed_after"])
    return ArmCounts(
        n_points=len(points),
        near_success=near.n_success,
        near_failure=near.n_failure,
        far_success=far.n_success,
        far_failure=far.n_failure,
        **costs,
        replicates=Replicates.of_run(run_id, weighted),
    )
