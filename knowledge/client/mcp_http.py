"""How the MCP server is reached over HTTP: from which hosts, by whom, and under whose key a request acts.

A caller's own key comes as a bearer token and is passed on. A key of the server's own serves callers without one, on
this machine only. (Seed 001 §16.)
"""

import hashlib
import ipaddress
import json
from collections.abc import Sequence
from typing import Any, Final

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.client.agent_runs import IDLE_SECONDS, AgentRuns
from knowledge.client.exchange import KEY_FORM

PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 1024 * 1024
GOODBYE_SECONDS: Final = 3  # for requests under way when the server is told to end
SCOPE_KEY: Final = "temporality.key"


class Unsafe(ValueError):
    """The server may not be started this way; the text says what to change."""


def parse_place(text: str) -> tuple[str, int]:
    """Return the host and port of HOST:PORT. Raises Unsafe."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise Unsafe("--http takes HOST:PORT, such as 127.0.0.1:8765")
    return host, int(port)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def security_of(host: str, port: int, named: Sequence[str]) -> TransportSecuritySettings:
    """Return which Host and Origin headers are let in. Raises Unsafe when none could be."""
    if is_loopback(host):
        hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*", *named]
    elif named or not _is_any(host):
        hosts = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}", *named]
    else:
        raise Unsafe("with an address for all interfaces, say with --allow-host NAME:PORT how callers name this server")
    origins = [f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class CallersKey:
    """Lets in requests with a key, their own or else the server's; a session belongs to the key that opened it."""

    def __init__(self, app: ASGIApp, own_key: str) -> None:
        self._app = app
        self._own_key = own_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            key = self._key_of(scope)
            if not KEY_FORM.fullmatch(key):
                await _refuse(send)
                return
            digest = hashlib.sha256(key.encode()).hexdigest()
            user = AuthenticatedUser(AccessToken(token=digest, client_id=digest, scopes=[]))
            scope = {**scope, "user": user, SCOPE_KEY: key}
        await self._app(scope, receive, send)

    def _key_of(self, scope: Scope) -> str:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return self._own_key
        scheme, _, key = given[0].partition(" ")
        return key.strip() if len(given) == 1 and scheme.lower() == "bearer" else ""


async def _refuse(send: Send) -> None:
    told = "send an API key of your project as Authorization: Bearer tk_…"
    body = json.dumps({"code": "not_authenticated", "detail": told}).encode()
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def key_of_request(ctx: Context[AgentRuns, Any]) -> str:
    """Return the key a request was let in under."""
    key = getattr(ctx.request_context.request, "scope", {}).get(SCOPE_KEY)
    if not isinstance(key, str):
        raise ToolError("this request came without a key; go on without hints")
    return key


def app_of(server: MCPServer[AgentRuns], own_key: str, security: TransportSecuritySettings) -> ASGIApp:
    """Return the ASGI application."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        transport_security=security,
    )
    return CallersKey(app, own_key)


def serve_http(server: MCPServer[AgentRuns], own_key: str, host: str, port: int, named: Sequence[str]) -> None:
    """Serve until told to end. Raises Unsafe before it listens."""
    if own_key and not is_loopback(host):
        raise Unsafe(
            "TEMPORALITY_KEY would let everybody who reaches this address act under it; unset it, so that each caller "
            "brings a key, or serve on 127.0.0.1"
        )
    app = app_of(server, own_key, security_of(host, port, named))
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=GOODBYE_SECONDS
    )
    uvicorn.Server(config).run()
