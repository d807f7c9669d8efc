"""Serves the OpenAPI document, made once for each set of limits: making it takes longer than any other answer."""

from functools import lru_cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi  # noqa: F401  (describes the key)
from ingest.limits import Limit, all_limits


class SchemaView(SpectacularAPIView):
    """The OpenAPI document: YAML, or JSON with `Accept: application/json` or `?format=json`."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(document(all_limits()))


@lru_cache(maxsize=1)
def document(limits: tuple[Limit, ...]) -> dict[str, Any]:
    """Return the document as it is under these limits."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return made
