"""Runs the server of mcp_http_server.py for tests, kills it and starts it again; calls its tools through a toolbox."""

import asyncio
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from debugger.embedded.sockets import free_port
from kernel.messages import McpServer, RunSpec
from kernel.tools.catalogue import ToolResult
from kernel.tools.mcp_servers import McpLimits
from kernel.tools.registry import PreparedTools, Toolbox
from tests.kernel.mcp_http_server import serve

LIMITS = McpLimits(call_seconds=2, start_seconds=10, check_seconds=1, answer_bytes=300_000)


# Servers are forked from a process that has imported them, which ends with this one.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "tests.kernel.mcp_http_server"])


class Server:
    """One server on a port of its own, and what it noted. `held` keeps the port listening while no server runs."""

    def __init__(self, folder: Path, *options: str, held: bool = False) -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self._held = self._listen() if held else None
        self._process: ForkServerProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None and self._process.pid is not None
        return self._process.pid

    @property
    def config(self) -> McpServer:
        return McpServer("odd", url=f"http://127.0.0.1:{self.port}/mcp")

    def _listen(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", self.port))

    def start(self) -> None:
        """Start it; requests wait from now on until it can answer."""
        listener = self._held or self._listen()
        self._process = PROCESSES.Process(target=serve, args=(listener, self.folder, self.options), daemon=True)
        self._process.start()
        if listener is not self._held:
            listener.close()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None

    def close(self) -> None:
        self.kill()
        if self._held:
            self._held.close()

    def noted(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def calls(self, name: str) -> int:
        return self.noted("calls").count(name)

    def requests(self, start: str) -> list[str]:
        return [line for line in self.noted("requests") if line.startswith(start)]

    async def until_called(self, name: str, count: int = 1) -> None:
        async with asyncio.timeout(20):
            while self.calls(name) < count:
                await asyncio.sleep(0.01)


@contextmanager
def running(folder: Path, *options: str, held: bool = False) -> Iterator[Server]:
    """Run a server that keeps its notes in `folder`."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        server = Server(folder, *options, held=held)
        stack.callback(server.close)
        server.start()
        yield server


async def prepare(toolbox: Toolbox, *servers: McpServer, run_id: str = "r") -> PreparedTools:
    """Prepare a run with these servers."""
    prepared = await toolbox.prepare(RunSpec(run_id, "t", mcp_servers=servers))
    assert prepared.error == ""
    return prepared


async def call(
    toolbox: Toolbox, prepared: PreparedTools, name: str, run_id: str = "r", reading: bool = False, **arguments: object
) -> ToolResult:
    """Call a tool of the server; `reading` calls it as one without effects."""
    entry = prepared.catalogue.find(f"odd__{name}")
    assert entry is not None
    if reading:
        entry = replace(entry, effectful=False)
    return await toolbox.run(run_id, prepared.catalogue, entry, arguments)


def outcome(result: ToolResult) -> tuple[str, str, str]:
    return result.status, result.effect, result.error_class
