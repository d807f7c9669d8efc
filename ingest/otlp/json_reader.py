"""Reads OTLP/JSON requests into records: hex ids, integers as numbers or digits, enums as numbers. Pure.

Unknown fields are ignored and null means absent. A part of another shape than OTLP's (an object in place of a list) is
refused together with what stands under it, and costs nothing beside it. (Seed 001 §7.3, §13.)
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson

from ingest.errors import IngestError
from ingest.otlp.attributes import is_text, json_integer, plain_json_attributes, plain_json_value
from ingest.otlp.protobuf_reader import digest_of, wrong_signal
from ingest.otlp.records import (
    SPAN_ID_BYTES,
    SPAN_KINDS,
    STATUSES,
    TRACE_ID_BYTES,
    UINT64_MAX,
    Origin,
    Read,
    Refused,
    SentLog,
    SentSpan,
    bad,
    check_id,
    check_parent,
    check_word,
)
from ingest.wire import parse_json

T = TypeVar("T")

MAX_LEVELS: Final = 400  # containers the parser keeps: five for one level of a kvlist, and what stands around
UINT32_MAX: Final = 2**32 - 1
_HEX: Final = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Signal:
    """How a signal's three levels of lists are named, and where it is sent."""

    name: str
    groups: str
    parts: str
    records: str
    path: str


TRACES: Final = Signal("traces", "resourceSpans", "scopeSpans", "spans", "/v1/traces")
LOGS: Final = Signal("logs", "resourceLogs", "scopeLogs", "logRecords", "/v1/logs")


def parse_document(body: bytes, signal: Signal) -> dict[str, Any]:
    """Return the decoded request. Raises IngestError 400 when it is no JSON object, or one of another signal."""
    document = parse_json(body, MAX_LEVELS)
    if not isinstance(document, dict):
        raise IngestError("bad_body", 400, f'the body must be an object {{"{signal.groups}": […]}}', field="body")
    groups = document.get(signal.groups)
    if groups is None:
        _check_spelling(document, signal.groups)
    other = LOGS if signal is TRACES else TRACES
    if groups is None and other.groups in document:
        raise wrong_signal(signal.name, other.records, other.path)
    if groups is not None and not isinstance(groups, list):
        raise IngestError("bad_body", 400, f"{signal.groups} must be a list", field=signal.groups)
    return document


def read_traces(document: dict[str, Any]) -> Read[SentSpan]:
    """Return the spans of a decoded request and what of it could not be read."""
    return _read(document, TRACES, _read_span)


def read_logs(document: dict[str, Any]) -> Read[SentLog]:
    """Return the log records of a decoded request and what of it could not be read."""
    return _read(document, LOGS, _read_log)


def count_records(document: dict[str, Any], signal: Signal) -> int:
    """Return how many records a decoded request holds, without reading them."""
    parts = (part for group in _objects(document.get(signal.groups)) for part in _objects(group.get(signal.parts)))
    lists = (part.get(signal.records) for part in parts)
    return sum(len(records) for records in lists if isinstance(records, list))


def _objects(values: object) -> Iterator[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else iter(())


def _read(document: dict[str, Any], signal: Signal, read: Callable[[Any, int, Origin], T]) -> Read[T]:
    found: Read[T] = Read([], [])
    for group in _list(document, signal.groups, found):
        for part in _list(group, signal.parts, found, "an entry of " + signal.groups):
            records = _list(part, signal.records, found, "an entry of " + signal.parts)
            if records:
                _read_records(records, group, part, found, read)
    return found


def _list(holder: Any, name: str, found: Read[T], what: str = "") -> list[Any]:
    """Return the list under `name`; a holder or list of another shape is one refused part."""
    try:
        if not isinstance(holder, dict):
            raise bad("bad_shape", what, "must be an object")
        values = holder.get(name)
        if values is None:
            _check_spelling(holder, name)
            return []
        if not isinstance(values, list):
            raise bad("bad_shape", name, "must be a list")
    except IngestError as error:
        found.refused.append(Refused(found.n_sent, error.code, error.detail))
        found.n_sent += 1
        return []
    return values


def _check_spelling(holder: dict[str, Any], name: str) -> None:
    """Raise IngestError 400 for a list under protobuf's own name: OTLP/JSON would have it passed over unseen."""
    other = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)
    if other != name and other in holder:
        raise bad("bad_shape", other, f"must be written {name}: keys of OTLP/JSON are lowerCamelCase")


def _read_records(
    records: list[Any], group: Any, part: Any, found: Read[T], read: Callable[[Any, int, Origin], T]
) -> None:
    origin, problem = Origin({}, "", "", {}, ""), None
    try:
        origin = _origin(group, part)
    except IngestError as error:
        problem = error
    for record in records:
        index = found.n_sent
        found.n_sent += 1
        try:
            if problem is not None:
                raise problem
            if not isinstance(record, dict):
                raise bad("bad_shape", "a record", "must be an object")
            found.records.append(read(record, index, origin))
        except IngestError as error:
            found.refused.append(Refused(index, error.code, error.detail, *_shown_ids(record)))


