"""`tool.failed`: a tool was executed and ended in an error. Decided on status, never on the words of a text.

Refusals, malformed arguments and cancellations are no failures of a tool. (Seed 001 §5.1.)
"""

from collections.abc import Iterable

from kernel.core.state import Candidate
from kernel.core.triggers.facts import Facts, Happened, Reason

NAME = "tool.failed"


class ToolFailed:
    """Sees one reason in each executed call or operation that failed or timed out."""

    name = NAME
    needs_text = True

    def reasons(self, facts: Facts) -> Iterable[Reason]:
        for place, happened in enumerate(facts.happened):
            if happened.executed and happened.status in ("failed", "timed_out"):
                yield Reason(place, _candidate(happened))


def _candidate(happened: Happened) -> Candidate:
    what = "background operation" if happened.operation_id else "call"
    found_for = f"a failed {what} of {happened.tool}"
    return Candidate(
        trigger=NAME,
        source_event_id=happened.event_id,
        found_for=f"{found_for} ({happened.error_class})" if happened.error_class else found_for,
        tool=happened.tool,
        mcp_server=happened.mcp_server,
        call_id=happened.call_id,
        operation_id=happened.operation_id,
        tool_result=happened.diagnostic,
        error_class=happened.error_class,
        situation=happened.situation,
        tool_arguments=happened.tool_arguments,
    )
