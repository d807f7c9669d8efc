"""A model request rebuilt: its parts, what is new since the request before it, and what of it a cache could keep. Pure.

(Seed 001 §14, §16.3; seed 002.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.pieces import counted, said
from debugger.queries.request_message import (
    Message,
    ShownMessage,
    Surroundings,
    activations_in_blocks,
    gist_of,
    message_tokens,
    show_message,
    tools_of_calls,
)
from debugger.queries.request_protocol import SYSTEM, Problem, check_protocol
from debugger.queries.rows import Row
from ingest.journal import JournalEvent
from ingest.model_requests import MESSAGE_TYPES, REQUEST_TYPE, follow_requests

WINDOW: Final = 100  # messages shown at once
LISTED: Final = 20  # problems, missing parts and tools named
THIS_TURN: Final = ("task", "utterance")
NOT_SAID: Final = ("finale", "record", "summary")  # origins of user messages that begin no turn


@dataclass(frozen=True, slots=True)
class Told:
    """A request as its events tell it: references of its messages in order, and what its chain lacks."""

    event: JournalEvent
    entries: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A request among those of its run; `number` counts from 1. What does not exist is ""."""

    number: int
    n_requests: int
    previous_id: str
    next_id: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a request shares with the one before it, from the first message on: what a provider's cache could keep.

    `break_at` is the position of the first message of the request before that is not here (None: all of it is), `was`
    and `now` what stands there. `has_other_tools` where the number of tools changed, which stand ahead of the messages.
    """

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
    tokens: int


@dataclass(frozen=True, slots=True)
class RequestView:
    """Everything the page says of a request. `prefix` is None where there is nothing to compare it with.

    `first` and `last` are the shown positions, counted from 1; `earlier` and `later` where other windows begin.
    """

    event: JournalEvent
    place: Place
    parts: tuple[Part, ...]
    n_messages: int
    n_told: int | None
    tokens_told: int | None
    tokens: int
    n_new: int
    new_tokens: int
    prefix: Prefix | None
    problems: tuple[Problem, ...]
    n_problems: int
    missing: tuple[str, ...]
    n_missing: int
    why_missing: str
    tools: tuple[str, ...]
    n_tools: int | None
    is_finale: bool
    first: int
    last: int
    earlier: int | None
    later: int | None

    @property
    def n_more_tools(self) -> int:
        return max(0, (self.n_tools or 0) - len(self.tools))


def model_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of requests in the order they were made."""
    found = [row for row in rows if row.kind == "model"]
    return sorted(found, key=lambda row: row.start_ns) if any(row.is_span for row in found) else found


def place_of(rows: Sequence[Row], event_id: str) -> tuple[str, Place] | None:
    """Return the event that tells the request `event_id` belongs to, and its place; None where it is no request."""
    found = next((index for index, row in enumerate(rows) if event_id in row.event_ids), None)
    if found is None:
        return None
    before, after = rows[:found][-1:], rows[found + 1 :][:1]
    previous_id, next_id = ("".join(row.event_id for row in beside) for beside in (before, after))
    return rows[found].event_id, Place(found + 1, len(rows), previous_id, next_id)


def told_request(events: Mapping[str, JournalEvent], event_id: str) -> Told | None:
    """Return what the events of a run tell of a request, or None where that event is not there or tells of none."""
    event = events.get(event_id)
    if event is None or event.type not in MESSAGE_TYPES:
        return None
    requests = {one.event_id: one.data for one in events.values() if one.type == REQUEST_TYPE}
    entries, missing = follow_requests({**requests, event_id: event.data}, event_id)
    return Told(event, tuple(entries), missing)


def previous_of(told: Told, place: Place) -> str:
    """Return the request to compare with: the one it says it follows, else the one before it in the run."""
    return said(told.event.data, "follows") or place.previous_id


def hashes_wanted(told: Told, before: Told | None) -> set[str]:
    """Return the hashes of the messages whose texts are shown: its own, and the one where the prefix broke."""
    wanted = {said(entry, "hash") for entry in told.entries}
    if before is not None and (place := _shared(told, before)) < len(before.entries):
        wanted.add(said(before.entries[place], "hash"))
    return wanted


