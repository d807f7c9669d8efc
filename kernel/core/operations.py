"""Background operations: started by a call, ended whenever they end, told to the model at the boundary after that.

Only their real outcome is something that happened; the reply that names the operation is not. (Seed 001 §5, §15.)
"""

from dataclasses import replace
from typing import Any, Final

from contract.text import clip
from kernel.core.bounds import EARLY_BYTES, EARLY_LIMIT, clip_bytes, room_for_text
from kernel.core.situations import situation_data, situation_of
from kernel.core.state import EndedOperation, Operation, RunState, Situation
from kernel.core.step import Step
from kernel.core.triggers.facts import Happened, scope_of
from kernel.core.triggers.tool_failed import NAME as TOOL_FAILED
from kernel.messages import OperationFinished, ToolFinished

REPORTED: Final = 4_096  # code points of its text that are reported and kept


def begin_operation(step: Step, observed: ToolFinished, tool: str, mcp_server: str | None) -> None:
    """Take in that a call started an operation, which may have ended already."""
    operation_id = observed.operation_id or ""
    operation = Operation(operation_id, observed.call_id, tool, mcp_server)
    step.set(operations=(*step.state.operations, operation))
    step.emit("operation.started", observed.at_ns, {"detail": observed.excerpt or None}, **_ids(operation))
    early = next((one for one in step.state.early_outcomes if one.operation_id == operation_id), None)
    if early is not None:
        end_operation(step, early)


def end_operation(step: Step, observed: OperationFinished) -> None:
    """Keep the real outcome of an operation for the next boundary; a second report changes nothing.

    One that ends before the call that started it is seen to end waits for that call.
    """
    operation = next((one for one in step.state.operations if one.operation_id == observed.operation_id), None)
    if operation is None:
        _wait_for_start(step, observed)
        return
    text = replace(observed, diagnostic=clip(observed.diagnostic, REPORTED), excerpt=clip(observed.excerpt, REPORTED))
    situation = _situation(operation, text)
    event_id = _report(step, operation, text, situation)
    room = room_for_text(step.state.calls, step.state.ended_operations)
    ended = EndedOperation(
        operation=operation,
        event_id=event_id,
        outcome=text.status,
        effect=text.effect,
        error_class=text.error_class,
        diagnostic=clip_bytes(text.diagnostic, room),
        excerpt="" if text.diagnostic else clip_bytes(text.excerpt, room),
        situation=situation,
    )
    step.set(
        operations=tuple(one for one in step.state.operations if one != operation),
        ended_operations=(*step.state.ended_operations, ended),
    )


def _wait_for_start(step: Step, observed: OperationFinished) -> None:
    known = [one.operation_id for one in step.state.early_outcomes]
    if step.state.phase != "running" or observed.operation_id in known:
        return
    kept = replace(
        observed,
        diagnostic=clip_bytes(observed.diagnostic, EARLY_BYTES),
        excerpt="" if observed.diagnostic else clip_bytes(observed.excerpt, EARLY_BYTES),
    )
    step.set(early_outcomes=(*step.state.early_outcomes, kept)[-EARLY_LIMIT:])


def _situation(operation: Operation, observed: OperationFinished) -> Situation:
    if observed.status not in ("failed", "timed_out") or not observed.diagnostic.strip():
        return Situation()
    scope = scope_of(operation.tool, operation.mcp_server)
    return situation_of(TOOL_FAILED, scope, observed.error_class, observed.diagnostic)


def _report(step: Step, operation: Operation, observed: OperationFinished, situation: Situation) -> str:
    if observed.status == "ok":
        return step.emit("operation.completed", observed.at_ns, {"result": observed.excerpt}, **_ids(operation))
    data = {
        "status": observed.status,
        "effect": observed.effect,
        "error_class": observed.error_class or None,
        "detail": observed.diagnostic,
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


def operation_text(ended: EndedOperation, check_first: str) -> str:
    """Return how the end of an operation reads in the history; `check_first` is said of an uncertain effect."""
    operation = ended.operation
    how = "ended well" if ended.outcome == "ok" else f"ended: {ended.outcome}"
    how += f", {ended.error_class}" if ended.error_class else ""
    effect = f" Its effect is uncertain. {check_first}" if ended.effect == "uncertain" else ""
    head = f"[Background operation {operation.operation_id} of {operation.tool} {how}.{effect}]"
    return "\n".join(line for line in (head, ended.diagnostic or ended.excerpt) if line)


def operations_happened(state: RunState) -> tuple[Happened, ...]:
    """Return the outcomes of the operations that ended since the last boundary, in the order they ended."""
    return tuple(
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
            situation=ended.situation,
        )
        for ended in state.ended_operations
    )
