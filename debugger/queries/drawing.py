"""How the bars of a page are drawn, as its address says: all of a run or a part, idle gaps short or in full. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from debugger.queries.axis import Axis
from debugger.queries.live import Window
from debugger.queries.rows import Row
from debugger.queries.timeline import bar_of

PAIR: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)-(\d{1,15}(?:\.\d{1,6})?)", re.ASCII)
PLACE: Final = re.compile(r"\d{1,4}(?:\.\d{1,6})?", re.ASCII)
IN_FULL: Final = "full"
NS_OF_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Drawing:
    """`part` is (from, to) in milliseconds since the axis begins, None for all of it."""

    part: tuple[int, int] | None = None
    in_full: bool = False

    @property
    def is_plain(self) -> bool:
        return self.part is None and not self.in_full

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of an address that say this."""
        told = {"part": f"{self.part[0]}-{self.part[1]}"} if self.part else {}
        return told | ({"idle": IN_FULL} if self.in_full else {})

    def whole(self, axis: Axis) -> Axis:
        """Return the axis of the strip."""
        return axis.in_full if self.in_full else axis

    def axis(self, axis: Axis) -> Axis:
        """Return the axis of the bars."""
        if self.part is None:
            return self.whole(axis)
        start, end = (axis.start_ns + ms * NS_OF_MS for ms in self.part)
        return self.whole(axis).between(start, end)

    def window(self, window: Window, axis: Axis) -> Window:
        """Return the window with its bars on this axis; what lies outside of it has none."""
        if self.is_plain:
            return window
        whole, part = self.whole(axis), self.axis(axis)
        sections = tuple(
            replace(section, rows=tuple(_drawn(row, whole, part) for row in section.rows))
            for section in window.sections
        )
        return replace(window, sections=sections)


def read_drawing(asked: Mapping[str, str], axis: Axis) -> Drawing:
    """Return what an address asks for: `part` in milliseconds, `zoom` as places on the strip, `idle=full`."""
    drawing = Drawing(_pair(asked.get("part", "")), asked.get("idle") == IN_FULL)
    places = PAIR.fullmatch(asked.get("zoom", ""))
    if places is None:
        return drawing
    times = [drawing.whole(axis).time_at(float(place)) for place in places.groups()]
    low, high = ((one - axis.start_ns) // NS_OF_MS for one in times)
    return replace(drawing, part=(low, high + 1) if high >= low else None)


def read_place(text: str) -> float | None:
    """Return a place on the strip, in thousandths; None for what is none."""
    return min(float(text), 1000.0) if PLACE.fullmatch(text) else None


def span_of(window: Window, axis: Axis) -> tuple[int, int] | None:
    """Return (from, to) of the rows of a window as a `part`, None where they have no time on the axis."""
    rows = [row for section in window.sections for row in section.rows if row.bar is not None and not row.is_astray]
    inside = [(row.start_ns, row.end_ns or row.start_ns) for row in rows if axis.start_ns <= row.start_ns < axis.end_ns]
    if not inside:
        return None
    low = min(start for start, _ in inside)
    # One that holds all others would be the whole run again: the latest beginning ends the part as well.
    high = max(start for start, _ in inside)
    high = max((end for _, end in inside if end <= high + (high - low)), default=high)
    return (low - axis.start_ns) // NS_OF_MS, (max(high, low) - axis.start_ns) // NS_OF_MS + 1


def _pair(text: str) -> tuple[int, int] | None:
    found = PAIR.fullmatch(text)
    if found is None:
        return None
    low, high = (int(float(one)) for one in found.groups())
    return (low, high) if high > low else None


def _drawn(row: Row, whole: Axis, part: Axis) -> Row:
    start, end = row.drawn_ns or (row.start_ns, row.end_ns)
    outside = start > part.end_ns or (end if end is not None else start) < part.start_ns
    return replace(row, bar=None if outside else bar_of(row, part), whole=bar_of(row, whole))
