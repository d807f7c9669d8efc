"""Reads what a model span says was sent and answered, in whichever dialect, as plain messages. Pure.

A message is {role, text, calls?, call_id?, name?, parts?}, a call {call_id, name, arguments}: the shape of a
`model.requested` event. `parts` are those a text cannot express. (Seed 001 §7.3, §10.3.)
"""

import re
from functools import lru_cache
from typing import Any, Final

from ingest.otlp.semconv import FINISH, Taking, as_text, from_json

Message = dict[str, Any]

MAX_INDEX_DIGITS: Final = 4  # a list of more than 10,000 messages or documents stays flat
_PREFIXES: Final = ("llm.input_messages.", "llm.output_messages.", "gen_ai.prompt.", "gen_ai.completion.")
_FLAT: Final = re.compile(
    r"(llm\.input_messages|llm\.output_messages|gen_ai\.prompt|gen_ai\.completion)"
    rf"\.(0|[1-9]\d{{0,{MAX_INDEX_DIGITS - 1}}})\.(?:message\.)?(?:(role|content|name|tool_call_id|finish_reason)"
    rf"|contents\.(0|[1-9]\d{{0,{MAX_INDEX_DIGITS - 1}}})\.message_content\.(text|type)"
    rf"|tool_calls\.(0|[1-9]\d{{0,{MAX_INDEX_DIGITS - 1}}})\.(?:tool_call\.)?(?:function\.)?(id|name|arguments))",
    re.ASCII,
)
_LISTS: Final = ("messages", "input", "contents")  # where a raw request has its messages
_SENT: Final = ("llm.input_messages", "gen_ai.prompt")
_LONGEST_KEY: Final = 120
_EVENT_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def take_messages(taking: Taking, events: list[dict[str, Any]]) -> tuple[list[Message], list[Message]]:
    """Take the messages (sent, answered) out of a span's attributes and events.

    Flattened lists come first, then the JSON lists of GenAI 1.37 and later, then the span events of earlier ones.
    """
    sent, answered = _take_flat(taking)
    for name, found, keys in (("new_messages", sent, "input"), ("text", answered, "output")):
        if not found:
            found += _take_json(taking, name, f"gen_ai.{keys}.messages", "user" if keys == "input" else "assistant")
    instructions = _take_json(taking, "system", "gen_ai.system_instructions", "system")
    if instructions and not any(message["role"] == "system" for message in sent):
        sent[:0] = instructions
    if events and not (sent and answered):
        _take_events(taking, events, sent, answered)
    return sent, answered


def take_raw_request(taking: Taking, sent: list[Message]) -> None:
    """Take the messages out of the request as it went over the wire, which some instrumentations send beside them.

    What a message's own text does not say goes with it as `raw`; in the request stands how many there were. So a long
    history costs its new messages there too.
    """
    value = taking.attributes.get("input.value")
    if not sent or not isinstance(value, str) or not value.startswith("{"):
        return
    request = from_json(value)
    name = next((name for name in _LISTS if isinstance(request.get(name), list)), "") if request else ""
    listed = request[name] if name else []
    if len(listed) != len(sent):
        return
    for message, raw in zip(sent, listed, strict=True):
        if raw != {"role": message["role"], "content": message["text"]}:
            message["raw"] = raw
    request[name] = f"[{len(listed)} messages, kept apart]"
    taking.attributes["input.value"] = as_text(request)
    taking.moved["new_messages"] = ", ".join([*filter(None, [taking.moved.get("new_messages")]), f"input.value.{name}"])


def note_finish(taking: Taking, answered: list[Message]) -> None:
    """Take why the model stopped: as the span says it, else as its answers do."""
    reasons = taking.attributes.get(FINISH[0])
    if isinstance(reasons, list):
        taking.attributes[FINISH[0]] = ", ".join(as_text(reason) for reason in reasons)
    if taking.text("finish_reason", FINISH) is None:
        told = [message["finish_reason"] for message in answered if message.get("finish_reason")]
        if told:
            taking.data["finish_reason"] = ", ".join(told)


def _take_flat(taking: Taking) -> tuple[list[Message], list[Message]]:
    attributes = taking.attributes
    keys = [key for key in attributes if key.startswith(_PREFIXES)]
    if not keys:
        return [], []
    sent: dict[int, Message] = {}
    answered: dict[int, Message] = {}
    for key in keys:
        place = _place(key) if len(key) <= _LONGEST_KEY else None
        if place is None:
            continue
        group, index, plain, part, part_field, call, call_field = place
        name, messages = ("new_messages", sent) if group in _SENT else ("text", answered)
        message = messages.setdefault(index, {})
        value = attributes.pop(key)
        taking.moved[name] = group
        if plain:
            message[plain] = value
        elif part_field:
            message.setdefault("contents", {}).setdefault(part, {})[part_field] = value
        else:
            message.setdefault("tool_calls", {}).setdefault(call, {})[call_field] = value
    return (
        [_flat_message(sent[index], "user") for index in sorted(sent)],
        [_flat_message(answered[index], "assistant") for index in sorted(answered)],
    )


@lru_cache(maxsize=4_096)
def _place(key: str) -> tuple[str, int, str | None, int, str | None, int, str | None] | None:
    """Return what a flattened key names, or None when it names nothing known and stays flat."""
    match = _FLAT.fullmatch(key)
    if match is None:
        return None
    group, index, plain, part, part_field, call, call_field = match.groups()
    return group, int(index), plain, int(part or 0), part_field, int(call or 0), call_field


