"""Background operations: started by a call, ended whenever they end, told to the model once.

They are told by the reply to a call that awaits them, or at the boundary after their end. Only their real outcome is
something that happened; the reply that names the operation is not. (Seed 001 §5, §15.)
"""

import json
from dataclasses import replace
from typing import Any, Final

from contract.hint_block import indented
from contract.text import clip
from kernel.core.bounds import clip_bytes, failure_texts, room_for_text
from kernel.core.finale import note_receipt
from kernel.core.settling import CHECK_FIRST, answer, call_ids, known_as, refuse, wait
from kernel.core.situations import situation_data, situation_of
from kernel.core.state import Call, EndedOperation, Operation, RunState, Situation
from kernel.core.step import Step
from kernel.core.triggers.facts import Happened, scope_of
from kernel.core.triggers.tool_failed import NAME as TOOL_FAILED
from kernel.messages import OperationFinished, StartOperation, StopOperation

REPORTED: Final = 4_096  # code points of its text that are reported and kept
STARTED: Final = (
    "Operation {operation_id} was started in the background; this is not its result. Go on with other work: its result "
    "is told to you when it is there, and await_operation waits for it. It is stopped when the run ends."
)


def start_operation(step: Step, at_ns: int, call: Call) -> None:
    """Start what a call asks for and answer the call with the operation's id."""
    state, name = step.state, call.seen.name
    limit = state.spec.limits.pending_operations
    if len(state.operations) >= limit:
        text = f"{limit} operations are under way already, which is the limit. Await one first. Nothing was executed."
        refuse(step, at_ns, call, "denied", "operation_limit", text)
        return
    ids = call_ids(state, call.seen)
    operation = Operation(f"op-{call.reply_seq}", call.seen.call_id, name, ids["mcp_server"])
    step.set(operations=(*state.operations, operation))
    step.emit("operation.started", at_ns, caused_by=call.requested_event_id, **_ids(operation))
    run_id, assistant_seq = state.spec.run_id, state.assistant_seq
    step.do(StartOperation(run_id, operation.operation_id, call.seen.call_id, assistant_seq, call.reply_seq))
    text = STARTED.format(operation_id=operation.operation_id)
    answer(step, at_ns, call, text, operation_id=operation.operation_id)
    note_receipt(step, name, call.gist, f"started as {operation.operation_id}")


def await_operation(step: Step, at_ns: int, call: Call) -> None:
    """Answer with an operation's outcome: now when it has ended, else when it does."""
    wanted = str(json.loads(call.seen.arguments)["operation_id"])
    ended = next((one for one in step.state.ended_operations if one.operation.operation_id == wanted), None)
    if ended is not None:
        _tell(step, at_ns, call, ended)
    elif any(one.operation_id == wanted for one in step.state.operations):
        wait(step, call, wanted)
    else:
        under_way = ", ".join(one.operation_id for one in step.state.operations) or "none"
        text = (
            f"No operation {clip(wanted, 80)!r} is under way (under way: {under_way}): it was never started, or its "
            "outcome was told already."
        )
        refuse(step, at_ns, call, "denied", "operation_unknown", text)


def end_operation(step: Step, observed: OperationFinished) -> None:
    """Take in the real outcome of an operation and answer the calls that await it; a second report changes nothing."""
    operation = next((one for one in step.state.operations if one.operation_id == observed.operation_id), None)
    if operation is None:
        return
    text = replace(observed, diagnostic=clip(observed.diagnostic, REPORTED), excerpt=clip(observed.excerpt, REPORTED))
    situation = _situation(step.state, operation, text)
    event_id = _report(step, operation, text, situation)
    room = room_for_text(step.state.calls, step.state.ended_operations)
    diagnostic, tool_arguments = failure_texts(text.diagnostic, observed.tool_arguments, room)
    ended = EndedOperation(
        operation=operation,
        event_id=event_id,
        outcome=text.status,
        effect=text.effect,
        error_class=text.error_class,
        diagnostic=diagnostic,
        excerpt="" if text.diagnostic else clip_bytes(text.excerpt or text.note, room),
        situation=situation,
        tool_arguments=tool_arguments,
    )
    note_receipt(step, operation.tool, operation.operation_id, text.status)
    step.set(
        operations=tuple(one for one in step.state.operations if one != operation),
        ended_operations=(*step.state.ended_operations, ended),
    )
    for call in step.state.calls:
        if call.waiting and call.subject == operation.operation_id and not call.outcome:
            _tell(step, observed.at_ns, call, ended)


