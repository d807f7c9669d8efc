"""What one run in a world left behind: the whole evidence conditions are judged by, and ways to look at it. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.events import TERMINAL_TYPES
from kernel.conformance.worlds import Round, World
from kernel.drivers import DriverReply
from kernel.messages import Event, Message, RunResult

TERMINAL: Final = frozenset(TERMINAL_TYPES)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it was given to the driver, and, where the driver sent one on, `body` as it came over the wire."""

    messages: tuple[Message, ...]
    offered: tuple[str, ...]
    finale: bool
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What was given back for the request at `number`: a reply, or the class of what was raised."""

    number: int
    reply: DriverReply | None = None
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Executed:
    """A call that reached its tool."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attack:
    """Something done to a run from beside its driver: `refused` tells whether it was turned away, `changed` whether
    the run's state or record is another than before."""

    name: str
    about: str
    refused: bool
    changed: bool


@dataclass(frozen=True, slots=True)
class Aside:
    """A call that was answered before it reached the envelope, because the run was not taking any more: over a bridge,
    or to a runtime whose turn is over. `attempt` is the id its medium knows it by."""

    attempt: str
    tool: str
    code: str


@dataclass(frozen=True, slots=True)
class Record:
    """All that is known of one run. `by_driver` says that the driver did for its seat's occupant what the occupant has
    no way to do; `outside` that what drives the run is a runtime of its own behind the envelope."""

    world: World
    result: RunResult
    events: tuple[Event, ...]
    requests: tuple[Sent, ...]
    given: tuple[Given, ...]
    executed: tuple[Executed, ...]
    transcript: tuple[Message, ...]
    attacks: tuple[Attack, ...] = ()
    aside: tuple[Aside, ...] = ()
    by_driver: bool = False
    outside: bool = False

    def of(self, *kinds: str) -> tuple[Event, ...]:
        """Return the events of these types, in order."""
        return tuple(event for event in self.events if event.type in kinds)

    @property
    def terminal(self) -> tuple[Event, ...]:
        """The events that end a run: exactly one in a legal record."""
        return tuple(event for event in self.events if event.type in TERMINAL)

    @property
    def ending(self) -> Mapping[str, Any]:
        """The data of the event that ended the run; empty without one."""
        return data_of(self.terminal[-1]) if self.terminal else {}

    def calls(self, *tools: str) -> tuple[str, ...]:
        """Return the ids of the calls of these tools (all without any) as they stand in the history, in order."""
        return tuple(
            call.call_id for message in self.transcript for call in message.calls if not tools or call.name in tools
        )

    def replies(self, call_id: str) -> tuple[Message, ...]:
        """Return the replies that a call has in the history."""
        return tuple(message for message in self.transcript if message.role == "tool" and message.call_id == call_id)

    def outcome(self, call_id: str) -> Mapping[str, Any]:
        """Return the data of the event that says how a call ended; empty without one."""
        found = [
            event for event in self.of("tool.completed", "tool.failed", "tool.blocked") if event.call_id == call_id
        ]
        return {"type": found[-1].type, **data_of(found[-1])} if found else {}

    def code(self, call_id: str) -> str:
        """Return the code a call was refused with, or an empty text."""
        return str(self.outcome(call_id).get("code") or "")

    def ran(self, *tools: str) -> tuple[str, ...]:
        """Return the ids of the calls of these tools (all without any) that were executed, in order."""
        return tuple(one.call_id for one in self.executed if not tools or one.tool in tools)

    def request_events(self) -> tuple[str, ...]:
        """Return the ids of the events of the requests that were sent."""
        return tuple(event.event_id for event in self.of("model.requested"))

    def declared(self) -> tuple[str, ...]:
        """Return the ids of the requests for which the driver is seen to have declared what the world has it declare:
        a step, or a decision as it stands. Where no request was reported it is the event that ended the run."""
        ids = self.request_events()
        ends = tuple(event.event_id for event in self.terminal)
        made = [one.number for one in self.given if was_declared(self.world.round_at(one.number), one)]
        return tuple(next(iter((*ids[number : number + 1], *ends)), "") for number in made)

    def failure(self) -> tuple[str, str]:
        """Return the code and the source of the turn that failed; empty texts without one."""
        failed = self.of("turn.failed")
        data = data_of(failed[-1]) if failed else {}
        return str(data.get("code") or ""), str(data.get("source") or "")


def data_of(event: Event) -> Mapping[str, Any]:
    """Return the data of an event."""
    read: Mapping[str, Any] = json.loads(event.data)
    return read


def was_declared(tried: Round, given: Given) -> bool:
    """Tell whether what a driver gave back shows that it tried what only a driver declares in this round."""
    reply = given.reply
    claims = [move.step for move in tried.calls if move.step is not None]
    decision = tried.decide or {}
    if not (claims or decision or tried.raises):
        return False
    if reply is None:
        return bool(given.raised)
    if claims:
        return all(any(step == claim and type(step) is type(claim) for step in reply.steps) for claim in claims)
    kind, output = decision.get("type"), decision.get("output")
    if kind == "escalate":
        return reply.escalation is not None
    if kind == "fail" or tried.raises:
        return bool(reply.failed) and not tried.raises
    return not reply.calls and (reply.text == output if isinstance(output, str) else bool(reply.text))


def groups(messages: tuple[Message, ...]) -> Iterator[tuple[Message, tuple[Message, ...]]]:
    """Yield each message with calls and the messages after it up to the next one of the model."""
    places = [place for place, message in enumerate(messages) if message.role == "assistant"]
    for place, end in zip(places, [*places[1:], len(messages)], strict=False):
        if messages[place].calls:
            yield messages[place], messages[place + 1 : end]
