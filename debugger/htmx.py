"""What a view has to know of htmx: whether a fragment is asked for, and how a fragment leads to another page."""

from django.http import HttpRequest, HttpResponse
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails


class HtmxHttpRequest(HttpRequest):
    """A request after django-htmx's middleware."""

    htmx: HtmxDetails


def wants_fragment(request: HtmxHttpRequest) -> bool:
    """Tell whether the answer goes into a page that is already there. Answers that differ by it vary on HX-Request."""
    return bool(request.htmx) and not request.htmx.boosted and not request.htmx.history_restore_request


def go_to(url: str) -> HttpResponse:
    """Return the answer to a fragment that makes the browser open `url` as a whole page."""
    return HttpResponseClientRedirect(url)
