"""What the OpenAPI document says of ingest: how a key is sent, and the shapes of events, answers and errors."""

from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from contract.events import EVENT_TYPES, ID_FIELDS, ID_LIMIT, INTEGER_FIELDS, REQUIRED_FIELDS, TIME_FIELDS


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the key in the OpenAPI document."""

    target_class = "ingest.authentication.ApiKeyAuthentication"
    name = "ApiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tk_…"}


def _event_schema() -> dict[str, Any]:
    required = [name for name in REQUIRED_FIELDS if name not in TIME_FIELDS]
    properties: dict[str, Any] = {
        name: {"type": "string", "maxLength": ID_LIMIT, **({"minLength": 1} if name in required else {})}
        for name in ID_FIELDS
    }
    properties["type"]["description"] = f"one of {', '.join(EVENT_TYPES)}; any other is stored and shown"
    properties |= {name: {"type": "integer", "minimum": 0} for name in INTEGER_FIELDS}
    for name in TIME_FIELDS:
        nano = "nanoseconds since 1970, as a number or its digits"
        properties[name] = {"type": "string", "format": "date-time", "description": "RFC 3339, up to nanoseconds"}
        properties[f"{name}_unix_nano"] = {
            "oneOf": [{"type": "integer"}, {"type": "string"}],
            "description": f"{nano}; wins over {name}",
        }
    properties["data"] = {"type": "object", "description": "see /v1/event-types for the fields of each type"}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "anyOf": [{"required": ["occurred_at"]}, {"required": ["occurred_at_unix_nano"]}],
        "example": {
            "event_id": "r-42:17",
            "run_id": "r-42",
            "type": "tool.failed",
            "occurred_at": "2026-11-30T03:00:00.123456789Z",
            "seq": 17,
            "tool": "shell",
            "data": dict(EVENT_TYPES["tool.failed"].example),
        },
    }


EVENT_SCHEMA: Final = _event_schema()
EVENTS_SCHEMA: Final = {
    "type": "object",
    "properties": {"events": {"type": "array", "items": EVENT_SCHEMA}},
    "required": ["events"],
}
_NULLABLE: Final = {"type": "string", "nullable": True}
ACCEPTED_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "accepted": {"type": "integer", "description": "stored now"},
        "duplicates": {"type": "integer", "description": "known already"},
        "conflicts": {"type": "integer", "description": "known already with other content; the first copy is kept"},
        "rejected": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "index": {"type": "integer"},
                    "event_id": _NULLABLE,
                    "run_id": _NULLABLE,
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        },
    },
}
ERROR_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "limit": {"type": "integer"},
    },
    "required": ["code", "detail"],
}
