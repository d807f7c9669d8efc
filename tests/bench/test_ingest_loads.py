"""What the ingest benches send and count: the same bytes each time, all of it decodable, nothing counted twice."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from bench.ingest_limit import span_rows
from bench.lag import requests
from bench.loads import SPANS_A_RUN, Body, event_bodies, span_bodies
from bench.sending import percentiles, send
from contract.events import check_data

KIND = {"openinference": "openinference.span.kind", "genai": "gen_ai.operation.name"}


def spans_of(bodies: list[Body]) -> list[Span]:
    decoded = [ExportTraceServiceRequest.FromString(body.content) for body in bodies]
    return [
        span for one in decoded for part in one.resource_spans for scope in part.scope_spans for span in scope.spans
    ]


def test_load_is_deterministic() -> None:
    """The same seed gives the same bytes, another seed other ids."""
    assert span_bodies(600, 2) == span_bodies(600, 2)
    assert event_bodies(600, 2) == event_bodies(600, 2)
    ids = {span.span_id for bodies in span_bodies(600, 2, seed="1") for span in spans_of(bodies)}
    others = {span.span_id for bodies in span_bodies(600, 2, seed="2") for span in spans_of(bodies)}
    assert len(ids) == len(others) == 600
    assert not ids & others


@pytest.mark.parametrize("dialect", ["openinference", "genai"])
def test_bodies_decode(dialect: str) -> None:
    """Requests hold whole runs of four kinds, in spans of about a kilobyte and a half."""
    n_spans = 30 * SPANS_A_RUN
    (bodies,) = span_bodies(n_spans, 1, per_request=100, dialect=dialect)
    spans = spans_of(bodies)
    assert [body.n_items for body in bodies] == [100, 100, 100, 100, 100, 100, n_spans - 600]
    assert len(spans) == n_spans
    kinds = Counter(pair.value.string_value for span in spans for pair in span.attributes if pair.key == KIND[dialect])
    assert len(kinds) == 4
    assert sum(kinds.values()) == n_spans
    roots = [span for span in spans if not span.parent_span_id]
    assert {span.span_id for span in roots} == {span.parent_span_id for span in spans if span.parent_span_id}
    assert 1_350 < sum(len(body.content) for body in bodies) / n_spans < 1_650


def test_runs_straddle_requests() -> None:
    """A run goes on in the next request of its own connection, and in no other connection."""
    traces = [{span.trace_id for span in spans_of(bodies)} for bodies in span_bodies(2_000, 2)]
    assert not traces[0] & traces[1]
    first, second, *_ = span_bodies(2_000, 1)[0]
    assert {span.trace_id for span in spans_of([first])} & {span.trace_id for span in spans_of([second])}


def test_native_events_are_valid() -> None:
    """Native events are what the contract asks for, zipped or not."""
    plain, zipped = event_bodies(250, 1, per_request=100)[0], event_bodies(250, 1, per_request=100, zipped=True)[0]
    assert [gzip.decompress(body.content) for body in zipped] == [body.content for body in plain]
    events = [event for body in plain for event in json.loads(body.content)["events"]]
    assert len({(event["run_id"], event["event_id"]) for event in events}) == 250
    assert [problem for event in events if (problem := check_data(event["type"], event["data"]))] == []


def test_limit_rows() -> None:
    """The limit makes a row of each span, with all its attributes."""
    (body,) = span_bodies(200, 1)[0]
    rows = list(span_rows(body.content))
    for row, span in zip(rows, spans_of([body]), strict=True):
        assert (row[0], row[1]) == (span.trace_id.hex(), span.span_id.hex())
        assert list(json.loads(row[9])) == [pair.key for pair in span.attributes]


def test_lag_load() -> None:
    """The load of the lag fills each run in order and is due at its rate."""
    plan = list(requests("x", 1_000, 4, 2_000))
    assert [due for due, _ in plan[:3]] == [0.0, 0.05, 0.1]
    seqs: dict[str, list[int]] = {}
    for _, events in plan:
        for event in events:
            seqs.setdefault(event["run_id"], []).append(event["seq"])
    assert len(seqs) == 20
    assert all(numbers == list(range(100)) for numbers in seqs.values())


def test_percentiles() -> None:
    """Percentiles are values that occurred."""
    assert percentiles([number / 1_000 for number in range(100, 0, -1)]) == {
        "p50": 51.0,
        "p95": 96.0,
        "p99": 100.0,
        "max": 100.0,
    }
    assert percentiles([]) == {}


@contextmanager
def receiver(answers: list[int]) -> Iterator[tuple[str, list[bytes]]]:
    """Answer with each status of `answers` in turn, then with 200; yield the address and the bodies that came."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(answers.pop(0) if answers else 200)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
        server.shutdown()


def test_retries() -> None:
    """What is refused for now is sent again and counted once."""
    with receiver([503, 429]) as (url, received):
        sent = send(url, {}, [[Body(b"a", 3), Body(b"b", 4)]])
    assert received == [b"a", b"a", b"a", b"b"]
    assert (sent.n_items, sent.n_lost, len(sent.latencies)) == (7, 0, 2)
    assert sent.answers == {"503": 1, "429": 1, "200": 2}


def test_refusals() -> None:
    """What is refused for good is lost, and told."""
    with receiver([400]) as (url, received):
        sent = send(url, {}, [[Body(b"a", 3), Body(b"b", 4)]])
    assert received == [b"a", b"b"]
    assert (sent.n_items, sent.n_lost, sent.refusals) == (4, 3, ["400 "])
