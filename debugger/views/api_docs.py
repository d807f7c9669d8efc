"""The API document as a page for people, signed in or not. Its script and style are files of our own."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from debugger.csp import POLICY

# Swagger UI draws its icons from data URIs of its own style sheet; everything else stays as on every page.
DOCS_POLICY: Final = POLICY.replace("img-src 'self'", "img-src 'self' data:")


@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    """Show the document of /v1/schema; calls can be tried out with a key."""
    response = render(request, "api_docs.html")
    response.headers["Content-Security-Policy"] = DOCS_POLICY
    return response
