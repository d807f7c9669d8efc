"""Owns what every address of the machine API does alike: key and scope, JSON whatever is asked for, its errors."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from ingest.authentication import HasScope
from ingest.errors import IngestError
from ingest.models import ApiKey


class RawParser(BaseParser):
    """Lets every content type through unread: the body is inflated and decoded under our own limits."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        return {}


class AlwaysJson(BaseContentNegotiation):
    """Answers in JSON whatever is asked for: an exporter's Accept header is no reason to turn its events away."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


class MachineView(APIView):
    """A view for programs: `required_scope` says which key may use it, `write_scope`, if any, which may write there."""

    required_scope: str | tuple[str, ...] = ()
    write_scope = ""
    permission_classes = [HasScope]
    parser_classes = [RawParser]
    content_negotiation_class = AlwaysJson


class OpenView(MachineView):
    """A view for programs that needs no key."""

    authentication_classes = ()
    permission_classes = []


def key_of(request: Request) -> ApiKey:
    """Return the key a request was made with; the permission has seen to it that there is one."""
    if not isinstance(request.auth, ApiKey):
        raise IngestError("key_missing", 401, "send an API key: Authorization: Bearer tk_…")
    return request.auth
