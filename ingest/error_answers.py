"""Where an error of the machine API becomes its HTTP answer: every body is `{"code", "detail", …}`."""

import logging
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from psycopg.errors import ReadOnlySqlTransaction
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler

from ingest import metrics
from ingest.errors import RETRY_SECONDS, IngestError

logger = logging.getLogger(__name__)


def error_body(code: str, detail: str, **extra: object) -> dict[str, Any]:
    return {"code": code, "detail": detail, **extra}


def handle_api_error(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: every error body is `{"code", "detail", …}`; a silent database is 503, never 500."""
    if isinstance(error, IngestError):
        wait = error.extra.get("retry_after") or (RETRY_SECONDS if error.status == 503 else None)
        headers = {"Retry-After": str(wait)} if wait else None
        return Response(error_body(error.code, error.detail, **error.extra), status=error.status, headers=headers)
    if is_database_away(error):
        metrics.note_database_failure()
        logger.error("database does not answer: %s", type(error.__cause__ or error).__name__)
        told = f"the database does not answer, or cannot write now; send again in {RETRY_SECONDS} s"
        body = error_body("database_unavailable", told, retry_after=RETRY_SECONDS)
        return Response(body, status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    if isinstance(error, UnreadablePostError):
        return Response(
            error_body("body_cut_off", "the body ended before its Content-Length; send it again"), status=400
        )
    if isinstance(error, Http404):
        return Response(error_body("not_found", "there is nothing of that id in this project"), status=404)
    response = exception_handler(error, context)
    if response is None:
        logger.error("a request met a fault of ours", exc_info=error)
        told = "this request met a fault of ours; the server's log says where, under the X-Request-ID of this answer"
        return Response(error_body("internal_fault", told), status=500)
    code = error.get_codes() if isinstance(error, exceptions.APIException) else "forbidden"
    detail = error.detail if isinstance(error, exceptions.APIException) else "this is not allowed"
    response.data = error_body(code if isinstance(code, str) else "invalid", str(detail))
    return response


def is_database_away(error: Exception) -> bool:
    """Tell whether the database does not answer, or is a standby, as after a failover: it will be another one soon."""
    return isinstance(error, OperationalError | InterfaceError) or isinstance(error.__cause__, ReadOnlySqlTransaction)


@csrf_exempt
def unknown_address(request: HttpRequest) -> JsonResponse:
    """Answer an address of the machine API that is none, as programs expect it."""
    detail = "there is no such address; an id with a slash or a percent sign is quoted twice: a/b is a%252Fb"
    return JsonResponse(error_body("not_found", detail), status=404)
