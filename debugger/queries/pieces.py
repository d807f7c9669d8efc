"""Sentences of the pages as pieces of text with a tone, and short readings of payload values. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingest.times import LONGEST_NS

# Tones are the class names the style sheet knows; an unknown word gets none.
Tone = str
LONGEST_MS: Final = LONGEST_NS / 1_000_000
PREVIEW: Final = 4_000  # code points of a value shown before it is offered as a download
GIST: Final = 200  # code points of a payload shown in a row
DATA_URI_SHOWN: Final = 120  # data URIs shorter than this are left as they are
DATA_URI: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.=+-]+)*,[A-Za-z0-9+/=%_.~-]*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a sentence. `tone` is "", b, mono, soft, ok, bad, warn, hint, badge …; `href` makes it a link."""

    text: str
    tone: Tone = ""
    href: str = ""


def one_line(text: str, limit: int = GIST) -> str:
    """Return `text` on one line, at most `limit` code points, ending in … when cut."""
    if "data:" in text[: limit * 4]:
        text = DATA_URI.sub(_sized, text)
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _sized(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) <= DATA_URI_SHOWN else f"[{data_uri_words(found)}]"


def data_uri_words(found: re.Match[str]) -> str:
    """Return the kind and size of a data URI that DATA_URI found."""
    return f"{found[1] or 'data'} · {len(found[0]):,} characters"


def plain_text(pieces: Iterable[Piece]) -> str:
    """Return a sentence as plain text: what the filter searches and a screen reader hears."""
    return " ".join(piece.text for piece in pieces)


def said(data: Mapping[str, Any], name: str) -> str:
    """Return a text of an event's data, or an empty string when it is absent or no text."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def counted(data: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of an event's data, or None when it is absent or no number."""
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def measured(data: Mapping[str, Any], name: str) -> float | None:
    """Return a duration of an event's data, or None when it is none or longer than anything is believed to last."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_MS:
        return None
    return float(value)


def arguments_gist(raw: str) -> str:
    """Return a tool call's arguments as a person would type them: a lone text bare, else name=value pairs."""
    try:
        value = json.loads(raw)
    except ValueError:
        return one_line(raw)
    if not isinstance(value, dict):
        return one_line(raw)
    if len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        return one_line(only)
    parts = (f"{name}={inner if isinstance(inner, str) else json.dumps(inner)}" for name, inner in value.items())
    return one_line(" ".join(parts))


def diagnostic_gist(text: str) -> str:
    """Return the line of a diagnostic that says most: the last that names an error, else the last of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in ERROR_WORDS)]
    return one_line((telling or lines or [""])[-1])


ERROR_WORDS: Final = ("error", "fatal", "failed", "denied", "refused", "cannot", "not found", "no such", "not a ")


def plural(n: int, word: str) -> str:
    """Return a count with its noun: 1 hint, 2 hints, 1,204 hints."""
    return f"{n:,} {word if n == 1 else word + 's'}"
