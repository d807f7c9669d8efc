"""Runs the MCP server as people do, as a process of its own, and speaks to it with the official client."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation

from debugger.embedded.sockets import free_port
from ingest.models import Event
from tests.source_rules import ROOT

AGENT = Implementation(name="test-agent", version="7.1")
COMMAND = (sys.executable, "-m", "knowledge.client.mcp_server")
SECONDS = 60


def environment(url: str, key: str) -> dict[str, str]:
    named = {"TEMPORALITY_URL": url, **({"TEMPORALITY_KEY": key} if key else {})}
    ours = ("TEMPORALITY_URL", "TEMPORALITY_KEY", "DJANGO_SETTINGS_MODULE")
    return {name: value for name, value in os.environ.items() if name not in ours} | named


@asynccontextmanager
async def over_stdio(url: str, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client whose server is a process that ends with it."""
    server = StdioServerParameters(command=COMMAND[0], args=list(COMMAND[1:]), env=environment(url, key), cwd=ROOT)
    async with Client(server, mode=mode, client_info=AGENT, cache=None) as client:
        yield client


@asynccontextmanager
async def over_http(address: str, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of a server that runs already, with a key of its own or without one."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, trust_env=False) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, mode=mode, client_info=AGENT, cache=None) as client:
            yield client


@dataclass
class Served:
    """A server over HTTP: where it is, and its process."""

    address: str
    process: subprocess.Popen[str]

    def end(self) -> str:
        """Tell it to end, wait until it has told what it had to tell, and return what it wrote."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=SECONDS)
        return said


@contextmanager
def serving(url: str, key: str = "", *options: str) -> Iterator[Served]:
    """Run a server over HTTP on a free port of this machine."""
    port = free_port()
    command = [*COMMAND, "--http", f"127.0.0.1:{port}", *options]
    process = subprocess.Popen(command, env=environment(url, key), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        asyncio.run(_answers(process, port))
        yield (served := Served(f"http://127.0.0.1:{port}/mcp", process))
        if process.poll() is None:
            served.end()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


async def _answers(process: subprocess.Popen[str], port: int) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            assert process.poll() is None, process.communicate()[1]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.05)


def refused(url: str, key: str, *options: str) -> str:
    """Start a server that must not start, and return what it says."""
    done = subprocess.run(
        [*COMMAND, *options], env=environment(url, key), cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    return done.stderr


def text_of(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    return "\n".join(getattr(block, "text", "") for block in result.content)


def settled(run_id: str) -> None:
    """Wait until the end of a run that began at the MCP server is stored: then all else it told is, too."""
    deadline = time.monotonic() + SECONDS
    while not Event.objects.filter(run_id=run_id, type="run.completed").exists():
        assert time.monotonic() < deadline, f"{run_id} did not end"
        threading.Event().wait(0.05)


async def find(client: Client, **arguments: Any) -> CallToolResult:
    result = await client.call_tool("find_hints", {"query": "Release the parser", **arguments})
    assert isinstance(result, CallToolResult)
    return result


async def found(client: Client, **arguments: Any) -> dict[str, Any]:
    """Search, and return the structured answer of a search that went well."""
    result = await find(client, **arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def report(client: Client, hint_id: str, outcome: str, note: str = "") -> CallToolResult:
    result = await client.call_tool("report_outcome", {"hint_id": hint_id, "outcome": outcome, "note": note})
    assert isinstance(result, CallToolResult)
    return result
