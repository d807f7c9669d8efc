"""Owns the MCP servers of running runs: one stdio client session per run and server, restarted when it was lost.

A session belongs to a task of its own, because a client must be left by the task that entered it. It ends when
its run ends or after a while without use; the next call starts the server again. What a server writes to stderr
is kept in memory only: it may hold secrets.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import anyio
import mcp_types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import ValidationError

from kernel.messages import Effect, McpServer
from kernel.tools.catalogue import ToolEntry, ToolResult
from kernel.tools.shell import RunFolders

logger = logging.getLogger(__name__)

STDERR_BYTES: Final = 4096
MAX_PAGES: Final = 20
LOST: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
END_ERRORS: Final = (OSError, ValueError, RuntimeError, MCPError, TimeoutError, ExceptionGroup, *LOST)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Seconds a server may take to start and a call to answer; seconds without use after which it is stopped."""

    start_seconds: float = 20.0
    call_seconds: float = 60.0
    idle_seconds: float = 120.0


class McpServerError(Exception):
    """A server could not be used; the text says why, with the end of what it wrote to stderr. Not redacted."""


class McpSessions:
    """All sessions of this process, by run and server key."""

    def __init__(self, limits: McpLimits | None = None) -> None:
        self._limits = limits or McpLimits()
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._starting = asyncio.Lock()

    async def list_tools(self, run_id: str, server: McpServer, folders: RunFolders) -> list[mcp_types.Tool]:
        """Start the server where needed and return all its tools. Raises McpServerError."""
        session = await self._session(run_id, server, folders)
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                return await session.use(_all_tools)
        except (MCPError, TimeoutError, ValidationError, *LOST) as error:
            raise McpServerError(session.describe(error)) from None

    async def call(
        self, run_id: str, server: McpServer, folders: RunFolders, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        """Call one tool; every way to fail is a result. A call that may have had an effect is never sent twice."""
        try:
            session = await self._session(run_id, server, folders)
            if entry.effectful and not session.fresh and not await _alive(session):
                session = await self._restart(run_id, server, folders)
            try:
                result = await self._send(session, entry, arguments)
            except ConnectionResetError:
                session = await self._restart(run_id, server, folders)
                if entry.effectful:
                    return _failure(entry, "mcp_connection_lost", "the MCP server ended during the call")
                result = await self._send(session, entry, arguments)
        except McpServerError as error:
            return replace(_failure(entry, "mcp_server_unavailable", str(error)), effect="none")
        except ConnectionResetError:
            return _failure(entry, "mcp_connection_lost", "the MCP server ended during the call, twice")
        return result

    async def _send(self, session: "_Session", entry: ToolEntry, arguments: Mapping[str, Any]) -> ToolResult:
        """Send one call. Raises ConnectionResetError when the server was lost before it answered."""
        seconds = self._limits.call_seconds

        async def send(client: Client) -> mcp_types.CallToolResult:
            return await client.call_tool(entry.remote_name, dict(arguments), read_timeout_seconds=seconds)

        try:
            return _judge(entry, await session.use(send))
        except MCPError as error:
            if error.code == mcp_types.CONNECTION_CLOSED:
                raise ConnectionResetError from None
            if error.code == mcp_types.REQUEST_TIMEOUT:
                failure = _failure(entry, "timeout", f"no answer within {seconds:g} seconds")
                return replace(failure, status="timed_out")
            return _failure(entry, "mcp_error", error.message)
        except LOST:
            raise ConnectionResetError from None
        except (ValidationError, RuntimeError) as error:
            return _failure(entry, "mcp_invalid_result", f"the MCP server's answer breaks its own schema: {error}")

    async def _session(self, run_id: str, server: McpServer, folders: RunFolders) -> "_Session":
        async with self._starting:
            session = self._sessions.get((run_id, server.key))
            if session is None or session.ended:
                session = _Session(_parameters(server, folders), self._limits)
                self._sessions[run_id, server.key] = session
        await session.started()
        return session

    async def _restart(self, run_id: str, server: McpServer, folders: RunFolders) -> "_Session":
        lost = self._sessions.pop((run_id, server.key), None)
        if lost is not None:
            logger.warning("MCP server %s of run %s was lost and is started again", server.key, run_id)
            await lost.stop()
        return await self._session(run_id, server, folders)

    async def close_run(self, run_id: str) -> None:
        """Stop the servers of a run that is over."""
        keys = [key for key in self._sessions if key[0] == run_id]
        await asyncio.gather(*(self._sessions.pop(key).stop() for key in keys))

    async def close(self) -> None:
        """Stop all servers."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.stop() for session in sessions))


class _Session:
    """One server process and its client, held open by a task until stopped or idle."""

    def __init__(self, parameters: StdioServerParameters, limits: McpLimits) -> None:
        self._parameters = parameters
        self._limits = limits
        self._stderr = bytearray()
        self._stop = asyncio.Event()
        self._n_using = 0
        self._last_use = asyncio.get_running_loop().time()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())
        self.fresh = True

    @property
    def ended(self) -> bool:
        return self._stop.is_set() or self._task.done()

    async def started(self) -> None:
        """Wait until the server answers. Raises McpServerError when it does not in time."""
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                await asyncio.shield(self._client)
        except TimeoutError:
            await self.stop()
            raise McpServerError(self.describe(TimeoutError("no answer to the first request in time"))) from None
        except END_ERRORS as error:
            raise McpServerError(self.describe(error)) from None

    async def use(self, act: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Let `act` use the client; the session does not count as idle meanwhile."""
        self._n_using += 1
        try:
            return await act(await asyncio.shield(self._client))
        finally:
            self.fresh = False
            self._n_using -= 1
            self._last_use = asyncio.get_running_loop().time()

    async def stop(self) -> None:
        self._stop.set()
        if not self._client.done():
            self._task.cancel()
        await asyncio.wait([self._task])
        if self._client.done() and not self._client.cancelled():
            self._client.exception()  # seen, so that asyncio does not report it

    def describe(self, error: BaseException) -> str:
        """Return why the server cannot be used, with the last lines it wrote to stderr."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        lines = self._stderr.decode(errors="replace").strip().splitlines()[-5:]
        return "\n".join([str(error) or type(error).__name__, *lines])

    async def _hold(self) -> None:
        try:
            async with self._stderr_pipe() as errlog, Client(stdio_client(self._parameters, errlog=errlog)) as client:
                self._last_use = asyncio.get_running_loop().time()
                self._client.set_result(client)
                while not self._stop.is_set():
                    await self._sleep_or_stop()
        except asyncio.CancelledError:
            if not self._client.done():
                self._client.set_exception(ConnectionAbortedError("the server was stopped before it answered"))
            raise
        except END_ERRORS as error:
            if not self._client.done():
                self._client.set_exception(error)

    async def _sleep_or_stop(self) -> None:
        """Wait until stopped or idle; being idle is a stop."""
        quiet = asyncio.get_running_loop().time() - self._last_use
        wait = self._limits.idle_seconds if self._n_using else self._limits.idle_seconds - quiet
        if wait <= 0:
            self._stop.set()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._stop.wait()

    @asynccontextmanager
    async def _stderr_pipe(self) -> AsyncIterator[Any]:
        """Yield a file for the server's stderr whose last bytes are kept in memory."""
        loop = asyncio.get_running_loop()
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)

        def collect() -> None:
            chunk = os.read(read_end, 64 * 1024)
            self._stderr += chunk
            del self._stderr[:-STDERR_BYTES]
            if not chunk:
                loop.remove_reader(read_end)

        loop.add_reader(read_end, collect)
        try:
            with os.fdopen(write_end, "w") as errlog:
                yield errlog
        finally:
            loop.remove_reader(read_end)
            os.close(read_end)


