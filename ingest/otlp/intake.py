"""Turns the body of an OTLP request into drafts for the write path and a list of what is refused.

Pure, but for the log of a fault of ours. The body is decoded once and counted before it is read, so that limits and
quotas come before the work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from contract.redaction_rules import ExtraRules
from ingest.envelope import EventDraft, SentEvent, make_draft, shown_id
from ingest.errors import IngestError, refusal_of
from ingest.otlp import json_reader, lenient_reader, protobuf_reader
from ingest.otlp.logs import map_logs
from ingest.otlp.protobuf_reader import DecodeError
from ingest.otlp.records import Read, Refused
from ingest.otlp.traces import map_spans
from ingest.wire import WireLimits

TRACES: Final = json_reader.TRACES
LOGS: Final = json_reader.LOGS
Signal = json_reader.Signal


@dataclass(frozen=True, slots=True)
class Counted:
    """A decoded request: how many records it holds, and how to read them."""

    n_records: int
    read: Callable[[], Read[Any]]


def decode(signal: Signal, body: bytes, as_json: bool) -> Counted:
    """Return the decoded request. Raises IngestError 400 when nothing of it can be decoded."""
    if as_json:
        document = json_reader.parse_document(body, signal)
        read_json = json_reader.read_traces if signal is TRACES else json_reader.read_logs
        return Counted(json_reader.count_records(document, signal), lambda: read_json(document))
    parse, read, read_again = _PROTOBUF[signal]
    try:
        data = parse(body)
    except DecodeError:
        found = read_again(body)
        return Counted(found.n_sent, lambda: found)
    return Counted(protobuf_reader.count_records(data), lambda: read(data))


def check_number(counted: Counted, most: int) -> None:
    """Raise IngestError 413 when a request holds more than `most` spans or log records."""
    if counted.n_records > most:
        detail = f"{counted.n_records} spans or log records in one request; the limit is {most}, export smaller batches"
        raise IngestError("too_many_records", 413, detail, field="body", limit=most)


def make_drafts(
    signal: Signal, counted: Counted, received_ns: int, limits: WireLimits, extra: ExtraRules | None = None
) -> tuple[list[EventDraft], list[Refused]]:
    """Return the drafts of a request received at `received_ns` and what of it is refused, in the order sent.

    `extra` are the project's own patterns of secrets.
    """
    found = counted.read()
    if signal is TRACES:
        events, refused = map_spans(found.records, extra)
    else:
        events, refused = map_logs(found.records, received_ns, extra)
    refused = found.refused + refused
    drafts: list[EventDraft] = []
    for event in events:
        try:
            drafts.append(make_draft(event, received_ns, limits, extra))
        except Exception as error:  # noqa: BLE001 - one event that meets a fault of ours costs no other
            refused.append(_refused(event, refusal_of(error), extra))
    refused.sort(key=lambda item: item.index)
    return drafts, refused


def _refused(event: SentEvent, error: IngestError, extra: ExtraRules | None) -> Refused:
    event_id, run_id = shown_id(event.ids, "event_id", extra), shown_id(event.ids, "run_id", extra)
    return Refused(event.index, error.code, error.detail, event_id, run_id)


_PROTOBUF: Final[
    dict[Signal, tuple[Callable[[bytes], Any], Callable[[Any], Read[Any]], Callable[[bytes], Read[Any]]]]
] = {
    TRACES: (protobuf_reader.parse_traces, protobuf_reader.read_traces, lenient_reader.read_traces),
    LOGS: (protobuf_reader.parse_logs, protobuf_reader.read_logs, lenient_reader.read_logs),
}
