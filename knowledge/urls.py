"""Machine API of Observation: hints for activations; runs with their chains."""

from django.urls import path

from knowledge.hints_api.views import BatchView, HintsView
from knowledge.runs_api import ActivationsView, RunsView, RunView

urlpatterns = [
    path("observations/hints", HintsView.as_view(), name="api-hints"),
    path("observations/hints/batch", BatchView.as_view(), name="api-hints-batch"),
    path("runs", RunsView.as_view(), name="api-runs"),
    path("runs/<path:run_id>/activations", ActivationsView.as_view(), name="api-run-activations"),
    path("runs/<path:run_id>", RunView.as_view(), name="api-run"),
]
