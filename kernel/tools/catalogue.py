"""Owns what a tool is to the kernel: its entry in a run's catalogue, and the result of one call."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from kernel.messages import Effect, McpServer, TimeReceipt, ToolKind, ToolSpec, ToolStatus

KERNEL: Final = "kernel"  # the namespace of the kernel's own tools
EVERYTHING: Final = "*"  # the grant of all tools that do not insist on being named
NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")  # what model providers accept in no tool's name


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool of a run. `name` is what the model calls; `schema` is the JSON Schema of the arguments.

    `mcp_server` is the configuration key of the server that has it under `remote_name`. A tool that is not
    `effectful` changes nothing. Exit codes of `ok_exit_codes` are no failure. `kind` says who answers a
    call; `same_as` is the tool whose failures its own are; `asks` that a person is asked first; `named_grant` that a
    grant of everything does not include it.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    mcp_server: str | None = None
    remote_name: str = ""
    effectful: bool = True
    ok_exit_codes: tuple[int, ...] = (0,)
    kind: ToolKind = "call"
    same_as: str = ""
    asks: bool = False
    named_grant: bool = False

    @property
    def namespace(self) -> str:
        """What it belongs to: the key of its MCP server, or the kernel."""
        return self.mcp_server or KERNEL


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All tools of a run, and what another worker needs to go on with them: the servers behind them, and the
    conversation whose records they look at, with the `speakers` whose labels an answer may have copied."""

    tools: tuple[ToolEntry, ...]
    servers: tuple[McpServer, ...] = ()
    conversation: str = ""
    speakers: tuple[str, ...] = ()

    def find(self, name: str) -> ToolEntry | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    def asking(self, names: Sequence[str]) -> "Catalogue":
        """Return the catalogue whose tools of these names are asked about."""
        return replace(self, tools=tuple(replace(tool, asks=tool.name in names) for tool in self.tools))

    def allowed(self, grants: Sequence[str], namespaces_off: Sequence[str]) -> "Catalogue":
        """Return the catalogue without the tools that are not granted, or whose namespace is off. (Seed 003.)"""
        kept = [tool for tool in self.tools if tool.namespace not in namespaces_off and is_granted(tool, grants)]
        return replace(self, tools=tuple(kept))

    def without_ask(self, blocked: Sequence[str]) -> "Catalogue":
        """Return the catalogue without an affordance to escalate that policy blocks: whoever is offered it ends the run
        with it, and there would be nobody left to be refused."""
        kept = [tool for tool in self.tools if tool.kind != "escalate" or tool.name not in blocked]
        return replace(self, tools=tuple(kept))

    def server(self, key: str) -> McpServer | None:
        return next((server for server in self.servers if server.key == key), None)

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec(tool.name, tool.mcp_server, tool.kind, tool.same_as) for tool in self.tools)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Catalogue":
        tools = tuple(ToolEntry(**{**tool, "ok_exit_codes": tuple(tool["ok_exit_codes"])}) for tool in value["tools"])
        servers = tuple(McpServer(**{**server, "args": tuple(server["args"])}) for server in value["servers"])
        return cls(tools, servers, value.get("conversation", ""), tuple(value.get("speakers", ())))


def is_granted(tool: ToolEntry, grants: Sequence[str]) -> bool:
    """Tell whether the grants include a tool: by its name, or by "*" where that is enough."""
    return tool.name in grants or (EVERYTHING in grants and not tool.named_grant)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How one execution ended, as the tool told it: texts are neither redacted nor cut to the model's measure.

    `output` is the text of a success; `diagnostic` that of a failure, empty when it left none; `note` says in a
    few words how it failed (for example "exit code 128"). `time_receipts` are readings of the clock among the output.
    """

    status: ToolStatus
    effect: Effect
    output: str = ""
    diagnostic: str = ""
    error_class: str = ""
    note: str = ""
    time_receipts: tuple[TimeReceipt, ...] = ()


_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def arguments_problem(arguments: str, schema: Mapping[str, Any]) -> str:
    """Return what keeps the raw JSON text from being arguments for `schema`, or an empty string.

    Checked are the JSON itself, required names and the types of top-level values; finer rules are the tool's own.
    """
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        return f"the arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return "the arguments must be a JSON object"
    required, properties = schema.get("required"), schema.get("properties")
    for name in required if isinstance(required, list | tuple) else ():
        if isinstance(name, str) and name not in value:
            return f"the argument {name!r} is missing"
    for name, rule in properties.items() if isinstance(properties, Mapping) else ():
        kind = rule.get("type") if isinstance(rule, Mapping) else None
        if name not in value or not isinstance(kind, str) or kind not in _KINDS:
            continue
        wrong_bool = isinstance(value[name], bool) and kind != "boolean"
        if wrong_bool or not isinstance(value[name], _KINDS[kind]):
            return f"the argument {name!r} must be of type {kind}"
    return ""
