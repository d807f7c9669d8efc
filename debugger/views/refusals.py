"""The pages that say no: why a form was not carried out, where to go back to, and that there is nothing here."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views.defaults import page_not_found

from debugger.htmx import HtmxHttpRequest
from ingest.models import Project

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403


def refused_page(request: HtmxHttpRequest, project: Project, said: str, back: str) -> HttpResponse:
    """Return the 400 of something that was not confirmed; `back` is an address."""
    context = {"project": project, "title": "Not done", "said": said, "back": back}
    return render(request, "refused.html", context, status=BAD_REQUEST)


def looking_on(request: HtmxHttpRequest, project: Project, said: str, back: str) -> HttpResponse:
    """Return the 403 of a member who looks on; `said` is what they may not do, `back` an address."""
    context = {"project": project, "title": "Not for you to change", "said": said, "back": back}
    return render(request, "refused.html", context, status=FORBIDDEN)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return the 404 of the pages; it names its reader and their projects, so no cache on the way keeps it."""
    response = page_not_found(request, exception)
    patch_cache_control(response, private=True, no_cache=True)
    return response
