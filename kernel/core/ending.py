"""How a run ends: what is pending is closed, what is left over is written and stopped, then the one terminal event.

(Seed 001 §6.2, §15; seeds 000 and 003.)
"""

import json
from typing import Any, Final

from contract.text import clip
from kernel.core.activation import event_ids, skip_deferred
from kernel.core.calls import close_calls
from kernel.core.finale import final_answer, limit_words
from kernel.core.injection import drop_unsent
from kernel.core.operations import stop_operations
from kernel.core.step import Step
from kernel.messages import CloseTranscript, Finish, KeepAnswer

ANSWER_LIMIT: Final = 4_096  # code points of the answer that travel in events and results


def end(
    step: Step, at_ns: int, status: str, *, answer: str = "", reason: str = "", whole: bool = False, **data: Any
) -> None:
    """End the run: what is left over is written, stopped and reported, then the one terminal event. The `whole` answer
    stands in the transcript, as it always does in a run that completed."""
    if step.state.appends:
        close_transcript(step)
    stop_operations(step, at_ns)
    skip_deferred(step, at_ns)
    drop_unsent(step, at_ns)
    metadata = json.loads(step.state.metadata) if step.state.metadata else None
    body = {"answer": answer or None, "reason": reason or None, "n_turns": step.state.turn, "metadata": metadata}
    step.emit(f"run.{status}", at_ns, body | data, turn=None)
    step.flush()
    talk = step.state.spec.conversation
    if talk is not None and answer:
        seq = step.state.assistant_seq if whole or status == "completed" else None
        step.do(KeepAnswer(step.state.spec.run_id, talk, answer, seq))
    step.set(phase="finished", calls=())
    step.do(Finish(step.state.spec.run_id, status, answer, reason))


def close_transcript(step: Step) -> None:
    step.do(CloseTranscript(step.state.spec.run_id, step.state.appends, step.state.assistant_seq))
    step.set(appends=())


def stop(step: Step, at_ns: int, stopped: str, code: str = "run_cancelled") -> None:
    """Stop now. What is pending is closed first: the request and the searches in the record, the calls by a reply."""
    if step.state.phase == "calling":
        # A reply of the model may stand in the transcript already, with calls that nobody is going to execute.
        close_transcript(step)
        # The request's own number, so that none is missing: whether it was sent is not known.
        data = {"error": f"{stopped} while the model was asked", "error_class": "cancelled"}
        step.emit("model.failed", at_ns, data, number=step.state.request_number)
    close_calls(step, at_ns, stopped, code)
    for asked in step.state.asked:
        data = {"trigger": asked.candidate.trigger, "result": "error", "error": stopped}
        ids = {**event_ids(step.state, asked.candidate), "caused_by": asked.event_id}
        step.emit("activation.completed", at_ns, data, **ids)
    step.set(asked=())


def fail(step: Step, at_ns: int, code: str, error: str, caused_by: str | None = None, source: str = "runtime") -> None:
    """End the run as failed: what runs is stopped, what waits is answered; `source` says who found it so."""
    close_calls(step, at_ns, "the run failed", "run_failed")
    step.emit("turn.failed", at_ns, {"code": code, "source": source, "error": error}, caused_by=caused_by)
    end(step, at_ns, "failed", error=error, reason=code)


def end_in_ask(step: Step, at_ns: int) -> None:
    """End the run escalated; nothing resumes it."""
    state = step.state
    places = [call.seen.call_id for call in state.calls]
    behind = len(places) - places.index(state.ask_call_id) - 1
    data: dict[str, Any] = {
        "reviewer": state.spec.reviewer,
        "call_id": state.ask_call_id,
        "n_denied": behind + _denied_elsewhere(state.metadata),
    }
    end(step, at_ns, "escalated", reason=state.escalation, **data)


def _denied_elsewhere(metadata: str) -> int:
    """Return how many calls a runtime says it denied itself after its ask: they reached nobody else."""
    told = json.loads(metadata).get("n_denied") if metadata else None
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 0


def end_at_limit(step: Step, at_ns: int, text: str = "", n_dropped: int = 0) -> None:
    """End the run after its last request: with what the model said, or with a fixed text that lists the results."""
    limit = step.state.limit
    step.emit("turn.completed", at_ns, {"n_calls": 0})
    said, reason = clip(text, ANSWER_LIMIT), limit_words(step.state, limit)
    answer = final_answer(step.state, limit, said, n_dropped)
    end(step, at_ns, "limit_reached", answer=answer, reason=reason, whole=answer == said, limit=limit)
