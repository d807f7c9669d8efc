"""Owns what a conversation consists of: records in the order they were written, the summary, reports of what was heard.

A record's `at` is an RFC 3339 text with the offset of the place where it was said: its day is read from that, never
from a clock of ours. (Seed 002.)
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

ASSISTANT: Final = "assistant"  # the source of the answers that the kernel itself writes
LOCAL_TIME: Final = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?"
OFFSET: Final = r"(?:[Zz]|[+-]\d\d:[0-5]\d)"
TIME: Final = re.compile(LOCAL_TIME + OFFSET, re.ASCII)

# What is reported of an answer: the text that was given to the voice, a part that was played, a person breaking in.
HeardKind = Literal["spoken", "played", "interrupted"]


class ConversationError(ValueError):
    """A conversation whose parts do not fit together; the text names the part and repeats nothing of what was said."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a conversation: who said what and when. Its place is the order of insertion, not its time."""

    record_id: str
    at: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for all records up to and including the one with the id `anchor`."""

    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Heard:
    """One report about the spoken answer of a record: `at` is when it happened, whenever it arrived.

    "spoken": `text` is what the voice was given, where that is not the record's own text. "played": `text` is the
    part that had been played by then, `text_sha256` the hash of the whole. "interrupted": a person broke in.
    """

    record_id: str
    kind: HeardKind
    at: str
    text: str = ""
    text_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ConversationView:
    """What was known of a conversation at one moment, each part in the order it arrived."""

    records: tuple[Record, ...] = ()
    summary: Summary | None = None
    heard: tuple[Heard, ...] = ()


def read_time(text: str) -> datetime:
    """Return the moment an RFC 3339 text with an offset names. Raises ConversationError."""
    problem = time_problem(text)
    if problem:
        raise ConversationError(f"a time {problem}")
    return datetime.fromisoformat(text.upper())


def time_problem(text: str) -> str:
    """Return what keeps a text from being an RFC 3339 time with an offset, or an empty string."""
    if TIME.fullmatch(text):
        try:
            datetime.fromisoformat(text.upper())
        except ValueError:
            pass
        else:
            return ""
    return "must be an RFC 3339 time with an offset, for example 2026-09-24T18:05:00+08:00"
