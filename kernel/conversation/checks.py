"""Decides whether the conversation of a run's spec, or a line of a conversation's file, may be used. Pure.

What is wrong is named with the field, the limit and the fix; nothing that was said is repeated. (Seed 002.)
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, get_args

from kernel.conversation.records import ASSISTANT, Heard, HeardKind, Record, Summary, time_problem
from kernel.messages import Conversation

ID_LIMIT: Final = 200  # characters of ids, sources and the mode
TEXT_LIMIT: Final = 1_000_000  # characters of a row
PENDING_LIMIT: Final = 1_000  # characters of what waits for a yes
PROFILE_LINES: Final = 100
PROFILE_BYTES: Final = 8_192  # of all lines together
MOST_RUNNING: Final = 10**6
SOURCE: Final = re.compile(r"[^\s:\[\]]+")
HASH: Final = re.compile(r"[0-9a-f]{64}")
KINDS: Final[Mapping[str, type[Record | Summary | Heard]]] = {"record": Record, "summary": Summary, "heard": Heard}


class LineError(ValueError):
    """A line of a conversation's file that cannot be used; the text says why."""


def conversation_problems(talk: Conversation) -> Iterator[str]:
    """Yield what is wrong with the conversation of a spec and how to put it right."""
    yield from id_problems("conversation.conversation_id", talk.conversation_id)
    yield from _source_problems("conversation.owner", talk.owner)
    if talk.owner == ASSISTANT:
        yield f"conversation.owner is {ASSISTANT!r}, the source of the answers: name the person otherwise"
    for name in ("history_since", "said_at"):
        problem = time_problem(getattr(talk, name)) if getattr(talk, name) else ""
        if problem:
            yield f"conversation.{name} {problem}"
    for name, limit in (("mode", ID_LIMIT), ("pending", PENDING_LIMIT)):
        length = len(getattr(talk, name))
        if length > limit:
            yield f"conversation.{name} has {length} characters; the limit is {limit}: shorten it"
    if not 0 <= talk.running <= MOST_RUNNING:
        yield f"conversation.running is {talk.running}; it must be from 0 to {MOST_RUNNING}"
    count = len(talk.profile)
    if count > PROFILE_LINES:
        yield f"conversation.profile has {count} lines; the limit is {PROFILE_LINES}: keep those that matter"
    size = sum(len(line.encode("utf-8", "replace")) for line in talk.profile)
    if size > PROFILE_BYTES:
        yield f"conversation.profile has {size} bytes; the limit is {PROFILE_BYTES}: shorten it"


def read_part(line: str) -> Record | Summary | Heard:
    """Return what one line of a conversation's file holds: an object with one key, record, summary or heard.

    Raises LineError.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise LineError("it is not JSON") from None
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in KINDS:
        raise LineError(f"it must be an object with one key, one of {', '.join(KINDS)}")
    [(kind, body)] = value.items()
    part = _built(kind, body)
    problem = next(part_problems(part), "")
    if problem:
        raise LineError(f"{kind}: {problem}")
    return part


def part_problems(part: Record | Summary | Heard) -> Iterator[str]:
    """Yield what is wrong with a record, a summary or a report."""
    if len(part.text) > TEXT_LIMIT:
        yield f"text has {len(part.text)} characters; the limit is {TEXT_LIMIT}: shorten it"
    if isinstance(part, Summary):
        yield from id_problems("anchor", part.anchor)
        return
    yield from id_problems("record_id", part.record_id)
    problem = time_problem(part.at)
    if problem:
        yield f"at {problem}"
    if isinstance(part, Record):
        yield from _source_problems("source", part.source)
    else:
        yield from _heard_problems(part)


def _heard_problems(heard: Heard) -> Iterator[str]:
    if heard.kind not in get_args(HeardKind):
        yield f"kind must be one of {', '.join(get_args(HeardKind))}"
    if (heard.kind == "played" or heard.text_sha256) and not HASH.fullmatch(heard.text_sha256):
        yield "text_sha256 must be the SHA-256 of the whole spoken text, as 64 hexadecimal digits in small letters"


def _built(kind: str, body: Any) -> Record | Summary | Heard:
    names = [field.name for field in fields(KINDS[kind])]
    if not isinstance(body, dict) or not all(isinstance(value, str) for value in body.values()):
        raise LineError(f"{kind} must be an object of texts")
    strange = [name for name in body if name not in names]
    if strange:
        raise LineError(f"{kind} has a field that is unknown; there are: {', '.join(names)}")
    try:
        return KINDS[kind](**body)
    except TypeError:
        raise LineError(f"{kind} lacks a field; there are: {', '.join(names)}") from None


def id_problems(name: str, text: str) -> Iterator[str]:
    """Yield what keeps a text from being an id; `name` is the field it stands in."""
    if not text.strip() or not text.isprintable() or len(text) > ID_LIMIT:
        yield f"{name} must be a printable text of 1 to {ID_LIMIT} characters"


def _source_problems(name: str, text: str) -> Iterator[str]:
    if not SOURCE.fullmatch(text) or not text.isprintable() or len(text) > ID_LIMIT:
        yield f"{name} must be 1 to {ID_LIMIT} characters without spaces, colons and brackets"
