"""`mcp.first_call`: the first call in the run to an MCP server, and it succeeded.

A first call that failed makes the server met as well; a refused one does not; without a key there is no server.
(Seed 001 §5.2.)
"""

from collections.abc import Iterable

from kernel.core.state import Candidate
from kernel.core.triggers.facts import TurnFacts, candidate_of
from kernel.messages import Switches


class McpFirstCall:
    """Sees one candidate for each server whose first executed call succeeded."""

    name = "mcp.first_call"

    def is_on(self, switches: Switches) -> bool:
        return switches.mcp_first_call

    def candidates(self, facts: TurnFacts) -> Iterable[tuple[int, Candidate]]:
        met = list(facts.met_servers)
        for index, happened in enumerate(facts.happened):
            if not happened.executed or not happened.mcp_server or happened.mcp_server in met:
                continue
            met.append(happened.mcp_server)
            if happened.status == "ok":
                yield index, candidate_of(self.name, happened, happened.excerpt)
