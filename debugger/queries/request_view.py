"""A model request rebuilt: its parts, what is new since the request before it, and what of it a cache could keep. Pure.

A request of many messages is told by its window alone, as long as nobody asks for all of it: its numbers are then those
that its sender reported. (Seed 001 §14, §16.3; seed 002.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.pieces import counted, said
from debugger.queries.request_message import (
    Message,
    ShownMessage,
    Surroundings,
    gist_of,
    message_tokens,
    show_message,
    tools_of_calls,
)
from debugger.queries.request_protocol import SYSTEM, Problem, check_protocol
from debugger.queries.request_told import Place, Shared, Told, same_prefix
from ingest.model_requests import REQUEST_TYPE

WINDOW: Final = 100  # messages shown at once
LISTED: Final = 20  # problems, missing parts and tools named
THIS_TURN: Final = ("task", "utterance")
NOT_SAID: Final = ("finale", "record", "summary")  # origins of user messages that begin no turn


@dataclass(frozen=True, slots=True)
class Before:
    """The request that one is compared with. `run_id` is "" where it is of the same run."""

    told: Told
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a request shares with another, from the first message on: what a provider's cache could keep.

    `break_at` is the position of the first message of the other that is not here (None: all of it is), `was` and `now`
    what stands there. `has_other_tools` where the number of tools changed, which stand ahead of the messages.
    """

    event_id: str
    run_id: str
    n_messages: int
    tokens: int
    share: int
    n_before: int
    break_at: int | None = None
    was: str = ""
    now: str = ""
    has_other_tools: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts of a request; `messages` are those in the window."""

    name: str
    meaning: str
    messages: tuple[ShownMessage, ...]
    n_messages: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class RequestView:
    """Everything the page says of a request. `prefix` is None where there is nothing to compare it with, `earlier_run`
    the same against the last request of the conversation's run before.

    `first` and `last` are the shown positions, counted from 1; `earlier` and `later` where other windows begin. Unless
    `is_whole` only the window was read, and tokens are those reported (None: not reported).
    """

    told: Told
    place: Place
    parts: tuple[Part, ...]
    n_messages: int
    n_told: int | None
    tokens_told: int | None
    tokens: int | None
    n_new: int
    new_tokens: int
    prefix: Prefix | None
    earlier_run: Prefix | None
    problems: tuple[Problem, ...]
    n_problems: int
    missing: tuple[str, ...]
    n_missing: int
    why_missing: str
    tools: tuple[str, ...]
    n_tools: int | None
    is_finale: bool
    is_request: bool  # and not only the answer to one
    first: int
    last: int
    earlier: int | None
    later: int | None

    @property
    def is_whole(self) -> bool:
        return self.told.is_whole

    @property
    def event_id(self) -> str:
        return self.told.event_id

    @property
    def n_more_tools(self) -> int:
        return max(0, (self.n_tools or 0) - len(self.tools))


@dataclass(frozen=True, slots=True)
class Around:
    """What was read beside the request: messages by hash, which of the hashes are kept, readings of the clock by call,
    activations by how they stand in a block, the tools the run named."""

    bodies: Mapping[str, Mapping[str, Any]]
    kept: frozenset[str]
    receipts: Mapping[str, int]
    activations: Mapping[str, str]
    tools: tuple[str, ...]


def window_of(n_messages: int, start: int | None) -> range:
    """Return the positions that are shown: the last ones, or those from `start` on."""
    first = max(0, n_messages - WINDOW) if start is None else min(max(0, start), max(0, n_messages - 1))
    return range(first, min(n_messages, first + WINDOW))


def build_request(
    told: Told, befores: Sequence[Before | None], place: Place, around: Around, start: int | None = None
) -> RequestView:
    """Return the page of a request. `befores` are the request it is compared with, and the one of the run before."""
    messages = {position: _filled(entry, around.bodies) for position, entry in told.placed()}
    lost = dict.fromkeys(hash_ for entry in told.entries if (hash_ := said(entry, "hash")) not in around.kept)
    missing = (*told.missing, *lost)
    in_order = list(messages.values())
    problems = check_protocol(in_order) if told.is_whole and not missing else ()
    surroundings = Surroundings(
        tools=tools_of_calls(in_order),
        receipts=around.receipts,
        activations=around.activations,
        problems=_by_position(problems),
        lost=frozenset(lost),
        is_whole=not told.missing,
    )
    window = window_of(told.n_messages, start)
    new = [message for message in in_order if message.get("is_new") is True]
    data = told.data
    n_tools = counted(data, "n_tools")
    prefix, earlier_run = (_prefix(told, before, in_order, around.bodies) for before in befores)
    parts = _parts(in_order, window, surroundings) if told.is_whole else _one_part(messages, window, surroundings, told)
    return RequestView(
        told=told,
        place=place,
        parts=parts,
        n_messages=told.n_messages,
        n_told=counted(data, "n_messages"),
        tokens_told=counted(data, "tokens"),
        tokens=sum(map(message_tokens, in_order)) if told.is_whole else counted(data, "tokens"),
        n_new=len(new),
        new_tokens=sum(map(message_tokens, new)),
        prefix=prefix,
        earlier_run=earlier_run,
        problems=problems[:LISTED],
        n_problems=len(problems),
        missing=missing[:LISTED],
        n_missing=len(missing),
        why_missing=said(data, "messages_missing"),
        tools=() if data.get("finale") is True or n_tools == 0 else around.tools,
        n_tools=n_tools,
        is_finale=data.get("finale") is True,
        is_request=told.kind == REQUEST_TYPE,
        first=window.start + 1 if window else 0,
        last=window.stop,
        earlier=max(0, window.start - WINDOW) if window.start else None,
        later=window.stop if window.stop < told.n_messages else None,
    )


def _filled(entry: Mapping[str, Any], bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {**entry, **bodies.get(said(entry, "hash"), {"text": ""})}


def _by_position(problems: Iterable[Problem]) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = {}
    for problem in problems:
        found.setdefault(problem.position, []).append(problem.text)
    return {position: tuple(texts[:LISTED]) for position, texts in found.items()}


def _prefix(
    told: Told, before: Before | None, messages: Sequence[Message], bodies: Mapping[str, Mapping[str, Any]]
) -> Prefix | None:
    shared = same_prefix(told, before.told) if before is not None else None
    if before is None or shared is None:
        return None
    tokens, total = _tokens_of(told, shared, messages)
    if tokens is None or total is None:
        return None
    tools = counted(told.data, "n_tools"), counted(before.told.data, "n_tools")
    was, now = shared.was, shared.now
    return Prefix(
        event_id=before.told.event_id,
        run_id=before.run_id,
        n_messages=shared.n_messages,
        tokens=tokens,
        share=round(100 * tokens / total) if total else 0,
        n_before=shared.n_before,
        break_at=shared.n_messages if shared.n_messages < shared.n_before else None,
        was=_said_by(_filled(was, bodies)) if was is not None else "",
        now=_said_by(_filled(now, bodies)) if now is not None else "",
        has_other_tools=None not in tools and tools[0] != tools[1],
    )


def _tokens_of(told: Told, shared: Shared, messages: Sequence[Message]) -> tuple[int | None, int | None]:
    """Return the tokens of what is shared and of all: counted, or of a request that was not read whole as reported."""
    if told.is_whole:
        counts = [message_tokens(message) for message in messages]
        return sum(counts[: shared.n_messages]), sum(counts)
    total = counted(told.data, "tokens")
    new = sum(message_tokens(message) for message in messages if message.get("is_new") is True)
    return (max(0, total - new), total) if total is not None else (None, None)


def _said_by(message: Message) -> str:
    return f"{said(message, 'role') or 'message'}: {gist_of(message)}"


def _parts(messages: Sequence[Message], window: range, around: Surroundings) -> tuple[Part, ...]:
    """Return system, history and this turn, with those of their messages that are in the window."""
    n_system = next((i for i, message in enumerate(messages) if said(message, "role") not in SYSTEM), len(messages))
    turn = max(n_system, _start_of_turn(messages))
    bounds = (
        ("System", "rules and profile", range(n_system)),
        ("History", "what was said before this turn", range(n_system, turn)),
        ("This turn", "what was asked, and all that followed", range(turn, len(messages))),
    )
    return tuple(
        Part(
            name=name,
            meaning=meaning,
            messages=tuple(show_message(messages[i], i, around) for i in places if i in window),
            n_messages=len(places),
            tokens=sum(message_tokens(messages[i]) for i in places),
        )
        for name, meaning, places in bounds
    )


def _one_part(messages: Mapping[int, Message], window: range, around: Surroundings, told: Told) -> tuple[Part, ...]:
    """Return the window of a request that was not read whole: where its turn begins is not known."""
    shown = tuple(show_message(messages[place], place, around) for place in window if place in messages)
    return (Part("Messages", "of all its parts", shown, told.n_messages, counted(told.data, "tokens")),)


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Return the position of what was asked last: by its origin, else the last that the user said."""
    by_origin = [i for i, message in enumerate(messages) if said(message, "origin") in THIS_TURN]
    if by_origin:
        return by_origin[-1]
    asked = [i for i, one in enumerate(messages) if said(one, "role") == "user" and said(one, "origin") not in NOT_SAID]
    return asked[-1] if asked else 0
