"""Turns the core's events into what ingest takes: message bodies are fetched from the transcript only here."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import orjson

from kernel.drivers.rendering import message_hash
from kernel.edge.clean_text import clean, clean_fields
from kernel.edge.histories import message_tokens
from kernel.edge.transcript import TranscriptGap, TranscriptStore
from kernel.messages import Message, SendEvents

RUN_FIELDS: Final = ("run_id", "task_id", "actor_id", "parent_run_id", "team_root")
EVENT_FIELDS: Final = (
    "event_id", "type", "seq", "turn", "caused_by", "call_id", "operation_id", "activation_id", "hint_id",
    "knowledge_id", "tool", "mcp_server",
)  # fmt: skip
_values_of: Final = attrgetter(*EVENT_FIELDS)


async def wire_events(store: TranscriptStore, command: SendEvents) -> list[dict[str, Any]]:
    """Return the command's events as JSON objects of the ingest API, redacted, messages filled in."""
    shared = {name: value for name in RUN_FIELDS if (value := getattr(command, name))}
    events = []
    for event in command.events:
        fields = zip(EVENT_FIELDS, _values_of(event), strict=True)
        wire = shared | {name: value for name, value in fields if value is not None}
        wire["occurred_at_unix_nano"] = event.occurred_ns
        data = clean_fields(_read(event.data))
        if event.messages_from is not None and event.messages_to is not None:
            data |= await _new_messages(store, command.run_id, event.messages_from, event.messages_to)
        wire["data"] = data
        events.append(wire)
    return events


def _read(text: str) -> dict[str, Any]:
    value: dict[str, Any]
    try:
        value = orjson.loads(text)
    except ValueError:  # half a surrogate pair, which JSON text can hold and UTF-8 cannot
        value = json.loads(text)
    return value


async def _new_messages(store: TranscriptStore, run_id: str, start: int, stop: int) -> dict[str, Any]:
    """Return the messages a request added; one that cannot be read is reported without them."""
    try:
        messages = await store.read(run_id, stop, start)
    except TranscriptGap as gap:
        return {"messages_missing": str(gap)}
    return {"new_messages": message_bodies(messages, start)}


def message_bodies(messages: Sequence[Message], start: int) -> list[dict[str, Any]]:
    """Return messages as reported: redacted text, the hash of what was sent, position and estimated tokens."""
    return [_body(message, position) for position, message in enumerate(messages, start)]


def _body(message: Message, position: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "role": message.role,
        "text": clean(message.text),
        "origin": message.origin,
        "hash": message_hash(message),
        "tokens": message_tokens(message),
        "position": position,
    }
    if message.call_id is not None:
        body["call_id"] = message.call_id
    if message.status:
        body["status"] = message.status
    if message.code:
        body["code"] = message.code
    if message.calls:
        body["calls"] = [
            {"call_id": call.call_id, "name": call.name, "arguments": clean(call.arguments)} for call in message.calls
        ]
    return body
