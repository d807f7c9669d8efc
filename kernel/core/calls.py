"""The tool calls of one turn: judged in call order, executed one after another, each answered exactly once.

A call is refused before it is executed when its arguments are malformed, its tool is not offered, policy blocks
it or a person says no; an identical call of the same reply is executed once and its reply copied. (Seed 001 §5.1, §6.)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kernel.core.state import Call, EndedOperation, Operation, RunState
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation
from kernel.core.triggers.facts import Happened
from kernel.messages import (
    Append,
    ApprovalDecided,
    AskApproval,
    Effect,
    Message,
    ModelReplied,
    OperationFinished,
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
        calls.append(Call(seen, first + index, event_id, duplicate=earlier))
    step.set(calls=tuple(calls), next_seq=first + len(calls))
    advance(step, observed.at_ns)


def advance(step: Step, at_ns: int) -> None:
    """Answer calls until one has to be executed or approved, or all have their reply."""
    while True:
        call = next((call for call in step.state.calls if not call.outcome), None)
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
    server = server_of(state, seen.name)
    first_use = server is not None and server not in state.activation.met_servers
    limit = FIRST_EXCERPT_LIMIT if first_use else EXCERPT_LIMIT
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
    call = next((call for call in step.state.calls if not call.outcome), None)
    if call is None or call.seen.call_id != observed.call_id:
        raise IllegalObservation(f"ToolFinished for {observed.call_id!r}, which is not running")
    if not observed.reply_written:
        _reply(step, call, lost_reply(call.seen.name, observed.effect))
    event_id = _report_outcome(step, call, observed)
    _settle(
        step,
        replace(
            call,
            outcome=observed.status,
            outcome_event_id=event_id,
            executed=observed.operation_id is None,
            operation_id=observed.operation_id,
            error_class=observed.error_class,
            diagnostic=observed.diagnostic,
            excerpt=observed.excerpt,
        ),
    )


def lost_reply(name: str, effect: Effect) -> str:
    """Return the reply to a call whose result was lost: neutral about who stopped it."""
    check = f" {CHECK_FIRST}" if effect != "none" else ""
    return f"No result of {name} was received before the time limit; whether it ran to its end is not known.{check}"


def _report_outcome(step: Step, call: Call, observed: ToolFinished) -> str:
    data = {
        "status": observed.status,
        "duration_ms": (observed.at_ns - observed.started_ns) / 1e6,
        "effect": observed.effect,
        "error_class": observed.error_class or None,
    }
    if observed.operation_id is not None:
        name = call.seen.name
        operation = Operation(observed.operation_id, observed.call_id, name, server_of(step.state, name))
        step.set(operations=(*step.state.operations, operation))
        ids = _ids(step.state, observed.call_id, name)
        started = {"detail": observed.excerpt or None}
        step.emit("operation.started", observed.at_ns, started, operation_id=observed.operation_id, **ids)
    kind = OUTCOME_EVENTS.get(observed.status, "tool.blocked")
    text = {"result": observed.excerpt} if kind == "tool.completed" else {"detail": observed.diagnostic}
    return _emit_outcome(step, observed.at_ns, call, kind, {**data, **text})


def _emit_outcome(step: Step, at_ns: int, call: Call, kind: str, data: Mapping[str, Any]) -> str:
    ids = _ids(step.state, call.seen.call_id, call.seen.name)
    return step.emit(kind, at_ns, data, caused_by=call.requested_event_id, **ids)


def _settle(step: Step, settled: Call) -> None:
    calls = tuple(settled if call.seen.call_id == settled.seen.call_id else call for call in step.state.calls)
    step.set(calls=calls)


def decide_approval(step: Step, observed: ApprovalDecided) -> None:
    """Take in a person's decision. Raises IllegalObservation for a call that does not wait for one."""
    call = next((call for call in step.state.calls if not call.outcome), None)
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


def end_operation(step: Step, observed: OperationFinished) -> None:
    """Keep the real outcome of a background operation for the next boundary; a second report changes nothing."""
    operation = next((one for one in step.state.operations if one.operation_id == observed.operation_id), None)
    if operation is None:
        return
    failed = observed.status != "ok"
    data = {
        "effect": observed.effect if failed else None,
        "error_class": observed.error_class or None,
        **({"detail": observed.diagnostic} if failed else {"result": observed.excerpt}),
    }
    ids = {**_ids(step.state, operation.call_id, operation.tool), "operation_id": operation.operation_id}
    event_id = step.emit("operation.failed" if failed else "operation.completed", observed.at_ns, data, **ids)
    ended = EndedOperation(
        operation, event_id, observed.status, observed.error_class, observed.diagnostic, observed.excerpt
    )
    step.set(
        operations=tuple(one for one in step.state.operations if one != operation),
        ended_operations=(*step.state.ended_operations, ended),
    )


def operation_text(ended: EndedOperation) -> str:
    """Return how the end of a background operation reads in the history."""
    name, text = ended.operation.tool, ended.diagnostic or ended.excerpt
    how = "ended well" if ended.outcome == "ok" else f"ended with {ended.outcome}"
    return f"Background operation {ended.operation.operation_id} ({name}) {how}. {text}".rstrip()


def happened_in(state: RunState) -> tuple[Happened, ...]:
    """Return the real outcomes of the turn: its calls in order, then the operations that ended."""
    calls = [
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
        )
        for call in state.calls
    ]
    operations = [
        Happened(
            event_id=ended.event_id,
            tool=ended.operation.tool,
            mcp_server=ended.operation.mcp_server,
            status=ended.outcome,
            executed=True,
            call_id=ended.operation.call_id,
            operation_id=ended.operation.operation_id,
            error_class=ended.error_class,
            diagnostic=ended.diagnostic,
            excerpt=ended.excerpt,
        )
        for ended in state.ended_operations
    ]
    return (*calls, *operations)


def server_of(state: RunState, name: str) -> str | None:
    """Return the MCP server key of a tool, from its registration."""
    return next((tool.mcp_server for tool in state.tools if tool.name == name), None)


def _ids(state: RunState, call_id: str, name: str) -> dict[str, Any]:
    return {"call_id": call_id, "tool": name, "mcp_server": server_of(state, name)}
