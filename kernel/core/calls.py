"""The tool calls of one turn: judged in call order, executed one after another, each answered exactly once.

A call is refused before it is executed when its arguments are malformed, its tool is not offered, policy blocks
it or a person says no; an identical call of the same reply is executed once and its reply copied. (Seed 001 §5.1, §6.)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from contract.text import clip
from kernel.core.bounds import LEAST_TEXT_BYTES, MALFORMED_LIMIT, clip_bytes, room_for_text
from kernel.core.operations import begin_operation
from kernel.core.situations import situation_data, situation_of
from kernel.core.state import Call, RunState, Situation
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation
from kernel.core.triggers.facts import Happened, scope_of
from kernel.core.triggers.tool_failed import NAME as TOOL_FAILED
from kernel.messages import (
    Append,
    ApprovalDecided,
    AskApproval,
    CallSeen,
    Effect,
    Message,
    ModelReplied,
    RunTool,
    ToolFinished,
    ToolStatus,
)

EXCERPT_LIMIT: Final = 1_000  # code points of a success that come back for the record
FIRST_EXCERPT_LIMIT: Final = 8_192  # of a first call to an MCP server: they are searched with
CHECK_FIRST: Final = "It may have taken effect: check before you do anything consequential again."
OUTCOME_EVENTS: Final = {"ok": "tool.completed", "failed": "tool.failed", "timed_out": "tool.failed"}


def open_calls(step: Step, observed: ModelReplied) -> None:
    """Give every call of a reply its place in the history and start on the first."""
    first = step.state.next_seq
    calls: list[Call] = []
    for index, seen in enumerate(observed.calls):
        earlier = any(other.seen.digest == seen.digest for other in calls)
        ids = _ids(step.state, seen.call_id, seen.name)
        caused_by = step.state.call_event_id
        event_id = step.emit("tool.requested", observed.at_ns, {"arguments": seen.excerpt}, caused_by=caused_by, **ids)
        calls.append(Call(_kept(step.state, seen), first + index, event_id, duplicate=earlier))
    step.set(calls=tuple(calls), next_seq=first + len(calls))
    advance(step, observed.at_ns)


def _kept(state: RunState, seen: CallSeen) -> CallSeen:
    """Return as much of a call as is needed again: the arguments only where a person will be asked about them."""
    excerpt = seen.excerpt if seen.name in state.spec.approval_tools else ""
    return replace(seen, excerpt=excerpt, malformed=clip(seen.malformed, MALFORMED_LIMIT))


def advance(step: Step, at_ns: int) -> None:
    """Answer calls until one has to be executed or approved, or all have their reply."""
    while True:
        call = pending_call(step.state)
        if call is None:
            return
        if call.duplicate:
            _copy(step, at_ns, call)
            continue
        refusal = refusal_of(step.state, call)
        if refusal is not None:
            _refuse(step, at_ns, call, *refusal)
            continue
        _start(step, at_ns, call)
        return


def pending_call(state: RunState) -> Call | None:
    """Return the first call without a reply: the one that runs, waits for a person, or comes next."""
    return next((call for call in state.calls if not call.outcome), None)


def refusal_of(state: RunState, call: Call) -> tuple[ToolStatus, str, str] | None:
    """Return (status, code, reply) of a call that must not be executed, or None."""
    name = call.seen.name
    if call.seen.malformed:
        text = f"The arguments of {name} could not be read: {call.seen.malformed}. Nothing was executed."
        return "denied", "invalid_arguments", text
    if name not in (tool.name for tool in state.tools):
        return "denied", "tool_unavailable", f"No tool named {name} is offered. Nothing was executed."
    if name in state.spec.blocked_tools:
        return "blocked", "policy_blocked", f"Policy does not allow {name} in this run. Nothing was executed."
    return None


def _start(step: Step, at_ns: int, call: Call) -> None:
    state, seen = step.state, call.seen
    if seen.name in state.spec.approval_tools and not call.approved:
        question = f"Run {seen.name} with {seen.excerpt}?"
        ids = _ids(state, seen.call_id, seen.name)
        step.emit("approval.requested", at_ns, {"question": question}, caused_by=call.requested_event_id, **ids)
        step.do(AskApproval(state.spec.run_id, seen.call_id, seen.name, seen.excerpt))
        step.set(phase="approving")
        return
    limit = FIRST_EXCERPT_LIMIT if first_use(state, seen.name) else EXCERPT_LIMIT
    step.do(RunTool(state.spec.run_id, seen.call_id, state.assistant_seq, call.reply_seq, limit))
    step.set(phase="running")


def _refuse(step: Step, at_ns: int, call: Call, status: ToolStatus, code: str, text: str) -> None:
    event_id = _emit_outcome(step, at_ns, call, "tool.blocked", {"status": status, "code": code, "detail": text})
    _reply(step, call, text)
    _settle(step, replace(call, outcome=status, outcome_event_id=event_id))


def _copy(step: Step, at_ns: int, call: Call) -> None:
    """Answer an identical call with the reply of the one that was executed in its place."""
    source = next(other for other in step.state.calls if other.seen.digest == call.seen.digest)
    outcome = source.outcome or "cancelled"
    data = {"duplicate_of": source.seen.call_id, "status": outcome}
    event_id = _emit_outcome(step, at_ns, call, OUTCOME_EVENTS.get(outcome, "tool.blocked"), data)
    message = Message("tool", "", "tool", call_id=call.seen.call_id)
    appends = (*step.state.appends, Append(call.reply_seq, message, copy_of=source.reply_seq))
    if source.reply_seq in (append.seq for append in step.state.appends):
        text = next(append.message.text for append in step.state.appends if append.seq == source.reply_seq)
        appends = (*step.state.appends, Append(call.reply_seq, replace(message, text=text)))
    step.set(appends=appends)
    _settle(step, replace(call, outcome=outcome, outcome_event_id=event_id))


def _reply(step: Step, call: Call, text: str) -> None:
    message = Message("tool", text, "refusal", call_id=call.seen.call_id)
    step.set(appends=(*step.state.appends, Append(call.reply_seq, message)))


def finish_call(step: Step, observed: ToolFinished) -> None:
    """Take in the outcome of the call that was running. Raises IllegalObservation for any other call."""
    call = pending_call(step.state)
    if call is None or call.seen.call_id != observed.call_id:
        raise IllegalObservation(f"ToolFinished for {observed.call_id!r}, which is not running")
    if not observed.reply_written:
        _reply(step, call, lost_reply(call.seen.name, observed.effect))
    executed = observed.operation_id is None
    settled = replace(
        call,
        outcome=observed.status,
        executed=executed,
        operation_id=observed.operation_id,
        error_class=observed.error_class,
        situation=failure_situation(step.state, call.seen.name, observed) if executed else Situation(),
    )
    settled = replace(settled, outcome_event_id=_report_outcome(step, settled, observed))
    _settle(step, _with_text(step.state, settled, observed))
    if observed.operation_id is not None:
        begin_operation(step, observed, call.seen.name, server_of(step.state, call.seen.name))


def failure_situation(state: RunState, name: str, observed: ToolFinished) -> Situation:
    """Return the situation of a failed call; a success and a failure without text have none."""
    if observed.status not in ("failed", "timed_out") or not observed.diagnostic.strip():
        return Situation()
    return situation_of(TOOL_FAILED, scope_of(name, server_of(state, name)), observed.error_class, observed.diagnostic)


def _with_text(state: RunState, settled: Call, observed: ToolFinished) -> Call:
    """Return the call with what of its texts triggers may search with, within the room of the turn.

    A success is searched with only where it may be the first of its server; else its first words are kept.
    """
    room = room_for_text(state.calls, state.ended_operations)
    if observed.diagnostic:
        return replace(settled, diagnostic=clip_bytes(observed.diagnostic, room))
    limit = room if first_use(state, settled.seen.name) else LEAST_TEXT_BYTES
    return replace(settled, excerpt=clip_bytes(observed.excerpt, limit))


def first_use(state: RunState, name: str) -> bool:
    """Return whether a call of this tool may be the first to its MCP server."""
    server = server_of(state, name)
    return server is not None and server not in state.activation.met_servers


def lost_reply(name: str, effect: Effect) -> str:
    """Return the reply to a call whose result was lost: neutral about who stopped it and how far it came."""
    check = f" {CHECK_FIRST}" if effect != "none" else ""
    return f"No result of {name} was received; whether it ran to its end is not known (effect: {effect}).{check}"


def _report_outcome(step: Step, call: Call, observed: ToolFinished) -> str:
    data = {
        "status": observed.status,
        "duration_ms": (observed.at_ns - observed.started_ns) / 1e6,
        "effect": observed.effect,
        "error_class": observed.error_class or None,
    }
    kind = OUTCOME_EVENTS.get(observed.status, "tool.blocked")
    if kind == "tool.completed":
        return _emit_outcome(step, observed.at_ns, call, kind, {**data, "result": observed.excerpt})
    text = {"detail": observed.diagnostic, **situation_data(call.situation)}
    return _emit_outcome(step, observed.at_ns, call, kind, {**data, **text})


def _emit_outcome(step: Step, at_ns: int, call: Call, kind: str, data: Mapping[str, Any]) -> str:
    ids = _ids(step.state, call.seen.call_id, call.seen.name)
    return step.emit(kind, at_ns, data, caused_by=call.requested_event_id, **ids)


def _settle(step: Step, settled: Call) -> None:
    calls = tuple(settled if call.reply_seq == settled.reply_seq else call for call in step.state.calls)
    step.set(calls=calls)


def decide_approval(step: Step, observed: ApprovalDecided) -> None:
    """Take in a person's decision. Raises IllegalObservation for a call that does not wait for one."""
    call = pending_call(step.state)
    if call is None or call.seen.call_id != observed.call_id:
        raise IllegalObservation(f"ApprovalDecided for {observed.call_id!r}, which does not wait for one")
    ids = _ids(step.state, call.seen.call_id, call.seen.name)
    decision = {"approved": observed.approved, "by": observed.by or None, "note": observed.note or None}
    step.emit("approval.decided", observed.at_ns, decision, caused_by=call.requested_event_id, **ids)
    if observed.approved:
        _settle(step, replace(call, approved=True))
    else:
        note = f" They said: {observed.note}" if observed.note else ""
        text = f"A person did not approve this call of {call.seen.name}. Nothing was executed.{note}"
        _refuse(step, observed.at_ns, call, "denied", "approval_denied", text)
    advance(step, observed.at_ns)


