"""The words in which views describe themselves to the OpenAPI document: how a key is sent, refusals, parameters."""

from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from contract.events import EVENT_TYPES, ID_LIMIT

NULLABLE_TEXT: Final = {"type": "string", "nullable": True}
COUNT: Final = {"type": "integer", "minimum": 0}
MOMENT: Final = {"type": "string", "format": "date-time"}

STATUSES: Final = {
    400: "nothing was stored: the request cannot be read, or a parameter is wrong",
    401: "no key, or one that is not known or was revoked",
    403: "the key lacks the scope",
    404: "this project has nothing of that id",
    409: "nothing was changed: it does not fit the item as it stands now; read it again",
    413: "nothing was stored: the body or the number of events is over its limit; send them in parts",
    415: "nothing was stored: another media type, charset or encoding than those that are read",
    422: "a field is over its limit",
    429: "nothing was stored: the quota of the key is used up; send again after Retry-After",
    503: "nothing was stored: the database does not answer; send again after Retry-After",
}
REFUSALS: Final[dict[int, dict[str, Any]]] = {
    400: {"code": "bad_json", "detail": "the body is no JSON: Expecting value (line 1, column 12)", "field": "body"},
    401: {"code": "key_missing", "detail": "send an API key: Authorization: Bearer tk_…"},
    403: {"code": "scope_missing", "detail": "this key has no scope read (it has ingest); make a key with it"},
    404: {"code": "run_unknown", "detail": "this project has no run of that id"},
    409: {
        "code": "item_conflict",
        "detail": "git-init is at revision 3, and the change was made from revision 2: read it again and decide anew",
        "field": "expected_revision",
    },
    413: {
        "code": "too_many_events",
        "detail": "1446 events in one request; the limit is 1000, split them",
        "field": "events",
        "limit": 1000,
    },
    415: {"code": "unsupported_type", "detail": "send the events as Content-Type: application/json"},
    422: {"code": "limit_exceeded", "detail": "query has 5000 characters; the limit is 4096: send less of it"},
    429: {
        "code": "quota_exceeded",
        "detail": "this key's quota of 6000 events per minute is used up; nothing of this request was stored, send it "
        "again in 12 s",
        "limit": 6000,
        "unit": "events per minute",
        "retry_after": 12,
    },
    503: {
        "code": "database_unavailable",
        "detail": "the database does not answer, or cannot write now; send again in 5 s",
        "retry_after": 5,
    },
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
    return {
        status: OpenApiResponse(
            ref("Error"),
            STATUSES[status],
            [OpenApiExample(str(REFUSALS[status]["code"]), value=REFUSALS[status], response_only=True)],
        )
        for status in statuses
    }


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


SHORT_TEXT: Final = {"type": "string", "maxLength": ID_LIMIT}
MOMENT_PARAMETER: Final = OpenApiTypes.DATETIME
DAY_PARAMETER: Final = OpenApiTypes.DATE
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
            "detail": f"event_id is required: text of 1 to {ID_LIMIT} characters",
        }
    ],
}
