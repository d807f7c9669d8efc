"""What the OpenAPI document says of ingest: how a key is sent, and the shapes of events, answers and errors.

Shapes are named components, made from the settings and the event table when the document is made.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from contract.events import EVENT_TYPES, ID_FIELDS, ID_LIMIT, INTEGER_FIELDS, REQUIRED_FIELDS, TIME_FIELDS
from ingest.limits import all_limits
from ingest.repair import REPAIRS

INT64: Final = {"minimum": -(2**63), "maximum": 2**63 - 1}
NULLABLE_TEXT: Final = {"type": "string", "nullable": True}
COUNT: Final = {"type": "integer", "minimum": 0}
MOMENT: Final = {"type": "string", "format": "date-time"}

STATUSES: Final = {
    400: "nothing was stored: the request cannot be read, or a parameter is wrong",
    401: "no key, or one that is not known or was revoked",
    403: "the key lacks the scope",
    404: "this project has nothing of that id",
    413: "nothing was stored: the body or the number of events is over its limit; send them in parts",
    415: "nothing was stored: another media type, charset or encoding than those that are read",
    422: "a field is over its limit",
    429: "nothing was stored: the quota of the key is used up; send again after Retry-After",
    503: "nothing was stored: the database does not answer; send again after Retry-After",
}
RETRY_AFTER: Final = OpenApiParameter(
    "Retry-After", int, OpenApiParameter.HEADER, description="whole seconds until sending again makes sense",
    response=[429, 503],
)  # fmt: skip


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the key in the OpenAPI document."""

    target_class = "ingest.authentication.ApiKeyAuthentication"
    name = "ApiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tk_…"}


def ref(name: str) -> dict[str, str]:
    """Return the reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def answer(name: str, description: str) -> OpenApiResponse:
    return OpenApiResponse(ref(name), description)


def errors(*statuses: int) -> dict[int, OpenApiResponse]:
    """Return the refusals a view may answer with, each as the one shape of errors."""
    return {status: OpenApiResponse(ref("Error"), STATUSES[status]) for status in statuses}


def page_of(item: str, **beside: Any) -> dict[str, Any]:
    """Return the shape of a list answer: results and next, and what stands beside them."""
    properties: dict[str, Any] = {
        "results": {"type": "array", "items": ref(item)},
        "next": {**NULLABLE_TEXT, "description": "cursor of the next page, null at the end"},
        **beside,
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def path_id(name: str, what: str) -> OpenApiParameter:
    """Describe an id in a path."""
    text = {"type": "string", "minLength": 1, "maxLength": ID_LIMIT}
    quoted = "one segment; an id with a slash or a percent sign is quoted twice: a/b is a%252Fb"
    return OpenApiParameter(name, text, OpenApiParameter.PATH, description=f"{what}; {quoted}")


def query(name: str, kind: Any, description: str = "", **options: Any) -> OpenApiParameter:
    """Describe a query parameter."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description, **options)


def whole(lowest: int, highest: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": lowest, "maximum": highest}


MOMENT_PARAMETER: Final = OpenApiTypes.DATETIME
EVENT_EXAMPLE: Final = {
    "event_id": "r-42:17",
    "run_id": "r-42",
    "type": "tool.failed",
    "occurred_at": "2026-11-30T03:00:00.123456789Z",
    "seq": 17,
    "tool": "shell",
    "data": dict(EVENT_TYPES["tool.failed"].example),
}
ACCEPTED_EXAMPLE: Final = {"accepted": 1, "duplicates": 0, "conflicts": 0, "rejected": []}
PARTIAL_EXAMPLE: Final = {
    "accepted": 1,
    "duplicates": 0,
    "conflicts": 0,
    "rejected": [
        {
            "index": 1,
            "event_id": None,
            "run_id": "r-42",
            "code": "missing_field",
            "detail": "event_id is missing; send a string of 1 to 200 characters",
        }
    ],
}


def event_schema() -> dict[str, Any]:
    """Return the envelope of an event as it is checked."""
    required = [name for name in REQUIRED_FIELDS if name not in TIME_FIELDS]
    properties: dict[str, Any] = {}
    for name in ID_FIELDS:
        text: dict[str, Any] = {"type": "string", "maxLength": ID_LIMIT}
        properties[name] = {**text, "minLength": 1} if name in required else {**text, "nullable": True}
    properties["type"]["description"] = f"one of {', '.join(EVENT_TYPES)}; any other is stored and shown"
    properties |= {
        name: {"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "nullable": True} for name in INTEGER_FIELDS
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
    extra = {"field": {"type": "string"}, "limit": {"type": "integer"}, "unit": {"type": "string"}}
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
        "not_listed": {**COUNT, "description": "rejected in that time, and beyond the bound of the list"},
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
    """Complete the document: the shapes by name, and the limits as `x-limits`."""
    result.setdefault("components", {}).setdefault("schemas", {}).update(components())
    result["x-limits"] = {
        limit.name: {"value": limit.value, "unit": limit.unit, "setting": limit.setting, "beyond": limit.beyond}
        for limit in all_limits()
    }
    return result
