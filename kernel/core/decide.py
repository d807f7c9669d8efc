"""The core: an observation and a state in, the next state and commands out. No clock, no chance, no input or output.

One turn: request, reply, every call answered, then the boundary: operations that ended are told, triggers are
judged, hints are placed after the last reply, the next request goes out. (Seed 001 §6, §15, §20.)
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from contract.hint_api import QUERY_LIMIT
from contract.text import clip
from kernel.core.activation import event_ids, search_at_boundary, search_at_start, skip_deferred
from kernel.core.bounds import TASK_BYTES, cleaned, clip_bytes
from kernel.core.calls import advance, close_calls, finish_call, happened_in, open_calls
from kernel.core.delegation import finish_delegate
from kernel.core.injection import append_message, confirm_sent, drop_unsent, take_answers
from kernel.core.operations import end_operation, operations_happened, stop_operations, untold_text
from kernel.core.people import decide_approval, take_answer
from kernel.core.state import RunState
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation, allowed
from kernel.messages import (
    ApprovalDecided,
    CallModel,
    CancelRequested,
    CloseTranscript,
    Command,
    ContinueAsNew,
    DelegateFinished,
    Finish,
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
ANSWER_LIMIT: Final = 4_096  # code points of the answer that travel in events and results

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
        "limits": asdict(spec.limits),
        "switches": asdict(spec.switches),
        "tools": [tool.name for tool in observed.tools],
        "mcp_servers": list(servers),
        "failed_servers": dict(observed.failed_servers) or None,
    }
    event_id = step.emit("run.started", observed.at_ns, data)
    # The whole task stands in the transcript; the state keeps what searches are made with.
    task = clip_bytes(spec.task, TASK_BYTES)
    step.set(spec=replace(spec, task=task, rules="", setup="", mcp_servers=()))
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
    """Cross the boundary: end at the turn limit, go on in a new workflow run when it is time, else request."""
    limits = step.state.spec.limits
    if step.state.turn >= limits.max_turns:
        reason = f"the limit of {limits.max_turns} turns was reached"
        end(step, at_ns, "limit_reached", limit="tool_rounds", reason=reason)
        return
    if step.state.turn and (step.state.continue_suggested or step.state.turns_here >= limits.turns_per_workflow):
        step.flush()
        step.set(phase="continuing", continue_suggested=False, turns_here=0)
        step.do(ContinueAsNew())
        return
    request(step, at_ns)


def on_resumed(step: Step, observed: Resumed) -> None:
    step.set(continuations=step.state.continuations + 1)
    data = {"continuation": step.state.continuations, "n_messages": step.state.next_seq}
    step.emit("run.continued", observed.at_ns, data)
    request(step, observed.at_ns)


def request(step: Step, at_ns: int) -> None:
    """Open a turn and call the model with everything appended since the last request."""
    spec = step.state.spec
    turn, reply_seq = step.state.turn + 1, step.state.next_seq
    step.set(turn=turn, turns_here=step.state.turns_here + 1, calls=())
    step.emit("turn.started", at_ns)
    step.flush()
    number = step.reserve()
    appends, event_id = step.state.appends, step.event_id(number)
    # The appends are kept until the request is known to have been made: an edge that was lost wrote nothing.
    step.set(request_number=number, assistant_seq=reply_seq, next_seq=reply_seq + 1, phase="calling")
    step.do(CallModel(spec.run_id, turn, appends, reply_seq, event_id, spec.agent, spec.script, spec.model))


def report_request(step: Step, observed: ModelReplied | ModelFailed, n_messages: int, tokens: int | None) -> None:
    """Report the request that was sent, as what it added to the one before, and the hints that stood in it."""
    state = step.state
    kept = state.request_size
    data = {
        "follows": state.request_event_id or None,
        "n_kept": kept,
        "n_messages": n_messages,
        "tokens": tokens,
        "n_tools": len(state.tools),
    }
    span: dict[str, Any] = {"messages_from": kept, "messages_to": n_messages}
    event_id = step.emit("model.requested", observed.requested_ns, data, number=state.request_number, **span)
    step.set(request_event_id=event_id, request_size=n_messages)
    confirm_sent(step, observed.requested_ns, observed.sent_context)


def on_reply(step: Step, observed: ModelReplied) -> None:
    n_messages = step.state.assistant_seq
    if observed.n_messages not in (0, n_messages):
        raise IllegalObservation(f"a reply to {observed.n_messages} messages cannot be one to {n_messages}")
    step.set(appends=())
    report_request(step, observed, n_messages, observed.request_tokens)
    data = {
        "duration_ms": (observed.at_ns - observed.requested_ns) / 1e6,
        "n_calls": len(observed.calls),
        "text": clip(observed.text, ANSWER_LIMIT) or None,
        "input_tokens": observed.input_tokens,
        "output_tokens": observed.output_tokens,
        "model": observed.model or None,
        "finish_reason": observed.finish_reason or None,
    }
    event_id = step.emit("model.completed", observed.at_ns, data, caused_by=step.state.request_event_id)
    step.set(call_event_id=event_id)
    if not observed.calls:
        step.emit("turn.completed", observed.at_ns, {"n_calls": 0})
        cut = "the model's answer was cut at its length limit" if observed.finish_reason == "length" else ""
        end(step, observed.at_ns, "completed", answer=clip(observed.text, ANSWER_LIMIT), reason=cut)
        return
    open_calls(step, observed)
    boundary_when_answered(step, observed.at_ns)


def on_model_failed(step: Step, observed: ModelFailed) -> None:
    """End the run. Of a request that was never sent only the failure is reported."""
    data = {
        "duration_ms": (observed.at_ns - observed.requested_ns) / 1e6,
        "error": observed.error,
        "error_class": observed.error_class,
    }
    code = "protocol_violation" if observed.error_class == "protocol_violation" else "model_failed"
    if not observed.sent:
        event_id = step.emit("model.failed", observed.at_ns, data, number=step.state.request_number)
    else:
        report_request(step, observed, step.state.assistant_seq, None)
        event_id = step.emit("model.failed", observed.at_ns, data, caused_by=step.state.request_event_id)
    step.emit("turn.failed", observed.at_ns, {"code": code, "source": "runtime"}, caused_by=event_id)
    close_transcript(step)  # a reply may have been written by an edge that was lost before it could say so
    end(step, observed.at_ns, "failed", error=observed.error, reason="the model request failed")


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
    if any(not call.outcome for call in step.state.calls):
        return
    step.emit("turn.completed", at_ns, {"n_calls": len(step.state.calls)})
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
    stop(step, observed.at_ns, "the run ended by a defect")
    error = cleaned(observed.error, REASON_LIMIT)
    end(step, observed.at_ns, "failed", error=error, reason="a defect of the runtime ended the run")


def stop(step: Step, at_ns: int, stopped: str) -> None:
    """Stop now. What is pending is closed first: the request and the searches in the record, the calls by a reply."""
    if step.state.phase == "calling":
        # A reply of the model may stand in the transcript already, with calls that nobody is going to execute.
        close_transcript(step)
        # The request's own number, so that none is missing: whether it was sent is not known.
        data = {"error": f"{stopped} while the model was asked", "error_class": "cancelled"}
        step.emit("model.failed", at_ns, data, number=step.state.request_number)
    close_calls(step, at_ns, stopped)
    for asked in step.state.asked:
        data = {"trigger": asked.candidate.trigger, "result": "error", "error": stopped}
        ids = {**event_ids(step.state, asked.candidate), "caused_by": asked.event_id}
        step.emit("activation.completed", at_ns, data, **ids)
    step.set(asked=())


def end(step: Step, at_ns: int, status: str, *, answer: str = "", reason: str = "", **data: Any) -> None:
    """End the run: what is left over is written, stopped and reported, then the one terminal event."""
    if step.state.appends:
        close_transcript(step)
    stop_operations(step, at_ns)
    skip_deferred(step, at_ns)
    drop_unsent(step, at_ns)
    body = {"answer": answer or None, "reason": reason or None, "n_turns": step.state.turn, **data}
    step.emit(f"run.{status}", at_ns, body, turn=None)
    step.flush()
    step.set(phase="finished", calls=())
    step.do(Finish(step.state.spec.run_id, status, answer, reason))


def close_transcript(step: Step) -> None:
    step.do(CloseTranscript(step.state.spec.run_id, step.state.appends, step.state.assistant_seq))
    step.set(appends=())


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
