"""One message of a request as a person reads it: its origin, its marked pieces, its calls, what it answers. Pure.

(Seed 001 §16.3, seed 002.)
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from contract.hint_block import attribute
from contract.stages import MESSAGE_ORIGINS
from contract.state_block import TextPiece, split_user_text
from debugger.queries.event_detail import Text, shown_text
from debugger.queries.pieces import PREVIEW, arguments_gist, counted, one_line, plural, said
from knowledge import event_data as read

GIST: Final = 160
CALLS_SHOWN: Final = 32  # of one message
BLOCK: Final = re.compile(r'<temporality\.memory activation="([^"\n]{1,400})"')
HINT_ORIGINS: Final = ("hints", "priming")
ORIGIN_WORDS: Final = {
    "hints": "runtime hint",
    "tool": "tool reply",
    "model": "reply of the model",
    "operation": "operation news",
    "finale": "finale note",
}
PIECE_WORDS: Final = {
    "date": "date line",
    "header": "state block",
    "time": "time line",
    "mode": "mode",
    "cut": "cut line",
    "pending": "asked for",
    "running": "still running",
}
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Marked:
    """A stretch of a message's text; `label` says what it is where it is a line of the program's own."""

    kind: str
    label: str
    text: Text


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call that a message makes."""

    name: str
    call_id: str
    arguments: Text


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message. `number` is its place from 1, None where what stands before it is not known to be whole.

    `tool` and `call_id` name the call it answers, `activations` those whose hints it holds.

    `n_left` counts the code points and `n_more` the calls that are not shown. `tone` is new, block or kept.
    """

    number: int | None
    role: str
    origin: str
    meaning: str
    tone: str
    tokens: int
    gist: str
    marked: tuple[Marked, ...]
    n_left: int
    calls: tuple[ShownCall, ...]
    n_more: int
    call_id: str
    tool: str
    ending: str
    n_receipts: int
    activations: tuple[str, ...]
    is_new: bool
    is_lost: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known around the messages: the tool of each call, time receipts by call, activations of the run by their
    ids as they stand in a block, problems by position, hashes whose text is not kept, whether no message lacks."""

    tools: Mapping[str, str] = field(default_factory=dict)
    receipts: Mapping[str, int] = field(default_factory=dict)
    activations: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    is_whole: bool = True


def activations_in_blocks(activation_ids: Iterable[str]) -> dict[str, str]:
    """Return the ids of activations by how they stand in a block."""
    return {attribute(activation_id): activation_id for activation_id in activation_ids}


def tools_of_calls(messages: Iterable[Message]) -> dict[str, str]:
    """Return call id -> the name of the tool that was called."""
    calls = (call for message in messages for call in read.entries(message, "calls"))
    return {call_id: said(call, "name") for call in calls if (call_id := said(call, "call_id"))}


def message_tokens(message: Message) -> int:
    """Return the tokens of a message: as it was reported, else estimated as the kernel does."""
    told = counted(message, "tokens")
    if told is not None and told >= 0:
        return told
    is_cut = counted(message, "n_text") is not None
    return estimated(text_length(message)) + sum(
        estimated(len(said(call, "name")) + _arguments_length(call, is_cut=is_cut))
        for call in read.entries(message, "calls")
    )


