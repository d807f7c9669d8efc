"""Makes one long trace as an instrumented agent exports it by OTLP, the same bytes for every receiver. Pure."""

import random
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from bench.loads import SENTENCE

LOW, HIGH = 200, 2_000  # characters of an input or output
PER_REQUEST = 500
MILLISECOND = 1_000_000
STEP_MS = 400
FAIL_EVERY = 24  # spans
MODEL = "model step"  # name of the spans a page is looked at for


def trace_bodies(n_spans: int, begin_ns: int, seed: str = "1") -> tuple[str, list[bytes]]:
    """Return the id of the trace and its requests: an agent's span with `n_spans` - 1 model and tool calls under it."""
    draw = random.Random(f"trace {seed} {n_spans}")
    trace_id = draw.randbytes(16)
    spans = list(_spans(draw, trace_id, n_spans, begin_ns))
    requests = []
    for first in range(0, n_spans, PER_REQUEST):
        request = ExportTraceServiceRequest()
        batch = request.resource_spans.add()
        batch.resource.attributes.append(_told("service.name", "bench"))
        batch.scope_spans.add().spans.extend(spans[first : first + PER_REQUEST])
        requests.append(request.SerializeToString())
    return trace_id.hex(), requests


def _spans(draw: random.Random, trace_id: bytes, n_spans: int, begin_ns: int) -> Iterator[Span]:
    root = draw.randbytes(8)
    end_ns = begin_ns + n_spans * STEP_MS * MILLISECOND
    yield _span(draw, trace_id, root, b"", "agent run", "AGENT", begin_ns, end_ns)
    for number in range(1, n_spans):
        start = begin_ns + number * STEP_MS * MILLISECOND
        kind, name = ("LLM", MODEL) if number % 2 else ("TOOL", "shell")
        span = _span(draw, trace_id, draw.randbytes(8), root, name, kind, start, start + 350 * MILLISECOND)
        if number % FAIL_EVERY == 0:
            span.status.code, span.status.message = Status.STATUS_CODE_ERROR, f"exit 1 in step {number}"
        yield span


def _span(draw: random.Random, trace_id: bytes, span_id: bytes, parent: bytes, name: str, kind: str,
          start: int, end: int) -> Span:  # fmt: skip
    told = {"openinference.span.kind": kind, "input.value": _text(draw), "output.value": _text(draw)}
    if kind == "TOOL":
        told["tool.name"] = name
    return Span(
        trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=name, kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start, end_time_unix_nano=end, attributes=[_told(*pair) for pair in told.items()],
    )  # fmt: skip


def _text(draw: random.Random) -> str:
    size = draw.randint(LOW, HIGH)
    return " ".join(draw.choices(SENTENCE.split(), k=size // 4))[:size]


def _told(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))
