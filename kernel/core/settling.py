"""How a call gets its reply and its outcome: once, at its place in the history, with the event that says so.

(Seed 001 §6.2.)
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from contract.text import clip
from kernel.core.bounds import LEAST_TEXT_BYTES, REPLIES_BYTES, clip_bytes, json_bytes
from kernel.core.state import Call, RunState
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation
from kernel.messages import Append, CallSeen, Effect, Message, Origin, ToolKind, ToolSpec, ToolStatus

CHECK_FIRST: Final = "It may have taken effect: check before you do anything consequential again."
OUTCOME_EVENTS: Final = {"ok": "tool.completed", "failed": "tool.failed", "timed_out": "tool.failed"}
OLDER_NAME: Final = re.compile(r"mcp__(?P<server>.+?)__.+")
RESULT_LIMIT: Final = 1_000  # code points of a reply of the core that are reported


def tool_of(state: RunState, name: str) -> ToolSpec | None:
    """Return the tool of that name, None when it is not offered."""
    for tool in state.tools:
        if tool.name == name:
            return tool
    return None


def server_of(state: RunState, name: str) -> str | None:
    """Return the MCP server key of an offered tool: from its registration, or from a name of the older form
    `mcp__<server>__<tool>` when that says nothing."""
    tool = tool_of(state, name)
    if tool is None or tool.mcp_server:
        return tool.mcp_server if tool else None
    named = OLDER_NAME.fullmatch(name)
    return named["server"] if named else None


def kind_of(state: RunState, name: str) -> ToolKind:
    tool = tool_of(state, name)
    return tool.kind if tool else "call"


def known_as(state: RunState, name: str) -> str:
    """Return the tool name that failures of this tool are searched for and told apart under."""
    tool = tool_of(state, name)
    return (tool.same_as if tool else "") or name


def next_call(state: RunState) -> Call | None:
    """Return the first call that has no reply and waits for none: the one that runs, is asked about, or comes next."""
    for call in state.calls:
        if not call.outcome and not call.waiting:
            return call
    return None


def waiting_call(state: RunState, call_id: str, kind: ToolKind) -> Call:
    """Return the call of that id and kind that waits for its reply. Raises IllegalObservation when none does."""
    for call in state.calls:
        waits = call.waiting and not call.outcome and not call.duplicate
        if waits and call.seen.call_id == call_id and kind_of(state, call.seen.name) == kind:
            return call
    raise IllegalObservation(f"no {kind} call {call_id!r} waits for a reply")


def call_ids(state: RunState, seen: CallSeen) -> dict[str, Any]:
    """Return the envelope ids of an event about a call."""
    return {"call_id": seen.call_id, "tool": seen.name, "mcp_server": server_of(state, seen.name)}


def wait(step: Step, call: Call, subject: str = "") -> None:
    """Leave a call without its reply for now. Its arguments are not needed again."""
    settle(step, replace(call, waiting=True, subject=subject, seen=replace(call.seen, arguments="", excerpt="")))


def refuse(step: Step, at_ns: int, call: Call, status: ToolStatus, code: str, text: str) -> None:
    """Answer a call that is not executed."""
    event_id = emit_outcome(step, at_ns, call, "tool.blocked", {"status": status, "code": code, "detail": text})
    reply(step, call, text, "refusal", status, code)
    settle(step, replace(call, outcome=status, outcome_event_id=event_id), at_ns)


def answer(step: Step, at_ns: int, call: Call, text: str, **ids: Any) -> None:
    """Answer a call that the core takes care of itself; nothing was executed that could have failed."""
    data = {"status": "ok", "result": clip(text, RESULT_LIMIT)}
    event_id = emit_outcome(step, at_ns, call, "tool.completed", data, **ids)
    reply(step, call, text, "tool", "ok")
    settle(step, replace(call, outcome="ok", outcome_event_id=event_id), at_ns)


def reply(step: Step, call: Call, text: str, origin: Origin, status: ToolStatus, code: str = "") -> None:
    """Put the reply in its place; `code` is why it was refused, or the class of its error.

    Its text waits in the run's state, so what one turn has to wait with is bounded.
    """
    room = REPLIES_BYTES - sum(json_bytes(append.message.text) for append in step.state.appends)
    kept = text if json_bytes(text) <= room else clip_bytes(text, max(LEAST_TEXT_BYTES, room // 2))
    if len(kept) < len(text):
        kept += f"\n[{len(text) - len(kept)} characters were left out: the replies of this turn are too long together]"
    message = Message("tool", kept, origin, call_id=call.seen.call_id, status=status, code=code)
    step.set(appends=(*step.state.appends, Append(call.reply_seq, message)))


def emit_outcome(step: Step, at_ns: int, call: Call, kind: str, data: Mapping[str, Any], **ids: Any) -> str:
    """Report how a call ended, with the step that its driver claimed for it."""
    envelope = {**call_ids(step.state, call.seen), **ids}
    told = {**data, "step": call.seen.step}
    return step.emit(kind, at_ns, told, caused_by=call.requested_event_id, **envelope)


def settle(step: Step, settled: Call, at_ns: int = 0) -> None:
    """Put a call in its place; one that has its outcome now gives it to the copies that waited for it."""
    settled = replace(settled, gist="") if settled.outcome else settled
    step.set(calls=tuple(settled if call.reply_seq == settled.reply_seq else call for call in step.state.calls))
    if not settled.outcome or settled.duplicate:
        return
    for call in step.state.calls:
        if call.duplicate and call.waiting and call.seen.digest == settled.seen.digest:
            copy(step, at_ns, call)


def copy(step: Step, at_ns: int, call: Call) -> None:
    """Answer an identical call with the reply of the one that was executed in its place, once that is there."""
    source = next(other for other in step.state.calls if other.seen.digest == call.seen.digest)
    if not source.outcome:
        wait(step, call)
        return
    outcome = source.outcome
    data = {"duplicate_of": source.seen.call_id, "status": outcome}
    event_id = emit_outcome(step, at_ns, call, OUTCOME_EVENTS.get(outcome, "tool.blocked"), data)
    message = Message("tool", "", "tool", call_id=call.seen.call_id)
    step.set(appends=(*step.state.appends, Append(call.reply_seq, message, copy_of=source.reply_seq)))
    settle(step, replace(call, outcome=outcome, outcome_event_id=event_id))


def lost_reply(name: str, effect: Effect) -> str:
    """Return the reply to a call whose result was lost: neutral about who stopped it and how far it came."""
    check = f" {CHECK_FIRST}" if effect != "none" else ""
    return f"No result of {name} was received; whether it ran to its end is not known (effect: {effect}).{check}"