def _origin(group: dict[str, Any], part: dict[str, Any]) -> Origin:
    words: list[str] = []
    resource = _object(group, "resource")
    scope = _object(part, "scope")
    return Origin(
        plain_json_attributes(resource.get("attributes"), words, "resource.attributes"),
        _text(scope, "name"),
        _text(scope, "version"),
        plain_json_attributes(scope.get("attributes"), words, "scope.attributes"),
        _text(part, "schemaUrl") or _text(group, "schemaUrl"),
    )


def _read_span(span: dict[str, Any], index: int, origin: Origin) -> SentSpan:
    words: list[str] = []
    status = _object(span, "status")
    return SentSpan(
        index,
        origin,
        check_id(_hex(span, "traceId"), TRACE_ID_BYTES, "traceId"),
        check_id(_hex(span, "spanId"), SPAN_ID_BYTES, "spanId"),
        check_parent(_hex(span, "parentSpanId")),
        _text(span, "name"),
        check_word(_enum(span, "kind", "kind"), SPAN_KINDS, "kind"),
        _number(span, "startTimeUnixNano"),
        _number(span, "endTimeUnixNano"),
        check_word(_enum(status, "code", "status.code"), STATUSES, "status.code"),
        _text(status, "message"),
        plain_json_attributes(span.get("attributes"), words, "attributes"),
        [_event(event, words) for event in _objects_of(span, "events")],
        [_link(link, words) for link in _objects_of(span, "links")],
        _text(span, "traceState"),
        _dropped(span, ("Attributes", "Events", "Links")),
        _digest(span),
        words,
    )


def _read_log(record: dict[str, Any], index: int, origin: Origin) -> SentLog:
    words: list[str] = []
    trace, span = _hex(record, "traceId"), _hex(record, "spanId")
    return SentLog(
        index,
        origin,
        check_id(trace, TRACE_ID_BYTES, "traceId") if any(trace) else None,
        check_id(span, SPAN_ID_BYTES, "spanId") if any(span) else None,
        _number(record, "timeUnixNano"),
        _number(record, "observedTimeUnixNano"),
        _enum(record, "severityNumber", "severityNumber"),
        _text(record, "severityText"),
        _text(record, "eventName"),
        plain_json_value(record.get("body"), words, "body"),
        plain_json_attributes(record.get("attributes"), words, "attributes"),
        _dropped(record, ("Attributes",)),
        _digest(record),
        words,
    )


def _event(event: dict[str, Any], words: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": _text(event, "name"),
        "time_unix_nano": _number(event, "timeUnixNano"),
        "attributes": plain_json_attributes(event.get("attributes"), words, "events.attributes"),
    }
    return told | _dropped(event, ("Attributes",))


def _link(link: dict[str, Any], words: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"trace_id": _hex(link, "traceId").hex(), "span_id": _hex(link, "spanId").hex()}
    if link.get("attributes"):
        told["attributes"] = plain_json_attributes(link["attributes"], words, "links.attributes")
    return told


def _objects_of(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    values = holder.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise bad("bad_shape", name, "must be a list of objects")
    return values


def _object(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad("bad_shape", name, "must be an object")
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not is_text(value):
        raise bad("bad_shape", name, "must be text")
    return value


def _hex(holder: dict[str, Any], name: str) -> bytes:
    text = _text(holder, name)
    if len(text) % 2 or not _HEX.issuperset(text):
        raise bad("invalid_id", name, "must be hex digits, two for each byte (OTLP/JSON does not use base64 for ids)")
    return bytes.fromhex(text)


def _number(holder: dict[str, Any], name: str) -> int:
    value = holder.get(name)
    return 0 if value is None else json_integer(value, name, UINT64_MAX)


def _enum(holder: dict[str, Any], name: str, place: str) -> int:
    value = holder.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad("invalid_enum", place, "must be OTLP's number, not its name")
    return value


def _dropped(holder: dict[str, Any], names: tuple[str, ...]) -> dict[str, int]:
    counts = {
        f"dropped_{name.lower()}_count": json_integer(holder[field], field, UINT32_MAX)
        for name in names
        if holder.get(field := f"dropped{name}Count") is not None
    }
    return {name: count for name, count in counts.items() if count}


def _digest(record: dict[str, Any]) -> bytes:
    """Return the hash of a record as sent; what JSON in UTF-8 cannot express is hashed with escapes."""
    try:
        return digest_of(orjson.dumps(record, option=orjson.OPT_SORT_KEYS))
    except TypeError:
        return digest_of(json.dumps(record, sort_keys=True).encode())


def _shown_ids(record: object) -> tuple[str | None, str | None]:
    """Return (span id, trace id) of a refused record where they are whole."""
    if not isinstance(record, dict):
        return None, None
    span, trace = record.get("spanId"), record.get("traceId")
    return _whole(span, SPAN_ID_BYTES), _whole(trace, TRACE_ID_BYTES)


def _whole(text: object, size: int) -> str | None:
    return text.lower() if isinstance(text, str) and len(text) == size * 2 and _HEX.issuperset(text) else None
