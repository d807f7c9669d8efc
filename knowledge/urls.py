"""Machine API of Observation: hints for activations; runs with their chains; reports."""

from django.urls import path

from ingest.path_ids import IdConverter  # noqa: F401  (registers the `id` of the patterns)
from knowledge.hints_api.views import BatchView, HintsView
from knowledge.reports_api import EffectivenessView
from knowledge.runs_api import ActivationsView, RunsView, RunView

urlpatterns = [
    path("observations/hints", HintsView.as_view(), name="api-hints"),
    path("observations/hints/batch", BatchView.as_view(), name="api-hints-batch"),
    path("runs", RunsView.as_view(), name="api-runs"),
    path("runs/<id:run_id>/activations", ActivationsView.as_view(), name="api-run-activations"),
    path("runs/<id:run_id>", RunView.as_view(), name="api-run"),
    path("reports/effectiveness", EffectivenessView.as_view(), name="api-effectiveness"),
]