def _parameters(server: McpServer, folders: RunFolders) -> StdioServerParameters:
    args = [argument.replace("{work}", str(folders.work)) for argument in server.args]
    return StdioServerParameters(
        command=server.command, args=args, env=folders.environment(), cwd=folders.work, encoding_error_handler="replace"
    )


async def _all_tools(client: Client) -> list[mcp_types.Tool]:
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


async def _alive(session: _Session) -> bool:
    """Return whether the server still answers: asked before a call that must not be sent twice."""

    async def ask(client: Client) -> None:
        await client.list_tools(cache_mode="refresh")

    try:
        async with asyncio.timeout(5):
            await session.use(ask)
    except (MCPError, TimeoutError, *LOST):
        return False
    return True


def _judge(entry: ToolEntry, result: mcp_types.CallToolResult) -> ToolResult:
    text = "\n".join(_block_text(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        return _failure(entry, "mcp_tool_error", text)
    return ToolResult("ok", "applied" if entry.effectful else "none", output=text)


def _block_text(block: mcp_types.ContentBlock) -> str:
    """Return the text of one content block; what is no text becomes a note of its type and size."""
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, mcp_types.ImageContent | mcp_types.AudioContent):
        return f"[{block.type} {block.mime_type}, {len(block.data)} base64 characters]"
    if isinstance(block, mcp_types.EmbeddedResource):
        if isinstance(block.resource, mcp_types.TextResourceContents):
            return block.resource.text
        return (
            f"[resource {block.resource.mime_type or 'of unknown type'}, {len(block.resource.blob)} base64 characters]"
        )
    return f"[{block.type}: {block.uri}]"


def _failure(entry: ToolEntry, error_class: str, text: str) -> ToolResult:
    effect: Effect = "uncertain" if entry.effectful else "none"
    return ToolResult("failed", effect, diagnostic=text.strip(), error_class=error_class)
