"""Machine API of ingest: events in; one run's events, the rejects and the event schemas out."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from django.db.models import F
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from contract.events import EVENT_TYPES, json_schema
from ingest import journal
from ingest.accept import accept_body, limits
from ingest.authentication import HasScope
from ingest.bodies import read_body
from ingest.errors import IngestError
from ingest.models import ApiKey, Reject, Run
from ingest.openapi import ACCEPTED_SCHEMA, ERROR_SCHEMA, EVENT_SCHEMA, EVENTS_SCHEMA
from ingest.times import rfc3339 as rfc3339  # the read APIs write times with it
from ingest.wire import check_media_type

MAX_NUMBER: Final = 2**63 - 1
PAGE_SIZE: Final = 500  # rows of one answer unless the caller asks for fewer


class RawParser(BaseParser):
    """Lets every content type through unread: the body is inflated and decoded under our own limits."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        return {}


class AlwaysJson(BaseContentNegotiation):
    """Answers in JSON whatever is asked for: an exporter's Accept header is no reason to turn its events away."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


def key_of(request: Request) -> ApiKey:
    """Return the key a request was made with; the permission has seen to it that there is one."""
    if not isinstance(request.auth, ApiKey):
        raise IngestError("key_missing", 401, "send an API key: Authorization: Bearer tk_…")
    return request.auth


def page_limits(request: Request) -> tuple[int, int]:
    """Return (after, limit) of a cursor page. Raises IngestError naming the parameter that is wrong."""
    return _number(request, "after", 0, MAX_NUMBER), _number(request, "limit", PAGE_SIZE, PAGE_SIZE) or 1


def _number(request: Request, name: str, default: int, highest: int) -> int:
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not raw.isascii() or not raw.isdigit() or int(raw[:20]) > highest:
        raise IngestError("invalid_parameter", 400, f"{name} must be a whole number from 0 to {highest}", field=name)
    return int(raw)


class EventsView(APIView):
    """Store telemetry events.

    200: all stored or known. 207: some rejected, each listed by its index. Other answers mean that nothing was
    stored. A 2xx means committed.
    """

    required_scope = "ingest"
    permission_classes = [HasScope]
    parser_classes = [RawParser]
    content_negotiation_class = AlwaysJson

    @extend_schema(
        request={"application/json": EVENTS_SCHEMA},
        responses={
            200: ACCEPTED_SCHEMA,
            207: ACCEPTED_SCHEMA,
            **dict.fromkeys((400, 401, 403, 413, 415, 503), ERROR_SCHEMA),
        },
        summary="Store telemetry events",
    )
    def post(self, request: Request) -> Response:
        check_media_type(request.headers.get("Content-Type", ""))
        key = key_of(request)
        body = read_body(request, limits().max_body_bytes)
        result = accept_body(key.project_id, body, request.headers.get("Content-Encoding", ""), api_key_id=key.pk)
        return Response(asdict(result), status=207 if result.rejected else 200)


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
    return {
        **asdict(event),
        "occurred_at": rfc3339(event.occurred_ns),
        "ended_at": None if event.ended_ns is None else rfc3339(event.ended_ns),
        "received_at": event.received_at.isoformat(),
    }


class RejectsView(APIView):
    """What was not stored and why, newest first.

    A key that may read sees the project's rejects. A key that may only send sees its own, so that a sender whose SDK
    merely logs answers still finds out.
    """

    required_scope = ("read", "ingest")
    permission_classes = [HasScope]

    @extend_schema(
        parameters=[
            OpenApiParameter("before", int, description="the `next` of the answer before"),
            OpenApiParameter("limit", int, description=f"1 to {PAGE_SIZE}"),
        ],
        responses=OpenApiTypes.OBJECT,
        summary="List rejects",
    )
    def get(self, request: Request) -> Response:
        key = key_of(request)
        _, limit = page_limits(request)
        before = _number(request, "before", MAX_NUMBER, MAX_NUMBER)
        rows = Reject.objects.filter(project_id=key.project_id, pk__lt=before).order_by("-pk")
        if "read" not in key.scopes:
            rows = rows.filter(api_key=key)
        fields = ("id", "received_at", "code", "detail", "run_id", "event_id")
        results = list(rows.values(*fields, key=F("api_key__prefix"))[:limit])
        return Response({"results": results, "next": results[-1]["id"] if len(results) == limit else None})


class EventTypesView(APIView):
    """`GET /v1/event-types`: the JSON Schema of each event type's data, with an example."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(responses=OpenApiTypes.OBJECT, summary="JSON Schemas of the event types")
    def get(self, request: Request) -> Response:
        return Response({"envelope": EVENT_SCHEMA, "results": {name: json_schema(name) for name in EVENT_TYPES}})
