"""The timeline of a run: its journal events and derived chain as ordered rows, with the axis they are drawn on. Pure.

One row per thing that happened (a request with its answer, a call with its outcome), grouped by turn; an activation
stands under the event that set it off, what came of a call under the call. Filters and windows are decided here, so
that pages and fragments agree.
(Seed 001 §13, §14.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from contract.events import TERMINAL_TYPES
from debugger.queries.activation_words import TWIN, activation_words
from debugger.queries.axis import Axis
from debugger.queries.foreign import ForeignRun, read_foreign, span_warnings
from debugger.queries.grouping import Group, Grouped, group_events, missing_numbers
from debugger.queries.idle import told_in_rows, with_idle_gaps
from debugger.queries.nesting import nest
from debugger.queries.pieces import Piece, measured
from debugger.queries.row_words import group_words
from debugger.queries.rows import NS, Row
from debugger.queries.span_times import LATE_NS, TOLD, WRONG_CLOCK, end_mark, has_wrong_clock, span_times
from ingest.journal import JournalEvent
from ingest.times import LONGEST_NS
from knowledge.models import Activation, Candidate
from knowledge.spans import is_whole

WINDOW: Final = 50  # rows sent at once, which is all a page holds of a long run
# Whole seconds an axis of a run in progress may end at, so that bars keep still between updates.
AXIS_STEPS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
FILTERS: Final = {
    "all": "All",
    "failed": "Failed rows",
    "activations": "Activations",
    "model": "Model",
    "tools": "Tools",
}
TOOL_KINDS: Final = ("tool", "operation", "approval")


@dataclass(frozen=True, slots=True)
class Timeline:
    """All rows of a run in order, and what is counted about them whatever is shown."""

    rows: tuple[Row, ...]
    axis: Axis
    n_events: int
    n_missing: int
    notes: Mapping[int, str]
    repairs: Mapping[str, int]
    is_running: bool
    warnings: tuple[str, ...] = ()
    foreign: ForeignRun | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


def build_timeline(
    events: Sequence[JournalEvent], activations: Iterable[Activation] = (), candidates: Iterable[Candidate] = ()
) -> Timeline:
    """Return the timeline of `events` (in reading order), with what the fold derived where it has come so far."""
    grouped = group_events(events)
    derived = {activation.activation_id: activation for activation in activations}
    uses = _uses(candidates)
    reading = read_foreign(events)
    origin = reading.started_ns if reading else _origin(events)
    rows = [_row(group, derived, uses, origin) for group in grouped.groups]
    nested = nest(rows, grouped.groups, derived)
    ended = reading.is_over if reading else any(event.type in TERMINAL_TYPES for event in events)
    axis = with_idle_gaps(_axis(nested.rows, origin, is_running=not ended), nested.rows)
    told = told_in_rows(_with_starts_of_twins(nested.rows), axis)
    drawn = tuple(replace(row, bar=bar_of(row, axis)) for row in told)
    return Timeline(
        rows=drawn,
        axis=axis,
        n_events=len(events),
        n_missing=missing_numbers(events),
        notes=_turn_notes(grouped),
        repairs=_repairs(events),
        is_running=not ended,
        warnings=span_warnings(reading, nested),
        foreign=reading,
        counts={name: sum(passes(row, name) for row in drawn) for name in FILTERS},
    )


def passes(row: Row, show: str) -> bool:
    """Tell whether a row passes a filter word of FILTERS."""
    if show == "failed":
        return row.state == "bad"
    if show == "activations":
        return row.kind == "activation"
    if show == "model":
        return row.kind == "model"
    if show == "tools":
        return row.kind in TOOL_KINDS
    return True


def _origin(events: Sequence[JournalEvent]) -> int:
    started = next((event.occurred_ns for event in events if event.type == "run.started"), None)
    if started is not None:
        return started
    return min((event.occurred_ns for event in events if event.occurred_ns > 0), default=0)


def _uses(candidates: Iterable[Candidate]) -> dict[str, list[str]]:
    """Return event id -> knowledge ids that it is evidence of."""
    uses: dict[str, list[str]] = {}
    for candidate in candidates:
        usage = candidate.evidence.get("usage") if candidate.used_ns is not None else None
        if isinstance(usage, dict) and usage.get("event_id"):
            uses.setdefault(str(usage["event_id"]), []).append(candidate.knowledge_id)
    return uses


def _row(group: Group, derived: Mapping[str, Activation], uses: Mapping[str, list[str]], origin: int) -> Row:
    activation = derived.get(group.subject) if group.kind == "activation" else None
    first = group.opener or group.events[0]
    whole = is_whole(first)
    start, end, duration = _times(group, activation)
    words = activation_words(group, activation) if group.kind == "activation" else group_words(group)
    used = [knowledge_id for event in group.events for knowledge_id in uses.get(event.event_id, ())]
    pieces = (*words.pieces, *(Piece(f"used hint {knowledge_id}", "hint") for knowledge_id in used))
    return Row(
        key=f"r{min(event.arrival for event in group.events)}",
        kind=group.kind,
        state=words.state,
        event_id=first.event_id,
        activation_id=group.subject if group.kind == "activation" else "",
        turn=first.turn,
        start_ns=start,
        end_ns=end,
        duration_ms=duration,
        pieces=pieces,
        event_ids=tuple(event.event_id for event in group.events),
        last_arrival=max(event.arrival for event in (*group.events, *group.related)),
        from_chain=group.kind == "activation" or bool(used),
        marks=_marks(group),
        offset_ns=start - origin,
        is_span=whole,
        has_wrong_end=whole and bool(end_mark(first)),
        has_wrong_clock=whole and has_wrong_clock(first),
        is_astray=abs(start - origin) > LONGEST_NS if whole else any(map(_has_wrong_clock, group.events)),
    )


def _times(group: Group, activation: Activation | None) -> tuple[int, int | None, float | None]:
    """Return (start, end, duration in ms). What a sender measured counts more than the distance of two events."""
    first, last = group.opener or group.events[0], group.ender
    if is_whole(first):
        return span_times(first)
    if group.kind == "activation":
        last = group.first("activation.completed")
        first = group.first("activation.requested", "activation.deferred", "activation.skipped") or first
    measuring = last or first
    duration = measured(measuring.data, "duration_ms")
    if duration is None and activation is not None:
        duration = activation.duration_ms
    if measuring.ended_ns is not None:
        start, end = measuring.occurred_ns, measuring.ended_ns
    elif last is None:
        return first.occurred_ns, None, duration
    else:
        start, end = first.occurred_ns, last.occurred_ns
        if duration is not None and group.kind != "activation":
            start = max(start, end - round(duration * 1e6)) if last is not first else end - round(duration * 1e6)
    if duration is None and end >= start:
        duration = (end - start) / 1e6
    return start, end, duration


def _marks(group: Group) -> tuple[str, ...]:
    if group.opener is not None and is_whole(group.opener):
        words = sorted({word for event in group.events for word in event.repairs if word not in TOLD})
        return (*(f"repaired: {word}" for word in words), *end_mark(group.opener))
    marks = sorted({f"repaired: {word}" for event in group.events for word in event.repairs})
    if group.opener is None:
        marks.append("its beginning has not arrived")
    if any(_has_wrong_clock(event) for event in group.events):
        marks.append(WRONG_CLOCK)
    opener, ender = group.opener, group.ender
    if opener is not None and ender is not None and ender.occurred_ns < opener.occurred_ns:
        marks.append("it ends before it begins")
    return tuple(marks)


def _has_wrong_clock(event: JournalEvent) -> bool:
    return event.occurred_ns <= 0 or event.occurred_ns > event.received_at.timestamp() * NS + LATE_NS


def _axis(rows: Sequence[Row], origin: int, *, is_running: bool) -> Axis:
    ends = [row.end_ns if row.end_ns is not None else row.start_ns for row in rows if not row.is_astray]
    last = max((end for end in ends if end >= origin), default=origin + NS)
    if not is_running:
        return Axis(origin, max(last, origin + 1))
    seconds = next((step for step in AXIS_STEPS if origin + step * NS >= last), None)
    day = AXIS_STEPS[-1] * NS
    return Axis(origin, origin + (seconds * NS if seconds else -(-(last - origin) // day) * day))


def bar_of(row: Row, axis: Axis) -> tuple[float, float] | None:
    """Return (left, width) of a row's bar on an axis; None for a search that was not made."""
    if row.kind == "activation" and row.end_ns is None:
        return None
    return axis.place(*(row.drawn_ns or (row.start_ns, row.end_ns)))


def _with_starts_of_twins(rows: Sequence[Row]) -> list[Row]:
    """Name, in a row skipped as a duplicate, the offset of the activation that handled the same situation."""
    starts = {row.activation_id: row.offset_ns for row in rows if row.activation_id}

    def told(piece: Piece) -> Piece:
        if piece.tone != TWIN:
            return piece
        text = f"at {starts[piece.text] / NS:+.2f}" if piece.text in starts else piece.text
        return Piece(text, "mono soft keep")

    return [
        replace(row, pieces=tuple(told(piece) for piece in row.pieces))
        if any(piece.tone == TWIN for piece in row.pieces)
        else row
        for row in rows
    ]


def _turn_notes(grouped: Grouped) -> dict[int, str]:
    notes = {}
    for frame in grouped.frames:
        n_calls = frame.data.get("n_calls")
        if frame.turn is not None and isinstance(n_calls, int) and n_calls > 1:
            notes[frame.turn] = f"{n_calls:,} calls in one reply"
    return notes


def _repairs(events: Iterable[JournalEvent]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for event in events:
        # The marks of a span say what is wrong with its times.
        for word in (word for word in event.repairs if word not in TOLD or not is_whole(event)):
            counted[word] = counted.get(word, 0) + 1
    return counted
