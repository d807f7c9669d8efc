"""What waits for a person: a call that needs their yes, a question of the model.

A person may take as long as they like unless the run sets a limit; nobody deciding in time is a no. (Seed 001 §6.2.)
"""

import json
from dataclasses import replace
from typing import Final

from contract.text import clip
from kernel.core.bounds import cleaned
from kernel.core.finale import note_receipt
from kernel.core.settling import answer, call_ids, next_call, refuse, settle, wait, waiting_call
from kernel.core.state import Call, RunState
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation
from kernel.messages import ApprovalDecided, AskApproval, AskQuestion, QuestionAnswered

BY_LIMIT: Final = 200  # code points of who said it
NOTE_LIMIT: Final = 1_000  # code points of what a person says about a call
TEXT_LIMIT: Final = 4_096  # code points of a question and of an answer


def needs_approval(state: RunState, call: Call) -> bool:
    return call.seen.name in state.spec.approval_tools and not call.approved


def ask_approval(step: Step, at_ns: int, call: Call) -> None:
    """Ask whether a call may run; the calls after it wait as well."""
    spec, seen = step.state.spec, call.seen
    question = f"Run {seen.name} with {seen.excerpt}?"
    ids = call_ids(step.state, call.seen)
    step.emit("approval.requested", at_ns, {"question": question}, caused_by=call.requested_event_id, **ids)
    step.do(AskApproval(spec.run_id, seen.call_id, seen.name, seen.excerpt, spec.limits.person_timeout_ms))
    step.set(phase="approving")


def decide_approval(step: Step, observed: ApprovalDecided) -> None:
    """Take in a person's decision. Raises IllegalObservation for a call that does not wait for one."""
    call = next_call(step.state)
    if call is None or call.seen.call_id != observed.call_id:
        raise IllegalObservation(f"ApprovalDecided for {observed.call_id!r}, which does not wait for one")
    said = cleaned(observed.note, NOTE_LIMIT)
    decision = {
        "approved": observed.approved,
        "by": cleaned(observed.by, BY_LIMIT) or None,
        "note": said or None,
        "timed_out": observed.timed_out or None,
    }
    caused_by = call.requested_event_id
    step.emit("approval.decided", observed.at_ns, decision, caused_by=caused_by, **call_ids(step.state, call.seen))
    if observed.approved and not observed.timed_out:
        settle(step, replace(call, approved=True))
        return
    name = call.seen.name
    if observed.timed_out:
        text = f"No person decided about this call of {name} in time. Nothing was executed."
        refuse(step, observed.at_ns, call, "denied", "approval_timeout", text)
        return
    note = f" They said: {said}" if said else ""
    text = f"A person did not approve this call of {name}. Nothing was executed.{note}"
    refuse(step, observed.at_ns, call, "denied", "approval_denied", text)


def ask_question(step: Step, at_ns: int, call: Call) -> None:
    """Put a question to a person; the calls after it go on, the turn does not."""
    spec = step.state.spec
    question = clip(str(json.loads(call.seen.arguments)["question"]), TEXT_LIMIT)
    ids = call_ids(step.state, call.seen)
    step.emit("human.asked", at_ns, {"question": question}, caused_by=call.requested_event_id, **ids)
    step.do(AskQuestion(spec.run_id, call.seen.call_id, question, spec.limits.person_timeout_ms))
    wait(step, call)


def take_answer(step: Step, observed: QuestionAnswered) -> None:
    """Answer the call with what the person said. Raises IllegalObservation for a call that asks nothing."""
    call = waiting_call(step.state, observed.call_id, "ask_human")
    text = cleaned(observed.text, TEXT_LIMIT)
    data = {"timed_out": True} if observed.timed_out else {"answer": text, "by": cleaned(observed.by, BY_LIMIT) or None}
    caused_by = call.requested_event_id
    step.emit("human.answered", observed.at_ns, data, caused_by=caused_by, **call_ids(step.state, call.seen))
    if observed.timed_out:
        refuse(step, observed.at_ns, call, "denied", "question_unanswered", "No person answered in time.")
        return
    answer(step, observed.at_ns, call, text or "(an empty answer)")
    note_receipt(step, call.seen.name, call.gist, "answered")
