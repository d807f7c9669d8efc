"""How an attempt is seen in a record: each function returns the ids of what was tried, none when it was not. Pure."""

from collections.abc import Callable

from kernel.conformance.record import Given, Record, groups
from kernel.drivers import DriverReply
from kernel.drivers.escalation import ESCALATE

Tried = Callable[[Record], tuple[str, ...]]


def calls_of(*tools: str) -> Tried:
    """The calls of these tools as they stand in the history, and those that were answered before it."""

    def tried(record: Record) -> tuple[str, ...]:
        return (*record.calls(*tools), *(one.attempt for one in record.aside if one.tool in tools))

    return tried


def declarations(record: Record) -> tuple[str, ...]:
    """What a driver declared as it stands."""
    return record.declared()


def attacked(record: Record) -> tuple[str, ...]:
    """What was done to the run from beside its driver."""
    return tuple(f"{one.name}: {one.about}" for one in record.attacks)


def after_rounds(n: int) -> Tried:
    """The calls that filled the rounds, when there were so many."""

    def tried(record: Record) -> tuple[str, ...]:
        filled = [message for message, _ in groups(record.transcript)]
        return record.calls() if len(filled) >= n else ()

    return tried


def n_calls(n: int) -> Tried:
    """All calls, when there were so many."""

    def tried(record: Record) -> tuple[str, ...]:
        ids = record.calls()
        return ids if len(ids) >= n else ()

    return tried


def twice(tool: str) -> Tried:
    """Two calls of the tool in one reply that say the same."""

    def tried(record: Record) -> tuple[str, ...]:
        for message in record.transcript:
            same = [call for call in message.calls if call.name == tool]
            if len(same) > 1 and same[0].arguments == same[1].arguments:
                return tuple(call.call_id for call in same)
        return ()

    return tried


def asks(record: Record) -> tuple[str, ...]:
    """The calls of the affordance, in the history or answered before it; else the requests at which an ask was made,
    or should have been and broke."""
    made = (*record.calls(ESCALATE), *(one.attempt for one in record.aside if one.tool == ESCALATE))
    ids = record.request_events()
    numbers = [one.number for one in record.given if _declares_ask(record, one)]
    return made or tuple(ids[number] for number in numbers if number < len(ids))


def _declares_ask(record: Record, given: Given) -> bool:
    meant = any(move.tool == ESCALATE for move in record.world.round_at(given.number).calls)
    return given.reply.escalation is not None if given.reply is not None else meant and bool(given.raised)


def forwards(record: Record) -> tuple[str, ...]:
    """The calls of the affordance that were passed on although another call, or none, is the ask of their reply."""
    return record.calls(ESCALATE) if any(_forwards(one.reply) for one in record.given) else ()


def _forwards(reply: DriverReply | None) -> bool:
    if reply is None:
        return False
    asked = reply.escalation.call if reply.escalation is not None else len(reply.calls)
    return any(call.name == ESCALATE for call in reply.calls[:asked])


def finale_calls(record: Record) -> tuple[str, ...]:
    """The calls made when the last request was there: in its reply, or answered before it."""
    last = [one for one in record.given if record.requests[-1].finale and one.number == len(record.requests) - 1]
    given = [call.call_id or call.name for one in last if one.reply is not None for call in one.reply.calls]
    return (*given, *(one.attempt for one in record.aside))


def seat_failed(record: Record) -> tuple[str, ...]:
    """The request at which the occupant gave up."""
    gave_up = [one.number for one in record.given if one.raised or (one.reply is not None and one.reply.failed)]
    return record.request_events()[gave_up[0] :][:1] if gave_up else ()


def finale_failed(record: Record) -> tuple[str, ...]:
    """The last request, when it failed."""
    return seat_failed(record) if record.requests[-1].finale else ()


def continuations(record: Record) -> tuple[str, ...]:
    """The events of going on as new."""
    return tuple(event.event_id for event in record.of("run.continued"))


def unanswered(record: Record) -> tuple[str, ...]:
    """The requests that the seat has not answered."""
    answered = [one.number for one in record.given if one.reply is not None]
    return tuple(f"request {number + 1}" for number in range(len(record.requests)) if number not in answered)


def late_calls(record: Record) -> tuple[str, ...]:
    """The calls that were made when the run was over."""
    return tuple(one.attempt for one in record.aside if one.tool == "write")
