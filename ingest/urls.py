"""Machine API of ingest: events in; journals, rejects and requests out; and the document that describes it."""

from django.urls import path

from ingest import deliveries_api, document, journal_api, views
from ingest.otlp import views as otlp_views
from ingest.path_ids import IdConverter  # noqa: F401  (registers the `id` of the patterns)

urlpatterns = [
    path("events", views.EventsView.as_view(), name="api-events"),
    path("traces", otlp_views.TracesView.as_view(), name="api-traces"),
    path("logs", otlp_views.LogsView.as_view(), name="api-logs"),
    path("runs/<id:run_id>/events", journal_api.RunEventsView.as_view(), name="api-run-events"),
    path("runs/<id:run_id>/requests/<id:event_id>", journal_api.ModelRequestView.as_view(), name="api-run-request"),
    path("rejects", deliveries_api.RejectsView.as_view(), name="api-rejects"),
    path("batches", deliveries_api.BatchesView.as_view(), name="api-batches"),
    path("event-types", views.EventTypesView.as_view(), name="api-event-types"),
    path("schema", document.SchemaView.as_view(), name="api-schema"),
]
