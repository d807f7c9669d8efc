"""What machines ask this process: does it live, can it serve, what did it count."""

import hmac
import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from debugger.exposition import CONTENT_TYPE, exposition
from debugger.health import is_ready, readiness

# A proxy on this machine makes everybody's address a local one, and says so in one of these.
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers: 200 without looking at anything else."""
    return JsonResponse({"ok": True})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when requests can be served, else 503; each part with its reason as a word."""
    parts = readiness()
    ready = is_ready(parts)
    body = {"ready": ready, "parts": {part.name: part.body() for part in parts}}
    return JsonResponse(body, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format, for the bearer of METRICS_TOKEN, or without one for this machine itself."""
    if settings.METRICS_TOKEN:
        if not _has_token(request):
            answer = HttpResponse("send METRICS_TOKEN as a bearer token\n", status=401, content_type="text/plain")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
    elif not _is_local(request):
        reason = "only for this machine: set METRICS_TOKEN to read metrics from elsewhere\n"
        return HttpResponse(reason, status=403, content_type="text/plain")
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    given, wanted = token.strip().encode(), str(settings.METRICS_TOKEN).encode()
    return scheme.lower() == "bearer" and hmac.compare_digest(given, wanted)


def _is_local(request: HttpRequest) -> bool:
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
