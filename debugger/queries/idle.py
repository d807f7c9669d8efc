"""Which stretches of a run nothing happened in: long against the rest, between rows that did something. Pure.

A row that others stand in, and one that waits for a person, do not count as doing something. (Seed 001 §14.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from debugger.queries.axis import NS, Axis
from debugger.queries.rows import Row

LEAST_NS: Final = 60 * NS  # shorter ones are drawn as they are
LEAST_SHARE: Final = 0.1  # of the time in which something happened: less does not squeeze the rest
MOST_GAPS: Final = 20
WAITING: Final = ("approval",)


def with_idle_gaps(axis: Axis, rows: Sequence[Row]) -> Axis:
    """Return the axis with the run's idle gaps, the longest MOST_GAPS of them."""
    found, busy_until = [], axis.start_ns
    for start, end in sorted(_stretches(rows, axis)):
        if start - busy_until >= LEAST_NS:
            found.append((busy_until, start))
        busy_until = max(busy_until, end)
    busy = axis.end_ns - axis.start_ns - sum(high - low for low, high in found)
    long = [gap for gap in found if gap[1] - gap[0] >= LEAST_SHARE * busy]
    longest = sorted(long, key=lambda gap: gap[0] - gap[1])[:MOST_GAPS]
    return replace(axis, gaps=tuple(sorted(longest)))


def told_in_rows(rows: Sequence[Row], axis: Axis) -> list[Row]:
    """Say in the first row behind each gap how long nothing happened before it."""
    told = list(rows)
    for low, high in axis.gaps:
        index = next((index for index, row in enumerate(rows) if high <= _span(row)[0] <= axis.end_ns), None)
        if index is not None:
            told[index] = replace(told[index], idle_ns=told[index].idle_ns + high - low)
    return told


def _stretches(rows: Sequence[Row], axis: Axis) -> Iterator[tuple[int, int]]:
    """Yield (from, to) of what did something, brought into the axis; of a row that only holds others its edges."""
    follows = [later for _, later in pairwise(rows)]
    for index, row in enumerate(rows):
        start, end = (min(max(one, axis.start_ns), axis.end_ns) for one in _span(row))
        below = follows[index] if index < len(follows) else None
        if row.kind in WAITING or (below is not None and _holds(row, below)):
            yield start, start
            yield end, end
        else:
            yield start, end


def _holds(row: Row, below: Row) -> bool:
    stands_in = below.level > row.level or (below.is_child and not row.is_child)
    return stands_in and below.start_ns < _span(row)[1]


def _span(row: Row) -> tuple[int, int]:
    start, end = row.drawn_ns or (row.start_ns, row.end_ns)
    return start, max(start, end if end is not None else start)
