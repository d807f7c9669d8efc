"""A small real HTTP server for what the kernel speaks to: it answers by a function and remembers what it was asked."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What to answer: a status, a body (JSON unless bytes), headers; `silent` never answers until the server stops."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False


@dataclass
class Asked:
    """One request as it came; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: Any


class LocalServer:
    """A running server: its address, what it was asked, and how to wait until it was."""

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.stopping = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    async def until_asked(self, count: int = 1) -> None:
        """Wait until `count` requests came."""
        async with asyncio.timeout(60):
            while len(self.asked) < count:
                await asyncio.sleep(0.01)

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler below
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802 - the name http.server calls
                content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.path, headers, json.loads(content) if content else None)
                server.asked.append(asked)
                answer = server.answer(asked)
                if answer.silent:
                    server.stopping.wait()
                    return
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent."""

        return Handler

    def start(self) -> None:
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def local_server(answer: Callable[[Asked], Answer]) -> Iterator[LocalServer]:
    """Serve on a free port while the block runs."""
    server = LocalServer(answer)
    server.start()
    try:
        yield server
    finally:
        server.stop()
