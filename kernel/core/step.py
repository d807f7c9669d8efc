"""One decision in progress: the state so far, the commands given, and the only place where events get their numbers."""

import json
from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from kernel.core.bounds import ENVELOPE_BYTES, EVENTS_BYTES
from kernel.core.state import RunState
from kernel.messages import Command, Event, SendEvents

_NAMES: Final = tuple(field.name for field in fields(RunState))
_READ: Final = attrgetter(*_NAMES)
_WRITE: Final = {name: getattr(RunState, name).__set__ for name in _NAMES}  # past the guard of a frozen dataclass
_WRITERS: Final = tuple(_WRITE.values())
encode: Final = json.JSONEncoder(ensure_ascii=False).encode


def copied(state: RunState) -> RunState:
    """Return a state of its own with the same content."""
    copy = object.__new__(RunState)
    for write, value in zip(_WRITERS, _READ(state), strict=True):
        write(copy, value)
    return copy


class Step:
    """Collects what one observation leads to.

    `state` is a copy of the given state that belongs to this step alone until it is handed on, and only `set` writes
    to it: a new state for every change would cost more than all decisions.
    """

    def __init__(self, state: RunState) -> None:
        self.state = copied(state)
        self.commands: list[Command] = []
        self._events = list(state.events)

    def set(self, **changes: Any) -> None:
        for name, value in changes.items():
            _WRITE[name](self.state, value)

    def do(self, command: Command) -> None:
        self.commands.append(command)

    def reserve(self) -> int:
        """Return the number of an event that will be emitted later."""
        number = self.state.next_event
        self.set(next_event=number + 1)
        return number

    def event_id(self, number: int) -> str:
        return f"{self.state.spec.run_id}:{number}"

    def emit(
        self, type_: str, at_ns: int, data: Mapping[str, Any] | None = None, *, number: int | None = None, **ids: Any
    ) -> str:
        """Add an event to those waiting for the next boundary and return its id. None values in `data` are left out."""
        number = self.reserve() if number is None else number
        text = encode({name: value for name, value in data.items() if value is not None}) if data else "{}"
        event_id = self.event_id(number)
        ids.setdefault("turn", self.state.turn or None)
        self._events.append(Event(event_id, type_, at_ns, number, text, **ids))
        return event_id

    def end(self) -> tuple[RunState, tuple[Command, ...]]:
        """Return what the step led to. Waiting events that have grown too many to be carried are handed to the runner,
        before anything else."""
        size = sum(len(event.data.encode("utf-8", "replace")) + ENVELOPE_BYTES for event in self._events)
        if size > EVENTS_BYTES:
            self.commands.insert(0, self._sending())
        self.set(events=tuple(self._events))
        return self.state, tuple(self.commands)

    def flush(self) -> None:
        """Hand the waiting events to the runner."""
        if self._events:
            self.do(self._sending())

    def _sending(self) -> SendEvents:
        spec, events = self.state.spec, tuple(self._events)
        self._events.clear()
        return SendEvents(spec.run_id, spec.task_id, spec.actor_id, spec.parent_run_id, spec.team_root, events)
