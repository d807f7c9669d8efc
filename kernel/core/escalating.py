"""How a run ends in an ask: the affordance is offered like a tool, recognised by the driver, and never invoked.

The core holds the driver's gate a second time: an ask of a run whose catalogue lacks the affordance ends that run as
failed, and nothing is escalated. (Seed 003.)
"""

from dataclasses import replace
from typing import Final

from kernel.core.settling import answer, emit_outcome, reply, settle
from kernel.core.state import Call, RunState
from kernel.core.step import Step

ASKED: Final = "The run ends here: a person is asked to decide."
NOT_TERMINATED: Final = "escalation_not_terminated"


def offers_escalation(state: RunState) -> bool:
    """Tell whether the run's catalogue holds the affordance."""
    return any(tool.kind == "escalate" for tool in state.tools)


def is_ask(state: RunState, call: Call) -> bool:
    """Tell whether the run ends in this call; the first ask counts."""
    return bool(call.seen.escalates) and not state.escalation


def escalate(step: Step, at_ns: int, call: Call) -> None:
    """Take in the ask; what follows it in the reply is not executed, what precedes it is waited for."""
    step.set(escalation=call.seen.escalates, ask_call_id=call.seen.call_id)
    answer(step, at_ns, call, ASKED)


def forwarded(step: Step, at_ns: int, call: Call) -> None:
    """Fail a call of the affordance that a driver passed on: an escalation nobody ended the run on is none."""
    from_driver = "The driver forwarded the ask instead of ending the run in it: nobody was asked."
    data = {"status": "failed", "error_class": NOT_TERMINATED, "effect": "none", "detail": from_driver}
    event_id = emit_outcome(step, at_ns, call, "tool.failed", data)
    reply(step, call, from_driver, "refusal", "failed", NOT_TERMINATED)
    settle(step, replace(call, outcome="failed", outcome_event_id=event_id), at_ns)