def estimated(length: int) -> int:
    """Return the tokens of a text of so many code points, as `contract.text.estimate_tokens` has them."""
    return -(-length // 4)


def text_length(message: Message) -> int:
    """Return the code points of a message's text, of one that was read cut those of the whole."""
    told = counted(message, "n_text")
    return len(said(message, "text")) if told is None else told


def _arguments_length(call: Message, *, is_cut: bool) -> int:
    told = counted(call, "n_arguments") if is_cut else None
    return len(said(call, "arguments")) if told is None else told


def show_message(message: Message, position: int, around: Surroundings) -> ShownMessage:
    """Return a message as it is shown; its texts are cut, data URIs are chips."""
    origin, call_id = said(message, "origin"), said(message, "call_id")
    is_lost = said(message, "hash") in around.lost
    calls = read.entries(message, "calls")
    is_cut = counted(message, "n_text") is not None
    marked, n_left = _marked(message)
    activations = _activations(message, around) if origin in HINT_ORIGINS else ()
    return ShownMessage(
        number=position + 1 if around.is_whole else _told_number(message),
        role=one_line(said(message, "role"), 24) or "no role",
        origin=ORIGIN_WORDS.get(origin, one_line(origin, 40)),
        meaning=MESSAGE_ORIGINS.get(origin, ""),
        tone="block" if origin in HINT_ORIGINS else "new" if message.get("is_new") is True else "kept",
        tokens=message_tokens(message),
        gist="its text did not arrive or was forgotten" if is_lost else gist_of(message),
        marked=marked,
        n_left=n_left + text_length(message) - len(said(message, "text")),
        calls=tuple(_call(call, is_cut=is_cut) for call in calls[:CALLS_SHOWN]),
        n_more=max(0, len(calls) - CALLS_SHOWN),
        call_id=call_id,
        tool=around.tools.get(call_id, "") if call_id else "",
        ending=_ending(message),
        n_receipts=around.receipts.get(call_id, 0) if call_id else 0,
        activations=activations,
        is_new=message.get("is_new") is True,
        is_lost=is_lost,
        problems=around.problems.get(position, ()),
    )


def _told_number(message: Message) -> int | None:
    told = counted(message, "position")
    return told + 1 if told is not None and told >= 0 else None


def gist_of(message: Message) -> str:
    """Return a message on one line: what it says, without the program's own lines, and what it calls."""
    text = said(message, "text")
    if said(message, "role") == "user":
        own = [piece.text for piece in split_user_text(text[:PREVIEW]) if piece.kind == "text"]
        text = " ".join(own) if any(map(str.strip, own)) else text
    if said(message, "origin") in HINT_ORIGINS:  # its first rule: the lines around it are always the same
        text = next((line[2:] for line in text[:PREVIEW].splitlines() if line.startswith("- ")), text)
    line = one_line(text, GIST)
    calls = read.entries(message, "calls")
    if not calls:
        return line or "(empty)"
    names = ", ".join(f"{said(call, 'name')} {arguments_gist(said(call, 'arguments'))}" for call in calls[:4])
    more = f" and {plural(len(calls) - 4, 'more call')}" if len(calls) > 4 else ""  # noqa: PLR2004
    return " → ".join(filter(None, (line, one_line(names, GIST) + more)))


def _ending(message: Message) -> str:
    """Return how the call ended that a reply answers, and its code, as far as the message says so."""
    return " · ".join(one_line(word, 60) for name in ("status", "code") if (word := said(message, name)))


def _marked(message: Message) -> tuple[tuple[Marked, ...], int]:
    """Return the text in pieces, and how many of its code points are left out."""
    text = said(message, "text")
    pieces = split_user_text(text[:PREVIEW]) if said(message, "role") == "user" else ()
    if all(piece.kind == "text" for piece in pieces):
        shown = shown_text("text", text)
        return ((Marked("text", "", shown),), shown.n_left) if text else ((), 0)
    return tuple(_pieces(pieces)), max(0, len(text) - PREVIEW)


def _pieces(pieces: Iterable[TextPiece]) -> Iterator[Marked]:
    for piece in pieces:
        if text := piece.text.strip("\n"):
            yield Marked(piece.kind, PIECE_WORDS.get(piece.kind, ""), shown_text(piece.kind, text))


def _call(call: Message, *, is_cut: bool) -> ShownCall:
    arguments = said(call, "arguments")
    shown = shown_text("arguments", arguments)
    n_left = shown.n_left + _arguments_length(call, is_cut=is_cut) - len(arguments)
    return ShownCall(
        name=one_line(said(call, "name"), 120) or "no name",
        call_id=one_line(said(call, "call_id"), 120),
        arguments=replace(shown, n_left=n_left),
    )


def _activations(message: Message, around: Surroundings) -> tuple[str, ...]:
    named = (found[1] for found in BLOCK.finditer(said(message, "text")))
    return tuple(dict.fromkeys(around.activations[name] for name in named if name in around.activations))
