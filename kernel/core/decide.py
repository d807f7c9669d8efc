"""The core: an observation and a state in, the next state and commands out. No clock, no chance, no input or output.

One turn: request, reply, every call answered, then the boundary: operations that ended are told, triggers are
judged, hints are placed after the last reply, the next request goes out. (Seed 001 §6, §15, §20.)
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from contract.hint_api import QUERY_LIMIT
from contract.text import clip
from kernel.core.activation import search_at_boundary, search_at_start
from kernel.core.bounds import TASK_BYTES, cleaned, clip_bytes
from kernel.core.calls import advance, finish_call, happened_in, open_calls
from kernel.core.delegation import finish_delegate
from kernel.core.ending import ANSWER_LIMIT, close_transcript, end, end_at_limit, end_in_ask, fail, stop
from kernel.core.finale import LIMIT_CODES, finale_note, limit_words, spent_limit
from kernel.core.injection import append_message, take_answers
from kernel.core.operations import end_operation, operations_happened, untold_text
from kernel.core.people import decide_approval, take_answer
from kernel.core.requesting import report_failure, report_reply, request
from kernel.core.state import RunState
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation, allowed
from kernel.messages import (
    ApprovalDecided,
    CancelRequested,
    Command,
    ContinueAsNew,
    DelegateFinished,
    HintsArrived,
    Message,
    ModelFailed,
    ModelReplied,
    Observation,
    OperationFinished,
    PrepareRun,
    QuestionAnswered,
    Resumed,
    RunBroken,
    RunPrepared,
    RunSpec,
    ToolFinished,
)

NAME_LIMIT: Final = 200  # code points of the names of agent and model
REASON_LIMIT: Final = 1_000  # code points of why a run was cancelled
DECLARED: Final = "declared_failure"  # the code of a run that its driver ended as failed
# Failures of a request that are not the model's: the code of the turn says which.
OWN_CODES: Final = (
    "protocol_violation", "invalid_driver_decision", "invalid_runtime_outcome", "driver_failed", "runtime_failed",
    "runtime_silent", "runtime_lost",
)  # fmt: skip

Decision = tuple[RunState, tuple[Command, ...]]


def start(spec: RunSpec) -> Decision:
    """Return the first state of a run and what to do first."""
    return RunState(spec), (PrepareRun(spec),)


def decide(state: RunState, observation: Observation) -> Decision:
    """Return what follows from one observation.

    Raises IllegalObservation, with `state` unchanged, for one that cannot have happened now.
    """
    name = type(observation).__name__
    targets = allowed(state.phase, name)
    step = Step(state)
    if getattr(observation, "continue_suggested", False):
        step.set(continue_suggested=True)
    HANDLERS[name](step, observation)
    if step.state.phase not in targets:
        raise AssertionError(f"{name} led from {state.phase} to {step.state.phase}, which the table does not allow")
    return step.end()


def on_prepared(step: Step, observed: RunPrepared) -> None:
    spec = step.state.spec
    spec = replace(spec, task=cleaned(spec.task, QUERY_LIMIT))
    step.set(tools=observed.tools)
    servers = dict.fromkeys(tool.mcp_server for tool in observed.tools if tool.mcp_server)
    data = {
        "task": spec.task,
        "agent": clip(spec.agent, NAME_LIMIT),
        "model": clip(spec.model, NAME_LIMIT) or None,
        "conversation_id": spec.conversation.conversation_id if spec.conversation else None,
        "limits": asdict(spec.limits),
        "switches": asdict(spec.switches),
        "tools": [tool.name for tool in observed.tools],
        "mcp_servers": list(servers),
        "failed_servers": dict(observed.failed_servers) or None,
    }
    step.set(started_ns=observed.at_ns, next_seq=observed.n_messages)
    event_id = step.emit("run.started", observed.at_ns, data)
    if observed.cut is not None:
        cut = {"heard": observed.cut.heard, "prefix": cleaned(observed.cut.prefix, ANSWER_LIMIT) or None}
        step.emit("answer.cut", observed.at_ns, {**cut, "record_id": observed.cut.record_id or None})
    # The whole task stands in the transcript; the state keeps what searches are made with.
    task = clip_bytes(spec.task, TASK_BYTES)
    talk = replace(spec.conversation, profile=(), pending="", mode="") if spec.conversation else None
    step.set(spec=replace(spec, task=task, rules="", setup="", mcp_servers=(), conversation=talk))
    if observed.error:
        end(step, observed.at_ns, "failed", error=observed.error, reason="the run could not be prepared")
        return
    search_at_start(step, observed.at_ns, event_id)
    if step.state.asked:
        step.set(phase="searching")
        step.flush()
    else:
        next_turn(step, observed.at_ns)


def on_hints(step: Step, observed: HintsArrived) -> None:
    take_answers(step, observed)
    next_turn(step, observed.at_ns)


def next_turn(step: Step, at_ns: int) -> None:
    """Cross the boundary: to the last request when a limit is spent, to a new workflow run when it is time, else to the
    next request."""
    limits = step.state.spec.limits
    limit = step.state.limit or spent_limit(step.state, at_ns)
    if limit:
        step.set(limit=limit)
        at_limit(step, at_ns, limit)
        return
    if step.state.turn and (step.state.continue_suggested or step.state.turns_here >= limits.turns_per_workflow):
        step.flush()
        step.set(phase="continuing", continue_suggested=False, turns_here=0)
        step.do(ContinueAsNew())
        return
    request(step, at_ns)


def at_limit(step: Step, at_ns: int, limit: str) -> None:
    """Ask for an answer once more, without tools; or fail, where the run is to."""
    if step.state.spec.limits.at_limit == "fail":
        fail(step, at_ns, LIMIT_CODES[limit], limit_words(step.state, limit))
        return
    append_message(step, Message("context", finale_note(step.state, limit), "finale"))
    request(step, at_ns, finale=limit)


def on_resumed(step: Step, observed: Resumed) -> None:
    step.set(continuations=step.state.continuations + 1)
    data = {"continuation": step.state.continuations, "n_messages": step.state.next_seq}
    step.emit("run.continued", observed.at_ns, data)
    request(step, observed.at_ns)


def on_reply(step: Step, observed: ModelReplied) -> None:
    n_messages = step.state.assistant_seq
    if observed.n_messages not in (0, n_messages):
        raise IllegalObservation(f"a reply to {observed.n_messages} messages cannot be one to {n_messages}")
    step.set(appends=())
    event_id = report_reply(step, observed)
    if step.state.limit:
        end_at_limit(step, observed.at_ns, observed.text, observed.n_dropped)
    elif observed.failed:
        fail(step, observed.at_ns, DECLARED, observed.failed, event_id)
    elif not observed.calls:
        step.emit("turn.completed", observed.at_ns, {"n_calls": 0})
        cut = "the model's answer was cut at its length limit" if observed.finish_reason == "length" else ""
        end(step, observed.at_ns, "completed", answer=clip(observed.text, ANSWER_LIMIT), reason=cut)
    else:
        open_calls(step, observed)
        boundary_when_answered(step, observed.at_ns)


def on_model_failed(step: Step, observed: ModelFailed) -> None:
    """End the run; a last request that failed has a fixed text for its answer."""
    event_id = report_failure(step, observed)
    if step.state.limit:
        close_transcript(step)
        end_at_limit(step, observed.at_ns)
        return
    code = observed.error_class if observed.error_class in OWN_CODES else "model_failed"
    step.emit("turn.failed", observed.at_ns, {"code": code, "source": observed.source}, caused_by=event_id)
    close_transcript(step)  # a reply may have been written by an edge that was lost before it could say so
    end(step, observed.at_ns, "failed", error=observed.error, reason=code)


def on_tool(step: Step, observed: ToolFinished) -> None:
    finish_call(step, observed)
    advance(step, observed.at_ns)
    boundary_when_answered(step, observed.at_ns)


def on_approval(step: Step, observed: ApprovalDecided) -> None:
    decide_approval(step, observed)
    advance(step, observed.at_ns)
    boundary_when_answered(step, observed.at_ns)


def on_operation(step: Step, observed: OperationFinished) -> None:
    end_operation(step, observed)
    if step.state.phase == "waiting":
        boundary_when_answered(step, observed.at_ns)


def on_answer(step: Step, observed: QuestionAnswered) -> None:
    take_answer(step, observed)
    boundary_when_answered(step, observed.at_ns)


def on_delegate(step: Step, observed: DelegateFinished) -> None:
    finish_delegate(step, observed)
    boundary_when_answered(step, observed.at_ns)


def boundary_when_answered(step: Step, at_ns: int) -> None:
    """When every call has its reply: tell ended operations, judge triggers, then go on. Not a moment earlier."""
    if step.state.refused:
        text = "the runtime ended the run in an ask that the run was not offered"
        fail(step, at_ns, step.state.refused, text, source="envelope")
        return
    if any(not call.outcome for call in step.state.calls):
        return
    step.emit("turn.completed", at_ns, {"n_calls": len(step.state.calls)})
    if step.state.escalation:
        end_in_ask(step, at_ns)
        return
    step.set(limit=spent_limit(step.state, at_ns))
    happened = (*happened_in(step.state), *operations_happened(step.state))
    text = untold_text(step.state)
    if text:
        append_message(step, Message("context", text, "operation"))
    step.set(calls=(), ended_operations=())
    search_at_boundary(step, at_ns, happened)
    if step.state.asked:
        step.set(phase="searching")
    else:
        next_turn(step, at_ns)


def on_cancel(step: Step, observed: CancelRequested) -> None:
    stop(step, observed.at_ns, "the run was cancelled")
    reason = cleaned(observed.reason, REASON_LIMIT) or "cancelled"
    end(step, observed.at_ns, "cancelled", reason=reason)


def on_broken(step: Step, observed: RunBroken) -> None:
    stop(step, observed.at_ns, "the run ended by a defect", "run_failed")
    error = cleaned(observed.error, REASON_LIMIT)
    end(step, observed.at_ns, "failed", error=error, reason="a defect of the runtime ended the run")


HANDLERS: Final[dict[str, Callable[[Step, Any], None]]] = {
    "RunPrepared": on_prepared,
    "HintsArrived": on_hints,
    "ModelReplied": on_reply,
    "ModelFailed": on_model_failed,
    "ToolFinished": on_tool,
    "ApprovalDecided": on_approval,
    "OperationFinished": on_operation,
    "QuestionAnswered": on_answer,
    "DelegateFinished": on_delegate,
    "CancelRequested": on_cancel,
    "RunBroken": on_broken,
    "Resumed": on_resumed,
}
