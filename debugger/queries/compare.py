"""Two runs side by side: their rows, turn by turn, each beside what it stands for in the other run. Pure.

Runs are aligned by turn. Within a turn rows that tell the same are paired first, then calls of the same tool and
requests to the model; what is left stands alone. Which run is A decides nothing but the sides. (Seed 001 §14.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.events import TERMINAL_TYPES
from debugger.queries.compare_rows import Told, differences, unseen_differences
from debugger.queries.rows import Row

SAME: Final = "same"
CHANGED: Final = "changed"
ONLY_A: Final = "only_a"
ONLY_B: Final = "only_b"
VERDICTS: Final = {SAME: "same", CHANGED: "changed", ONLY_A: "only in A", ONLY_B: "only in B"}
# What a pair of rows is worth: one that tells the same is never given up for any number that only look alike.
WORTH_SAME, WORTH_ASKED, WORTH_KIND = 1_000_000, 1_000, 1
NAMED: Final = 2  # differences of a line that are named
CELLS: Final = 400_000  # pairs of rows that are weighed in one comparison; beyond them rows are paired in their order

START, END = (0, 0), (2, 0)
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of the comparison: a row of A, one of B, or both. `differs` tells of a changed pair.

    `unseen` is, for each side, a line of a text that differs and that the row does not show.
    """

    a: Row | None
    b: Row | None
    verdict: str
    differs: tuple[str, ...] = ()
    unseen: tuple[str, str] = ("", "")

    @property
    def word(self) -> str:
        return VERDICTS[self.verdict]

    @property
    def gist(self) -> str:
        """In what a changed pair differs first of all; a line has no room for more."""
        more = len(self.differs) - NAMED
        return ", ".join(self.differs[:NAMED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class TurnPairs:
    """The lines of one turn. `in_order` when it had too many rows to be weighed: they are paired in their order."""

    key: str
    title: str
    pairs: tuple[Pair, ...]
    in_order: bool = False

    @property
    def n_different(self) -> int:
        return sum(pair.verdict != SAME for pair in self.pairs)


def align(a: Sequence[Told], b: Sequence[Told]) -> tuple[TurnPairs, ...]:
    """Return the rows of two runs in the order of their turns, each with its partner where it has one."""
    places_a, places_b = _by_place(a), _by_place(b)
    left = CELLS
    turns = []
    for place in sorted({*places_a, *places_b}):
        here, there = places_a.get(place, []), places_b.get(place, [])
        joined, cells = _partners(here, there, left)
        in_order = cells > left
        left -= 0 if in_order else cells
        title = _title(place, (*here, *there))
        key = title.replace(" ", "-").replace(",", "").lower()
        turns.append(TurnPairs(key, title, _pairs(here, there, joined), in_order))
    return tuple(turns)


def _by_place(rows: Sequence[Told]) -> dict[Place, list[Told]]:
    """Return the rows under their turn; what names none stands with the row before it."""
    places: dict[Place, list[Told]] = {}
    place = START
    for told in rows:
        if told.row.kind in TERMINAL_TYPES:
            place = END
        elif told.row.turn is not None:
            place = (1, told.row.turn)
        places.setdefault(place, []).append(told)
    return places


def _title(place: Place, rows: Sequence[Told]) -> str:
    if place == START:
        return "Spans" if all(told.row.is_span for told in rows) else "Start"
    return "End" if place == END else f"Turn {place[1]:,}"


def _partners(a: Sequence[Told], b: Sequence[Told], cells: int) -> tuple[list[tuple[int, int]], int]:
    """Return the places of rows that belong together, in order, and how many pairs were weighed to find them.

    More than `cells` are not weighed: the count is returned all the same, and rows are taken in their order.
    """
    first = 0
    while first < min(len(a), len(b)) and a[first].key == b[first].key:
        first += 1
    last = 0
    while last < min(len(a), len(b)) - first and a[-1 - last].key == b[-1 - last].key:
        last += 1
    inner_a, inner_b = a[first : len(a) - last], b[first : len(b) - last]
    n_cells = len(inner_a) * len(inner_b)
    if n_cells > cells:
        found = [(at, at) for at, pair in enumerate(zip(inner_a, inner_b, strict=False)) if _worth(*pair)]
    elif [told.key for told in inner_a] <= [told.key for told in inner_b]:
        found = _weigh(inner_a, inner_b)
    else:  # always weighed from the same side, so that A against B is B against A
        found = [(there, here) for here, there in _weigh(inner_b, inner_a)]
    head = [(at, at) for at in range(first)]
    tail = [(len(a) - at, len(b) - at) for at in range(last, 0, -1)]
    return [*head, *((first + here, first + there) for here, there in found), *tail], n_cells


def _worth(a: Told, b: Told) -> int:
    if a.subject != b.subject:
        return 0
    if a.parts == b.parts:
        return WORTH_SAME
    return WORTH_ASKED if a.asked and a.asked == b.asked else WORTH_KIND


def _weigh(a: Sequence[Told], b: Sequence[Told]) -> list[tuple[int, int]]:
    """Return the pairs, in order in both, that are worth most together: the longest common subsequence, weighed."""
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for here in range(len(a) - 1, -1, -1):
        line, below = best[here], best[here + 1]
        for there in range(len(b) - 1, -1, -1):
            worth = _worth(a[here], b[there])
            paired = below[there + 1] + worth if worth else 0
            line[there] = max(paired, below[there], line[there + 1])
    found, here, there = [], 0, 0
    while here < len(a) and there < len(b):
        worth = _worth(a[here], b[there])
        if worth and best[here][there] == best[here + 1][there + 1] + worth:
            found.append((here, there))
            here, there = here + 1, there + 1
        elif best[here][there] == best[here + 1][there]:
            here += 1
        else:
            there += 1
    return found


def _pairs(a: Sequence[Told], b: Sequence[Told], joined: Sequence[tuple[int, int]]) -> tuple[Pair, ...]:
    """Return the lines: between two that belong together, those of A alone and then those of B alone."""
    lines: list[Pair] = []
    here = there = 0
    for next_a, next_b in (*joined, (len(a), len(b))):
        lines += [Pair(told.row, None, ONLY_A) for told in a[here:next_a]]
        lines += [Pair(None, told.row, ONLY_B) for told in b[there:next_b]]
        if next_a < len(a) and next_b < len(b):
            other = differences(a[next_a], b[next_b])
            unseen = unseen_differences(a[next_a], b[next_b]) if other else ("", "")
            lines.append(Pair(a[next_a].row, b[next_b].row, CHANGED if other else SAME, other, unseen))
        here, there = next_a + 1, next_b + 1
    return tuple(lines)


def counts_of(turns: Sequence[TurnPairs]) -> dict[str, int]:
    """Return how many lines there are of each verdict."""
    counted = dict.fromkeys(VERDICTS, 0)
    for turn in turns:
        for pair in turn.pairs:
            counted[pair.verdict] += 1
    return counted


def first_difference(turns: Sequence[TurnPairs]) -> tuple[int, Pair] | None:
    """Return the place of the first turn that is not the same in both, and its first line that differs."""
    for place, turn in enumerate(turns):
        for pair in turn.pairs:
            if pair.verdict != SAME:
                return place, pair
    return None
