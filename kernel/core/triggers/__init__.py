"""The triggers in force. A new one is a module beside these and a line here; the loop does not change."""

from kernel.core.triggers.facts import Trigger
from kernel.core.triggers.mcp_first_call import McpFirstCall
from kernel.core.triggers.priming import Priming
from kernel.core.triggers.tool_failed import ToolFailed

START_TRIGGERS: tuple[Trigger, ...] = (Priming(),)
RUNTIME_TRIGGERS: tuple[Trigger, ...] = (ToolFailed(), McpFirstCall())
