"""The endpoint behind the real web server: chunked bodies, refusals that reach a sender who is still sending."""

import gzip
import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningStack
from tests.ingest.test_accept import event

pytestmark = pytest.mark.stack

JSON = {"Content-Type": "application/json"}


def body_of(run_id: str, **fields: Any) -> bytes:
    return json.dumps({"events": [event(number, run_id, **fields) for number in range(3)]}).encode()


@pytest.fixture
def run_id() -> str:
    return f"sent-{uuid.uuid4().hex[:8]}"


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def stored(stack: RunningStack, run_id: str) -> int:
    answer = stack.get(f"/v1/runs/{run_id}/events")
    return len(answer.json()["results"]) if answer.status_code == 200 else 0


def test_chunked_body_is_stored(stack: RunningStack, run_id: str) -> None:
    """Without a Content-Length, plain and compressed; the second delivery is known."""
    body = body_of(run_id)
    plain = stack.api.post("/v1/events", content=pieces(body, 50), headers=JSON)
    packed = {**JSON, "Content-Encoding": "gzip"}
    again = stack.api.post("/v1/events", content=pieces(gzip.compress(body), 9), headers=packed)
    assert (plain.json()["accepted"], again.json()["duplicates"]) == (3, 3)
    assert stored(stack, run_id) == 3


@pytest.mark.parametrize("chunked", [False, True])
def test_30_megabytes_are_answered_with_the_limit(stack: RunningStack, run_id: str, chunked: bool) -> None:
    """Case 28: the sender reads the 413 and its limit, and not a broken connection; nothing was stored."""
    body = body_of(run_id, data={"v": "x" * 10_000_000})
    sent: Any = pieces(body, 1 << 20) if chunked else body
    answer: httpx.Response = stack.api.post("/v1/events", content=sent, headers=JSON)
    assert (answer.status_code, answer.json()["code"], answer.json()["limit"]) == (413, "body_too_large", 8_388_608)
    assert stored(stack, run_id) == 0


def request_head(stack: RunningStack, length: str) -> bytes:
    url, key = stack.api.base_url, stack.api.headers["Authorization"]
    head = f"POST /v1/events HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nAuthorization: {key}\r\n{length}\r\n\r\n"
    return head.encode()


def connected(stack: RunningStack, sent: bytes) -> socket.socket:
    connection = socket.create_connection((stack.api.base_url.host, stack.api.base_url.port or 80), timeout=20)
    connection.sendall(sent)
    return connection


def answer_to(connection: socket.socket) -> str:
    parts = []
    with connection:
        while piece := connection.recv(65_536):
            parts.append(piece)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("length", "body"),
    [
        ("Transfer-Encoding: chunked", b"zz\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"-5\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"50\r\nabc"),
        ("Content-Length: 999999", b""),
    ],
)
def test_a_body_that_breaks_off_is_400(stack: RunningStack, run_id: str, length: str, body: bytes) -> None:
    """Case 30: chunks that are none, and an end before the end, also behind a body that would be whole."""
    connection = connected(stack, request_head(stack, length) + (body or body_of(run_id)))
    connection.shutdown(socket.SHUT_WR)
    answer = answer_to(connection)
    assert answer.startswith("HTTP/1.1 400 ")
    assert "body_cut_off" in answer
    assert stored(stack, run_id) == 0


@pytest.mark.parametrize("with_head", [True, False])
def test_slow_senders_do_not_stop_the_others(stack: RunningStack, run_id: str, with_head: bool) -> None:
    """More senders that never finish than both web processes have threads: others are answered meanwhile."""
    begun = request_head(stack, "Content-Length: 9999") + b"{" if with_head else b"POST /v1/events HTTP/1.1\r\nHost: x"
    waiting = [connected(stack, begun) for _ in range(24)]
    try:
        for number in range(8):
            answer = stack.api.post("/v1/events", content=body_of(f"{run_id}-{number}"), headers=JSON, timeout=15)
            assert answer.json()["accepted"] == 3
        if with_head:
            assert "503 Service Unavailable" in answer_to(waiting[-1])
    finally:
        for connection in waiting:
            connection.close()


def test_run_ids_with_slashes_and_spaces_are_read(stack: RunningStack, run_id: str) -> None:
    """Any printable run id can be asked for."""
    odd = f"team/{run_id} ü?#%/events"
    assert stack.post("/v1/events", {"events": [event(1, odd)]}).json()["accepted"] == 1
    answer = stack.get(f"/v1/runs/{quote(odd, safe='')}/events")
    assert [row["run_id"] for row in answer.json()["results"]] == [odd]
