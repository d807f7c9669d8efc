"""When a foreign span began and ended as it is drawn, and what is wrong with the times it was sent with. Pure.

Raw times stay in the event. In the drawing a span without a possible end has no length, and one outside the time of
the span around it is held at its edge. (Seed 001 §13.)
"""

from typing import Final

from debugger.queries.rows import NS, Row
from ingest.journal import JournalEvent
from knowledge.spans import end_of, is_open

SKEW_NS: Final = NS  # a span outside the time of the span around it by more than this is marked
LATE_NS: Final = 3_600 * NS  # an event dated later than this after its arrival has a wrong clock
WRONG_CLOCK: Final = "the sender's clock is wrong"
FAR: Final = "clock_far"
TOLD: Final = (FAR, "end_before_start")  # repairs that the marks of a span put into words
YEAR: Final = 365.25 * 86_400
# From how many seconds on a unit is used, its size, its name.
LARGE: Final = ((YEAR, YEAR, "years"), (172_800, 86_400, "days"), (3_600, 3_600, "h"), (60, 60, "min"))


def span_times(event: JournalEvent) -> tuple[int, int | None, float | None]:
    """Return (start, end, duration in ms) as drawn; no end and no duration while the span is open."""
    if is_open(event):
        return event.occurred_ns, None, None
    end = end_of(event)
    return event.occurred_ns, end, (end - event.occurred_ns) / 1e6


def end_mark(event: JournalEvent) -> tuple[str, ...]:
    """Return what is wrong with the end a span was sent with."""
    start, end = event.occurred_ns, event.ended_ns
    if end is None or is_open(event) or end_of(event) == end:
        return ()
    if end == 0:
        return ("its end is 0: it was cut short",)
    return ("it ends before it begins",) if end < start else (f"its end lies {spelled(end - start)} after its start",)


def has_wrong_clock(event: JournalEvent) -> bool:
    """Say whether a span is dated where it cannot belong; its end tells, since a long one may have begun long ago."""
    late = end_of(event) > event.received_at.timestamp() * NS + LATE_NS
    return late or event.occurred_ns <= 0 or FAR in event.repairs


def skew_of(row: Row, around: Row) -> str:
    """Return how a span lies outside the time of the span around it, or ""; nothing is said of what is in doubt."""
    if not (row.is_span and around.is_span) or around.has_wrong_time or row.has_wrong_time:
        return ""
    before = around.start_ns - row.start_ns
    if before > SKEW_NS:
        return f"starts {spelled(before)} before its parent"
    if around.end_ns is None:
        return ""
    after = (row.start_ns if row.end_ns is None else row.end_ns) - around.end_ns
    return f"ends {spelled(after)} after its parent" if after > SKEW_NS else ""


def held_in(row: Row, around: Row) -> tuple[int, int | None]:
    """Return (start, end) of a row as drawn within what is drawn of the span around it."""
    low, high = around.drawn_ns or (around.start_ns, around.end_ns)
    start, end = max(row.start_ns, low), row.end_ns
    if end is not None:
        end = max(end, low)
    if high is not None:
        start, end = min(start, high), min(end, high) if end is not None else None
    return start, end


def spelled(nanoseconds: int) -> str:
    """Return a stretch of time in the largest unit that fits: 27 h, 7.0 min, 56.9 years."""
    seconds = nanoseconds / NS
    for least, size, unit in LARGE:
        if seconds >= least:
            return f"{seconds / size:,.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:,.1f} s"
