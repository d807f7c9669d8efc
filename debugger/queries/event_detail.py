"""One event as a person reads it: its envelope, and its data pretty-printed, cut and with data URIs as chips. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from contract.events import EVENT_TYPES, ID_FIELDS
from debugger.queries.pieces import DATA_URI, DATA_URI_SHOWN, PREVIEW, data_uri_words
from debugger.queries.runs import moment
from ingest.journal import JournalEvent
from knowledge import event_data as read

LINE: Final = 80  # code points of a text that may stand among the short values
MESSAGES: Final = "new_messages"
TOLD_BY_SPANS: Final = ("span", MESSAGES)
PROSE: Final = ("task", "answer", "text", "query", "arguments", "result", "detail", "error")
UNKNOWN_TYPE: Final = "This type is not known here: it is kept and shown, nothing is derived from it."
OWN_SEARCH: Final = "The application searched by itself."
SHOWN_ELSEWHERE: Final = ("event_id", "run_id", "type")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of shown text; a chip stands for a data URI and says its kind and size."""

    text: str
    is_chip: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A shown value with its name; `n_left` counts the code points that the preview leaves out."""

    name: str
    parts: tuple[Part, ...]
    n_left: int

    @property
    def is_long(self) -> bool:
        """Tell whether it reads better on lines of its own than in a table."""
        text = "".join(part.text for part in self.parts)
        return "\n" in text or len(text) > LINE


@dataclass(frozen=True, slots=True)
class EventDetail:
    """One event. `texts` are the values that have lines of their own, and last the rest of its data as JSON."""

    event: JournalEvent
    meaning: str
    occurred_at: datetime | None
    envelope: tuple[tuple[str, str], ...]
    texts: tuple[Text, ...]


def describe(event: JournalEvent) -> EventDetail:
    """Return an event for its panel. Texts of several lines stand apart, so that they keep their lines."""
    known = EVENT_TYPES.get(event.type)
    envelope = [
        (name, str(value)) for name in ID_FIELDS if (value := getattr(event, name)) and name not in SHOWN_ELSEWHERE
    ]
    envelope += [
        (name, f"{value:,}") for name in ("turn", "seq", "arrival") if (value := getattr(event, name)) is not None
    ]
    # What a foreign span said beside its event, and the messages it names, have sections of their own in the panel.
    is_span = isinstance(event.data.get("span"), dict)
    data = {name: value for name, value in event.data.items() if not (is_span and name in TOLD_BY_SPANS)}
    lined = {
        name: _unfolded(value)
        for name, value in data.items()
        if isinstance(value, str) and (_is_long(value) or (is_span and name in PROSE))
    }
    rest = {name: value for name, value in data.items() if name not in lined}
    shown = {**lined, **({"data": pretty(rest)} if rest else {})}
    return EventDetail(
        event=event,
        meaning=OWN_SEARCH if is_span and event.type == "hint.query" else known.doc if known else UNKNOWN_TYPE,
        occurred_at=moment(event.occurred_ns),
        envelope=tuple(envelope),
        texts=tuple(shown_text(name, text) for name, text in shown.items()),
    )


def messages_of(event: JournalEvent) -> list[str]:
    """Return the hashes of the messages that an event names: their texts are in the message store."""
    return [name for entry in read.entries(event.data, MESSAGES) if (name := read.text(entry, "hash"))]


def with_messages(data: Mapping[str, Any], bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return an event's data with the messages it names as far as they are kept; `bodies` are by their hashes."""
    named = data.get(MESSAGES)
    if not isinstance(named, list):
        return dict(data)
    told = [
        {**entry, **bodies.get(read.text(entry, "hash"), {})} if isinstance(entry, Mapping) else entry
        for entry in named
    ]
    return {**data, MESSAGES: told}


def shown_text(name: str, text: str) -> Text:
    """Return a value for the panel: cut, data URIs as chips."""
    parts, n_left = _cut(text)
    return Text(name, tuple(parts), n_left)


def _is_long(value: str) -> bool:
    return "\n" in value or len(value) > LINE or value.startswith(("{", "["))


def _unfolded(value: str) -> str:
    """Return a text as it reads best: JSON in a text, as arguments of calls are, on lines of its own."""
    if not value.startswith(("{", "[")):
        return value
    try:
        return pretty(json.loads(value))
    except ValueError:
        return value


def pretty(data: Any) -> str:
    """Return JSON as a person reads it; invisible characters that could reorder a line are escaped."""
    return visible(json.dumps(data, ensure_ascii=False, indent=2))


def visible(text: str) -> str:
    """Return a text whose lines read in the order they are written: what could reorder them is written out."""
    return REORDERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


REORDERING: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _cut(text: str) -> tuple[list[Part], int]:
    """Return the parts of `text` that are shown, at most PREVIEW code points, and how many follow them.

    A data URI counts as nothing: it becomes a chip.
    """
    parts: list[Part] = []
    left, place = PREVIEW, 0
    for found in (uri for uri in DATA_URI.finditer(text) if len(uri[0]) > DATA_URI_SHOWN):
        plain = text[place : found.start()][:left]
        parts += [Part(plain)] if plain else []
        left -= len(plain)
        place += len(plain)
        if left <= 0:
            return parts, len(text) - place
        parts.append(Part(data_uri_words(found), is_chip=True))
        place = found.end()
    plain = text[place : place + left]
    return [*parts, Part(plain)] if plain else parts, len(text) - place - len(plain)
