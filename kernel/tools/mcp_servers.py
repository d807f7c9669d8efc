"""Owns the MCP servers of running runs: one session per run and server, started again when it was lost.

A session ends when its run ends or after a while without use; the next call starts it again. A call of a tool with
effects is preceded by the question whether the server is there, and is sent once, whatever becomes of it.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import mcp_types
from mcp import Client, MCPError
from pydantic import ValidationError

from kernel.messages import McpServer
from kernel.tools.catalogue import ToolEntry, ToolResult
from kernel.tools.mcp_results import failure, invalid, is_unreadable, judge, judge_error, schema_words, timed_out
from kernel.tools.mcp_session import STREAM_ENDS, McpLimits, Session
from kernel.tools.mcp_transports import McpServerError, link_to
from kernel.tools.shell import RunFolders

__all__ = ["McpLimits", "McpServerError", "McpSessions"]

logger = logging.getLogger(__name__)

GRACE_SECONDS = 1.0  # after the SDK's own time limit, which does not run while a request waits to be written


class McpSessions:
    """All sessions of this process, by run and server key."""

    def __init__(self, limits: McpLimits | None = None) -> None:
        self._limits = limits or McpLimits()
        self._sessions: dict[tuple[str, str], Session] = {}

    async def list_tools(self, run_id: str, server: McpServer, folders: RunFolders) -> list[mcp_types.Tool]:
        """Start the server and return all its tools; what an unfinished preparation left is ended before.

        Raises McpServerError, also for a second server under the key of another.
        """
        left = self._sessions.get((run_id, server.key))
        if left is not None and left.server == server:
            await self._drop(run_id, left)
        session = await self._session(run_id, server, folders)
        tools = await session.all_tools()
        return [_clean(tool, session) for tool in tools]

    async def call(
        self, run_id: str, server: McpServer, folders: RunFolders, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        """Call one tool; every way to fail is a result. A call that may have had an effect is never sent twice."""
        if not _sendable(arguments):
            why = "the arguments hold half a character (a lone surrogate); nothing was sent"
            return replace(failure(entry, "mcp_error", why), effect="none")
        for last in (entry.effectful, True):
            try:
                session = await self._answering(run_id, server, folders, entry)
            except McpServerError as error:
                return replace(failure(entry, "mcp_server_unavailable", str(error)), effect="none")
            try:
                return _without_token(await self._send(session, entry, arguments), session)
            except ConnectionResetError:
                await self._drop(run_id, session)
                if last or session.run_over:
                    break
        return failure(entry, "mcp_connection_lost", "the MCP server was lost during the call")

    async def _send(self, session: Session, entry: ToolEntry, arguments: Mapping[str, Any]) -> ToolResult:
        """Send one call. Raises ConnectionResetError when the server was lost before it answered."""
        seconds = self._limits.call_seconds

        async def send(client: Client) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
            # Not Client.call_tool, which sends the call again when the server asks for input or other headers.
            return await client.session.call_tool(
                entry.remote_name, dict(arguments), read_timeout_seconds=seconds, allow_input_required=True
            )

        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                return judge(entry, await session.use(send))
        except MCPError as error:
            if session.link.lost() or (error.code == mcp_types.CONNECTION_CLOSED and not is_unreadable(error)):
                raise ConnectionResetError from None
            session.doubtful = error.code == mcp_types.REQUEST_TIMEOUT
            return judge_error(entry, error, seconds, session.link.last_words())
        except TimeoutError:
            session.doubtful = True
            return timed_out(entry, seconds)
        except STREAM_ENDS:
            raise ConnectionResetError from None
        except (ValidationError, RuntimeError) as error:
            return invalid(entry, schema_words(error))

    async def _answering(self, run_id: str, server: McpServer, folders: RunFolders, entry: ToolEntry) -> Session:
        """Return a session to send the call to, started again where the server no longer answers."""
        session = await self._session(run_id, server, folders)
        if not session.must_be_asked(entry.effectful) or await session.answers():
            return session
        logger.warning("MCP server %s of run %s was lost and is started again", server.key, run_id)
        await self._drop(run_id, session)
        session = await self._session(run_id, server, folders)
        await session.all_tools()
        return session

    async def _session(self, run_id: str, server: McpServer, folders: RunFolders) -> Session:
        session = self._sessions.get((run_id, server.key))
        if session is not None and not session.ended and session.server != server:
            raise McpServerError(f"MCP server {server.key!r}: `key` is used by another server of the run; rename one")
        if session is None or session.ended:
            session = Session(server, link_to(server, folders, self._limits.answer_bytes), self._limits)
            self._sessions[run_id, server.key] = session
        await session.started()
        return session

    async def _drop(self, run_id: str, session: Session) -> None:
        """End a session; one that another call has put in its place stays."""
        key = (run_id, session.server.key)
        if self._sessions.get(key) is session:
            del self._sessions[key]
        await session.stop()

    async def close_run(self, run_id: str) -> None:
        """Stop the servers of a run that is over."""
        await self._end([key for key in self._sessions if key[0] == run_id])

    async def close(self) -> None:
        """Stop all servers."""
        await self._end(list(self._sessions))

    async def _end(self, keys: list[tuple[str, str]]) -> None:
        sessions = [self._sessions.pop(key) for key in keys]
        for session in sessions:
            session.run_over = True
        await asyncio.gather(*(session.stop() for session in sessions))


def _sendable(arguments: Mapping[str, Any]) -> bool:
    """Return whether the arguments can be written as UTF-8; the SDK would lose its session over them."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_token(result: ToolResult, session: Session) -> ToolResult:
    hide = session.link.hide
    return replace(result, output=hide(result.output), diagnostic=hide(result.diagnostic))


def _clean(tool: mcp_types.Tool, session: Session) -> mcp_types.Tool:
    """Return the tool as listed, without the token should the server have put it there."""
    text = tool.model_dump_json(by_alias=True, exclude_none=True)
    hidden = session.link.hide(text)
    return tool if hidden == text else mcp_types.Tool.model_validate_json(hidden)
