"""Machine API of ingest: events in; one run's events, the rejects and the event schemas out."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from contract.events import EVENT_TYPES, json_schema
from ingest import journal
from ingest.accept import accept_body
from ingest.authentication import HasScope
from ingest.errors import IngestError
from ingest.models import ApiKey, Reject, Run

PAGE_SIZE = 500  # rows of one answer unless the caller asks for fewer
JSON_TYPES = ("application/json", "")


class RawParser(BaseParser):
    """Lets every content type through unread: the body is inflated and decoded under our own limits."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        return {}


def key_of(request: Request) -> ApiKey:
    """Return the key a request was made with; the permission has seen to it that there is one."""
    if not isinstance(request.auth, ApiKey):
        raise IngestError("key_missing", 401, "send an API key: Authorization: Bearer tk_…")
    return request.auth


def page_limits(request: Request) -> tuple[int, int]:
    """Return (after, limit) of a cursor page. Raises IngestError naming the parameter that is wrong."""
    return _number(request, "after", 0, 2**63 - 1), _number(request, "limit", PAGE_SIZE, PAGE_SIZE) or 1


def _number(request: Request, name: str, default: int, highest: int) -> int:
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not raw.isascii() or not raw.isdigit() or int(raw[:20]) > highest:
        raise IngestError("invalid_parameter", 400, f"{name} must be a whole number from 0 to {highest}", field=name)
    return int(raw)


class EventsView(APIView):
    """`POST /v1/events`: 200 all stored or known, 207 some rejected, 4xx nothing stored, 503 send again."""

    required_scope = "ingest"
    permission_classes = [HasScope]
    parser_classes = [RawParser]

    @extend_schema(
        request={
            "application/json": {
                "type": "object",
                "properties": {"events": {"type": "array", "items": {"type": "object"}}},
            }
        },
        responses={200: OpenApiTypes.OBJECT, 207: OpenApiTypes.OBJECT},
        summary="Store telemetry events",
    )
    def post(self, request: Request) -> Response:
        if request.content_type.split(";")[0].strip().lower() not in JSON_TYPES:
            raise IngestError("unsupported_type", 415, "Content-Type must be application/json")
        key = key_of(request)
        result = accept_body(
            key.project_id, _body(request), request.headers.get("Content-Encoding", ""), api_key_id=key.pk
        )
        body = {
            "accepted": result.accepted,
            "duplicates": result.duplicates,
            "conflicts": result.conflicts,
            "rejected": [asdict(rejection) for rejection in result.rejected],
        }
        return Response(body, status=207 if result.rejected else 200)


def _body(request: Request) -> bytes:
    limit = settings.INGEST_MAX_BODY_BYTES
    try:
        return bytes(request._request.body)
    except RequestDataTooBig:
        raise IngestError(
            "body_too_large", 413, f"the body is over {limit} bytes; send smaller batches", limit=limit
        ) from None


class RunEventsView(APIView):
    """`GET /v1/runs/{run_id}/events`: a run's events in order of arrival, by cursor."""

    required_scope = "read"
    permission_classes = [HasScope]

    @extend_schema(
        parameters=[OpenApiParameter("after", int), OpenApiParameter("limit", int)],
        responses=OpenApiTypes.OBJECT,
        summary="List a run's events",
    )
    def get(self, request: Request, run_id: str) -> Response:
        project_id = key_of(request).project_id
        after, limit = page_limits(request)
        if not Run.objects.filter(project_id=project_id, run_id=run_id).exists():
            raise IngestError("run_unknown", 404, "this project has no run of that id")
        events = journal.read_events(project_id, run_id, after_arrival=after, limit=limit)
        last = events[-1].arrival if len(events) == limit else None
        return Response({"results": [_event_body(event) for event in events], "next": last})


def _event_body(event: journal.JournalEvent) -> dict[str, Any]:
    return {**asdict(event), "occurred_at": rfc3339(event.occurred_ns), "received_at": event.received_at.isoformat()}


def rfc3339(nanos: int) -> str | None:
    """Return Unix nanoseconds as RFC 3339 text in UTC with nine digits; None outside the years 1 to 9999."""
    seconds, rest = divmod(nanos, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (OverflowError, ValueError, OSError):
        return None


class RejectsView(APIView):
    """`GET /v1/rejects`: what was not stored and why, newest first, for senders whose SDK only logs it."""

    required_scope = "read"
    permission_classes = [HasScope]

    @extend_schema(parameters=[OpenApiParameter("limit", int)], responses=OpenApiTypes.OBJECT, summary="List rejects")
    def get(self, request: Request) -> Response:
        _, limit = page_limits(request)
        rows = Reject.objects.filter(project_id=key_of(request).project_id).order_by("-received_at", "-pk")[:limit]
        fields = ("received_at", "code", "detail", "run_id", "event_id")
        return Response({"results": list(rows.values(*fields))})


class EventTypesView(APIView):
    """`GET /v1/event-types`: the JSON Schema of each event type's data, with an example."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(responses=OpenApiTypes.OBJECT, summary="JSON Schemas of the event types")
    def get(self, request: Request) -> Response:
        return Response({"results": {name: json_schema(name) for name in EVENT_TYPES}})
