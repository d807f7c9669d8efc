"""A model request: how it goes out, and how it and what came of it are reported. (Seed 001 §6, §15; seed 000.)"""

from typing import Any

from contract.text import clip
from contract.text import estimate_tokens as estimate
from kernel.core.bounds import bounded_metadata
from kernel.core.ending import ANSWER_LIMIT
from kernel.core.finale import limit_words
from kernel.core.injection import confirm_sent
from kernel.core.step import Step
from kernel.messages import CallModel, ModelFailed, ModelReplied


def request(step: Step, at_ns: int, finale: str = "") -> None:
    """Open a turn and call the model with everything appended since the last request; `finale` names the limit that
    makes it the last one."""
    spec = step.state.spec
    turn, reply_seq = step.state.turn + 1, step.state.next_seq
    step.set(turn=turn, turns_here=step.state.turns_here + 1, calls=())
    step.emit("turn.started", at_ns)
    if finale:
        detail, n_receipts = limit_words(step.state, finale), step.state.n_receipts
        data = {"kind": "safe_completion", "detail": detail, "limit": finale, "n_receipts": n_receipts}
        step.emit("thinking", at_ns, data)
    step.flush()
    number = step.reserve()
    appends, event_id = step.state.appends, step.event_id(number)
    # The appends are kept until the request is known to have been made: an edge that was lost wrote nothing.
    step.set(request_number=number, assistant_seq=reply_seq, next_seq=reply_seq + 1, phase="calling")
    step.do(
        CallModel(spec.run_id, turn, appends, reply_seq, event_id, spec.agent, spec.script, spec.model, bool(finale))
    )


def _report_request(step: Step, observed: ModelReplied | ModelFailed, tokens: int | None) -> None:
    """Report the request that was sent, as what it added to the one before, and the hints that stood in it."""
    state = step.state
    kept, n_messages = state.request_size, state.assistant_seq
    data = {
        "follows": state.request_event_id or None,
        "n_kept": kept,
        "n_messages": n_messages,
        "tokens": tokens,
        "n_tools": 0 if state.limit else len(state.tools),
        "finale": True if state.limit else None,
    }
    span: dict[str, Any] = {"messages_from": kept, "messages_to": n_messages}
    event_id = step.emit("model.requested", observed.requested_ns, data, number=state.request_number, **span)
    step.set(request_event_id=event_id, request_size=n_messages)
    confirm_sent(step, observed.requested_ns, observed.sent_context)


def report_reply(step: Step, observed: ModelReplied) -> str:
    """Report a request and its reply, and count what they took; return the id of the reply's event."""
    _report_request(step, observed, observed.request_tokens)
    data = {
        "duration_ms": (observed.at_ns - observed.requested_ns) / 1e6,
        "n_calls": len(observed.calls),
        "text": clip(observed.text, ANSWER_LIMIT) or None,
        "input_tokens": observed.input_tokens,
        "output_tokens": observed.output_tokens,
        "model": observed.model or None,
        "finish_reason": observed.finish_reason or None,
        "n_dropped": observed.n_dropped or None,
    }
    event_id = step.emit("model.completed", observed.at_ns, data, caused_by=step.state.request_event_id)
    tokens = (observed.input_tokens or observed.request_tokens) + (observed.output_tokens or estimate(observed.text))
    ends = not observed.calls or any(call.escalates for call in observed.calls)
    metadata = bounded_metadata(observed.metadata) if ends else ""
    step.set(call_event_id=event_id, model_tokens=step.state.model_tokens + tokens, metadata=metadata)
    return event_id


def report_failure(step: Step, observed: ModelFailed) -> str:
    """Report a request that failed, of one that was never sent the failure only; return the id of its event."""
    data = {
        "duration_ms": (observed.at_ns - observed.requested_ns) / 1e6,
        "error": observed.error,
        "error_class": observed.error_class,
    }
    if not observed.sent:
        return step.emit("model.failed", observed.at_ns, data, number=step.state.request_number)
    _report_request(step, observed, None)
    return step.emit("model.failed", observed.at_ns, data, caused_by=step.state.request_event_id)
