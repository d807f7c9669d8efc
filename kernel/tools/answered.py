"""Owns how the tools that the core answers itself are offered: what a model is told of them, and their arguments.

What they do is decided in kernel.core; nothing here is executed.
"""

from typing import Any, Final

from kernel.drivers.escalation import ESCALATE
from kernel.messages import RunSpec
from kernel.tools.catalogue import ToolEntry


def _schema(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


AWAIT_OPERATION: Final = ToolEntry(
    "await_operation",
    "Wait for the end of a background operation and return its result. Do other work first when there is some.",
    _schema(operation_id=_text("as the reply to the call that started it named it, for example op-7")),
    effectful=False,
    kind="await_operation",
)
ASK_HUMAN: Final = ToolEntry(
    "ask_human",
    "Ask the person who gave you the task one question and wait for the answer. Ask only what the tools cannot tell.",
    _schema(question=_text("the question, complete in itself")),
    effectful=False,
    kind="ask_human",
)
UPDATE_PLAN: Final = ToolEntry(
    "update_plan",
    "Note your plan as a list of short steps; call it again whenever the plan changes.",
    _schema(steps={"type": "array", "items": {"type": "string"}, "description": "all steps, in order"}),
    effectful=False,
    kind="plan",
)
ESCALATION: Final = ToolEntry(
    ESCALATE,
    "End this run by asking a person to decide. Nothing goes on after it: use it when only a person may decide.",
    _schema(reason=_text("what is to be decided and why, in at most 512 characters")),
    effectful=False,
    kind="escalate",
    named_grant=True,
)
ANSWERED: Final = ("await_operation", "ask_human", "update_plan", "delegate", ESCALATE)


def delegate_entry(spec: RunSpec) -> ToolEntry:
    """Return the tool that delegates to the run's members."""
    names = [member.name for member in spec.members]
    member = {"type": "string", "enum": names, "description": "who is to do it"}
    return ToolEntry(
        "delegate",
        "Give a part of the task to a member of the team and wait for the answer. Calls of one reply run side by side.",
        _schema(member=member, task=_text("what to do, complete in itself: the member knows nothing else")),
        kind="delegate",
    )


def answered_entries(spec: RunSpec) -> tuple[ToolEntry, ...]:
    """Return the tools of this kind that the run asks for."""
    known = (AWAIT_OPERATION, ASK_HUMAN, UPDATE_PLAN, delegate_entry(spec), ESCALATION)
    return tuple(entry for entry in known if entry.name in spec.tools)
