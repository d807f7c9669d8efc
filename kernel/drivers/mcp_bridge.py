"""Serves one turn's tools over MCP to its harness: on this machine, to whoever has the turn's token, while it lasts.

Every call is forwarded to the turn. The harness's ask is the exception: it is answered with an instruction to stop, and
what is called after it is denied and counted; neither reaches the core. (Seed 003.)
"""

import asyncio
import hmac
import json
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import mcp_types
import uvicorn
from mcp.server.lowlevel import Server
from starlette.types import ASGIApp, Receive, Scope, Send

from kernel.drivers.escalation import ESCALATE, read_reason
from kernel.drivers.plugin import ToolAnswer, Turn

PATH: Final = "/mcp"
GOODBYE_SECONDS: Final = 1  # for requests under way when the turn is over
STOP: Final = ToolAnswer(
    "ok", "", "Your request to have a person decide is noted and ends this run. Stop now and call no more tools."
)
PENDING: Final = ToolAnswer(
    "denied", "escalation_pending", "A person was asked to decide, so this run ends. Nothing was executed. Stop now."
)

# It tells of every start and end, which are one of each a turn.
logging.getLogger("mcp.server.streamable_http_manager").setLevel(logging.WARNING)


class AskedTurn:
    """A turn's calls up to the ask: `reason` is that of the first, `n_denied` counts the calls after it."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.asked = asyncio.Event()
        self.reason = ""
        self.n_denied = 0

    async def call(self, name: str, arguments: str) -> ToolAnswer:
        """Forward a call, unless it is the ask or comes after it."""
        if self.asked.is_set():
            self.n_denied += 1
            return PENDING
        offered = any(tool.name == ESCALATE for tool in self._turn.tools)
        if name == ESCALATE and offered and not self._turn.finale:
            self.reason = read_reason(arguments)
            self.asked.set()
            return STOP
        return await self._turn.invoke(name, arguments)


@asynccontextmanager
async def bridge(turn: Turn, calls: AskedTurn) -> AsyncIterator[tuple[str, str]]:
    """Serve the turn's tools and yield the address and the bearer token."""
    token = secrets.token_urlsafe(32)
    app = _OnlyWith(token, _server(turn, calls).streamable_http_app(streamable_http_path=PATH, stateless_http=True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app, log_config=None, log_level="warning", access_log=False, timeout_graceful_shutdown=GOODBYE_SECONDS
        )
        server = _TurnServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await server.ready.wait()
            if not server.started:
                raise RuntimeError("the MCP bridge of this turn could not be opened")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}", token
        finally:
            server.over.set()
            await asyncio.wait([serving])


def _server(turn: Turn, calls: AskedTurn) -> Server[Any]:
    async def list_tools(ctx: Any, params: Any) -> mcp_types.ListToolsResult:
        tools = [
            mcp_types.Tool(name=tool.name, description=tool.description, input_schema={"type": "object", **tool.schema})
            for tool in turn.tools
        ]
        return mcp_types.ListToolsResult(tools=tools)

    async def call_tool(ctx: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        arguments = json.dumps(params.arguments or {}, ensure_ascii=False)
        return result_of(await calls.call(params.name, arguments))

    return Server("temporality", on_list_tools=list_tools, on_call_tool=call_tool)


def result_of(answer: ToolAnswer) -> mcp_types.CallToolResult:
    """Return an answer as MCP has it: what is told beside the reply comes in blocks of its own after it."""
    text = answer.text if answer.ok else f"{answer.status} ({answer.code or answer.status}): {answer.text}"
    content: list[mcp_types.ContentBlock] = [
        mcp_types.TextContent(type="text", text=one) for one in (text, *answer.context)
    ]
    meta = {"temporality/status": answer.status, "temporality/code": answer.code}
    return mcp_types.CallToolResult(content=content, is_error=not answer.ok, _meta=meta)


class _TurnServer(uvicorn.Server):
    """A server that ends when it is told, and leaves the process's signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()

    async def main_loop(self) -> None:
        await self.over.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _OnlyWith:
    """Lets in requests that bring the token."""

    def __init__(self, token: str, app: ASGIApp) -> None:
        self._expected = f"Bearer {token}".encode()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(given, self._expected):
                await send(
                    {"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]}
                )
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)
