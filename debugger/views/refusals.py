"""The page that says why a form was not carried out: nothing was changed, and where to go back to."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render

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
