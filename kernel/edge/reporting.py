"""Turns the core's events into what ingest takes: message bodies are fetched from the transcript only here."""

import json
from collections.abc import Sequence
from typing import Any, Final

from contract.redaction import redact, redact_value
from kernel.drivers.rendering import message_hash
from kernel.edge.model_call import message_tokens
from kernel.edge.transcript import TranscriptGap, TranscriptStore
from kernel.messages import Event, Message, SendEvents

RUN_FIELDS: Final = ("run_id", "task_id", "actor_id", "parent_run_id", "team_root")
EVENT_FIELDS: Final = (
    "event_id", "type", "seq", "turn", "caused_by", "call_id", "operation_id", "activation_id", "hint_id",
    "knowledge_id", "tool", "mcp_server",
)  # fmt: skip


async def wire_events(store: TranscriptStore, command: SendEvents) -> list[dict[str, Any]]:
    """Return the command's events as JSON objects of the ingest API, redacted, messages filled in."""
    shared = {name: value for name in RUN_FIELDS if (value := getattr(command, name))}
    events = []
    for event in command.events:
        wire = shared | {name: value for name in EVENT_FIELDS if (value := getattr(event, name)) is not None}
        wire["occurred_at_unix_nano"] = event.occurred_ns
        data = redact_value(json.loads(event.data))[0]
        wire["data"] = data | await _new_messages(store, command.run_id, event)
        events.append(wire)
    return events


async def _new_messages(store: TranscriptStore, run_id: str, event: Event) -> dict[str, Any]:
    """Return the messages a request added; one that cannot be read is reported without them."""
    if event.messages_from is None or event.messages_to is None:
        return {}
    try:
        messages = await store.read(run_id, event.messages_to, event.messages_from)
    except TranscriptGap as gap:
        return {"messages_missing": str(gap)}
    return {"new_messages": message_bodies(messages, event.messages_from)}


def message_bodies(messages: Sequence[Message], start: int) -> list[dict[str, Any]]:
    """Return messages as reported: redacted text, the hash of what was sent, position and estimated tokens."""
    return [_body(message, position) for position, message in enumerate(messages, start)]


def _body(message: Message, position: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "role": message.role,
        "text": redact(message.text)[0],
        "origin": message.origin,
        "hash": message_hash(message),
        "tokens": message_tokens(message),
        "position": position,
    }
    if message.call_id is not None:
        body["call_id"] = message.call_id
    if message.calls:
        body["calls"] = [
            {"call_id": call.call_id, "name": call.name, "arguments": redact(call.arguments)[0]}
            for call in message.calls
        ]
    return body
