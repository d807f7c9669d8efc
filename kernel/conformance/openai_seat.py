"""The seat of the OpenAI-compatible driver: the real client, speaking to a server on this machine that answers every
request with the completion the world has prepared for it and keeps what it was asked."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from kernel.conformance.moves import Reaching, ordinary
from kernel.conformance.playing import Seat
from kernel.conformance.worlds import Move, Round, World
from kernel.drivers import Driver

POLL_SECONDS: Final = 0.05  # between two looks at whether the server is to stop


class CompletionServer:
    """Serves the completions of worlds, which the requests name as their model; `asked` holds the bodies by world."""

    def __init__(self) -> None:
        self.worlds: dict[str, World] = {}
        self.asked: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self.stopping = threading.Event()
        self._http = _Quiet(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def answer(self, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the body for one request; where the model hangs, not before the server stops."""
        name = str(body["model"])
        self.asked[name].append(body)
        number = sum(1 for message in body["messages"] if message["role"] == "assistant")
        tried = self.worlds[name].round_at(number)
        if tried.hangs:
            self.stopping.wait()
        if tried.fails or tried.hangs:
            return 400, {"error": {"message": "this model takes no such request", "type": "invalid_request_error"}}
        return 200, completion(tried, number)

    def start(self) -> None:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": POLL_SECONDS}, daemon=True).start()

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()


class _Quiet(ThreadingHTTPServer):
    """A server that says nothing of clients that went away."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was cancelled is no error."""


@contextmanager
def completion_server() -> Iterator[CompletionServer]:
    """Serve on a free port while the block runs."""
    server = CompletionServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def openai_seat(world: World, server: CompletionServer, client: Driver) -> Seat:
    """Return a seat whose occupant is the model behind `server`, asked by `client`, which is not closed with it."""
    server.worlds[world.id] = world
    reaching = Reaching(client, world, ids=True, texts=True, keeps=True)
    return Seat(reaching, reaching, bodies=server.asked[world.id])


def completion(tried: Round, number: int) -> Mapping[str, Any]:
    """Return a round as a chat completion."""
    calls = [_call(move, f"call_{number}_{place}") for place, move in enumerate(ordinary(tried), 1)]
    message: dict[str, Any] = {"role": "assistant", "content": tried.say or None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    return {"id": f"c-{number}", "object": "chat.completion", "model": "prepared", "choices": [choice], "usage": usage}


def _call(move: Move, call_id: str) -> Mapping[str, Any]:
    function = {"name": move.tool, "arguments": move.written}
    return {"id": call_id if move.call_id is None else move.call_id, "type": "function", "function": function}


def _handler(server: CompletionServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer leaves in one piece

        def do_POST(self) -> None:  # noqa: N802 - the name http.server calls
            status, answer = server.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    return Handler
