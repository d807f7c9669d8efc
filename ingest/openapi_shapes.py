"""The shapes the OpenAPI document names for ingest, made from the settings and the event table, and its limits."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.conf import settings

from contract.events import EVENT_TYPES, ID_FIELDS, ID_LIMIT, INTEGER_FIELDS, REQUIRED_FIELDS, TIME_FIELDS
from contract.integers import INT64_MAX, INT64_MIN
from ingest.limits import all_limits
from ingest.openapi import COUNT, EVENT_EXAMPLE, MOMENT, NULLABLE_TEXT, page_of, ref
from ingest.repair import REPAIRS

INT64: Final = {"minimum": INT64_MIN, "maximum": INT64_MAX}
INTRODUCTION: Final = """Telemetry in, hints out, runs and their chains back.

Send a key of the project as `Authorization: Bearer tk_…`; its scopes say what it may do: `ingest`, `observe`, `read`.
A 2xx to a sender means committed. Every refusal is `{"code", "detail", …}`, and 429 and 503 say in `Retry-After` when
to send the same again. Ids of runs and events stand in an address as one segment: one with a slash or a percent sign
is quoted twice (`a/b` is `a%252Fb`); each run names its own address in `url`.

| limit | value | beyond it | setting |
|---|---|---|---|
"""


def event_schema() -> dict[str, Any]:
    """Return the envelope of an event as it is checked."""
    required = [name for name in REQUIRED_FIELDS if name not in TIME_FIELDS]
    properties: dict[str, Any] = {}
    for name in ID_FIELDS:
        text: dict[str, Any] = {"type": "string", "maxLength": ID_LIMIT}
        properties[name] = {**text, "minLength": 1} if name in required else {**text, "nullable": True}
    properties["type"]["description"] = f"one of {', '.join(EVENT_TYPES)}; any other is stored and shown"
    properties |= {
        name: {"type": "integer", "minimum": 0, "maximum": INT64_MAX, "nullable": True} for name in INTEGER_FIELDS
    }
    for name in TIME_FIELDS:
        properties[name] = {
            "type": "string",
            "format": "date-time",
            "nullable": name not in REQUIRED_FIELDS,
            "description": "RFC 3339, up to nanoseconds",
        }
        properties[f"{name}_unix_nano"] = {
            "oneOf": [{"type": "integer", **INT64}, {"type": "string", "pattern": r"^-?[0-9]{1,19}$"}],
            "description": f"nanoseconds since 1970, as a number or its digits; wins over {name}",
        }
    properties["data"] = {
        "type": "object",
        "nullable": True,
        "additionalProperties": True,
        "description": f"see /v1/event-types for the fields of each type. Of the whole event "
        f"{settings.INGEST_MAX_EVENT_BYTES} bytes are kept (longer texts are cut), {settings.INGEST_MAX_NESTING} "
        f"levels, {settings.INGEST_MAX_KEY_BYTES} bytes of a key; what was changed is flagged",
    }
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "anyOf": [{"required": ["occurred_at"]}, {"required": ["occurred_at_unix_nano"]}],
        "example": EVENT_EXAMPLE,
    }


def _objects(properties: Mapping[str, Any], optional: Iterable[str] = ()) -> dict[str, Any]:
    without = set(optional)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in without],
    }


def components() -> dict[str, Any]:
    """Return the shapes of ingest by name."""
    most = settings.INGEST_MAX_EVENTS
    event = event_schema()
    rejection = _objects(
        {
            "index": {**COUNT, "description": "place of the event in the request"},
            "event_id": NULLABLE_TEXT,
            "run_id": NULLABLE_TEXT,
            "code": {"type": "string"},
            "detail": {"type": "string"},
        }
    )
    extra = {
        "field": {"type": "string"},
        "limit": {"type": "integer"},
        "actual": {"type": "integer", "description": "what was sent, in the unit of the limit"},
        "unit": {"type": "string"},
    }
    error = _objects(
        {
            "code": {"type": "string", "description": "stable, for programs"},
            "detail": {"type": "string", "description": "names the field, the limit and the fix, never what was sent"},
            **extra,
            "retry_after": {"type": "integer", "minimum": 1, "description": "seconds, as the header of that name"},
        },
        (*extra, "retry_after"),
    )
    return {
        "Event": event,
        "Events": {
            "type": "object",
            "properties": {"events": {"type": "array", "maxItems": most, "items": ref("Event")}},
            "required": ["events"],
            "description": f"at most {most} events and {settings.INGEST_MAX_BODY_BYTES} bytes after decompression",
        },
        "Accepted": _objects(
            {
                "accepted": {**COUNT, "description": "stored now"},
                "duplicates": {**COUNT, "description": "known already"},
                "conflicts": {**COUNT, "description": "of the duplicates, those with other content; the first is kept"},
                "rejected": {"type": "array", "items": ref("Rejection")},
            }
        ),
        "Rejection": rejection,
        "EventTypes": _objects(
            {"envelope": {"type": "object"}, "results": {"type": "object", "additionalProperties": {"type": "object"}}}
        ),
        "Error": {**error, "example": {"code": "key_missing", "detail": "send an API key: Authorization: Bearer tk_…"}},
        **_delivery_components(),
        **_journal_components(),
    }


def _delivery_components() -> dict[str, Any]:
    reject = {
        "received_at": MOMENT,
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "run_id": NULLABLE_TEXT,
        "event_id": NULLABLE_TEXT,
        "key": {**NULLABLE_TEXT, "description": "prefix of the key it was sent with"},
    }
    repair = {
        "n": COUNT,
        "meaning": {"type": "string"},
        "run_id": {**NULLABLE_TEXT, "description": "of the first event"},
        "event_id": NULLABLE_TEXT,
    }
    words = ", ".join(REPAIRS)
    batch = {
        "received_at": MOMENT,
        "key": NULLABLE_TEXT,
        "source": {"type": "string", "description": "events, otlp_traces, otlp_logs or observation"},
        **{f"n_{name}": COUNT for name in ("accepted", "duplicates", "conflicts", "rejected")},
        "repairs": {"type": "object", "additionalProperties": ref("RepairCount"), "description": f"by word: {words}"},
    }
    counts = {"type": "object", "additionalProperties": COUNT, "description": "of all that fits the filters, by code"}
    beside = {
        "counts": counts,
        "not_listed": {
            **COUNT,
            "description": "rejected since then (by default a day) and beyond the bound of the list",
        },
    }
    return {
        "Reject": _objects(reject),
        "Rejects": page_of("Reject", **beside),
        "RepairCount": _objects(repair),
        "Batch": _objects(batch),
        "Batches": page_of("Batch"),
    }


def _journal_components() -> dict[str, Any]:
    integer = {"type": "integer", "nullable": True}
    stored: dict[str, Any] = dict.fromkeys(ID_FIELDS, NULLABLE_TEXT)
    stored |= {name: {"type": "string"} for name in REQUIRED_FIELDS if name in ID_FIELDS}
    stored |= dict.fromkeys((*INTEGER_FIELDS, "ended_ns"), integer)
    stored |= {"arrival": COUNT, "occurred_ns": {"type": "integer"}, "received_at": MOMENT}
    stored |= {
        "occurred_at": {"type": "string", "description": "sender's clock, nine digits of a second"},
        "ended_at": NULLABLE_TEXT,
        "repairs": {"type": "array", "items": {"type": "string"}, "description": "what was changed before writing"},
        "data": {"type": "object", "description": "absent with content=false"},
    }
    beside = {"next": {"type": "integer", "nullable": True, "description": "`after` of the next page, null at the end"}}
    request = {
        "run_id": {"type": "string"},
        "event_id": {"type": "string"},
        "n_messages": COUNT,
        "messages": {"type": "array", "items": ref("SentMessage")},
        "missing": {
            "type": "array",
            "items": {"type": "string"},
            "description": "event ids and hashes of what did not arrive or was forgotten",
        },
        "is_complete": {"type": "boolean"},
    }
    message = {
        "position": {**COUNT, "description": "0-based place in the request"},
        "hash": {"type": "string"},
        "is_new": {"type": "boolean", "description": "this very request added it"},
    }
    return {
        "StoredEvent": _objects(stored, ("data",)),
        "StoredEvents": page_of("StoredEvent", **beside),
        "ModelRequest": _objects(request),
        "SentMessage": {
            **_objects(message),
            "additionalProperties": True,
            "description": "the message as it was sent: role, text, calls, call_id and what else it held",
        },
    }


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Complete the document: the shapes by name, and the limits as `x-limits` and as a table for people."""
    result["info"]["description"] = INTRODUCTION + "".join(
        f"| {limit.name} | {limit.value:,} {limit.unit} | {limit.beyond} | {limit.setting} |\n"
        for limit in all_limits()
    )
    result.setdefault("components", {}).setdefault("schemas", {}).update(components())
    result["x-limits"] = {
        limit.name: {"value": limit.value, "unit": limit.unit, "setting": limit.setting, "beyond": limit.beyond}
        for limit in all_limits()
    }
    return result
