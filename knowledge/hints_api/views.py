"""`POST /v1/observations/hints` and `/batch`: what is known that fits what just happened."""

import json
import uuid
from typing import Any, Final

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi
from ingest.bodies import read_body
from ingest.error_answers import error_body
from ingest.errors import RETRY_SECONDS, IngestError
from ingest.machine_view import MachineView, key_of
from ingest.models import ApiKey
from ingest.repair import Repairs, clean_value
from knowledge.find_hints.findings import HintQuery
from knowledge.hints_api.serializers import BATCH_LIMIT, HintBatchSerializer, HintRequestSerializer
from knowledge.offering import answer_all

MAX_NESTING: Final = 8  # containers; a request has three
RUN_PART: Final = 150  # code points of the run id that a generated activation id begins with
LIMIT_CODES: Final = ("max_length", "max_value", "min_value")


class HintsView(MachineView):
    """One activation."""

    required_scope = "observe"

    @extend_schema(
        request={"application/json": HintRequestSerializer},
        parameters=[openapi.RETRY_AFTER],
        responses={200: OpenApiTypes.OBJECT, **openapi.errors(400, 401, 403, 413, 422, 503)},
        tags=["ask"],
        operation_id="find_hints",
        summary="Find hints for one activation",
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        if key.project.hints_paused:
            return paused()
        query = parse_request(decode(request), key)
        return Response(answer_all(key.project, [query])[0])


class BatchView(MachineView):
    """All activations of one boundary: answered in order, none offered what an earlier one was."""

    required_scope = "observe"

    @extend_schema(
        request={"application/json": HintBatchSerializer},
        parameters=[openapi.RETRY_AFTER],
        responses={200: OpenApiTypes.OBJECT, **openapi.errors(400, 401, 403, 413, 422, 503)},
        tags=["ask"],
        operation_id="find_hints_batch",
        summary="Find hints for the activations of one boundary",
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        if key.project.hints_paused:
            return paused()
        body = decode(request)
        unknown = sorted(set(body) - {"requests"})
        if unknown:
            raise IngestError("unknown_field", 400, f"unknown field {unknown[0]}; known is requests", field=unknown[0])
        requests = body.get("requests")
        if not isinstance(requests, list) or not 1 <= len(requests) <= BATCH_LIMIT:
            detail = f"requests must be a list of 1 to {BATCH_LIMIT} hint requests"
            raise IngestError("invalid_batch", 400, detail, field="requests", limit=BATCH_LIMIT)
        queries = [parse_request(entry, key, f"requests[{index}].") for index, entry in enumerate(requests)]
        return Response({"answers": answer_all(key.project, queries)})


def paused() -> Response:
    body = error_body("hints_paused", "hints are paused for this project; a member can turn them on again")
    return Response(body, status=503, headers={"Retry-After": str(RETRY_SECONDS)})


def decode(request: Request) -> dict[str, Any]:
    """Return the request's JSON object, made storable. Raises IngestError (400, 413)."""
    raw = read_body(request, settings.HINTS_MAX_BODY_BYTES)
    try:
        value = json.loads(raw)
    except RecursionError:
        raise IngestError("too_nested", 400, "the body is nested too deeply to be read") from None
    except ValueError as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise IngestError("bad_json", 400, f"the body is not valid JSON in UTF-8{place}") from None
    if not isinstance(value, dict):
        raise IngestError("bad_body", 400, "the body must be a JSON object")
    return dict(clean_value(value, Repairs(), max_nesting=MAX_NESTING, max_key_bytes=settings.INGEST_MAX_KEY_BYTES))


def parse_request(raw: Any, key: ApiKey, prefix: str = "") -> HintQuery:
    """Return one checked request.

    Raises IngestError naming the field: 422 with the limit that was passed, 403 for a foreign project, else 400.
    """
    if not isinstance(raw, dict):
        place = prefix.rstrip(".") or "the body"
        raise IngestError("bad_body", 400, f"{place} must be a JSON object")
    serializer = HintRequestSerializer(data=raw)
    if not serializer.is_valid():
        field, code, detail = first_error(serializer.errors, prefix)
        status = 422 if code in LIMIT_CODES else 400
        word = "limit_exceeded" if status == 422 else "unknown_field" if code == "unknown_field" else "invalid_field"
        raise IngestError(word, status, f"{field}: {detail}", field=field)
    slug = serializer.validated_data.get("project")
    if slug and slug != key.project.slug:
        detail = "project must be the key's own; use a key of that project or leave the field out"
        raise IngestError("wrong_project", 403, detail, field=f"{prefix}project")
    return serializer.to_query(new_activation_id=f"{serializer.validated_data['run'][:RUN_PART]}:{uuid.uuid4()}")


def first_error(errors: Any, prefix: str) -> tuple[str, str, str]:
    """Return (field path, code, sentence) of the first error of a serializer."""
    path, node = prefix.rstrip("."), errors
    while not (isinstance(node, list) and node and not isinstance(node[0], dict | list)):
        if isinstance(node, dict):
            name, node = next(iter(node.items()))
            path = f"{path}.{name}" if path else str(name)
        else:
            index = next(place for place, entry in enumerate(node) if entry)
            path, node = f"{path}[{index}]", node[index]
    return path, str(getattr(node[0], "code", "invalid")), str(node[0])