def build_request(
    told: Told,
    before: Told | None,
    place: Place,
    bodies: Mapping[str, Mapping[str, Any]],
    events: Iterable[JournalEvent],
    activation_ids: Iterable[str],
    start: int | None = None,
) -> RequestView:
    """Return the page of a request; `bodies` are messages by hash, `start` the first position of the window."""
    events = list(events)
    messages = _filled(told, bodies)
    lost = dict.fromkeys(hash_ for entry in told.entries if (hash_ := said(entry, "hash")) not in bodies)
    missing = (*told.missing, *lost)
    problems = check_protocol(messages) if not missing else ()
    around = Surroundings(
        tools=tools_of_calls(messages),
        receipts=_receipts(events),
        activations=activations_in_blocks(activation_ids),
        problems=_by_position(problems),
        lost=frozenset(lost),
        is_whole=not told.missing,
    )
    first = max(0, len(messages) - WINDOW) if start is None else min(max(0, start), max(0, len(messages) - 1))
    last = min(len(messages), first + WINDOW)
    new = [message for message in messages if message.get("is_new") is True]
    data = told.event.data
    tools, n_tools = _tools(events), counted(data, "n_tools")
    return RequestView(
        event=told.event,
        place=place,
        parts=_parts(messages, range(first, last), around),
        n_messages=len(messages),
        n_told=counted(data, "n_messages"),
        tokens_told=counted(data, "tokens"),
        tokens=sum(map(message_tokens, messages)),
        n_new=len(new),
        new_tokens=sum(map(message_tokens, new)),
        prefix=_prefix(told, before, messages, bodies),
        problems=problems[:LISTED],
        n_problems=len(problems),
        missing=missing[:LISTED],
        n_missing=len(missing),
        why_missing=said(data, "messages_missing"),
        tools=() if data.get("finale") is True or n_tools == 0 else tools,
        n_tools=n_tools,
        is_finale=data.get("finale") is True,
        first=first + 1 if messages else 0,
        last=last,
        earlier=max(0, first - WINDOW) if first else None,
        later=last if last < len(messages) else None,
    )


def _filled(told: Told, bodies: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, **bodies.get(said(entry, "hash"), {"text": ""})} for entry in told.entries]


def _receipts(events: Iterable[JournalEvent]) -> dict[str, int]:
    """Return call id -> how many readings of the clock the call gave."""
    counts: dict[str, int] = {}
    for event in events:
        if event.type == "time.receipt" and event.call_id:
            counts[event.call_id] = counts.get(event.call_id, 0) + 1
    return counts


def _by_position(problems: Iterable[Problem]) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = {}
    for problem in problems:
        found.setdefault(problem.position, []).append(problem.text)
    return {position: tuple(texts[:LISTED]) for position, texts in found.items()}


def _tools(events: Iterable[JournalEvent]) -> tuple[str, ...]:
    started = next((event for event in events if event.type == "run.started"), None)
    names = started.data.get("tools") if started is not None else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _shared(told: Told, before: Told) -> int:
    """Return how many messages, from the first on, two requests share by their hashes."""
    pairs = zip(told.entries, before.entries, strict=False)
    return next(
        (index for index, (one, other) in enumerate(pairs) if one["hash"] != other["hash"]),
        min(len(told.entries), len(before.entries)),
    )


def _prefix(
    told: Told, before: Told | None, messages: Sequence[Message], bodies: Mapping[str, Mapping[str, Any]]
) -> Prefix | None:
    if before is None or told.missing or before.missing or not before.entries or not messages:
        return None
    n_shared, n_before = _shared(told, before), len(before.entries)
    shared, total = sum(map(message_tokens, messages[:n_shared])), sum(map(message_tokens, messages))
    tools = counted(told.event.data, "n_tools"), counted(before.event.data, "n_tools")
    broke = n_shared < n_before
    return Prefix(
        n_messages=n_shared,
        tokens=shared,
        share=round(100 * shared / total) if total else 0,
        n_before=n_before,
        break_at=n_shared if broke else None,
        was=_said_by(_filled(before, bodies)[n_shared]) if broke else "",
        now=_said_by(messages[n_shared]) if broke and n_shared < len(messages) else "",
        has_other_tools=None not in tools and tools[0] != tools[1],
    )


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


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Return the position of what was asked last: by its origin, else the last that the user said."""
    by_origin = [i for i, message in enumerate(messages) if said(message, "origin") in THIS_TURN]
    if by_origin:
        return by_origin[-1]
    asked = [i for i, one in enumerate(messages) if said(one, "role") == "user" and said(one, "origin") not in NOT_SAID]
    return asked[-1] if asked else 0
