"""How a driver knows an ask: a call of the affordance's name, when this turn's catalogue holds it.

The affordance is a tool like any other in the catalogue and is never invoked: a reply that calls it ends the run
escalated. A name that was not offered is passed on, to be refused like any other. (Seed 003.)
"""

import json
from collections.abc import Sequence
from typing import Final

from contract.redaction import redact
from kernel.drivers import DriverReply, Escalation, ToolOffer
from kernel.messages import ToolCall

ESCALATE: Final = "escalate"
REASON_UNITS: Final = 512  # UTF-16 code units of a reason
DEFAULT_REASON: Final = "The agent asked for a person to decide and gave no reason that could be read."


def escalation_of(calls: Sequence[ToolCall], tools: Sequence[ToolOffer]) -> Escalation | None:
    """Return the first ask among the calls of a reply, None when there is none or the affordance was not offered."""
    if not any(offer.name == ESCALATE for offer in tools):
        return None
    for number, call in enumerate(calls):
        if call.name == ESCALATE:
            return Escalation(read_reason(call.arguments), number)
    return None


def recognised(reply: DriverReply, tools: Sequence[ToolOffer]) -> DriverReply:
    """Return the reply of a model with its ask recognised; for every driver that reads a model's words."""
    return DriverReply(
        reply.text,
        reply.calls,
        reply.model,
        reply.input_tokens,
        reply.output_tokens,
        reply.finish_reason,
        escalation=escalation_of(reply.calls, tools),
    )


def read_reason(arguments: str) -> str:
    """Return the reason in a model's arguments, trimmed and cut to what a reason may have; a default when there is
    none to be read. Secrets are left out before the cut, which would leave a part of one that nobody knows as such."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    reason = value.get("reason") if isinstance(value, dict) else None
    if not isinstance(reason, str) or not reason.strip():
        return DEFAULT_REASON
    return cut_units(redact(reason.strip())[0], REASON_UNITS)


def cut_units(text: str, limit: int) -> str:
    """Return the start of a text within `limit` UTF-16 units, no surrogate pair split."""
    raw = text.encode("utf-16-le", "replace")
    return text if len(raw) <= 2 * limit else raw[: 2 * limit].decode("utf-16-le", "ignore").rstrip()


def units(text: str) -> int:
    """Return the UTF-16 units of a text; half a pair counts as one."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
