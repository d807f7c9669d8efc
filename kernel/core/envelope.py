"""Which call may not be executed, judged before it is, in this order: readable, offered, allowed.

(Seed 001 §5.1.)
"""

from kernel.core.settling import tool_of
from kernel.core.state import Call, RunState
from kernel.messages import ToolStatus


def refusal_of(state: RunState, call: Call) -> tuple[ToolStatus, str, str] | None:
    """Return (status, code, reply) of a call that must not be executed, or None."""
    name = call.seen.name
    if call.seen.malformed:
        text = f"The arguments of {name} could not be read: {call.seen.malformed}. Nothing was executed."
        return "denied", "invalid_arguments", text
    if tool_of(state, name) is None:
        return "denied", "tool_unavailable", f"No tool named {name} is offered. Nothing was executed."
    if name in state.spec.blocked_tools:
        return "blocked", "policy_blocked", f"Policy does not allow {name} in this run. Nothing was executed."
    return None
