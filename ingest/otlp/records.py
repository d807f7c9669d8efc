"""What one span or log record of an OTLP request is once it is read, whether it came as protobuf or as JSON. Pure.

Ids are lower-case hex, times Unix nanoseconds as sent (0 to 2^64-1), attributes plain values under flat keys. A
record that cannot be read is a `Refused`, and costs no other. (Seed 001 §7.3, §13.)
"""

from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ingest.errors import IngestError

SPAN_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUSES: Final = ("unset", "ok", "error")
UINT64_MAX: Final = 2**64 - 1
TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from: the resource and the scope they stand under."""

    resource: dict[str, Any]
    scope_name: str
    scope_version: str
    scope_attributes: dict[str, Any]
    schema_url: str


@dataclass(slots=True)
class SentSpan:
    """One span. `events` are {name, time_unix_nano, attributes}, `links` {trace_id, span_id, attributes}.

    `dropped` counts what the sender's SDK left out, `words` are repairs that reading made, in ingest.repair's words.
    """

    index: int
    origin: Origin
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    links: list[dict[str, Any]]
    trace_state: str
    dropped: dict[str, int]
    digest: bytes
    words: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SentLog:
    """One log record; `trace_id` and `span_id` are None when it belongs to none."""

    index: int
    origin: Origin
    trace_id: str | None
    span_id: str | None
    time_ns: int
    observed_ns: int
    severity_number: int
    severity_text: str
    event_name: str
    body: Any
    attributes: dict[str, Any]
    dropped: dict[str, int]
    digest: bytes
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the record at `index`, or a part of the request that holds records, was not read."""

    index: int
    code: str
    detail: str
    event_id: str | None = None
    run_id: str | None = None


@dataclass(slots=True)
class Read(Generic[T]):
    """What was read of one request: `n_sent` counts records and unreadable parts, in the order of the request."""

    records: list[T]
    refused: list[Refused]
    n_sent: int = 0


def bad(code: str, field_name: str, problem: str) -> IngestError:
    """Return the refusal of one record: `problem` completes a sentence that begins with the field's name."""
    return IngestError(code, 400, f"{field_name} {problem}", field=field_name)


def check_id(raw: bytes, size: int, field_name: str) -> str:
    """Return an id as lower-case hex. Raises IngestError unless it is `size` bytes and not all zero."""
    if len(raw) != size:
        raise bad(
            "invalid_id", field_name, f"has {len(raw)} bytes; it must have {size} ({size * 2} hex digits in JSON)"
        )
    if not any(raw):
        raise bad("invalid_id", field_name, "is all zero, which OTLP defines as invalid")
    return raw.hex()


def check_parent(raw: bytes) -> str | None:
    """Return the parent's id, or None for a root: no bytes, or all zero. Raises IngestError for another length."""
    if not any(raw):
        return None
    return check_id(raw, SPAN_ID_BYTES, "parentSpanId")


def check_word(value: int, words: tuple[str, ...], field_name: str) -> int:
    """Return an enum's number. Raises IngestError when it is none of OTLP's."""
    if not 0 <= value < len(words):
        raise bad("invalid_enum", field_name, f"must be a number from 0 to {len(words) - 1}")
    return value
