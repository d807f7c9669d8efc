"""Builds OTLP requests as protobuf and as OTLP/JSON, and sends them with a key to the addresses under test."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ingest.authentication import create_key
from ingest.models import Event, Message, Project

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
TRACE = bytes(range(1, 17))
START = 1_796_007_600_123_456_789


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def any_value(value: Any) -> AnyValue:
    """Return a Python value as OTLP has it; None is an unset value."""
    made = AnyValue()
    if isinstance(value, bool):
        made.bool_value = value
    elif isinstance(value, str):
        made.string_value = value
    elif isinstance(value, int):
        made.int_value = value
    elif isinstance(value, float):
        made.double_value = value
    elif isinstance(value, bytes):
        made.bytes_value = value
    elif isinstance(value, list):
        made.array_value.values.extend(any_value(item) for item in value)
        made.array_value.SetInParent()
    elif isinstance(value, dict):
        made.kvlist_value.values.extend(pairs(value))
        made.kvlist_value.SetInParent()
    return made


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def span(number: int, parent: int | None = None, *, attributes: dict[str, Any] | None = None, **fields: Any) -> Span:
    """Return a span of one second; `fields` are the message's own."""
    given: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": span_id(number),
        "name": f"step {number}",
        "kind": Span.SPAN_KIND_INTERNAL,
        "start_time_unix_nano": START + number,
        "end_time_unix_nano": START + number + 1_000_000_000,
        **({} if parent is None else {"parent_span_id": span_id(parent)}),
        **fields,
    }
    made = Span(**given)
    made.attributes.extend(pairs(attributes or {}))
    return made


def event_of(name: str, attributes: dict[str, Any], time_ns: int = START) -> Span.Event:
    made = Span.Event(name=name, time_unix_nano=time_ns)
    made.attributes.extend(pairs(attributes))
    return made


def traces(*spans: Span, resource: dict[str, Any] | None = None, schema_url: str = "") -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.extend(pairs({"service.name": "shop"} if resource is None else resource))
    part = group.scope_spans.add(schema_url=schema_url)
    part.scope.name, part.scope.version = "tests", "1.2"
    part.spans.extend(spans)
    return made


def record(body: Any, *, attributes: dict[str, Any] | None = None, **fields: Any) -> LogRecord:
    given: dict[str, Any] = {"trace_id": TRACE, "span_id": span_id(1), "time_unix_nano": START, **fields}
    made = LogRecord(**given)
    made.body.CopyFrom(any_value(body))
    made.attributes.extend(pairs(attributes or {}))
    return made


def logs(*records: LogRecord, resource: dict[str, Any] | None = None) -> ExportLogsServiceRequest:
    made = ExportLogsServiceRequest()
    group = made.resource_logs.add()
    group.resource.attributes.extend(pairs({"service.name": "shop"} if resource is None else resource))
    part = group.scope_logs.add()
    part.scope.name = "tests"
    part.log_records.extend(records)
    return made


def as_json(request: Any) -> dict[str, Any]:
    """Return the OTLP/JSON of a request: protobuf's JSON with ids in hex and enums as numbers."""
    document = MessageToDict(request, use_integers_for_enums=True)
    _hex_ids(document, request)
    return document


def _hex_ids(told: Any, message: Any) -> None:
    for field_of, value in message.ListFields():
        name = field_of.json_name
        if name in ("traceId", "spanId", "parentSpanId"):
            told[name] = value.hex()
        elif field_of.message_type is not None and name in told:
            if field_of.is_repeated:
                for inner, item in zip(told[name], value, strict=True):
                    _hex_ids(inner, item)
            else:
                _hex_ids(told[name], value)


@dataclass
class Answer:
    """One answer: its status, its type, its body decoded by that type, its headers."""

    status: int
    media_type: str
    content: bytes
    headers: Any = field(repr=False)

    def success(self, signal: str) -> Any:
        """Return the export response as a dict with protobuf's field names."""
        assert self.status == 200, self.content
        if self.media_type == JSON:
            return json.loads(self.content)
        made = ExportTraceServiceResponse if signal == "traces" else ExportLogsServiceResponse
        return MessageToDict(made.FromString(self.content))

    def problem(self) -> dict[str, Any]:
        """Return the Status of a refusal: its message, and the reason and metadata of its ErrorInfo."""
        assert self.status >= 400, self.content
        told = json.loads(self.content) if self.media_type == JSON else MessageToDict(Status.FromString(self.content))
        return {"code": told["code"], "message": told["message"], **told["details"][0]}


class OtlpSender:
    """An exporter: one key, and requests in either encoding."""

    def __init__(self, project: Project, *scopes: str) -> None:
        self.project = project
        self.key, self.raw = create_key(project, "exporter", scopes or ("ingest", "read"))
        self.client = Client(raise_request_exception=False)

    def send(self, signal: str, body: Any, media_type: str = PROTOBUF, **headers: str) -> Answer:
        """Send bytes as they are, a dict as JSON, a message in the encoding that `media_type` names."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        elif not isinstance(body, bytes):
            body = json.dumps(as_json(body)).encode() if media_type.startswith(JSON) else body.SerializeToString()
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        given |= {
            "Authorization": f"Bearer {self.raw}",
            "Content-Type": media_type,
        }  # Django's client names none for b""
        response = self.client.post(f"/v1/{signal}", body, content_type=media_type, headers=given)
        return Answer(response.status_code, response.headers["Content-Type"], response.content, response.headers)

    def traces(self, *spans: Span, media_type: str = PROTOBUF) -> Any:
        return self.send("traces", traces(*spans), media_type).success("traces")

    def stored(self) -> dict[str, Event]:
        """Return the project's events by their id."""
        return {event.event_id: event for event in Event.objects.filter(project=self.project)}

    def one(self, number: int) -> Event:
        return self.stored()[span_id(number).hex()]

    def messages_with(self, text: str) -> list[dict[str, Any]]:
        """Return the bodies of the message store that hold `text`."""
        bodies = Message.objects.filter(project=self.project).values_list("body", flat=True)
        return [body for body in bodies if text in json.dumps(body)]

    def message(self, digest: str) -> dict[str, Any]:
        body: dict[str, Any] = Message.objects.get(project=self.project, hash=digest).body
        return body
