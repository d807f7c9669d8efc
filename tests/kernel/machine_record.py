"""The events of one run as they are made and as they are sent, held against the contract."""

import json
from collections import Counter
from collections.abc import Sequence

from contract.events import EVENT_TYPES, TERMINAL_TYPES, check_data
from kernel.core.state import RunState
from kernel.messages import Command, Event, RunSpec, SendEvents

OUTCOMES = ("tool.completed", "tool.failed", "tool.blocked")
OPERATION_ENDS = ("operation.completed", "operation.failed")


class Record:
    """Every event seen so far, waiting or sent, in the order they were made."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.seen: dict[str, Event] = {}
        self.sent: list[Event] = []

    def take(self, commands: Sequence[Command], state: RunState) -> list[Event]:
        """Return the events that are new after a decision."""
        sent = [event for command in commands if isinstance(command, SendEvents) for event in command.events]
        self.sent += sent
        fresh = [event for event in (*sent, *state.events) if event.event_id not in self.seen]
        for event in fresh:
            self.check_event(event)
            self.seen[event.event_id] = event
        return fresh

    def check_event(self, event: Event) -> None:
        """An event is of a known type, its data fits, its id is its number, and what caused it was told before."""
        assert event.type in EVENT_TYPES, f"{event.type} is no event type"
        problem = check_data(event.type, json.loads(event.data))
        assert problem is None, f"{event.type}: {problem}"
        assert event.event_id == f"{self.spec.run_id}:{event.seq}"
        assert event.caused_by is None or event.caused_by in self.seen, f"{event.type} was caused by nothing known"

    def check_all_sent_once(self) -> None:
        """All events were sent, each once, in the order they were made; their numbers have no gap."""
        assert [event.event_id for event in self.sent] == list(self.seen), "what was made is not what was sent"
        numbers = sorted(event.seq for event in self.sent)
        assert numbers == list(range(1, len(numbers) + 1)), f"numbers with a gap or twice: {numbers}"

    def check_one_terminal_event(self, status: str) -> None:
        """Exactly one event says how the run ended, and it is the last."""
        terminal = [event for event in self.sent if event.type in TERMINAL_TYPES]
        assert len(terminal) == 1, f"{len(terminal)} terminal events"
        assert self.sent[-1] is terminal[0] and terminal[0].seq == len(self.sent), "the terminal event is not the last"
        assert TERMINAL_TYPES[terminal[0].type] == status, "the terminal event says otherwise than the result"

    def check_pairs(self) -> None:
        """What began has ended once: calls, operations, delegated runs; and nothing ended that did not begin."""
        self._check_pair(("tool.requested",), OUTCOMES, "call_id")
        self._check_pair(("operation.started",), OPERATION_ENDS, "operation_id")
        self._check_pair(("delegate.started",), ("delegate.finished",), "call_id")
        self._check_pair(("human.asked",), ("human.answered",), "call_id", at_most=True)
        self._check_pair(("approval.requested",), ("approval.decided",), "call_id", at_most=True)

    def _check_pair(self, first: Sequence[str], last: Sequence[str], name: str, at_most: bool = False) -> None:
        began = Counter(getattr(event, name) for event in self.sent if event.type in first)
        ended = Counter(getattr(event, name) for event in self.sent if event.type in last)
        assert all(count == 1 for count in began.values()), f"{first} twice: {began}"
        assert all(count == 1 for count in ended.values()), f"{last} twice: {ended}"
        assert ended.keys() <= began.keys(), f"{last} without {first}: {ended.keys() - began.keys()}"
        assert at_most or ended.keys() == began.keys(), f"{first} without {last}: {began.keys() - ended.keys()}"
