"""A foreign span as a person reads it: its times as sent, attributes, events, links, resource, and their origin.

What was moved out of the attributes into a field of ours is listed with the attribute it came from. Pure.
(Seed 001 §13, §14.)
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.event_detail import MESSAGES, Text, shown_text
from ingest.journal import JournalEvent
from knowledge import event_data as read
from knowledge.spans import end_of, is_open, span_of

LISTED: Final = 200  # attributes, events, links and messages listed of one span
FACTS: Final = ("kind", "span_kind", "status", "status_message", "trace_id", "schema_url")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something noted while a span ran, an exception above all; `offset_ns` counts from the span's start."""

    name: str
    offset_ns: int | None
    texts: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class SpanDetail:
    """What the panel shows of a span beside its event's own data. `n_more` counts attributes beyond those listed."""

    facts: tuple[tuple[str, str], ...]
    messages: tuple[Text, ...]
    attributes: tuple[Text, ...]
    n_more: int
    moved: tuple[tuple[str, str], ...]
    events: tuple[SpanEvent, ...]
    links: tuple[str, ...]
    resource: tuple[Text, ...]
    is_resource_lost: bool


def hashes_of(event: JournalEvent) -> list[str]:
    """Return the hashes of what a span keeps in the message store: its resource and its messages."""
    if not read.mapping(event.data, "span"):
        return []
    messages = (read.text(entry, "hash") for entry in read.entries(event.data, MESSAGES)[:LISTED])
    return [name for name in (read.text(span_of(event), "resource"), *messages) if name]


def describe_span(event: JournalEvent, bodies: Mapping[str, Mapping[str, Any]]) -> SpanDetail | None:
    """Return a span for its panel, or None for an event of any other source; `bodies` are from the message store."""
    span = span_of(event)
    if not span:
        return None
    attributes = read.mapping(span, "attributes")
    resource = read.text(span, "resource")
    stored = bodies.get(resource, {})
    inner = stored.get("attributes")
    return SpanDetail(
        facts=tuple(_facts(event, span)),
        messages=tuple(_messages(event, bodies)),
        attributes=_texts(attributes),
        n_more=max(0, len(attributes) - LISTED),
        moved=tuple((str(field), _word(key)) for field, key in sorted(read.mapping(span, "moved").items())),
        events=tuple(_event(entry, event.occurred_ns) for entry in read.entries(span, "events")[:LISTED]),
        links=tuple(_word(link) for link in read.entries(span, "links")[:LISTED]),
        resource=_texts(inner if isinstance(inner, Mapping) else stored),
        is_resource_lost=bool(resource) and resource not in bodies,
    )


def _facts(event: JournalEvent, span: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name in FACTS:
        if value := read.text(span, name):
            yield name, value
    scope = read.mapping(span, "scope")
    if scope:
        yield "scope", " ".join(_word(scope[name]) for name in ("name", "version") if scope.get(name))
    yield "start as sent", _raw(span, "start_time_unix_nano", event.occurred_ns)
    yield "end as sent", "not ended" if is_open(event) else _raw(span, "end_time_unix_nano", event.ended_ns)
    if event.ended_ns is not None and not is_open(event) and end_of(event) != event.ended_ns:
        yield "drawn as", "without length: its end cannot be"
    for name, value in span.items():
        if name.startswith("dropped_") and value:
            yield name, _word(value)


def _raw(span: Mapping[str, Any], name: str, column: int | None) -> str:
    return f"{span.get(name, column)} ns"


def _messages(event: JournalEvent, bodies: Mapping[str, Mapping[str, Any]]) -> Iterable[Text]:
    for entry in read.entries(event.data, MESSAGES)[:LISTED]:
        body = bodies.get(read.text(entry, "hash"), entry)
        text, calls = read.text(body, "text"), body.get("calls")
        asked = json.dumps(calls, ensure_ascii=False) if isinstance(calls, list) and calls else ""
        shown = "\n".join(part for part in (text, asked) if part) or "its text is not kept"
        yield shown_text(read.text(body, "role") or read.text(entry, "role") or "message", shown)


def _texts(attributes: Mapping[str, Any]) -> tuple[Text, ...]:
    return tuple(shown_text(str(name), _word(attributes[name])) for name in sorted(attributes, key=str)[:LISTED])


def _event(entry: Mapping[str, Any], start_ns: int) -> SpanEvent:
    at = entry.get("time_unix_nano")
    offset = at - start_ns if isinstance(at, int) and not isinstance(at, bool) else None
    return SpanEvent(read.text(entry, "name") or "event", offset, _texts(read.mapping(entry, "attributes")))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
