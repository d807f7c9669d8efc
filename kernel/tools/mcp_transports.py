"""Owns how an MCP server is reached: the process, or the HTTP client, that carries a session.

A bearer token is read from the worker's environment when a session opens, is kept in that session's HTTP client only,
and is taken out of every text that leaves here. What a server writes to stderr is kept in memory only.
"""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from contract.redaction import MARKER
from kernel.messages import McpServer
from kernel.tools.mcp_config import server_problem
from kernel.tools.shell import RunFolders

STDERR_BYTES: Final = 4096
SESSION_HEADER: Final = "mcp-session-id"
CONNECT_SECONDS: Final = 10.0
DELETE_SECONDS: Final = 3.0
GATEWAY_STATUSES: Final = (502, 503, 504)  # how a gateway says that the server behind it is not there
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{8,}=*")  # RFC 6750, section 2.1
SDK_LOGGERS: Final = ("client", "mcp.client.stdio", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher")


class McpServerError(Exception):
    """A server could not be used; the text says why, with the end of what it wrote to stderr. Not redacted."""


class AnswerTooLarge(httpx2.StreamError):
    """An answer over HTTP has more bytes than are read."""


class _WithoutContents(logging.Filter):
    """Lets through where the SDK met a problem, and nothing of what it writes about it, as that quotes servers."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = f"the MCP SDK met a problem ({record.module}, line {record.lineno})", ()
        record.exc_info = record.exc_text = None
        return record.levelno >= logging.WARNING


for _name in SDK_LOGGERS:
    logging.getLogger(_name).addFilter(_WithoutContents())


def token_of(server: McpServer) -> str:
    """Return the token to send, or an empty string. Raises McpServerError, which names the variable at most."""
    if not server.token_env:
        return ""
    token = os.environ.get(server.token_env, "")
    if not token:
        raise McpServerError(
            f"MCP server {server.key!r}: the environment variable {server.token_env} (`token_env`) is not set "
            "for the worker; set it and start the run again"
        )
    if not TOKEN.fullmatch(token):
        raise McpServerError(
            f"MCP server {server.key!r}: the environment variable {server.token_env} (`token_env`) holds no bearer "
            "token (at least 8 of A-Z a-z 0-9 . _ ~ + / -); correct its value"
        )
    return token


class Link(Protocol):
    """The way to one server for the life of one session."""

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """Start or reach the server and yield a client that has agreed on a protocol with it."""

    def hide(self, text: str) -> str:
        """Return `text` without the token."""

    def last_words(self) -> list[str]:
        """Return what else is known of a failure: the last lines of stderr, the last HTTP error."""

    def lost(self) -> bool:
        """Return whether the server is known to have forgotten this session."""


def link_to(server: McpServer, folders: RunFolders, answer_bytes: int) -> Link:
    """Return the way to a server. Raises McpServerError when its configuration is wrong."""
    problem = server_problem(server)
    if problem:
        raise McpServerError(problem)
    if server.url:
        return HttpLink(server.url, token_of(server), answer_bytes)
    return StdioLink(server, folders)


class StdioLink:
    """A server process, with the end of what it wrote to stderr."""

    def __init__(self, server: McpServer, folders: RunFolders) -> None:
        args = [argument.replace("{work}", str(folders.work)) for argument in server.args]
        self._parameters = StdioServerParameters(
            command=server.command,
            args=args,
            env=folders.environment(),
            cwd=folders.work,
            encoding_error_handler="replace",
        )
        self._stderr = bytearray()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        async with self._stderr_pipe() as errlog:
            transport = stdio_client(self._parameters, errlog=errlog)
            async with Client(transport, cache=None) as client:
                yield client

    def hide(self, text: str) -> str:
        return text

    def last_words(self) -> list[str]:
        return self._stderr.decode(errors="replace").strip().splitlines()[-5:]

    def lost(self) -> bool:
        return False

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


class HttpLink:
    """A server behind a URL. The SDK follows redirects within its origin only, so the token stays there."""

    def __init__(self, url: str, token: str, answer_bytes: int) -> None:
        self._url = url
        self._token = token
        self._answer_bytes = answer_bytes
        self._failure = ""
        self._lost = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        headers = {"Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        # Reading has no limit of its own: a call has one, and the stream of notifications stays open.
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._before], "response": [self._after]}
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as http:
            transport = streamable_http_client(self._url, http_client=http, max_sse_event_size=self._answer_bytes)
            async with Client(transport, cache=None) as client:
                self._failure, self._lost = "", False
                yield client

    def hide(self, text: str) -> str:
        return text.replace(self._token, MARKER.format(kind="token")) if self._token else text

    def last_words(self) -> list[str]:
        words, self._failure = self._failure, ""
        return [words] if words else []

    def lost(self) -> bool:
        return self._lost

    async def _before(self, request: httpx2.Request) -> None:
        if request.method == "DELETE":  # the goodbye of a session must not hold up whoever ends it
            request.extensions["timeout"] = httpx2.Timeout(DELETE_SECONDS).as_dict()

    async def _after(self, response: httpx2.Response) -> None:
        request = response.request
        if request.method == "DELETE":
            return
        if response.status_code == 404 and SESSION_HEADER in request.headers:
            self._lost = True
        if request.method != "POST":
            return
        if response.status_code in GATEWAY_STATUSES:
            self._lost = True
        if response.status_code >= 400:
            self._failure = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            response.stream = _Bounded(response.stream, self._answer_bytes)


class _Bounded(httpx2.AsyncByteStream):
    """A response's bytes up to a limit. The SDK bounds the events of a stream itself, but no JSON answer."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_read = 0
        async for chunk in self._stream:
            n_read += len(chunk)
            if n_read > self._limit:
                raise AnswerTooLarge(f"the answer has more than {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
