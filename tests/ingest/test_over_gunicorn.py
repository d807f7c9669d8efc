"""The endpoint behind the real web server: chunked bodies, refusals that reach a sender who is still sending."""

import gzip
import json
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


def test_run_ids_with_slashes_and_spaces_are_read(stack: RunningStack, run_id: str) -> None:
    """Any printable run id can be asked for."""
    odd = f"team/{run_id} ü?#%/events"
    assert stack.post("/v1/events", {"events": [event(1, odd)]}).json()["accepted"] == 1
    answer = stack.get(f"/v1/runs/{quote(odd, safe='')}/events")
    assert [row["run_id"] for row in answer.json()["results"]] == [odd]
