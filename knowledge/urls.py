"""Machine API of Observation: hints for activations; knowledge items; runs with their chains; reports."""

from django.urls import path

from ingest.path_ids import IdConverter  # noqa: F401  (registers the `id` of the patterns)
from knowledge.hints_api.views import BatchView, HintsView
from knowledge.items_api.transfer import ExportView, ImportView
from knowledge.items_api.views import EvidenceView, ItemsView, ItemView, RevisionsView, StateView, SuspensionView
from knowledge.reports_api import EffectivenessView, EffectsView, ItemEffectsView
from knowledge.runs_api import ActivationsView, RunsView, RunView

urlpatterns = [
    path("observations/hints", HintsView.as_view(), name="api-hints"),
    path("observations/hints/batch", BatchView.as_view(), name="api-hints-batch"),
    path("knowledge/items", ItemsView.as_view(), name="api-items"),
    path("knowledge/items/<id:knowledge_id>", ItemView.as_view(), name="api-item"),
    path("knowledge/items/<id:knowledge_id>/revisions", RevisionsView.as_view(), name="api-item-revisions"),
    path("knowledge/items/<id:knowledge_id>/state", StateView.as_view(), name="api-item-state"),
    path("knowledge/items/<id:knowledge_id>/suspension", SuspensionView.as_view(), name="api-item-suspension"),
    path("knowledge/items/<id:knowledge_id>/evidence", EvidenceView.as_view(), name="api-item-evidence"),
    path("knowledge/import", ImportView.as_view(), name="api-items-import"),
    path("knowledge/export", ExportView.as_view(), name="api-items-export"),
    path("runs", RunsView.as_view(), name="api-runs"),
    path("runs/<id:run_id>/activations", ActivationsView.as_view(), name="api-run-activations"),
    path("runs/<id:run_id>", RunView.as_view(), name="api-run"),
    path("reports/effectiveness", EffectivenessView.as_view(), name="api-effectiveness"),
    path("reports/effects", EffectsView.as_view(), name="api-effects"),
    path("reports/effects/items", ItemEffectsView.as_view(), name="api-item-effects"),
]
