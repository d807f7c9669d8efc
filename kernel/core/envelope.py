"""Which call may not be executed, judged before it is: an ask before it, its step, the budget, the catalogue, policy.

The first that stands against a call refuses it, and the run goes on. A refused step costs nothing of the budget; a
guess at a tool that is not offered does. (Seed 001 §5.1, seed 003.)
"""

from kernel.core.settling import tool_of
from kernel.core.state import Call, RunState
from kernel.core.step import Step
from kernel.messages import Limits, ToolStatus

Refusal = tuple[ToolStatus, str, str]  # status, code, reply


def admit(step: Step, call: Call) -> Refusal | None:
    """Let a call through and count it, or return why it may not be executed. One that a person allowed has passed."""
    if call.approved:
        return None
    refusal = _outside(step.state, call)
    if refusal is not None:
        return refusal
    step.set(n_calls=step.state.n_calls + 1)
    return _unfit(step.state, call)


def call_limit(limits: Limits) -> int:
    """Return how many calls a run may make."""
    return limits.max_tool_calls or limits.max_turns


def position_of(state: RunState) -> int:
    """Return the step the loop is at, counted from 0."""
    return state.turn - 1


def _outside(state: RunState, call: Call) -> Refusal | None:
    """Judge what costs nothing: the end of the turn and the step; then the budget itself.

    Steps below the ceiling are no more than the ceiling, so that no more of them can be claimed needs no look.
    """
    name, limits = call.seen.name, state.spec.limits
    if state.escalation:
        return "denied", "escalation_pending", f"A person was asked to decide before {name}. Nothing was executed."
    claimed = position_of(state) if call.seen.step is None else call.seen.step
    if claimed >= limits.max_turns:
        text = f"Step {claimed} is outside the limit of {limits.max_turns} steps. Nothing was executed."
        return "denied", "step_limit_exceeded", text
    if state.n_calls >= call_limit(limits):
        text = f"The limit of {call_limit(limits)} tool calls of this run is reached. Nothing was executed."
        return "denied", "tool_call_limit_exceeded", text
    return None


def _unfit(state: RunState, call: Call) -> Refusal | None:
    name = call.seen.name
    if tool_of(state, name) is None:
        return "denied", "tool_unavailable", f"No tool named {name} is offered. Nothing was executed."
    if call.seen.malformed:
        text = f"The arguments of {name} could not be read: {call.seen.malformed}. Nothing was executed."
        return "denied", "invalid_arguments", text
    if name in state.spec.blocked_tools:
        return "blocked", "policy_blocked", f"Policy does not allow {name} in this run. Nothing was executed."
    return None
