"""What a trigger may look at: the calls and operations of the turn that just ended, judged in order."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kernel.core.state import Candidate
from kernel.messages import Switches, ToolStatus


@dataclass(frozen=True, slots=True)
class Happened:
    """One real outcome. `executed` is False for refused calls, copies of an identical call, and calls whose
    outcome comes later; an operation's outcome is executed."""

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


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """The outcomes of a turn in call order, and the MCP servers met before it."""

    happened: tuple[Happened, ...]
    met_servers: tuple[str, ...]


class Trigger(Protocol):
    """A policy that sees reasons to search in what happened."""

    name: str

    def is_on(self, switches: Switches) -> bool:
        """Return whether the run has this trigger switched on."""

    def candidates(self, facts: TurnFacts) -> Iterable[tuple[int, Candidate]]:
        """Yield (index into `facts.happened`, candidate without situation keys)."""


def candidate_of(trigger: str, happened: Happened, tool_result: str) -> Candidate:
    return Candidate(
        trigger=trigger,
        source_event_id=happened.event_id,
        tool=happened.tool,
        mcp_server=happened.mcp_server,
        call_id=happened.call_id,
        operation_id=happened.operation_id,
        tool_result=tool_result,
        error_class=happened.error_class,
    )
