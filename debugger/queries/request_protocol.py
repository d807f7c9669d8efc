"""Whether the messages of a request keep the protocol of calls and replies, told from the messages alone. Pure.

Every call has one reply, in the order of the calls and before anything else; rules stand first; the user does not speak
twice in a row. (Seed 001 §6.2.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from debugger.queries.pieces import one_line, plural, said
from knowledge import event_data as read

NAMED: Final = 3  # calls named in one problem
SHOWN: Final = 80  # code points of a call id in a problem
REPLIES: Final = ("tool", "function")
SYSTEM: Final = ("system", "developer")
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and the position of the message it was found at."""

    position: int
    text: str


def check_protocol(messages: Sequence[Message]) -> tuple[Problem, ...]:
    """Return everything that is wrong with the messages of a whole request, in their order."""
    return tuple(_problems(messages))


def _problems(messages: Sequence[Message]) -> Iterator[Problem]:
    used: dict[str, int] = {}
    awaited: dict[str, bool] = {}  # call id or a stand-in -> whether it is an id
    before = ""
    for position, message in enumerate(messages):
        role = said(message, "role")
        if role in REPLIES:
            yield from _reply(message, position, awaited, used)
            continue
        if awaited:
            yield Problem(position, f"a {role or 'message'} stands here and {_unanswered(awaited)}")
        awaited = {}
        yield from _misplaced(role, position, before)
        if read.entries(message, "calls"):
            call_ids = _call_ids(message)
            yield from _calls(role, call_ids, position, used)
            awaited = {call_id or f"number {place}": bool(call_id) for place, call_id in enumerate(call_ids, 1)}
        before = role
    if awaited:
        yield Problem(len(messages) - 1, f"the request ends and {_unanswered(awaited)}")


def _unanswered(awaited: Mapping[str, bool]) -> str:
    named = ", ".join(_name(call_id) for call_id in islice(awaited, NAMED))
    more = f" and {len(awaited) - NAMED:,} more" if len(awaited) > NAMED else ""
    return f"{plural(len(awaited), 'call')} had no reply: {named}{more}"


def _name(call_id: str) -> str:
    return one_line(call_id, SHOWN) or "no id"


def _call_ids(message: Message) -> list[str]:
    return [said(call, "call_id") or said(call, "id") for call in read.entries(message, "calls")]


def _misplaced(role: str, position: int, before: str) -> Iterator[Problem]:
    if role in SYSTEM and position and before not in SYSTEM:
        yield Problem(position, "a system message stands here: it belongs at the start")
    if role == "user" and before == "user":
        yield Problem(position, "the user speaks twice in a row")


def _calls(role: str, call_ids: Sequence[str], position: int, used: dict[str, int]) -> Iterator[Problem]:
    """Yield what is wrong with the calls of a message; remember where each was made."""
    if role != "assistant":
        yield Problem(position, f"only an assistant message carries calls, not one of {role or 'no role'}")
    for call_id in filter(None, call_ids):
        if call_id in used:
            yield Problem(position, f"the call id {_name(call_id)} was used before, in message {used[call_id] + 1:,}")
        used.setdefault(call_id, position)


def _reply(message: Message, position: int, awaited: dict[str, bool], used: Mapping[str, int]) -> Iterator[Problem]:
    """Yield what is wrong with a reply, and take its call out of those awaited."""
    call_id = said(message, "call_id")
    first = next(iter(awaited), None)
    if first is not None and (not call_id or first == call_id or not awaited[first]):
        del awaited[first]
    elif call_id in awaited:
        del awaited[call_id]
        yield Problem(position, f"the reply to {_name(call_id)} stands out of the order of the calls")
    elif call_id in used:
        yield Problem(position, f"the reply to {_name(call_id)} comes again, or too late")
    else:
        yield Problem(position, f"a reply to {_name(call_id)}, which no message calls")
