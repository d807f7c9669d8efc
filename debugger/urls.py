"""Every URL: the machine API under /v1/, the pages under /<project>/."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("v1/", include("ingest.urls")),
    path("v1/", include("knowledge.urls")),
    path("", include("debugger.views.urls")),
]
