"""Gathers a run's events into the groups that become rows: a request and its answer, a call and its outcome. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from contract.events import TERMINAL_TYPES
from debugger.queries.pieces import said
from ingest.journal import JournalEvent
from knowledge.spans import is_open, is_whole, kind_of, superseded

# Kind of row -> the types that open it, and those that end it.
PAIRS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "model": (("model.requested",), ("model.completed", "model.failed")),
    "tool": (("tool.requested",), ("tool.completed", "tool.failed", "tool.blocked")),
    "operation": (("operation.started",), ("operation.completed", "operation.failed")),
    "approval": (("approval.requested",), ("approval.decided",)),
    "human": (("human.asked",), ("human.answered",)),
    "delegate": (("delegate.started",), ("delegate.finished",)),
}
OPENS: Final = {name: kind for kind, (openers, _) in PAIRS.items() for name in openers}
ENDS: Final = {name: kind for kind, (_, enders) in PAIRS.items() for name in enders}
ACTIVATION_PREFIXES: Final = ("activation.", "hint.")
PLAN: Final = "plan.updated"
AWAITING: Final = "await_operation"  # a tool that names the operation it waits for in its arguments
RECEIPT: Final = "time.receipt"
OF_CALLS: Final = ("operation", "approval", "human", "delegate", PLAN, RECEIPT)  # kinds of rows that come of a call
TURN_FRAME: Final = ("turn.started", "turn.completed")  # told by the turn's heading, not by rows of their own


@dataclass(slots=True)
class Group:
    """Events that make one row, in reading order. `subject` is what binds them: a call id, an activation id …

    `related` are events of other rows that decide what this one says: the plan that replaced it, the call it came of,
    the operation a call started or waited for and these calls, the end of the run that left it open.
    `whole` is the event that tells all of it, where a foreign span does; its unfinished copy stands last in `events`.
    """

    kind: str
    subject: str = ""
    events: list[JournalEvent] = field(default_factory=list)
    related: list[JournalEvent] = field(default_factory=list)
    whole: JournalEvent | None = None

    def first(self, *types: str) -> JournalEvent | None:
        """Return the first event of one of the types, or None."""
        return next((event for event in self.events if event.type in types), None)

    def other(self, *types: str) -> JournalEvent | None:
        """Return the first related event of one of the types, or None."""
        return next((event for event in self.related if event.type in types), None)

    @property
    def call(self) -> JournalEvent | None:
        """The request of the call this came of, where that is another row."""
        asked = (event for event in self.related if event.type == "tool.requested")
        return next((event for event in asked if event.call_id == self.events[0].call_id), None)

    @property
    def is_left_open(self) -> bool:
        """Tell whether the run ended before this did."""
        return self.ender is None and self.other(*TERMINAL_TYPES) is not None

    @property
    def opener(self) -> JournalEvent | None:
        if self.whole is not None:
            return self.whole
        return self.first(*PAIRS[self.kind][0]) if self.kind in PAIRS else self.events[0]

    @property
    def ender(self) -> JournalEvent | None:
        if self.whole is not None:
            return None if is_open(self.whole) else self.whole
        return self.first(*PAIRS[self.kind][1]) if self.kind in PAIRS else None


@dataclass(frozen=True, slots=True)
class Grouped:
    """All events of a run: those that make rows, and the turn frames. `group_of` leads from an event to its group."""

    groups: tuple[Group, ...]
    frames: tuple[JournalEvent, ...]
    group_of: dict[str, Group]


def group_events(events: Sequence[JournalEvent]) -> Grouped:
    """Group `events` (in reading order). An end may stand before its beginning, or without it, and the reverse."""
    gatherer = _Gatherer(
        {event.hint_id: event.activation_id for event in events if event.hint_id and event.activation_id}
    )
    frames: list[JournalEvent] = []
    group_of: dict[str, Group] = {}
    unfinished = superseded(events)
    for event in events:
        if event.type in TURN_FRAME:
            frames.append(event)
        elif event.event_id not in unfinished:
            group_of[event.event_id] = gatherer.add(event)
    for event in events:
        finished = group_of.get(unfinished.get(event.event_id, ""))
        if finished is not None and event.event_id not in group_of:
            finished.events.append(event)
            group_of[event.event_id] = finished
    _relate_ends(gatherer.groups)
    _relate_plans(gatherer.groups)
    _relate_operations(gatherer.groups)
    _relate_calls(gatherer.groups)
    _relate_questions(gatherer.groups)
    return Grouped(tuple(gatherer.groups), tuple(frames), group_of)


class _Gatherer:
    """Groups so far, and those of them that still miss their end or their beginning."""

    def __init__(self, activation_of_hint: dict[str, str]) -> None:
        self.groups: list[Group] = []
        self._activation_of_hint = activation_of_hint
        self._activations: dict[str, Group] = {}
        self._without_end: dict[tuple[str, str], Group] = {}
        self._without_opener: dict[tuple[str, str], Group] = {}

    def add(self, event: JournalEvent) -> Group:
        group = self._activation_group(event) or _span_group(event) or self._paired_group(event)
        if not group.events:
            self.groups.append(group)
        group.events.append(event)
        return group

    def _activation_group(self, event: JournalEvent) -> Group | None:
        if not event.type.startswith(ACTIVATION_PREFIXES):
            return None
        activation_id = event.activation_id or self._activation_of_hint.get(event.hint_id or "")
        if not activation_id:
            return None
        return self._activations.setdefault(activation_id, Group("activation", activation_id))

    def _paired_group(self, event: JournalEvent) -> Group:
        if event.type in OPENS:
            kind, waiting, partners = OPENS[event.type], self._without_end, self._without_opener
        elif event.type in ENDS:
            kind, waiting, partners = ENDS[event.type], self._without_opener, self._without_end
        else:
            return Group(event.type)
        key = kind, _subject(kind, event)
        if key in partners:
            return partners.pop(key)
        group = Group(kind, key[1])
        if key[1]:
            waiting[key] = group
        return group


def _span_group(event: JournalEvent) -> Group | None:
    """Return the row of a foreign span, which one event tells from start to end."""
    if not is_whole(event):
        return None
    kind = kind_of(event)
    return Group(kind if kind in ("model", "tool") else "span", event.call_id or "", whole=event)


def _subject(kind: str, event: JournalEvent) -> str:
    """Return what an opening event and its end share. A model request is bound by cause, the others by their ids."""
    request_id = event.event_id if event.type in OPENS else event.caused_by or ""
    if kind == "model":
        return request_id
    if kind == "operation":
        return event.operation_id or event.call_id or request_id
    if kind == "delegate":
        return str(event.data.get("child_run_id") or request_id)
    return event.call_id or request_id


def _relate_ends(groups: Iterable[Group]) -> None:
    """Tell what is still open of the end of the run."""
    groups = list(groups)
    end = next((event for group in groups for event in group.events if event.type in TERMINAL_TYPES), None)
    if end is not None:
        for group in groups:
            if (group.kind in PAIRS or group.whole is not None) and group.ender is None:
                group.related.append(end)


def _relate_plans(groups: Iterable[Group]) -> None:
    """Tell each plan of the one that replaced it; the latest has none."""
    plans = [group for group in groups if group.kind == PLAN]
    for plan, later in zip(plans, plans[1:], strict=False):
        plan.related.append(later.events[0])


def _relate_operations(groups: Iterable[Group]) -> None:
    """Tell a call of the operation it started or waited for, and the operation of these calls."""
    groups = list(groups)
    operations = {group.subject: group for group in groups if group.kind == "operation" and group.subject}
    started_by = {event.call_id: group for group in operations.values() for event in group.events if event.call_id}
    for group in groups if operations else ():
        named = operations.get(_operation_of(group)) or started_by.get(group.events[0].call_id or "")
        operation = named if group.kind == "tool" else None
        if operation is not None:
            group.related += operation.events
            operation.related.append(group.events[0])


def _relate_calls(groups: Iterable[Group]) -> None:
    """Tell what came of a call of that call, and the call that noted a plan of the plan."""
    calls: dict[str, Group] = {}
    for group in groups:
        call = calls.get(group.events[0].call_id or "") if group.kind in OF_CALLS else None
        if group.kind == "tool" and group.opener is not None and group.subject:
            calls[group.subject] = group
        elif call is not None and call.opener is not None and group.call is None:
            group.related.append(call.opener)
            call.related += group.events if group.kind == PLAN else ()


def _relate_questions(groups: Iterable[Group]) -> None:
    """Tell a question without its answer how the call that asked it ended."""
    groups = list(groups)
    unanswered = {group.subject: group for group in groups if group.kind in ("human", "approval") and not group.ender}
    for group in groups if unanswered else ():
        asked = unanswered.get(group.subject) if group.kind == "tool" and group.subject else None
        if asked is not None and group.ender is not None:
            asked.related.insert(0, group.ender)


def starts(call: Group, operation: Iterable[JournalEvent]) -> bool:
    """Tell whether a call is the one that started an operation; any other that names it waited for it."""
    started_by = {event.call_id for event in operation if event.call_id}
    return any(event.call_id in started_by for event in call.events)


def _operation_of(call: Group) -> str:
    named = next((event.operation_id for event in call.events if event.operation_id), None)
    if named is not None:
        return named
    asked = call.opener
    if asked is None or not (asked.tool or "").endswith(AWAITING):
        return ""
    try:
        arguments = json.loads(said(asked.data, "arguments"))
    except (ValueError, RecursionError):
        return ""
    return said(arguments, "operation_id") if isinstance(arguments, dict) else ""


def missing_numbers(events: Iterable[JournalEvent]) -> int:
    """Return how many events have not arrived, by the gaps in the sender's numbering."""
    numbers = sorted({event.seq for event in events if event.seq is not None})
    return numbers[-1] - numbers[0] + 1 - len(numbers) if numbers else 0
