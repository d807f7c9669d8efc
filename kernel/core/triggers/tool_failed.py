"""`tool.failed`: a tool was executed and ended in an error. Decided on status, never on the words of a text.

Refusals, malformed arguments and cancellations are no failures of a tool. (Seed 001 §5.1.)
"""

from collections.abc import Iterable

from kernel.core.state import Candidate
from kernel.core.triggers.facts import TurnFacts, candidate_of
from kernel.messages import Switches


class ToolFailed:
    """Sees one candidate in each executed call or operation that failed or timed out."""

    name = "tool.failed"

    def is_on(self, switches: Switches) -> bool:
        return switches.tool_failed

    def candidates(self, facts: TurnFacts) -> Iterable[tuple[int, Candidate]]:
        for index, happened in enumerate(facts.happened):
            if happened.executed and happened.status in ("failed", "timed_out"):
                yield index, candidate_of(self.name, happened, happened.diagnostic)
