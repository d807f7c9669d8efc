"""Sees every request and its answer: gives it an id, counts it, and writes a line for each one of the machine API.

The line names the route and never the address: run ids, query values, keys and payload stay out of it.
"""

import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from contract.redaction import redact
from debugger.logs import describe, request_id
from ingest import metrics
from ingest.error_answers import is_database_away
from ingest.errors import RETRY_SECONDS

logger = logging.getLogger("temporality.requests")

MACHINE_API: Final = "/v1/"
SANE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}")


def id_for(given: str) -> str:
    """Return the id a caller gave its request when it is plain and no secret, or a new one."""
    if SANE_ID.fullmatch(given) and redact(given)[0] == given:
        return given
    return secrets.token_hex(8)


class RequestsSeen:
    """The outermost middleware: what an answer says here is what the caller gets."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        this_id = id_for(request.headers.get("X-Request-ID", ""))
        id_token = request_id.set(this_id)
        counts: dict[str, int] = {}
        counts_token = metrics.request_counts.set(counts)
        try:
            response = self._get_response(request)
            response.headers["X-Request-ID"] = this_id
            seconds = time.perf_counter() - started
            match = request.resolver_match
            metrics.note_request((match and match.url_name) or "none", response.status_code, seconds)
            if request.path.startswith(MACHINE_API):
                _write_line(request, response, seconds, counts)
        finally:
            metrics.request_counts.reset(counts_token)
            request_id.reset(id_token)
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Say on a page that the database is away, and when to look again; the machine API answers by itself."""
        if not is_database_away(error):
            return None
        metrics.note_database_failure()
        logger.error("a page found the database away: %s", describe(error.__cause__ or error))
        body = render_to_string("503.html")
        return HttpResponse(body, status=503, headers={"Retry-After": str(RETRY_SECONDS)})


def _write_line(request: HttpRequest, response: HttpResponse, seconds: float, counts: dict[str, int]) -> None:
    match = request.resolver_match
    route = match.route if match else "none"
    facts: dict[str, object] = {
        "method": request.method if request.method in ("GET", "POST", "DELETE", "PUT", "PATCH") else "other",
        "route": route,
        "status": response.status_code,
        "duration_ms": round(seconds * 1000, 1),
        "project_id": getattr(getattr(request, "auth", None), "project_id", None),
        **counts,
    }
    logger.info(
        "%s %s %d in %.1f ms%s",
        facts["method"],
        route,
        response.status_code,
        seconds * 1000,
        "".join(f" {name}={number}" for name, number in counts.items()),
        extra={"facts": facts},
    )
