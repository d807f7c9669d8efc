"""`POST /v1/observations/hints` and `/batch`: what is known that fits what just happened."""

from collections.abc import Sequence
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi
from ingest.error_answers import error_body
from ingest.errors import RETRY_SECONDS
from ingest.machine_view import MachineView, key_of
from knowledge.hints_api import body, shapes
from knowledge.hints_api.request import parse_batch, parse_request
from knowledge.offering import Answered, answer_each

HOW_HEADER: Final = "Hint-Answers"
HOW: Final = OpenApiParameter(
    HOW_HEADER,
    str,
    OpenApiParameter.HEADER,
    description="how each answer came about, in order: new; kept (asked before, the same bytes); "
    "kept-of-another-request (asked before with another body: the first answer was given again)",
    response=[200],
)
ERRORS: Final = openapi.errors(400, 401, 403, 413, 415, 422, 503)


class HintsView(MachineView):
    """What fits one activation.

    Asked again with the same `activation_id` in the same run, the first answer is given again, byte for byte. That
    nothing fits is a normal answer with no hints.
    """

    required_scope = "observe"

    @extend_schema(
        request={"application/json": openapi.ref("HintRequest")},
        parameters=[openapi.RETRY_AFTER, HOW],
        responses={200: openapi.answer("HintAnswer", "what fits, and what was held back and why"), **ERRORS},
        examples=[
            OpenApiExample("a failed call", value=shapes.REQUEST_EXAMPLE, request_only=True),
            OpenApiExample("one hint", value=shapes.ANSWER_EXAMPLE, response_only=True, status_codes=["200"]),
        ],
        tags=["ask"],
        operation_id="find_hints",
        summary="Find hints for one activation",
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        if key.project.hints_paused:
            return paused()
        query = parse_request(body.read_object(request), key.project.slug)
        answers = answer_each(key.project, [query])
        return told(answers[0].body, answers)


class BatchView(MachineView):
    """What fits the activations of one boundary: answered in order, none offered what another one is.

    One entry that is wrong refuses the batch, with the path to its field; so does a search that fails, and nothing is
    written then. A batch, or a part of it, may be sent again.
    """

    required_scope = "observe"

    @extend_schema(
        request={"application/json": openapi.ref("HintBatch")},
        parameters=[openapi.RETRY_AFTER, HOW],
        responses={200: openapi.answer("HintAnswers", "one answer a request, in their order"), **ERRORS},
        examples=[
            OpenApiExample("two calls", value={"requests": shapes.BATCH_EXAMPLE}, request_only=True),
        ],
        tags=["ask"],
        operation_id="find_hints_batch",
        summary="Find hints for the activations of one boundary",
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        if key.project.hints_paused:
            return paused()
        queries = parse_batch(body.read_object(request), key.project.slug)
        answers = answer_each(key.project, queries)
        return told({"answers": [answered.body for answered in answers]}, answers)


def told(value: dict[str, Any], answers: Sequence[Answered]) -> Response:
    return Response(value, headers={HOW_HEADER: ", ".join(answered.how for answered in answers)})


def paused() -> Response:
    detail = "hints are paused for this project; a member can turn them on again"
    value = error_body("hints_paused", detail, retry_after=RETRY_SECONDS)
    return Response(value, status=503, headers={"Retry-After": str(RETRY_SECONDS)})
