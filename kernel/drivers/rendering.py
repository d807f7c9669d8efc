"""How the history is rendered for a provider: the neutral `context` role as its protocol allows, replies untouched.

Never two user messages in a row, never anything between calls and their replies. Pure. (Seed 001 §6.2, §10.2.)
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from kernel.messages import Message

JOIN = "\n\n"


def render_openai(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages in OpenAI chat form: context text becomes a user message, joined to a neighbouring one."""
    rendered: list[dict[str, Any]] = []
    for message in _saying(messages):
        role = "user" if message.role == "context" else message.role
        if role == "user" and rendered and rendered[-1]["role"] == "user":
            rendered[-1]["content"] += JOIN + message.text
        elif role == "tool":
            rendered.append({"role": "tool", "tool_call_id": message.call_id, "content": message.text})
        elif message.calls:
            rendered.append({"role": "assistant", "content": message.text or None, "tool_calls": _calls(message)})
        else:
            rendered.append({"role": role, "content": message.text})
    return rendered


def _saying(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages that say anything: providers refuse an empty assistant message and an empty text block.

    A reply stays also when it is empty: its call awaits it.
    """
    return (_sendable(one) for one in messages if one.text or one.calls or one.role == "tool")


def _sendable(message: Message) -> Message:
    """Return the message with its text as UTF-8 can hold it: half a surrogate pair would stop the whole request."""
    text = _utf8(message.text)
    return message if text == message.text else replace(message, text=text)


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _calls(message: Message) -> list[dict[str, Any]]:
    return [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": _utf8(call.arguments)}}
        for call in message.calls
    ]


def render_blocks(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages in block form (no system, which travels apart): the replies to one assistant message and
    the context after them are blocks of one user message, replies first."""
    rendered: list[dict[str, Any]] = []
    for message in _saying(messages):
        if message.role == "system":
            continue
        if message.role == "assistant":
            rendered.append({"role": "assistant", "content": _assistant_blocks(message)})
            continue
        if message.role == "tool":
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
        else:
            block = {"type": "text", "text": message.text}
        if rendered and rendered[-1]["role"] == "user":
            rendered[-1]["content"].append(block)
        else:
            rendered.append({"role": "user", "content": [block]})
    return rendered


def _assistant_blocks(message: Message) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": message.text}] if message.text else []
    calls = [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": _input(call.arguments)}
        for call in message.calls
    ]
    return [*text, *calls]


def _input(arguments: str) -> dict[str, Any]:
    """Return the arguments as the object a provider takes; what cannot be sent as one goes as text.

    Python reads NaN, 1e999 and half a surrogate pair, which no JSON on the wire may hold.
    """
    try:
        value = json.loads(arguments or "{}")
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"malformed": arguments}


def message_hash(message: Message) -> str:
    """Return the SHA-256 (hex) of a message's role, text and ids: what is reported as sent.

    What is hashed is the JSON text of `[role, text, call_id, [[call_id, name, arguments], ...]]`, ASCII only, written
    here piece by piece because this runs for every message of every request.
    """
    call_id = "null" if message.call_id is None else quoted(message.call_id)
    calls = ", ".join(
        [f"[{quoted(call.call_id)}, {quoted(call.name)}, {quoted(call.arguments)}]" for call in message.calls]
    )
    text = f"[{quoted(message.role)}, {quoted(message.text)}, {call_id}, [{calls}]]"
    return hashlib.sha256(text.encode()).hexdigest()
