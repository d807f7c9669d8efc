"""Signing in by a one-time link, signing out, and the way from / to the first page."""

from typing import Final

from django.contrib.auth import login, logout
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from debugger.access import LINK_HOURS, person_only, projects_for, use_sign_in_link
from debugger.htmx import HtmxHttpRequest

BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
GONE: Final = 410


@person_only
@require_GET
def home(request: HtmxHttpRequest) -> HttpResponse:
    """Lead to the run list of the person's first project."""
    project = projects_for(request.user).first()
    if project is None:
        return render(request, "no_project.html")
    return redirect("run-list", project=project.slug)


@require_GET
def explain(request: HtmxHttpRequest) -> HttpResponse:
    """Say how to get a sign-in link."""
    return render(request, "sign_in.html", {"hours": LINK_HOURS})


@require_GET
@never_cache
def use_link(request: HtmxHttpRequest, token: str) -> HttpResponse:
    """Sign in by a link, once. The one GET that writes, as a link of a terminal must; HEAD and prefetches do not."""
    if "prefetch" in request.headers.get("Sec-Purpose", ""):
        return HttpResponse(status=503)
    user = use_sign_in_link(token)
    if user is None:
        return render(request, "sign_in.html", {"hours": LINK_HOURS, "is_refused": True}, status=GONE)
    login(request, user, backend=BACKEND)
    return redirect("home")


@require_POST
def sign_out(request: HtmxHttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")
