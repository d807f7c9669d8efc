"""Decides what an answer of an MCP server, or the lack of one, means for a call: its status, effect and text."""

import json
from dataclasses import replace
from typing import Final

import mcp_types
from mcp import MCPError
from pydantic import ValidationError

from kernel.messages import Effect
from kernel.tools.catalogue import ToolEntry, ToolResult

TEXT_LIMIT: Final = 1_000_000  # code points kept of a result; far more than a reply holds
CUT: Final = "\n… [{n} characters left out] …\n"
# How the SDK words that what came is no answer; it gives these the codes of a lost connection and a wrong request.
UNREADABLE: Final = (
    "Failed to parse",
    "SSE stream failed",
    "Unexpected content type",
    "server answered a request with",
)
TOO_LARGE: Final = (
    "Failed to parse JSON response: the answer has more",
    "SSE stream failed: Server-sent event exceeded",
)
INPUT_WANTED: Final = "the server asks for input in the middle of the call (elicitation, sampling); none is given here"


def judge(entry: ToolEntry, result: mcp_types.CallToolResult | mcp_types.InputRequiredResult) -> ToolResult:
    """Return what the server's answer means."""
    if isinstance(result, mcp_types.InputRequiredResult):
        return failure(entry, "mcp_error", INPUT_WANTED)
    text = "\n".join(block_text(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        return failure(entry, "mcp_tool_error", bounded(text))
    return ToolResult("ok", "applied" if entry.effectful else "none", output=bounded(text))


def judge_error(entry: ToolEntry, error: MCPError, seconds: float, last_words: list[str]) -> ToolResult:
    """Return what an error in place of a result means; a lost connection is the caller's to judge."""
    if error.code == mcp_types.REQUEST_TIMEOUT:
        return timed_out(entry, seconds)
    if is_unreadable(error):
        size = error.message.startswith(TOO_LARGE)
        return invalid(entry, "it has more bytes than are read" if size else "it is no JSON-RPC message")
    return failure(entry, "mcp_error", "\n".join([bounded(error.message), *last_words]))


def is_unreadable(error: MCPError) -> bool:
    """Return whether something came that is no answer."""
    return error.message.startswith(UNREADABLE)


def invalid(entry: ToolEntry, why: str) -> ToolResult:
    """Return the failure of a call whose answer breaks the protocol or the tool's own schema."""
    return failure(entry, "mcp_invalid_result", f"the MCP server's answer breaks its own schema: {why}")


def schema_words(error: ValidationError | RuntimeError) -> str:
    """Return what is wrong with an answer in a line, without quoting more of it than one value."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return bounded((str(error).splitlines() or [type(error).__name__])[0])


def timed_out(entry: ToolEntry, seconds: float) -> ToolResult:
    """Return the failure of a call without an answer in its time."""
    return replace(failure(entry, "timeout", f"no answer within {seconds:g} seconds"), status="timed_out")


def failure(entry: ToolEntry, error_class: str, text: str) -> ToolResult:
    """Return a failed call; what a tool with effects may have done is not known."""
    effect: Effect = "uncertain" if entry.effectful else "none"
    return ToolResult("failed", effect, diagnostic=text.strip(), error_class=error_class)


def bounded(text: str) -> str:
    """Return `text` within the limit: a quarter from its beginning, the rest from its end."""
    if len(text) <= TEXT_LIMIT:
        return text
    head, tail = TEXT_LIMIT // 4, TEXT_LIMIT - TEXT_LIMIT // 4
    return text[:head] + CUT.format(n=len(text) - TEXT_LIMIT) + text[-tail:]


def block_text(block: mcp_types.ContentBlock) -> str:
    """Return the text of one content block; what is no text becomes a note of its type and size."""
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, mcp_types.ImageContent | mcp_types.AudioContent):
        return f"[{block.type} {block.mime_type}, {len(block.data)} base64 characters]"
    if isinstance(block, mcp_types.EmbeddedResource):
        if isinstance(block.resource, mcp_types.TextResourceContents):
            return block.resource.text
        kind = block.resource.mime_type or "of unknown type"
        return f"[resource {kind}, {len(block.resource.blob)} base64 characters]"
    return f"[{block.type}: {block.uri}]"
