"""The overview of a whole run above its rows: what it shows of each place, and where windows begin in it. Pure.

A run of few rows shows each as it lies. One of many is cut into columns; what stands in a column shares its height by
number, so that no state hides another and the picture is as large for any run.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from debugger.queries.axis import Axis, rough
from debugger.queries.rows import Row
from debugger.queries.timeline import WINDOW

EACH: Final = 240  # rows that are still drawn one by one
COLUMNS: Final = 200
HEIGHT: Final = 20
NARROWEST: Final = 3.0  # thousandths
LABEL: Final = 70.0  # thousandths that the words of a gap take
ORDER: Final = ("bad", "warn", "hint", "ok", "model", "open")  # from the bottom, then all others


@dataclass(frozen=True, slots=True)
class Stretch:
    """A box of the strip: left and width in thousandths, top and height of HEIGHT."""

    left: float
    width: float
    top: int
    height: int
    tone: str


def strip_of(rows: Sequence[Row]) -> tuple[Stretch, ...]:
    """Return the boxes of the strip, in the order they are drawn."""
    return _columns(rows) if len(rows) > EACH else _each(rows)


def paths_of(strip: Iterable[Stretch]) -> list[tuple[str, str]]:
    """Return (tone, SVG path) of boxes that follow each other in one tone, in drawing order."""
    return [(tone, "".join(map(_path, boxes))) for tone, boxes in groupby(strip, key=lambda box: box.tone)]


def _path(box: Stretch) -> str:
    return f"M{box.left:g} {box.top}h{box.width:g}v{box.height}h-{box.width:g}z"


def redrawn(strip: Iterable[Stretch], axis: Axis, other: Axis) -> tuple[Stretch, ...]:
    """Return the strip of `axis` as it lies on `other`, another way to draw the same time."""

    def moved(box: Stretch) -> Stretch:
        left, width = other.place(axis.time_at(box.left), axis.time_at(box.left + box.width))
        return replace(box, left=min(round(left, 1), 1000 - NARROWEST), width=max(round(width, 1), NARROWEST))

    return tuple(moved(box) for box in strip)


def gaps_of(axis: Axis, drawn: Axis) -> list[tuple[float, float, float, str]]:
    """Return (left, width, middle, words) of each idle gap on `drawn`; words only where there is room for them.

    Left and width are thousandths, the middle is a percentage.
    """
    told, free_from = [], 0.0
    for low, high in axis.gaps:
        left, width = drawn.place(low, high)
        middle = left + width / 2
        has_room = middle >= free_from
        free_from = middle + LABEL if has_room else free_from
        told.append((left, width, round(middle / 10, 2), f"{rough(high - low)} idle" if has_room else ""))
    return told


def window_starts(rows: Sequence[Row]) -> tuple[float, ...]:
    """Return where on the axis each window of all rows begins, in thousandths: what a click on the strip leads by."""
    starts: list[float] = []
    for first in range(0, len(rows), WINDOW):
        bars = (row.bar for row in rows[first : first + WINDOW])
        starts.append(next((bar[0] for bar in bars if bar is not None), starts[-1] if starts else 0.0))
    return tuple(starts)


def start_at(starts: Sequence[float], place: float) -> int:
    """Return the first row of the window that a place on the axis leads to."""
    return max((index for index, start in enumerate(starts) if start <= place), default=0) * WINDOW


def _each(rows: Iterable[Row]) -> tuple[Stretch, ...]:
    """Return at most one box for a place and a state, wide ones first and short ones still visible."""
    seen: dict[tuple[int, str], Stretch] = {}
    for row in rows:
        if row.bar is None:
            continue
        left, width = row.bar
        key = (round(left / 2), row.state)
        if key not in seen or seen[key].width < width:
            seen[key] = Stretch(min(left, 1000 - NARROWEST), max(width, NARROWEST), 0, HEIGHT, row.state)
    return tuple(sorted(seen.values(), key=lambda box: -box.width))


def _columns(rows: Iterable[Row]) -> tuple[Stretch, ...]:
    """Return the columns as boxes; neighbours that are alike are one."""
    held: list[Counter[str]] = [Counter() for _ in range(COLUMNS)]
    step = 1000 / COLUMNS
    for row in rows:
        if row.bar is None:
            continue
        left, width = row.bar
        first, last = int(min(left, 999.9) / step), int(min(left + width, 999.9) / step)
        for column in held[first : last + 1]:
            column[row.state] += 1
    boxes: list[Stretch] = []
    ending: dict[tuple[str, int, int], int] = {}
    for index, column in enumerate(held):
        here = {}
        for tone, top, height in _shares(column):
            at = ending.get((tone, top, height))
            if at is None:
                at = len(boxes)
                boxes.append(Stretch(index * step, step, top, height, tone))
            else:
                boxes[at] = replace(boxes[at], width=boxes[at].width + step)
            here[tone, top, height] = at
        ending = here
    return tuple(sorted(boxes, key=lambda box: box.tone))


def _shares(column: Counter[str]) -> list[tuple[str, int, int]]:
    """Return (tone, top, height) of what a column holds; even a single row of many is seen."""
    total = column.total()
    if not total:
        return []
    tones = sorted(column, key=lambda tone: (ORDER.index(tone) if tone in ORDER else len(ORDER), tone))
    heights = {tone: max(2, round(HEIGHT * column[tone] / total)) for tone in tones}
    heights[max(heights, key=lambda tone: heights[tone])] += HEIGHT - sum(heights.values())
    found, bottom = [], HEIGHT
    for tone in tones:
        bottom -= heights[tone]
        found.append((tone, bottom, heights[tone]))
    return found
