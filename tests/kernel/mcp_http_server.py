"""A real MCP server over streamable HTTP, the SDK's own, to be run as a process of its own.

`legacy` makes it one of the older protocol with sessions, `json` one that answers without event streams, `https` one
with the certificate in its folder. Every request is noted in the file `requests` there, every call that was carried
out in `calls`. Calls of the tools of RUDE are answered below the SDK, in ways no server should. With a file `token`,
requests without that bearer token are refused.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import mcp_types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

READING = mcp_types.ToolAnnotations(read_only_hint=True)
server = MCPServer("odd jobs")
folder = Path()


def note(name: str, line: str) -> None:
    with (folder / name).open("a") as lines:
        lines.write(f"{line}\n")


@server.tool(annotations=READING)
async def look() -> str:
    """Say which process this is."""
    note("calls", "look")
    return f"process {os.getpid()}"


@server.tool()
async def write() -> str:
    """Leave a mark."""
    note("calls", "write")
    return "written"


@server.tool()
async def wait(seconds: float) -> str:
    """Leave a mark, then take time."""
    note("calls", "wait")
    await asyncio.sleep(seconds)
    return "waited"


@server.tool(annotations=READING)
async def wait_reading(seconds: float) -> str:
    """Take time."""
    note("calls", "wait_reading")
    await asyncio.sleep(seconds)
    return f"process {os.getpid()}"


@server.tool(annotations=READING)
async def much(n: int) -> str:
    """Return n characters."""
    return "a" * n


@server.tool(annotations=READING)
async def pictures() -> list[mcp_types.ContentBlock]:
    """Return what is no text."""
    text = mcp_types.TextResourceContents(uri="file:///a.txt", text="inside")
    blob = mcp_types.BlobResourceContents(uri="file:///a.bin", mime_type="application/zip", blob="AAAA")
    return [
        mcp_types.ImageContent(type="image", data="AAAA", mime_type="image/png"),
        mcp_types.AudioContent(type="audio", data="AAAAAAAA", mime_type="audio/wav"),
        mcp_types.EmbeddedResource(type="resource", resource=text),
        mcp_types.EmbeddedResource(type="resource", resource=blob),
        mcp_types.ResourceLink(type="resource_link", name="a", uri="file:///a.md"),
    ]


@server.tool(annotations=READING)
async def lively(ctx: Context) -> str:
    """Report progress, log, and change the list of tools on the way."""
    await ctx.report_progress(1, 2, "half")
    await ctx.info("on the way")
    await ctx.notify_tools_changed()
    await ctx.report_progress(2, 2)
    return "done"


class Name(BaseModel):
    name: str


@server.tool()
async def ask_person(ctx: Context) -> str:
    """Ask for a name, as servers of the older protocol do: a request of their own in the middle of the call."""
    return str(await ctx.elicit("Your name?", Name))


@server.tool()
async def ask_model(ctx: Context) -> str:
    """Ask for a completion."""
    message = mcp_types.SamplingMessage(role="user", content=mcp_types.TextContent(type="text", text="Hello?"))
    return str(await ctx.session.create_message([message], max_tokens=5))


@server.tool(annotations=READING)
async def headers(ctx: Context) -> str:
    """Return the request's headers, secrets and all."""
    return json.dumps(dict(ctx.headers or {}))


@server.tool()
async def fail() -> str:
    """Fail as a tool."""
    token = folder / "token"
    raise ToolError(f"no such thing as {token.read_text() if token.exists() else 'this'}")


def event(message: dict[str, Any]) -> bytes:
    return f"event: message\ndata: {json.dumps(message)}\n\n".encode()


def result(request: dict[str, Any], value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": value}


def wants_input(request: dict[str, Any]) -> bytes:
    asked = {"resultType": "input_required", "inputRequests": {}, "requestState": "again"}
    return json.dumps(result(request, asked)).encode()


# tool -> status, content type, body of the answer to its calls
RUDE: dict[str, tuple[int, str, Callable[[dict[str, Any]], bytes]]] = {
    "garbage": (200, "application/json", lambda _: b"{not json"),
    "garbage_event": (200, "text/event-stream", lambda _: b"event: message\ndata: {not json\n\n"),
    "cut_event": (200, "text/event-stream", lambda _: b": nothing follows\n\n"),
    "page": (200, "text/html", lambda _: b"<p>Welcome</p>"),
    "accepted": (202, "text/plain", lambda _: b""),
    "wrong_type": (200, "application/json", lambda asked: json.dumps(result(asked, {"content": 5})).encode()),
    "wrong_event": (200, "text/event-stream", lambda asked: event(result(asked, {"content": [{"type": "odd"}]}))),
    "vast": (200, "application/json", lambda _: b'"' + b"a" * 400_000 + b'"'),
    "vast_event": (200, "text/event-stream", lambda _: b"event: message\ndata: " + b"a" * 400_000 + b"\n\n"),
    "elsewhere": (307, "text/plain", lambda _: b""),
    "gateway": (502, "text/html", lambda _: b"Bad gateway"),
    "broken": (500, "text/html", lambda _: b"Oh no"),
    "wants_input": (200, "application/json", wants_input),
    "silent": (0, "", lambda _: b""),
}


def odd(name: str) -> Callable[[], str]:
    def tool() -> str:
        raise AssertionError(f"{name} is answered below the SDK")

    return tool


for _name in RUDE:
    server.tool(name=_name)(odd(_name))


class Outside:
    """What stands before the SDK's server: notes, the token, the older protocol, rudeness."""

    def __init__(self, app: Any, options: tuple[str, ...]) -> None:
        self._app = app
        self._legacy = "legacy" in options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = await _body(receive)
        asked = json.loads(body) if body else {}
        name = asked.get("params", {}).get("name", "") if asked.get("method") == "tools/call" else ""
        note("requests", f"{scope['method']} {asked.get('method', '')} {name} {header.get('mcp-session-id', '')}")
        token = folder / "token"
        if token.exists() and header.get("authorization") != f"Bearer {token.read_text()}":
            await _answer(send, 401, "text/plain", b"Who are you?")
        elif self._legacy and asked.get("method") == "server/discover":
            error = {"code": mcp_types.METHOD_NOT_FOUND, "message": "Method not found"}
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
            await _answer(send, 200, "application/json", body)
        elif name in RUDE:
            note("calls", name)
            status, kind, write_body = RUDE[name]
            if not status:
                await asyncio.sleep(600)
            await _answer(send, status, kind, write_body(asked))
        else:
            await self._app(scope, _replay(body, receive), send)


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    first: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return first.pop() if first else await receive()

    return again


async def _answer(send: Send, status: int, kind: str, body: bytes) -> None:
    to = [(b"location", b"http://127.0.0.2:9/elsewhere")] if status == 307 else []
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode()), *to]})
    await send({"type": "http.response.body", "body": body})


def serve(listener: socket.socket, notes: Path, options: tuple[str, ...]) -> None:
    """Serve on a socket that listens already, until killed. Runs in the process's main thread."""
    global folder  # a process is one server
    folder = notes
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    app = Outside(server.streamable_http_app(json_response="json" in options), options)
    secured = {"ssl_keyfile": str(folder / "key.pem"), "ssl_certfile": folder / "certificate.pem"}
    config = uvicorn.Config(app, log_level="error", **(secured if "https" in options else {}))
    uvicorn.Server(config).run(sockets=[listener])
