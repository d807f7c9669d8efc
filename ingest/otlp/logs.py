"""Decides which event each log record of an OTLP request becomes. Pure, but for the log of a fault of ours.

A record has no id of its own, so its event id is a hash of all it says: a repeated delivery is known, and equal
records of one request are counted apart. A record of no trace belongs to no run and is refused. (Seed 001 §7.3, §13.)
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from contract.integers import INT64_MAX
from contract.redaction_rules import ExtraRules
from ingest.envelope import SentEvent
from ingest.errors import IngestError, refusal_of
from ingest.otlp.origins import Origins
from ingest.otlp.own_attributes import NO_IDS, run_id_of, take_own
from ingest.otlp.records import Refused, SentLog
from ingest.repair import Repairs


def map_logs(
    records: Iterable[SentLog], received_ns: int, extra: ExtraRules | None = None
) -> tuple[list[SentEvent], list[Refused]]:
    """Return the events of the records, and those records that belong to no run or are no event by our attributes.

    `extra` are the project's own patterns of secrets, for the resources, which are stored beside the events.
    """
    origins = Origins(extra)
    seen: Counter[bytes] = Counter()
    events: list[SentEvent] = []
    refused: list[Refused] = []
    for record in records:
        seen[record.digest] += 1
        try:
            events.append(_map_log(record, seen[record.digest], origins, received_ns))
        except Exception as error:  # noqa: BLE001 - one event that meets a fault of ours costs no other
            refusal = refusal_of(error)
            refused.append(Refused(record.index, refusal.code, refusal.detail, None, record.trace_id))
    return events, refused


def _map_log(record: SentLog, nth: int, origins: Origins, received_ns: int) -> SentEvent:
    ids = dict(NO_IDS)
    own = take_own(record.attributes, ids)
    data, integers = own if own is not None else ({}, [None, None])
    ids["run_id"] = ids["run_id"] or run_id_of(record.origin.resource) or record.trace_id
    if ids["run_id"] is None:
        detail = "the record has no traceId and no attribute temporality.run_id, so it belongs to no run"
        raise IngestError("log_without_trace", 400, detail, field="traceId")
    ids["event_id"] = ids["event_id"] or _event_id(record, nth)
    ids["caused_by"] = ids["caused_by"] or record.span_id
    told = origins.told(record.origin)
    said = _said(record)
    said |= {"attributes": record.attributes, "scope": told.scope, "resource": told.resource_hash}
    if ids["type"] is None:
        ids["type"] = "log"
        data = {**said, **data}
    else:
        data["log"] = said
    repairs = Repairs()
    for word in record.words:
        repairs.add(word)
    while told.words:
        repairs.add(told.words.pop(0))
    time_ns = record.time_ns or record.observed_ns or received_ns
    if time_ns > INT64_MAX:
        said["time_unix_nano"] = str(time_ns)
        repairs.add("clock_far")
        time_ns = INT64_MAX
    return SentEvent(
        record.index, ids, (integers[0], integers[1]), time_ns, None, data, record.digest, repairs, told.messages
    )


def _said(record: SentLog) -> dict[str, Any]:
    said: dict[str, Any] = {
        "event_name": record.event_name or None,
        "severity": record.severity_text or None,
        "severity_number": record.severity_number or None,
        "body": record.body,
        "schema_url": record.origin.schema_url or None,
        **record.dropped,
    }
    return {name: value for name, value in said.items() if value is not None}


def _event_id(record: SentLog, nth: int) -> str:
    hashed = hashlib.blake2b(record.digest, digest_size=12)
    hashed.update(f"{record.trace_id}/{nth}".encode())
    return f"log:{hashed.hexdigest()}"
