"""Owns one client session with one MCP server: held open by a task of its own until it is stopped, idle or lost.

The task is there because a client must be left by the task that entered it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
import httpx2
import mcp_types
from mcp import Client, MCPError
from pydantic import ValidationError

from kernel.messages import McpServer
from kernel.tools.mcp_transports import Link, McpServerError

logger = logging.getLogger(__name__)

MAX_PAGES: Final = 20
STOP_SECONDS: Final = 10.0
STREAM_ENDS: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
END_ERRORS: Final = (
    OSError, ValueError, RuntimeError, MCPError, TimeoutError, ExceptionGroup, httpx2.HTTPError, httpx2.InvalidURL,
    *STREAM_ENDS,
)  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Seconds a server may take to start, to answer a call, to answer whether it is still there, and without use
    until it is stopped; bytes of one answer over HTTP that are read."""

    start_seconds: float = 20.0
    call_seconds: float = 60.0
    idle_seconds: float = 120.0
    check_seconds: float = 5.0
    answer_bytes: int = 8 * 1024 * 1024


class Session:
    """One server and its client. `doubtful` says that it may no longer answer, `run_over` that its run has ended."""

    def __init__(self, server: McpServer, link: Link, limits: McpLimits) -> None:
        self.server = server
        self.link = link
        self.doubtful = False
        self.run_over = False
        self._limits = limits
        self._listed = False
        self._stop = asyncio.Event()
        self._n_using = 0
        self._last_use = asyncio.get_running_loop().time()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

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
            self._n_using -= 1
            self._last_use = asyncio.get_running_loop().time()

    async def all_tools(self) -> list[mcp_types.Tool]:
        """Return the server's tools. Raises McpServerError."""
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                tools = await self.use(_all_tools)
        except (MCPError, TimeoutError, ValidationError, *STREAM_ENDS) as error:
            raise McpServerError(self.describe(error)) from None
        self._listed = True
        return tools

    async def answers(self) -> bool:
        """Return whether the server is still there, by listing its tools.

        A session lists them once before its first call: the client then checks results without asking the server
        after a call was carried out, and knows which arguments go into headers.
        """
        if self.ended or self.link.lost():
            return False
        try:
            if not self._listed:
                await self.all_tools()
                return True
            async with asyncio.timeout(self._limits.check_seconds):
                await self.use(_first_page)
        except (McpServerError, MCPError, TimeoutError, ValidationError, *STREAM_ENDS):
            return False
        self.doubtful = False
        return not self.link.lost()

    def must_be_asked(self, effectful: bool) -> bool:
        """Return whether it has to be known that the server answers before a call is sent."""
        return effectful or self.doubtful or not self._listed or self.link.lost()

    async def stop(self) -> None:
        """End the session, and the server if it is a process; waits no longer than a bounded time."""
        self._stop.set()
        if not self._client.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=STOP_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_SECONDS)
        if not self._task.done():
            logger.error("the session with MCP server %s did not end", self.server.key)
        if self._client.done() and not self._client.cancelled():
            self._client.exception()  # seen, so that asyncio does not report it

    def describe(self, error: BaseException) -> str:
        """Return why the server cannot be used, with what it said last, without the token."""
        error = _root(error)
        return self.link.hide("\n".join([str(error) or type(error).__name__, *self.link.last_words()]))

    async def _hold(self) -> None:
        try:
            async with self.link.connect() as client:
                self._last_use = asyncio.get_running_loop().time()
                self._client.set_result(client)
                while not self._stop.is_set():
                    await self._sleep_or_stop()
        except END_ERRORS as error:
            if not self._client.done():
                self._client.set_exception(error)
        finally:
            if not self._client.done():
                self._client.set_exception(ConnectionAbortedError("the server was stopped before it answered"))

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


def _root(error: BaseException) -> BaseException:
    """Return the error that explains a group best: what the transport met, rather than that a request was closed."""
    while isinstance(error, BaseExceptionGroup):
        inner = [_root(one) for one in error.exceptions]
        error = next((one for one in inner if not isinstance(one, MCPError)), inner[0])
    return error


async def _all_tools(client: Client) -> list[mcp_types.Tool]:
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


async def _first_page(client: Client) -> None:
    await client.list_tools()
