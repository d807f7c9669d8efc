"""Decides what a foreign span is, and which of its attributes are the fields of an event. Pure.

Four families of names are read: OpenInference, the OpenTelemetry GenAI conventions in their dialects, Traceloop and
MCP. Names are tried in a fixed order, so that two of them for one thing have one winner; what is not taken stays an
attribute. (Seed 001 §7.3, §13.)
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from contract.events import ID_LIMIT
from contract.integers import INT64_MAX
from ingest.repair import Repairs, clean_value

KINDS: Final = (
    "agent", "chain", "model", "tool", "retriever", "reranker", "embedding", "guardrail", "evaluator", "mcp", "span",
)  # fmt: skip
MAX_NESTING: Final = 64  # levels kept of a structure that becomes text and cannot be written as it is
MAX_KEY_BYTES: Final = 512  # of its keys; the event it stands in has limits that are set
# A span of these kinds without a parent is the run itself.
RUN_KINDS: Final = ("agent", "chain")

_OPENINFERENCE: Final = {
    "AGENT": "agent",
    "CHAIN": "chain",
    "LLM": "model",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "EMBEDDING": "embedding",
    "GUARDRAIL": "guardrail",
    "EVALUATOR": "evaluator",
}
_OPERATIONS: Final = {
    "chat": "model",
    "completion": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "embedding",
    "retrieval": "retriever",
    "search_memory": "retriever",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "chain",
    "create_agent": "span",
    "create_memory": "span",
    "update_memory": "span",
    "upsert_memory": "span",
    "delete_memory": "span",
    "create_memory_store": "span",
    "delete_memory_store": "span",
}
_TRACELOOP: Final = {"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool"}
# Traceloop's model spans carry no kind; this is what tells them.
_REQUEST_TYPES: Final = {"chat": "model", "completion": "model", "embedding": "embedding", "rerank": "reranker"}
SIGNS: Final = (
    ("openinference.span.kind", _OPENINFERENCE),
    ("gen_ai.operation.name", _OPERATIONS),
    ("traceloop.span.kind", _TRACELOOP),
    ("mcp.method.name", {"tools/call": "tool"}),
    ("llm.request.type", _REQUEST_TYPES),
)

MODEL: Final = (
    "gen_ai.response.model", "llm.response.model_name", "llm.model_name", "gen_ai.request.model",
    "llm.request.model_name",
)  # fmt: skip
PROVIDER: Final = ("gen_ai.provider.name", "llm.provider", "gen_ai.system", "llm.system")
INPUT_TOKENS: Final = ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens")
OUTPUT_TOKENS: Final = ("gen_ai.usage.output_tokens", "llm.token_count.completion", "gen_ai.usage.completion_tokens")
CACHED_TOKENS: Final = (
    "gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read",
    "gen_ai.usage.cache_read_input_tokens",
)  # fmt: skip
REASONING_TOKENS: Final = (
    "gen_ai.usage.reasoning.output_tokens", "llm.token_count.completion_details.reasoning",
)  # fmt: skip
FINISH: Final = ("gen_ai.response.finish_reasons", "llm.finish_reason")
TASK_ID: Final = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
AGENT: Final = ("gen_ai.agent.name", "agent.name")
TOOL: Final = ("gen_ai.tool.name", "tool.name", "mcp.tool.name")
CALL_ID: Final = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "input")
RESULT: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output", "output")
MCP_SERVER: Final = ("mcp.server.name", "server.address")
QUERY: Final = (
    "gen_ai.retrieval.query.text", "gen_ai.memory.query.text", "input.value", "traceloop.entity.input", "input",
)  # fmt: skip
INPUT: Final = ("input.value", "traceloop.entity.input", "input")
OUTPUT: Final = ("output.value", "traceloop.entity.output", "output")
RERANK_QUERY: Final = ("reranker.query", "input.value")


@dataclass(slots=True)
class Taking:
    """The attributes of one span and the fields taken out of them.

    `moved` maps a field to the attribute it was, or to several that said the same, with commas between them.
    """

    attributes: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, keys: tuple[str, ...]) -> str | None:
        """Move the first of `keys` that is there into `data`, as text."""
        for key in keys:
            value = self.attributes.get(key)
            if value is not None:
                del self.attributes[key]
                self.moved[name] = key
                self.data[name] = value = value if isinstance(value, str) else as_text(value)
                return value
        return None

    def number(self, name: str, keys: tuple[str, ...]) -> None:
        """Move the first of `keys` that is a count into `data`; what is none stays an attribute."""
        for key in keys:
            value = self.attributes.get(key)
            if value is not None:
                count = _count(value)
                if count is not None:
                    del self.attributes[key]
                    self.moved[name] = key
                    self.data[name] = count
                    return

    def repeated(self, name: str, key: str, text: str | None) -> None:
        """Drop an attribute that says word for word what field `name` says already; `moved` names both."""
        if text and self.attributes.get(key) == text:
            del self.attributes[key]
            self.moved[name] = f"{self.moved[name]}, {key}" if name in self.moved else key

    def identity(self, name: str, keys: tuple[str, ...]) -> str | None:
        """Take the first of `keys` that is short enough for an id out of the attributes and return it."""
        for key in keys:
            value = self.attributes.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if isinstance(value, str) and 0 < len(value) <= ID_LIMIT:
                del self.attributes[key]
                self.moved[name] = key
                return value
        return None


def kind_of(attributes: dict[str, Any], is_server: bool) -> str:
    """Return which of KINDS a span is. A server's own span of an MCP call is not the call of the agent."""
    if "mcp.method.name" in attributes and is_server:
        return "mcp"
    for key, kinds in SIGNS:
        value = attributes.get(key)
        if isinstance(value, str):
            kind = kinds.get(value.upper() if kinds is _OPENINFERENCE else value)
            if kind is not None:
                return kind
            if key == "mcp.method.name":
                return "mcp"
    return "span"


def as_text(value: Any) -> str:
    """Return an attribute's value as text: a text as it is, anything else as its JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half a surrogate pair, an integer beyond 64 bits, deep nesting
        return orjson.dumps(
            clean_value(value, Repairs(), max_nesting=MAX_NESTING, max_key_bytes=MAX_KEY_BYTES)
        ).decode()


def from_json(value: Any) -> Any:
    """Return what JSON text holds, another value as it is, and None for text that is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64_MAX:
        return value
    return None
