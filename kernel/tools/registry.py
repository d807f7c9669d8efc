"""Owns which tools a run has and how each is executed: the kernel's own tools and those of the run's MCP servers."""

import errno
import hashlib
import logging
import shutil
import time
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import mcp_types

from contract.redaction import redact
from kernel.messages import McpServer, RunSpec
from kernel.tools.answered import ANSWERED, answered_entries
from kernel.tools.catalogue import NOT_IN_NAMES, Catalogue, ToolEntry, ToolResult
from kernel.tools.clock import DEFAULT_ZONE, zone_named
from kernel.tools.magic_brush import Brush, brush_entry
from kernel.tools.mcp_servers import McpServerError, McpSessions
from kernel.tools.shell import RunFolders, ShellLimits, confinement, judge, run_command, shell_entry
from kernel.tools.time_receipts import forget_receipts

logger = logging.getLogger(__name__)

TOOLS_LIMIT: Final = 128  # of one run: they are carried in its state, and providers take no more
TOOLS_BYTES: Final = 8_000  # of their names and server keys together
NAME_LIMIT: Final = 64  # characters; what model providers accept as a tool's name
NOTES: Final = "notes"  # no run's folder has this name: those end in a hash
OPERATION_SECONDS: Final = 1_800.0  # what a background command may take


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a call is executed: its run, the run's folders, the clock (Unix nanoseconds), the conversation's id."""

    run_id: str
    folders: RunFolders
    clock_ns: Callable[[], int]
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool of the kernel's own: its entry, and what executes a call of a run with checked arguments."""

    entry: ToolEntry
    run: Callable[[RunPlace, Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class PreparedTools:
    """What `Toolbox.prepare` made ready; `error` says why the run cannot start. Texts are not redacted."""

    catalogue: Catalogue
    failed_servers: tuple[tuple[str, str], ...] = ()
    error: str = ""


def shell_tool(limits: ShellLimits) -> LocalTool:
    """Return the shell as a tool."""
    entry = shell_entry(limits)

    async def run(place: RunPlace, arguments: Mapping[str, Any]) -> ToolResult:
        command = str(arguments["command"])
        try:
            end = await run_command(command, place.folders, limits)
        except (ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.E2BIG:
                raise
            text = f"the command cannot be given to a shell: {error}"
            return ToolResult("failed", "none", diagnostic=text, error_class="not_started")
        return judge(command, end, entry, limits)

    return LocalTool(entry, run)


def background_shell_tool(limits: ShellLimits) -> LocalTool:
    """Return the shell as a tool whose calls are operations: they may take longer and are told when they end."""
    shell = shell_tool(replace(limits, wall_seconds=max(limits.wall_seconds, OPERATION_SECONDS)))
    description = f"Start a shell command in the background. {shell.entry.description}"
    entry = replace(shell.entry, name="shell_background", description=description, kind="background", same_as="shell")
    return LocalTool(entry, shell.run)


def brush_tool(brush: Brush) -> LocalTool:
    """Return the brush as a tool."""

    async def run(place: RunPlace, arguments: Mapping[str, Any]) -> ToolResult:
        return await brush.use(place.run_id, place.folders.root, place.clock_ns, arguments)

    return LocalTool(brush_entry(), run)


class Toolbox:
    """The tools of all runs of this process. Close it to stop the MCP servers."""

    def __init__(
        self,
        work_root: Path,
        *,
        limits: ShellLimits | None = None,
        sessions: McpSessions | None = None,
        extra: Sequence[LocalTool] = (),
        clock_ns: Callable[[], int] = time.time_ns,
        notes_dir: Path | None = None,
        time_zone: str = DEFAULT_ZONE,
    ) -> None:
        """`work_root` holds one folder a run; `extra` are further tools, offered to runs that name them; `clock_ns`
        returns Unix nanoseconds. `notes_dir` are the notes of all runs, `time_zone` the second zone of receipts.

        Raises ValueError for a zone that there is not.
        """
        self._work_root = work_root.resolve()
        self._limits = limits or ShellLimits()
        self._sessions = sessions or McpSessions()
        brush = Brush(notes_dir or self._work_root / NOTES, zone_named(time_zone))
        local = (shell_tool(self._limits), background_shell_tool(self._limits), brush_tool(brush), *extra)
        self._clock_ns = clock_ns
        self._local = {tool.entry.name: tool for tool in local}
        logger.info("shell commands: %s", confinement())

    def folders(self, run_id: str) -> RunFolders:
        """Return the run's folders; run ids may hold any characters, so the name ends in their hash."""
        readable = NOT_IN_NAMES.sub("_", run_id)[:48]
        digest = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return RunFolders(self._work_root / f"{readable}-{digest}")

    async def prepare(self, spec: RunSpec) -> PreparedTools:
        """Make empty folders, run the setup command, start the MCP servers and list all tools.

        To be called again only while the run has not begun: what an unfinished preparation left is removed.
        """
        folders = self.folders(spec.run_id)
        await to_thread(shutil.rmtree, folders.root, ignore_errors=True)
        forget_receipts(folders.root)
        folders.make()
        if spec.setup:
            end = await run_command(spec.setup, folders, self._limits)
            if end.exit_code != 0:
                how = "was stopped at its time limit" if end.exit_code is None else f"ended with code {end.exit_code}"
                return PreparedTools(Catalogue(()), error=f"the setup command {how}: {end.stderr or end.stdout}")
        tools = [self._local[name].entry for name in spec.tools if name in self._local]
        tools += answered_entries(spec)
        unknown = [name for name in spec.tools if name not in [tool.name for tool in tools]]
        if unknown:
            known = ", ".join(sorted([*self._local, *ANSWERED]))
            return PreparedTools(Catalogue(()), error=f"tools: there is no tool {unknown[0]!r}; there are: {known}")
        usable: list[McpServer] = []
        failed: list[tuple[str, str]] = []
        for server in spec.mcp_servers:
            try:
                listed = await self._sessions.list_tools(spec.run_id, server, folders)
            except McpServerError as error:
                failed.append((server.key, str(error)))
                continue
            usable.append(server)
            for number, tool in enumerate(_once(listed)):
                entry = _mcp_entry(server.key, tool, [one.name for one in tools])
                if len(tools) >= TOOLS_LIMIT or _names_bytes([*tools, entry]) > TOOLS_BYTES:
                    limit = f"{TOOLS_LIMIT} tools, and {TOOLS_BYTES} bytes of names"
                    failed.append((server.key, f"{len(_once(listed)) - number} tools left out: a run has {limit}"))
                    break
                tools.append(entry)
        return PreparedTools(Catalogue(tuple(tools), tuple(usable)), tuple(failed))

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        """Execute one call. Raises OSError when the machine cannot start it, LookupError for a stranger's entry."""
        folders = self.folders(run_id)
        if entry.mcp_server is None:
            place = RunPlace(run_id, folders, self._clock_ns, catalogue.conversation)
            return await self._local[entry.name].run(place, arguments)
        server = catalogue.server(entry.mcp_server)
        if server is None:
            raise LookupError(f"the catalogue has no MCP server {entry.mcp_server!r}")
        return await self._sessions.call(run_id, server, folders, entry, arguments)

    async def close_run(self, run_id: str) -> None:
        """Stop what a finished run still has running here; its folders stay."""
        await self._sessions.close_run(run_id)

    async def close(self) -> None:
        await self._sessions.close()


def _names_bytes(tools: Sequence[ToolEntry]) -> int:
    return sum(len(f"{tool.name}{tool.mcp_server or ''}".encode("utf-8", "replace")) for tool in tools)


def _once(tools: Sequence[mcp_types.Tool]) -> list[mcp_types.Tool]:
    """Return the tools without those whose name came before."""
    return list({tool.name: tool for tool in reversed(tools)}.values())[::-1]


def _mcp_entry(key: str, tool: mcp_types.Tool, taken: Sequence[str]) -> ToolEntry:
    hints = tool.annotations
    return ToolEntry(
        name=offered_name(key, redact(tool.name)[0], taken),
        description=tool.description or "",
        schema=tool.input_schema,
        mcp_server=key,
        remote_name=tool.name,
        effectful=not (hints is not None and hints.read_only_hint),
    )


def offered_name(key: str, tool: str, taken: Sequence[str] = ()) -> str:
    """Return the name an MCP tool is offered under: `<server>__<tool>`, made fit for model providers and told apart
    from the names that are `taken`."""
    wanted = f"{key}__{tool}"
    name = NOT_IN_NAMES.sub("_", wanted)
    if name == wanted and len(name) <= NAME_LIMIT and name not in taken:
        return name
    for number in count():
        exact = f"{len(key)}:{wanted}:{number}"
        digest = hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        told_apart = f"{name[: NAME_LIMIT - 9]}_{digest}"
        if told_apart not in taken:
            break
    return told_apart
