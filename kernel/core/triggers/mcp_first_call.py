"""`mcp.first_call`: the first call in the run to an MCP server, and it succeeded.

A first call that failed makes the server met as well; a refused one does not; without a key there is no server.
(Seed 001 §5.2.)
"""

from collections.abc import Iterable

from kernel.core.situations import situation_of
from kernel.core.state import Candidate
from kernel.core.triggers.facts import Facts, Reason, scope_of


class McpFirstCall:
    """Sees one reason for each server whose first executed call succeeded. A first call is one situation per
    server, whatever it answered."""

    name = "mcp.first_call"
    needs_text = False

    def reasons(self, facts: Facts) -> Iterable[Reason]:
        met = list(facts.met_servers)
        for place, happened in enumerate(facts.happened):
            server = happened.mcp_server
            if not happened.executed or not server or server in met:
                continue
            met.append(server)
            if happened.status == "ok":
                candidate = Candidate(
                    trigger=self.name,
                    source_event_id=happened.event_id,
                    found_for=f"the first use of the MCP server {server}",
                    tool=happened.tool,
                    mcp_server=server,
                    call_id=happened.call_id,
                    operation_id=happened.operation_id,
                    tool_result=happened.excerpt,
                    situation=situation_of(self.name, scope_of(happened.tool, server), "", ""),
                )
                yield Reason(place, candidate)
