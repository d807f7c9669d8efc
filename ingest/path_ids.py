"""Decides how an id stands in an address: as one segment, whatever its sender put into it.

Servers and proxies decode a path once before it is split, so an id is quoted twice: `a/b` is written `a%252Fb`. Quoted
once it is understood as well, where the server tells the path as it was sent (gunicorn does) and the id holds nothing
that looks quoted itself.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter

from contract.events import ID_LIMIT

RUNS: Final = "/v1/runs/"
DOTS: Final = (".", "..")  # segments that clients take out of a path


class IdConverter:
    """The `id` of a URL pattern: one segment."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """Raises ValueError, which means that there is nothing here, for what no id can be."""
        decoded = unquote(value)
        if "\x00" in decoded or len(decoded) > ID_LIMIT:
            raise ValueError("not an id")
        return decoded

    def to_url(self, value: str) -> str:
        """Return the first quoting; Django adds the second."""
        quoted = value.replace("%", "%25").replace("/", "%2F")
        return quoted.replace(".", "%2E") if value in DOTS else quoted


def segment(value: str) -> str:
    """Return an id as it is written into an address, quoted twice."""
    return quote(IdConverter().to_url(value), safe="")


class KeepQuotedSlashes:
    """Middleware: a slash that was sent quoted in an address under RUNS does not part it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(RUNS):
            sent = str(request.META.get("RAW_URI", "")).partition("?")[0].replace("%2f", "%2F")
            if sent.startswith(RUNS) and "%2F" in sent:
                request.path_info = unquote(sent.replace("%2F", "%252F"))
        return self._get_response(request)


register_converter(IdConverter, "id")
