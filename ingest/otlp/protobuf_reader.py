"""Reads OTLP protobuf requests into records. Pure.

The common body takes the strict reader, which is written in C. What that refuses as a whole (a byte that is no UTF-8
in one text, a bottomless list, one broken span) is read a second time, record by record. (Seed 001 §7.3, §13.)
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from ingest.errors import IngestError
from ingest.otlp.attributes import plain_attributes, plain_value
from ingest.otlp.records import (
    SPAN_ID_BYTES,
    SPAN_KINDS,
    STATUSES,
    TRACE_ID_BYTES,
    Origin,
    Read,
    Refused,
    SentLog,
    SentSpan,
    check_id,
    check_parent,
    check_word,
)

T = TypeVar("T")
Reader = Callable[[Any, int, Origin], T]

# Numbers of fields that the other signal's record sends with another wire type, which leaves them unknown here.
_FIELDS_OF_A_LOG: Final = frozenset((1, 2, 11))
_FIELDS_OF_A_SPAN: Final = frozenset((1, 2, 7, 8))
_NO_ORIGIN: Final = Origin({}, "", "", {}, "")


def parse_traces(body: bytes) -> Message:
    """Return the strictly decoded request. Raises DecodeError."""
    return TracesData.FromString(body)


def parse_logs(body: bytes) -> Message:
    """Return the strictly decoded request. Raises DecodeError."""
    return LogsData.FromString(body)


def read_traces(data: Any) -> Read[SentSpan]:
    """Return the spans of a decoded request. Raises IngestError 400 when its records are no spans."""
    groups = [
        (group.resource, part.scope, part.schema_url or group.schema_url, part.spans)
        for group in data.resource_spans
        for part in group.scope_spans
        if part.spans
    ]
    return _read_groups(groups, _read_span, _check_spans)


def read_logs(data: Any) -> Read[SentLog]:
    """Return the records of a decoded request. Raises IngestError 400 when they are no log records."""
    groups = [
        (group.resource, part.scope, part.schema_url or group.schema_url, part.log_records)
        for group in data.resource_logs
        for part in group.scope_logs
        if part.log_records
    ]
    return _read_groups(groups, _read_log, _check_logs)


def count_records(data: Any) -> int:
    """Return how many spans or log records a decoded request holds, without reading them."""
    if isinstance(data, TracesData):
        return sum(len(part.spans) for group in data.resource_spans for part in group.scope_spans)
    return sum(len(part.log_records) for group in data.resource_logs for part in group.scope_logs)


def _read_groups(groups: list[Any], read: Reader[T], check: Callable[[list[Any], int], None]) -> Read[T]:
    found: Read[T] = Read([], [])
    doubtful: list[Any] = []
    for resource, scope, schema_url, records in groups:
        origin, problem = _origin(resource, scope, schema_url)
        for record in records:
            index = found.n_sent
            found.n_sent += 1
            try:
                if problem is not None:
                    raise problem
                found.records.append(read(record, index, origin))
            except IngestError as error:
                doubtful.append(record)
                found.refused.append(_refused(record, index, error))
    check(doubtful, len(found.records))
    return found


def _origin(resource: Any, scope: Any, schema_url: str) -> tuple[Origin, IngestError | None]:
    words: list[str] = []
    try:
        attributes = plain_attributes(resource.attributes, words)
        about = plain_attributes(scope.attributes, words)
    except IngestError as error:
        return _NO_ORIGIN, error
    return Origin(attributes, scope.name, scope.version, about, schema_url), None


def _read_span(span: Any, index: int, origin: Origin) -> SentSpan:
    words: list[str] = []
    status = span.status
    return SentSpan(
        index,
        origin,
        check_id(span.trace_id, TRACE_ID_BYTES, "traceId"),
        check_id(span.span_id, SPAN_ID_BYTES, "spanId"),
        check_parent(span.parent_span_id),
        span.name,
        check_word(span.kind, SPAN_KINDS, "kind"),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        check_word(status.code, STATUSES, "status.code"),
        status.message,
        plain_attributes(span.attributes, words),
        [_event(event, words) for event in span.events] if span.events else [],
        [_link(link, words) for link in span.links] if span.links else [],
        span.trace_state,
        _dropped_of(span),
        digest_of(span.SerializeToString()),
        words,
    )


def _read_log(record: Any, index: int, origin: Origin) -> SentLog:
    words: list[str] = []
    return SentLog(
        index,
        origin,
        check_id(record.trace_id, TRACE_ID_BYTES, "traceId") if any(record.trace_id) else None,
        check_id(record.span_id, SPAN_ID_BYTES, "spanId") if any(record.span_id) else None,
        record.time_unix_nano,
        record.observed_time_unix_nano,
        record.severity_number,
        record.severity_text,
        record.event_name,
        plain_value(record.body, words, 0),
        plain_attributes(record.attributes, words),
        _dropped(record, ("attributes",)),
        digest_of(record.SerializeToString()),
        words,
    )


def _dropped_of(span: Any) -> dict[str, int]:
    """Return the counts of what the SDK left out; nearly always there are none."""
    if not (span.dropped_attributes_count or span.dropped_events_count or span.dropped_links_count):
        return {}
    return _dropped(span, ("attributes", "events", "links"))


def _dropped(record: Any, names: tuple[str, ...]) -> dict[str, int]:
    counts = {f"dropped_{name}_count": getattr(record, f"dropped_{name}_count") for name in names}
    return {name: count for name, count in counts.items() if count}


def _event(event: Any, words: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": event.name,
        "time_unix_nano": event.time_unix_nano,
        "attributes": plain_attributes(event.attributes, words),
    }
    return told | _dropped(event, ("attributes",))


def _link(link: Any, words: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex()}
    if link.attributes:
        told["attributes"] = plain_attributes(link.attributes, words)
    return told


def digest_of(sent: bytes) -> bytes:
    """Return the hash that tells a repeated delivery of a record from another copy."""
    return hashlib.blake2b(sent, digest_size=16).digest()


def _refused(record: Any, index: int, error: IngestError) -> Refused:
    event_id = record.span_id.hex() if len(record.span_id) == SPAN_ID_BYTES else None
    run_id = record.trace_id.hex() if len(record.trace_id) == TRACE_ID_BYTES else None
    return Refused(index, error.code, error.detail, event_id, run_id)


def _check_spans(doubtful: list[Any], n_read: int) -> None:
    """Refuse the request when none of its spans is readable and one is a log record, or none has an id at all."""
    if not n_read and any(_unknown_numbers(span) & _FIELDS_OF_A_LOG for span in doubtful):
        raise wrong_signal("traces", "log records", "/v1/logs")
    if doubtful and not n_read and not any(span.trace_id or span.span_id for span in doubtful):
        detail = "no span of the body has an id; are these log records? Send those to /v1/logs"
        raise IngestError("wrong_signal", 400, detail, field="body")


def _check_logs(doubtful: list[Any], n_read: int) -> None:
    if not n_read and any(_unknown_numbers(record) & _FIELDS_OF_A_SPAN for record in doubtful):
        raise wrong_signal("logs", "spans", "/v1/traces")


def _unknown_numbers(record: Message) -> frozenset[int]:
    return frozenset(unknown.field_number for unknown in _unknown(record))


def _unknown(record: Message) -> Iterator[Any]:
    return iter(UnknownFieldSet(record))


def wrong_signal(wanted: str, found: str, right_path: str) -> IngestError:
    """Return the refusal of a request that holds the records of another signal."""
    detail = f"the body holds {found} and this is the address for {wanted}; send it to {right_path}"
    return IngestError("wrong_signal", 400, detail, field="body")


def broken(signal: str) -> IngestError:
    """Return the refusal of bytes that are no OTLP request."""
    detail = f"the body is no OTLP {signal} request in protobuf; check the exporter's protocol (http/protobuf) and path"
    return IngestError("bad_protobuf", 400, detail, field="body")


__all__ = ["DecodeError", "broken", "count_records", "digest_of", "parse_logs", "parse_traces", "read_logs",
           "read_traces", "wrong_signal"]  # fmt: skip
