"""Maps spans without a server or a database, and holds every event against the schema of its type."""

from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from contract.events import check_data
from ingest.envelope import EventDraft, SentEvent, make_draft
from ingest.otlp.protobuf_reader import parse_traces, read_traces
from ingest.otlp.traces import map_spans
from ingest.wire import WireLimits
from tests.ingest.otlp.sending import START, span, traces

LIMITS = WireLimits(8_388_608, 1_000, 262_144, 64, 512)
ROLE = "openinference.span.kind"
OPERATION = "gen_ai.operation.name"


def mapped(*spans: Span, **request: Any) -> list[SentEvent]:
    """Return the events of the spans, each found to be in order by its type's schema."""
    events, refused = map_spans(read_traces(parse_traces(traces(*spans, **request).SerializeToString())).records)
    assert refused == []
    assert [check_data(event.ids["type"] or "", event.data) for event in events] == [None] * len(events)
    return events


def one(attributes: dict[str, Any], parent: int | None = 9, **fields: Any) -> SentEvent:
    events = list(fields.pop("events", ()))
    sent = span(1, parent, attributes=attributes, **fields)
    sent.events.extend(events)
    return mapped(sent)[0]


def told(event: SentEvent) -> dict[str, Any]:
    found: dict[str, Any] = event.data["span"]
    return found


def draft(event: SentEvent) -> EventDraft:
    return make_draft(event, START, LIMITS)
