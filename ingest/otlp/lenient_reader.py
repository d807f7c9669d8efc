"""Reads a protobuf request that the strict decoder refuses, record by record, through OTLP/JSON's shape. Pure.

The same messages are described once more with every text as bytes, and with records and nested values as bytes that
are decoded one at a time: so a byte that is no UTF-8, a bottomless value or one broken record costs itself only.
(Seed 001 §7.3, §13.)
"""

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from ingest.errors import IngestError
from ingest.otlp import json_reader
from ingest.otlp.attributes import MAX_LEVELS
from ingest.otlp.protobuf_reader import broken, count_records, digest_of, parse_logs, parse_traces, wrong_signal
from ingest.otlp.records import Read, Refused, SentLog, SentSpan

T = TypeVar("T", SentSpan, SentLog)

# Messages that are kept as bytes: (message, field) whose own decoding comes later, or never.
_LATER: Final = frozenset(
    (("AnyValue", "array_value"), ("AnyValue", "kvlist_value"), ("ScopeSpans", "spans"), ("ScopeLogs", "log_records"))
)
_FOUND: Final = {"traces": "spans", "logs": "log records"}
_IDS: Final = frozenset(("trace_id", "span_id", "parent_span_id"))


def _described() -> DescriptorPool:
    pool = DescriptorPool()
    for module in (common_pb2, resource_pb2, trace_pb2, logs_pb2):
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            for field in (*message.field, *(inner for nested in message.nested_type for inner in nested.field)):
                if field.type == FieldDescriptorProto.TYPE_STRING or (message.name, field.name) in _LATER:
                    field.type = FieldDescriptorProto.TYPE_BYTES
                    field.ClearField("type_name")
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL: Final = _described()
_PREFIX: Final = "opentelemetry.proto"


def _class(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PREFIX}.{name}"))


_TRACES_DATA: Final = _class("trace.v1.TracesData")
_SPAN: Final = _class("trace.v1.Span")
_LOGS_DATA: Final = _class("logs.v1.LogsData")
_LOG: Final = _class("logs.v1.LogRecord")
_ARRAY: Final = _class("common.v1.ArrayValue")
_KVLIST: Final = _class("common.v1.KeyValueList")


def read_traces(body: bytes) -> Read[SentSpan]:
    """Return the spans that can be read and the others as refused. Raises IngestError 400 when none can be decoded."""
    return _read(body, json_reader.TRACES, _TRACES_DATA, _SPAN, json_reader.read_traces)


def read_logs(body: bytes) -> Read[SentLog]:
    """Return the log records that can be read and the others as refused. Raises IngestError 400 when none can be."""
    return _read(body, json_reader.LOGS, _LOGS_DATA, _LOG, json_reader.read_logs)


def _read(
    body: bytes, signal: json_reader.Signal, whole: Any, one: Any, read: Callable[[dict[str, Any]], Read[T]]
) -> Read[T]:
    try:
        document = _document(whole.FromString(body))
    except DecodeError:
        raise _undecodable(body, signal) from None
    digests, undecoded, is_foreign = _decode_records(document, signal, one)
    found = read(document)
    if (is_foreign and not found.records) or (undecoded and len(undecoded) == found.n_sent):
        raise _undecodable(body, signal, is_foreign=is_foreign)
    for record in found.records:
        record.digest = digests[record.index]  # as the strict reader has it: the same record may come again by that
    # What could not be decoded stands as null in the document, and is told better here than as a wrong shape.
    found.refused = [_told(item) if item.index in undecoded else item for item in found.refused]
    return found


def _undecodable(body: bytes, signal: json_reader.Signal, *, is_foreign: bool = False) -> IngestError:
    """Return the refusal of a request without one record that can be read: another signal's, or none at all."""
    other, parse = (
        (json_reader.LOGS, parse_logs) if signal is json_reader.TRACES else (json_reader.TRACES, parse_traces)
    )
    with suppress(DecodeError):
        is_foreign = is_foreign or count_records(parse(body)) > 0
    return wrong_signal(signal.name, _FOUND[other.name], other.path) if is_foreign else broken(signal.name)


def _told(item: Refused) -> Refused:
    return Refused(item.index, "bad_protobuf", "the record is broken: its bytes are no valid protobuf message")


def _decode_records(
    document: dict[str, Any], signal: json_reader.Signal, one: Any
) -> tuple[list[bytes], set[int], bool]:
    """Replace the bytes of each record by its JSON shape.

    Returns all digests, the places of broken records, and whether a record looks like one of the other signal.
    """
    is_foreign = False
    digests: list[bytes] = []
    undecoded: set[int] = set()
    for group in document.get(signal.groups, ()):
        for part in group.get(signal.parts, ()):
            records = part.get(signal.records, [])
            for place, raw in enumerate(records):
                try:
                    record = one.FromString(raw)
                    records[place] = _document(record)
                    is_foreign = is_foreign or _is_foreign(record, signal)
                except DecodeError:
                    records[place] = None
                    undecoded.add(len(digests))
                digests.append(digest_of(raw))
    return digests, undecoded, is_foreign


def _is_foreign(record: Any, signal: json_reader.Signal) -> bool:
    """A record of the other signal has neither a whole trace id nor a time where this signal has them."""
    if signal is json_reader.TRACES:
        return not (record.trace_id or record.span_id or record.start_time_unix_nano)
    return len(record.trace_id) not in (0, 16) and not record.time_unix_nano


def _document(message: Any, depth: int = 0) -> dict[str, Any]:
    """Return a message as OTLP/JSON has it, with raw bytes in place of records."""
    told: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in ("array_value", "kvlist_value"):
            told[field.json_name] = _nested(_ARRAY if field.name == "array_value" else _KVLIST, value, depth + 1)
        elif field.message_type is not None:
            repeated = [_document(item, depth) for item in value] if field.is_repeated else None
            told[field.json_name] = _document(value, depth) if repeated is None else repeated
        elif field.is_repeated:
            told[field.json_name] = list(value)
        elif isinstance(value, bytes):
            told[field.json_name] = _text(field.name, value)
        else:
            told[field.json_name] = value
    return told


def _text(name: str, value: bytes) -> str:
    if name in _IDS:
        return value.hex()
    if name == "bytes_value":
        return base64.b64encode(value).decode()
    return value.decode("utf-8", "surrogateescape")  # repair replaces what is no UTF-8, and flags it


def _nested(container: Any, raw: bytes, depth: int) -> dict[str, Any]:
    """Return the JSON shape of a list or kvlist; beyond the limit it is empty, and the reader puts its marker there."""
    return {} if depth > MAX_LEVELS else _document(container.FromString(raw), depth)
