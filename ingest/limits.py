"""The limits of the machine API as a table, read from the settings: what the API document says can never differ."""

from dataclasses import dataclass

from django.conf import settings

from contract.events import ID_LIMIT
from ingest.model_requests import MOST_MESSAGES


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound: its name in the document, its value, its unit, its setting, and what happens beyond it."""

    name: str
    value: int
    unit: str
    setting: str
    beyond: str


def all_limits() -> tuple[Limit, ...]:
    """Return every bound a sender can meet."""
    return (
        _limit("events_per_request", "INGEST_MAX_EVENTS", "events", "413 too_many_events"),
        _limit("spans_per_request", "INGEST_MAX_SPANS", "OTLP spans or log records", "413 too_many_records"),
        _limit("body", "INGEST_MAX_BODY_BYTES", "bytes after decompression", "413 body_too_large"),
        _limit("event", "INGEST_MAX_EVENT_BYTES", "bytes", "long texts are cut, with a marker and the repair word cut"),
        _limit("nesting", "INGEST_MAX_NESTING", "levels of one event", "replaced by a marker, repair word nesting"),
        _limit("key", "INGEST_MAX_KEY_BYTES", "bytes", "shortened and given a hash, repair word long_key"),
        Limit("id", ID_LIMIT, "characters", "", "the event is rejected, by its index"),
        Limit("messages", MOST_MESSAGES, "messages named by one event", "", "the event is rejected, by its index"),
        _limit("events_per_minute", "INGEST_EVENTS_PER_MINUTE", "events of a key, 0 for none", "429 quota_exceeded"),
        _limit("rejects_per_hour", "INGEST_REJECTS_PER_HOUR", "rows of a key", "counted in not_listed"),
        _limit("page", "READ_MAX_PAGE_BYTES", "bytes of event data", "the page ends, next goes on"),
        _limit("hints_body", "HINTS_MAX_BODY_BYTES", "bytes", "413 body_too_large"),
    )


def _limit(name: str, setting: str, unit: str, beyond: str) -> Limit:
    return Limit(name, getattr(settings, setting), unit, setting, beyond)
