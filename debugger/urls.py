"""Every URL: the machine API under /v1/, the pages under /<project>/."""

from django.urls import URLPattern, URLResolver, include, path, re_path

from debugger.views import api_docs
from ingest.error_answers import unknown_address

handler404 = "debugger.views.refusals.not_found"
urlpatterns: list[URLPattern | URLResolver] = [
    path("v1/", include("ingest.urls")),
    path("v1/", include("knowledge.urls")),
    path("v1/docs", api_docs.api_docs, name="api-docs"),
    re_path(r"^v1/", unknown_address),
    path("", include("debugger.views.urls")),
]