def _flat_message(fields: dict[str, Any], role: str) -> Message:
    content = fields.get("content")
    if len(fields) == 2 and isinstance(content, str) and isinstance(fields.get("role"), str):
        return {"role": fields["role"] or role, "text": content}  # the common one
    contents = fields.get("contents", {})
    texts = [as_text(contents[part]["text"]) for part in sorted(contents) if "text" in contents[part]]
    if content is not None:
        texts.insert(0, as_text(content))
    message: Message = {"role": as_text(fields.get("role") or role), "text": "\n".join(texts)}
    calls = fields.get("tool_calls")
    if calls:
        message["calls"] = [_call(calls[place]) for place in sorted(calls)]
    if fields.get("tool_call_id"):
        message["call_id"] = as_text(fields["tool_call_id"])
    for name in ("name", "finish_reason"):
        if fields.get(name):
            message[name] = as_text(fields[name])
    return message


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    return {
        "call_id": as_text(call.get("id") or ""),
        "name": as_text(inner.get("name") or ""),
        "arguments": as_text(inner.get("arguments") if inner.get("arguments") is not None else ""),
    }


def _take_json(taking: Taking, name: str, key: str, role: str) -> list[Message]:
    value = taking.attributes.get(key)
    messages = read_messages(value, role) if value is not None else []
    if messages:
        del taking.attributes[key]
        taking.moved[name] = key
    return messages


def read_messages(value: Any, role: str) -> list[Message]:
    """Return the messages of a list, or of its JSON text; of parts alone one message; nothing when it is neither."""
    entries = from_json(value)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        return []
    if not any(name in entry for entry in entries for name in ("role", "parts", "message", "tool_calls")):
        return [*_from_parts({"role": role, "parts": entries}, role)]
    return [message for entry in entries for message in _from_parts(entry, role)]


def _from_parts(entry: dict[str, Any], role: str) -> list[Message]:
    """Return one message, or one for each tool response that stands in it."""
    parts = entry.get("parts", entry.get("content"))
    message: Message = {"role": as_text(entry.get("role") or role), "text": ""}
    texts: list[str] = []
    kept: list[Any] = []
    responses: list[Message] = []
    calls = [_call(call) for call in entry.get("tool_calls") or () if isinstance(call, dict)]
    for part in parts if isinstance(parts, list) else [parts]:
        _read_part(part, texts, calls, responses, kept)
    message["text"] = "\n".join(texts)
    if calls:
        message["calls"] = calls
    if kept:
        message["parts"] = kept
    for name, key in (
        ("call_id", "tool_call_id"),
        ("call_id", "id"),
        ("name", "name"),
        ("finish_reason", "finish_reason"),
    ):
        if isinstance(entry.get(key), str) and entry[key]:
            message.setdefault(name, entry[key])
    if message["role"] != "tool" or message.get("call_id") is None:
        message.pop("call_id", None)
    return responses if responses and not (texts or calls or kept) else [message, *responses]


def _read_part(
    part: Any, texts: list[str], calls: list[dict[str, Any]], responses: list[Message], kept: list[Any]
) -> None:
    if not isinstance(part, dict):
        if part is not None:
            texts.append(as_text(part))
        return
    kind = part.get("type")
    text = part.get("content", part.get("text"))
    if kind == "tool_call":
        calls.append(_call(part))
    elif kind == "tool_call_response":
        answer = part.get("response", part.get("result"))
        responses.append({"role": "tool", "text": as_text(answer or ""), "call_id": as_text(part.get("id") or "")})
    elif isinstance(text, str) and kind in ("text", "input_text", "output_text", None):
        texts.append(text)
    else:
        kept.append(part)


def _take_events(taking: Taking, events: list[dict[str, Any]], sent: list[Message], answered: list[Message]) -> None:
    """Take the messages that dialects before 1.37 put into span events; taken events are removed from `events`."""
    had_sent, had_answered = bool(sent), bool(answered)
    left: list[dict[str, Any]] = []
    for event in events:
        before = len(sent), len(answered)
        if not had_sent:
            sent += _sent_by(event)
        if not had_answered:
            answered += _answered_by(event)
        if (len(sent), len(answered)) == before:
            left.append(event)
    if len(left) < len(events):
        events[:] = left
        if sent and not had_sent:
            taking.moved["new_messages"] = "events"
        if answered and not had_answered:
            taking.moved["text"] = "events"


def _sent_by(event: dict[str, Any]) -> list[Message]:
    name, attributes = event["name"], event["attributes"]
    role = _EVENT_ROLES.get(name)
    if role is not None:
        calls = from_json(attributes.get("tool_calls"))
        entry = {**attributes, "tool_calls": calls if isinstance(calls, list) else None}
        return _from_parts({"role": role, **entry}, role)
    if name == "gen_ai.content.prompt":
        return read_messages(attributes.get("gen_ai.prompt"), "user")
    if name == "gen_ai.client.inference.operation.details":
        return read_messages(attributes.get("gen_ai.input.messages"), "user")
    return []


def _answered_by(event: dict[str, Any]) -> list[Message]:
    name, attributes = event["name"], event["attributes"]
    if name == "gen_ai.choice":
        inner = from_json(attributes.get("message"))
        entry = inner if isinstance(inner, dict) else {"content": attributes.get("message", attributes.get("content"))}
        message = _from_parts({"role": "assistant", **entry}, "assistant")[0]
        reason = attributes.get("finish_reason")
        return [message | ({"finish_reason": as_text(reason)} if reason else {})]
    if name == "gen_ai.content.completion":
        return read_messages(attributes.get("gen_ai.completion"), "assistant")
    if name == "gen_ai.client.inference.operation.details":
        return read_messages(attributes.get("gen_ai.output.messages"), "assistant")
    return []