def _tell(step: Step, at_ns: int, call: Call, ended: EndedOperation) -> None:
    """Answer a call that awaits the operation; the outcome is the operation's, so the call itself cannot fail."""
    answer(step, at_ns, call, operation_text(ended), operation_id=ended.operation.operation_id)
    told = replace(ended, told=True)
    others = step.state.ended_operations
    step.set(ended_operations=tuple(told if one.operation == ended.operation else one for one in others))


def stop_operations(step: Step, at_ns: int) -> None:
    """Stop what is under way, because the run ends: nobody is left to be told."""
    for operation in step.state.operations:
        step.do(StopOperation(step.state.spec.run_id, operation.operation_id))
        detail = "stopped because the run ended; how far it came is not known"
        data = {"status": "cancelled", "effect": "uncertain", "detail": detail}
        step.emit("operation.failed", at_ns, data, **_ids(operation))
    step.set(operations=())


def _situation(state: RunState, operation: Operation, observed: OperationFinished) -> Situation:
    if observed.status not in ("failed", "timed_out") or not observed.diagnostic.strip():
        return Situation()
    scope = scope_of(known_as(state, operation.tool), operation.mcp_server)
    return situation_of(TOOL_FAILED, scope, observed.error_class, observed.diagnostic)


def _report(step: Step, operation: Operation, observed: OperationFinished, situation: Situation) -> str:
    if observed.status == "ok":
        return step.emit("operation.completed", observed.at_ns, {"result": observed.excerpt}, **_ids(operation))
    data = {
        "status": observed.status,
        "effect": observed.effect,
        "error_class": observed.error_class or None,
        "detail": observed.diagnostic or observed.note,
        **situation_data(situation),
    }
    return step.emit("operation.failed", observed.at_ns, data, **_ids(operation))


def _ids(operation: Operation) -> dict[str, Any]:
    return {
        "operation_id": operation.operation_id,
        "call_id": operation.call_id,
        "tool": operation.tool,
        "mcp_server": operation.mcp_server,
    }


def operation_text(ended: EndedOperation) -> str:
    """Return how the end of an operation reads in the history. What it printed is data: set in, so that no line of it
    can be taken for one of ours."""
    operation = ended.operation
    how = "ended well" if ended.outcome == "ok" else f"ended: {ended.outcome}"
    how += f", {ended.error_class}" if ended.error_class else ""
    effect = f" Its effect is uncertain. {CHECK_FIRST}" if ended.effect == "uncertain" else ""
    head = f"[Background operation {operation.operation_id} of {operation.tool} {how}.{effect}]"
    text = indented(ended.diagnostic or ended.excerpt)
    return f"{head}\n    {text}" if text else head


def untold_text(state: RunState) -> str:
    """Return what is to be told of the operations that ended in this turn and that no call awaited."""
    return "\n".join(operation_text(ended) for ended in state.ended_operations if not ended.told)


def operations_happened(state: RunState) -> tuple[Happened, ...]:
    """Return the outcomes of the operations that ended since the last boundary, in the order they ended."""
    return tuple(
        Happened(
            event_id=ended.event_id,
            tool=known_as(state, ended.operation.tool),
            mcp_server=ended.operation.mcp_server,
            status=ended.outcome,
            executed=True,
            call_id=ended.operation.call_id,
            operation_id=ended.operation.operation_id,
            error_class=ended.error_class,
            diagnostic=ended.diagnostic,
            excerpt=ended.excerpt,
            situation=ended.situation,
            tool_arguments=ended.tool_arguments,
        )
        for ended in state.ended_operations
    )