def happened_in(state: RunState) -> tuple[Happened, ...]:
    """Return the outcomes of the turn's calls, in call order."""
    return tuple(
        Happened(
            event_id=call.outcome_event_id,
            tool=call.seen.name,
            mcp_server=server_of(state, call.seen.name),
            status=call.outcome or "cancelled",
            executed=call.executed,
            call_id=call.seen.call_id,
            error_class=call.error_class,
            diagnostic=call.diagnostic,
            excerpt=call.excerpt,
            situation=call.situation,
        )
        for call in state.calls
    )


def server_of(state: RunState, name: str) -> str | None:
    """Return the MCP server key of a tool, from its registration."""
    return next((tool.mcp_server for tool in state.tools if tool.name == name), None)


def _ids(state: RunState, call_id: str, name: str) -> dict[str, Any]:
    return {"call_id": call_id, "tool": name, "mcp_server": server_of(state, name)}


def close_calls(step: Step, at_ns: int) -> None:
    """Close the calls without a reply in the record, because the run is cancelled: neutral about what took effect."""
    running = pending_call(step.state) if step.state.phase == "running" else None
    for call in step.state.calls:
        if call.outcome:
            continue
        known = "it was not started" if call is not running else "whether it took effect is not known"
        data = {
            "status": "cancelled",
            "code": "run_cancelled",
            "detail": f"the run was cancelled while this call was pending; {known}",
            "effect": "none" if call is not running else "uncertain",
        }
        _emit_outcome(step, at_ns, call, "tool.blocked", data)
