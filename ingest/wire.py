"""Bytes in, checked events out. Pure: no database, no clock; limits come in as arguments.

A body that cannot be decoded is one IngestError; an event that cannot be kept is one Rejection, by its index,
and never costs its neighbours.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from contract import events as schema
from contract.redaction import redact, redact_value
from ingest.errors import IngestError
from ingest.repair import INT64_MAX, INT64_MIN, Repairs, clean_text, clean_value, cut_to_size

RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIME_KEYS: Final = {name: name.removesuffix("_at") + "_at_unix_nano" for name in schema.TIME_FIELDS}
KNOWN_KEYS: Final = frozenset((*schema.ENVELOPE_FIELDS, *TIME_KEYS.values()))


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Bounds of one request: bytes after inflating, events, bytes of one event, nesting levels, bytes of a key."""

    max_body_bytes: int
    max_events: int
    max_event_bytes: int
    max_nesting: int
    max_key_bytes: int


@dataclass(frozen=True, slots=True)
class WireEvent:
    """An event fit to be stored: ids checked, times in Unix nanoseconds, data repaired and redacted."""

    ids: Mapping[str, str | None]
    seq: int | None
    turn: int | None
    occurred_ns: int
    ended_ns: int | None
    digest: bytes
    repairs: tuple[str, ...]
    data: dict[str, Any]

    @property
    def run_id(self) -> str:
        return self.ids["run_id"] or ""

    @property
    def event_id(self) -> str:
        return self.ids["event_id"] or ""


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """Return `body` decoded from its Content-Encoding, never more than `limit` bytes of it.

    Raises IngestError: 415 for an unknown encoding, 400 for broken data, 413 past the limit (a bomb is cut off).
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        plain = body
    elif encoding in ("gzip", "deflate"):
        decoder = zlib.decompressobj(47)  # 32 + 15: zlib or gzip header, found by itself
        try:
            plain = decoder.decompress(body, limit + 1)
        except zlib.error:
            raise IngestError("bad_encoding", 400, f"the body is not valid {encoding} data") from None
        if len(plain) <= limit and not decoder.eof:
            raise IngestError("bad_encoding", 400, f"the {encoding} data ends too early")
    else:
        raise IngestError("unsupported_encoding", 415, "Content-Encoding must be gzip, deflate or absent")
    if len(plain) > limit:
        raise IngestError("body_too_large", 413, f"the body is over {limit} bytes; send smaller batches", limit=limit)
    return plain


def decode(body: bytes, limits: WireLimits) -> list[Any]:
    """Return the list under `events` of a JSON body. Raises IngestError (400, 413)."""
    try:
        value = json.loads(body)
    except RecursionError:
        raise IngestError("too_nested", 400, "the body is nested too deeply to be read") from None
    except (ValueError, UnicodeDecodeError) as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise IngestError("bad_json", 400, f"the body is not valid JSON{place}") from None
    if not isinstance(value, dict) or not isinstance(value.get("events"), list):
        raise IngestError("bad_body", 400, 'the body must be an object: {"events": [ … ]}', field="events")
    events: list[Any] = value["events"]
    if len(events) > limits.max_events:
        detail = f"{len(events)} events in one request; the limit is {limits.max_events}, send smaller batches"
        raise IngestError("too_many_events", 413, detail, field="events", limit=limits.max_events)
    return events


def parse_event(raw: Any, limits: WireLimits) -> WireEvent:
    """Return one event of a request, checked, repaired and redacted. Raises IngestError saying why not."""
    if not isinstance(raw, dict):
        raise IngestError("invalid_event", 400, "an event must be a JSON object")
    repairs = Repairs()
    ids = {name: _parse_id(raw, name, repairs) for name in schema.ID_FIELDS}
    occurred = _parse_time(raw, "occurred_at")
    if occurred is None:
        raise IngestError("missing_field", 400, "occurred_at is required: RFC 3339, or occurred_at_unix_nano")
    data = _parse_data(raw, limits, repairs)
    problem = schema.check_data(ids["type"] or "", data)
    if problem is not None:
        raise IngestError("invalid_data", 400, problem)
    return WireEvent(
        ids=ids,
        seq=_parse_integer(raw, "seq"),
        turn=_parse_integer(raw, "turn"),
        occurred_ns=occurred,
        ended_ns=_parse_time(raw, "ended_at"),
        digest=_digest(raw),
        repairs=tuple(repairs.words),
        data=data,
    )


def _digest(raw: Mapping[str, Any]) -> bytes:
    """Hash of the event as sent: keys sorted, so that a sender's key order makes no conflict."""
    try:
        text = json.dumps(raw, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise IngestError("too_nested", 400, "data is nested too deeply to be read") from None
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _parse_id(raw: Mapping[str, Any], name: str, repairs: Repairs) -> str | None:
    value = raw.get(name)
    if value is None or value == "":
        if name in schema.REQUIRED_FIELDS:
            raise IngestError("missing_field", 400, f"{name} is required and must not be empty")
        return None
    if not isinstance(value, str):
        raise IngestError("invalid_field", 400, f"{name} must be a string")
    if len(value) > schema.ID_LIMIT:
        detail = f"{name} has {len(value)} characters; the limit is {schema.ID_LIMIT}"
        raise IngestError("field_too_long", 400, detail)
    cleaned = clean_text(value, repairs)
    redacted, n_redacted = redact(cleaned)
    if n_redacted:
        repairs.add("redacted")
    return redacted[: schema.ID_LIMIT]


def _parse_integer(raw: Mapping[str, Any], name: str) -> int | None:
    value = raw.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise IngestError("invalid_field", 400, f"{name} must be a whole number from 0 to {INT64_MAX}")
    return value


def _parse_time(raw: Mapping[str, Any], name: str) -> int | None:
    """Return a time in Unix nanoseconds, from RFC 3339 text or an integer in `<name>_unix_nano`."""
    nanos = raw.get(TIME_KEYS[name])
    if nanos is not None:
        return _parse_nanos(nanos, TIME_KEYS[name])
    text = raw.get(name)
    if text is None:
        return None
    match = RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise IngestError("invalid_time", 400, f"{name} must be RFC 3339 text with an offset, or {TIME_KEYS[name]}")
    return _nanos_of(match, name)


def _parse_nanos(value: Any, name: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not INT64_MIN <= value <= INT64_MAX:
        raise IngestError("invalid_time", 400, f"{name} must be a whole number of nanoseconds within 64 bits")
    return value


def _nanos_of(match: re.Match[str], name: str) -> int:
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    leap, second = (second == 60, min(second, 59))
    try:
        days = (datetime(year, month, day, tzinfo=UTC) - EPOCH).days
        datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise IngestError("invalid_time", 400, f"{name} is not a date and time that exists") from None
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second + leap
    if match[9]:
        shift = int(match[10]) * 3_600 + int(match[11]) * 60
        seconds += shift if match[9] == "-" else -shift
    nanos = seconds * 1_000_000_000 + int((match[7] or "0").ljust(9, "0"))
    if not INT64_MIN <= nanos <= INT64_MAX:
        raise IngestError(
            "invalid_time", 400, f"{name} is outside the years 1678 to 2262, which fit 64-bit nanoseconds"
        )
    return nanos


def _parse_data(raw: Mapping[str, Any], limits: WireLimits, repairs: Repairs) -> dict[str, Any]:
    data = raw.get("data")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise IngestError("invalid_field", 400, "data must be a JSON object")
    unknown = {key: value for key, value in raw.items() if key not in KNOWN_KEYS}
    if unknown:  # kept, so that nothing sent is lost, and out of the way of the type's own fields
        repairs.add("unknown_field")
        data = {**data, "unknown_fields": unknown}
    cleaned = clean_value(data, repairs, max_nesting=limits.max_nesting, max_key_bytes=limits.max_key_bytes)
    try:
        cleaned = cut_to_size(cleaned, limits.max_event_bytes, repairs)
    except ValueError:
        detail = f"data is over {limits.max_event_bytes} bytes in many small parts and cannot be cut; send less"
        raise IngestError("event_too_large", 400, detail) from None
    redacted, n_redacted = redact_value(cleaned)
    if n_redacted:
        repairs.add("redacted")
    return dict(redacted)
