"""Decides whether the configuration of an MCP server can be used; pure, so that whoever starts runs can ask as well."""

import re
from typing import Final
from urllib.parse import urlsplit

from contract.redaction import redact
from kernel.messages import McpServer

KEY_LIMIT: Final = 100  # characters
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
# A run's spec may come from anybody who may start runs: it must not have the worker's own secrets sent somewhere.
OWN_VARIABLES: Final = ("TEMPORALITY_", "TEMPORAL_", "KERNEL_", "OPENAI_", "DATABASE_", "CELERY_", "SECRET_KEY")


def server_problem(server: McpServer) -> str:
    """Return what is wrong with a server's configuration and how to put it right, or an empty string.

    The text never holds a value that could be a secret: it names the key and the field. Whoever starts runs asks
    this before the spec enters workflow history; a preparation asks it again.
    """
    problem = _field_problem(server)
    return f"MCP server {server.key[:KEY_LIMIT]!r}: {problem}" if problem else ""


def _field_problem(server: McpServer) -> str:
    if not server.key.strip():
        return "`key` is empty; give the server a name"
    if len(server.key) > KEY_LIMIT or not server.key.isprintable():
        return f"`key` must have 1 to {KEY_LIMIT} printable characters"
    if server.command and server.url:
        return "both `command` and `url` are set; keep the one that reaches it"
    if not server.command and not server.url:
        return "neither `command` nor `url` is set; give a program to start or an http(s) address"
    if server.command:
        return "`token_env` is set beside `command`; it goes with `url` only, remove it" if server.token_env else ""
    if server.args:
        return "`args` is set beside `url`; it goes with `command` only, remove it"
    return _url_problem(server.url) or _variable_problem(server.token_env)


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "`url` cannot be read as an address; write http://host:port/path or https://host/path"
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        return "`url` is no http or https address; write http://host:port/path or https://host/path"
    if parts.username is not None or parts.password is not None or redact(url)[1]:
        return (
            "`url` holds credentials; take them out, put the token into an environment variable of the worker "
            "and name that variable in `token_env`"
        )
    return ""


def _variable_problem(name: str) -> str:
    if not name:
        return ""
    if not VARIABLE.fullmatch(name) or redact(name)[1]:
        return (
            "`token_env` is no name of an environment variable (capital letters, digits, _); "
            "put the name there, not the token"
        )
    if name.startswith(OWN_VARIABLES):
        return f"`token_env` names {name}, a variable of the worker's own, which is sent to nobody; use another one"
    return ""
