"""One decision in progress: the state so far, the commands given, and the only place where events get their numbers."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernel.core.bounds import ENVELOPE_BYTES, EVENTS_BYTES
from kernel.core.state import RunState
from kernel.messages import Command, Event, SendEvents


class Step:
    """Collects what one observation leads to; `state` is replaced, never changed."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.commands: list[Command] = []

    def set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

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
        kept = {name: value for name, value in (data or {}).items() if value is not None}
        event = Event(
            event_id=self.event_id(number),
            type=type_,
            occurred_ns=at_ns,
            seq=number,
            data=json.dumps(kept, ensure_ascii=False),
            **{"turn": self.state.turn or None, **ids},
        )
        self.set(events=(*self.state.events, event))
        return event.event_id

    def flush_many(self) -> None:
        """Hand the waiting events to the runner, before anything else, when they have grown too many to be carried."""
        if (
            sum(len(event.data.encode("utf-8", "replace")) + ENVELOPE_BYTES for event in self.state.events)
            > EVENTS_BYTES
        ):
            self.commands.insert(0, self._sending())
            self.set(events=())

    def flush(self) -> None:
        """Hand the waiting events to the runner."""
        if self.state.events:
            self.do(self._sending())
            self.set(events=())

    def _sending(self) -> SendEvents:
        spec = self.state.spec
        return SendEvents(
            spec.run_id, spec.task_id, spec.actor_id, spec.parent_run_id, spec.team_root, self.state.events
        )
