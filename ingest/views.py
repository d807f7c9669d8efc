"""Machine API of ingest, the write side: events in, and the schemas they are checked against."""

from dataclasses import asdict

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from contract.events import EVENT_TYPES, json_schema
from ingest import openapi, openapi_shapes, quota
from ingest.accept import accept_events, limits
from ingest.at_once import reading
from ingest.bodies import read_body
from ingest.machine_view import MachineView, OpenView, key_of
from ingest.wire import check_media_type, inflate, parse_events


class EventsView(MachineView):
    """Store telemetry events.

    200: all stored or known. 207: some rejected, each listed by its index. Other answers mean that nothing was
    stored. A 2xx means committed.
    """

    required_scope = "ingest"

    @extend_schema(
        parameters=[openapi.RETRY_AFTER],
        request={"application/json": openapi.ref("Events")},
        responses={
            200: openapi.answer("Accepted", "all stored, or known already; committed"),
            207: openapi.answer("Accepted", "some rejected, the others stored and committed"),
            **openapi.errors(400, 401, 403, 413, 415, 429, 503),
        },
        examples=[
            OpenApiExample("a failed call", value={"events": [openapi.EVENT_EXAMPLE]}, request_only=True),
            OpenApiExample("all stored", value=openapi.ACCEPTED_EXAMPLE, response_only=True, status_codes=["200"]),
            OpenApiExample("one rejected", value=openapi.PARTIAL_EXAMPLE, response_only=True, status_codes=["207"]),
        ],
        operation_id="send_events",
        summary="Store telemetry events",
        tags=["send"],
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        bounds = limits()
        check_media_type(request.headers.get("Content-Type", ""))
        body = read_body(request, bounds.max_body_bytes)
        quota.check(key, 0)
        body = inflate(body, request.headers.get("Content-Encoding", ""), bounds.max_body_bytes)
        with reading(body):
            events = parse_events(body, bounds)
            quota.check(key, len(events))
            result = accept_events(key.project_id, events, api_key_id=key.pk)
        return Response(asdict(result), status=207 if result.rejected else 200)


class EventTypesView(OpenView):
    """The JSON Schema of each event type's data, with an example."""

    @extend_schema(
        responses={200: openapi.answer("EventTypes", "the envelope, and data by type")},
        operation_id="list_event_types",
        summary="JSON Schemas of the event types",
        tags=["send"],
    )
    def get(self, request: Request) -> Response:
        types = {name: json_schema(name) for name in EVENT_TYPES}
        return Response({"envelope": openapi_shapes.event_schema(), "results": types})
