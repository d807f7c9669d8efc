"""Machine API of ingest: events in, a run's events and the rejects out, and the documents that describe it."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView

from ingest import openapi, views  # noqa: F401  (openapi registers itself)

urlpatterns = [
    path("events", views.EventsView.as_view(), name="api-events"),
    path("runs/<path:run_id>/events", views.RunEventsView.as_view(), name="api-run-events"),
    path("rejects", views.RejectsView.as_view(), name="api-rejects"),
    path("event-types", views.EventTypesView.as_view(), name="api-event-types"),
    path(
        "schema",
        SpectacularAPIView.as_view(authentication_classes=(), permission_classes=()),
        name="api-schema",
    ),
]
