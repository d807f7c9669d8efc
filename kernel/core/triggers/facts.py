"""What a trigger may look at, and what it says it saw.

At the start of a run that is the event that started it, at a boundary the calls and operations of the turn that
just ended, judged in order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kernel.core.state import Candidate, Situation
from kernel.messages import ToolStatus


@dataclass(frozen=True, slots=True)
class Happened:
    """One real outcome. `executed` is False for refused calls, copies of an identical call, and calls whose
    outcome comes later; an operation's outcome is executed. `situation` is that of a failure, over its whole text;
    `tool_arguments` is what the tool was called with.
    """

    event_id: str
    tool: str
    mcp_server: str | None
    status: ToolStatus
    executed: bool
    call_id: str | None = None
    operation_id: str | None = None
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""
    situation: Situation = Situation()
    tool_arguments: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """At a boundary the outcomes in call order and the servers met before; at the start only `started_event_id`."""

    happened: tuple[Happened, ...] = ()
    met_servers: tuple[str, ...] = ()
    started_event_id: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """A candidate and the index into `Facts.happened` of what it is about; candidates are judged in that order."""

    place: int
    candidate: Candidate


class Trigger(Protocol):
    """A policy that sees reasons to search in what happened."""

    name: str
    needs_text: bool  # whether a candidate without a tool's text has nothing to search for

    def reasons(self, facts: Facts) -> Iterable[Reason]:
        """Yield the reasons seen, situations included."""


def scope_of(tool: str, mcp_server: str | None) -> str:
    """Return whose situation and whose share of the run's activations something is: the server's, else the tool's."""
    return f"server:{mcp_server}" if mcp_server else f"tool:{tool}"
