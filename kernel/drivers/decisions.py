"""What a driver decides, as plain objects, read strictly: what is not exactly of the form ends the turn.

    {"type": "tool_call", "call": {"name": "shell", "arguments": {"command": "ls"}}, "step": 2}
    {"type": "complete", "output": "Done.", "metadata": {}}
    {"type": "fail", "error": "no such repository", "metadata": {}}
    {"type": "escalate", "reason": "needs a key", "metadata": {}}

`step`, `metadata` and the `id` of a call may be left out. A list of tool calls, with an escalation anywhere among them,
is one reply. (Seed 003.)
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from kernel.drivers import DriverReply, Escalation
from kernel.drivers.escalation import ESCALATE, REASON_UNITS, units
from kernel.edge.retry import ModelError
from kernel.messages import ToolCall

INVALID: Final = "invalid_driver_decision"
MOST: Final = 2**53  # of a number that a driver gives: a larger one is no count, and a step as far out as this
FIELDS: Final = {
    "tool_call": ("call", "step"),
    "complete": ("output", "metadata"),
    "fail": ("error", "metadata"),
    "escalate": ("reason", "metadata"),
}
CALL_FIELDS: Final = ("name", "arguments", "id")


def read_decision(decision: object) -> DriverReply:
    """Return the reply a decision stands for, one object or a list of them. Raises ModelError, INVALID."""
    if not isinstance(decision, list | tuple):
        return _ending(_checked(decision))
    calls: list[ToolCall] = []
    steps: list[int | None] = []
    escalation: Escalation | None = None
    metadata: Mapping[str, Any] = {}
    for place, one in enumerate(decision):
        kind, fields = _checked(one)
        if kind == "tool_call":
            calls.append(_call(fields.get("call")))
            steps.append(_step(fields.get("step")))
            continue
        if kind != "escalate":
            invalid(f"decision {place} is {kind!r}: beside others only tool_call and escalate may stand")
        reason = check_reason(fields.get("reason"))
        if escalation is None:
            escalation, metadata = Escalation(reason, len(calls)), _metadata(fields)
        calls.append(_ask(reason))
        steps.append(None)
    if not calls:
        invalid("an empty list decides nothing")
    return DriverReply(calls=tuple(calls), steps=tuple(steps), escalation=escalation, metadata=metadata)


def _ending(decision: tuple[str, Mapping[str, Any]]) -> DriverReply:
    kind, fields = decision
    if kind == "tool_call":
        return DriverReply(calls=(_call(fields.get("call")),), steps=(_step(fields.get("step")),))
    metadata = _metadata(fields)
    if kind == "complete":
        return DriverReply(text=_text(fields, "output"), metadata=metadata)
    if kind == "fail":
        return DriverReply(failed=_text(fields, "error"), metadata=metadata)
    reason = check_reason(fields.get("reason"))
    return DriverReply(calls=(_ask(reason),), escalation=Escalation(reason), metadata=metadata)


def _ask(reason: str) -> ToolCall:
    return ToolCall("", ESCALATE, json.dumps({"reason": reason}, ensure_ascii=False))


def _checked(decision: object) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(decision, Mapping):
        invalid(f"a decision must be an object, not {type(decision).__name__}")
    kind = decision.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        invalid(f"type must be one of {', '.join(FIELDS)}")
    for name in decision:
        if name != "type" and name not in FIELDS[kind]:
            invalid(f"{kind} has no field {str(name)[:80]!r}; it has: {', '.join(FIELDS[kind])}")
    return kind, decision


def _call(value: object) -> ToolCall:
    if not isinstance(value, Mapping):
        invalid("call must be an object with name and arguments")
    for name in value:
        if name not in CALL_FIELDS:
            invalid(f"a call has no field {str(name)[:80]!r}; it has: {', '.join(CALL_FIELDS)}")
    arguments = value.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = _json(arguments, "call.arguments")
    name, call_id = value.get("name"), value.get("id", "")
    if not isinstance(name, str) or not name or not isinstance(call_id, str):
        invalid("call.name must be a text that is not empty, call.id a text")
    return ToolCall(call_id, name, arguments)


def _step(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        invalid("step must be a whole number from 0 on")
    return value


def check_reason(value: object) -> str:
    """Return the reason of an escalation as it was declared. Raises ModelError, INVALID."""
    if not isinstance(value, str) or not value.strip() or units(value) > REASON_UNITS:
        invalid(f"reason must be a text of 1 to {REASON_UNITS} UTF-16 units")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        invalid(f"{name} must be a text that is not empty")
    return value


def _metadata(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    value = fields.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        invalid("metadata must be an object with texts for names")
    read: Mapping[str, Any] = json.loads(_json(value, "metadata"))
    return read


def _json(value: object, place: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        invalid(f"{place} must be JSON")


def check_shape(reply: object) -> None:
    """Raise ModelError, INVALID, unless a driver returned a reply whose parts are of the kinds they must be."""
    if not isinstance(reply, DriverReply):
        invalid(f"a driver must return a DriverReply, not {type(reply).__name__}")
    match reply:
        case DriverReply(text=str(), model=str(), finish_reason=str(), failed=str()):
            pass
        case _:
            invalid("text, model, finish_reason and failed of a reply must be texts")
    match reply.calls, reply.steps:
        case (list() | tuple(), list() | tuple()):
            pass
        case _:
            invalid("calls and steps of a reply must be tuples")
    for call in reply.calls:
        match call:
            case ToolCall(call_id=str(), name=str(), arguments=str()):
                continue
        invalid("calls of a reply must be ToolCalls, made of texts")
    asked = reply.escalation
    if asked is not None and not (isinstance(asked, Escalation) and type(asked.call) is int):
        invalid("escalation of a reply must be an Escalation that names the number of a call")
    if reply.failed and (reply.calls or not reply.failed.strip()):
        invalid("a reply that fails says why and calls nothing")


def token_count(value: object) -> int | None:
    """Return a count of tokens as somebody else gave it, None for what cannot be one."""
    match value:
        case bool():
            return None
        case int() if 0 <= value <= MOST:
            return value
    return None


def check_declared(reply: DriverReply, position: int) -> None:
    """Raise ModelError, INVALID, unless what a reply declares can be true of the loop at `position` (0-based)."""
    if reply.steps and len(reply.steps) != len(reply.calls):
        invalid(f"{len(reply.steps)} steps are declared for {len(reply.calls)} calls")
    for step in reply.steps:
        if _step(step) is not None and step is not None and step < position:
            invalid(f"step {step} is behind the loop, which is at {position}")
    if reply.escalation is not None:
        check_reason(reply.escalation.reason)
        if not 0 <= reply.escalation.call < len(reply.calls):
            invalid("the escalation names no call of the reply")
    _metadata({"metadata": reply.metadata})


def invalid(problem: str) -> NoReturn:
    """Refuse a decision."""
    raise ModelError(INVALID, problem)
