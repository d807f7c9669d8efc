"""Machine API of Observation: hints for activations; runs with their chains."""

from django.urls import path

from knowledge.hints_api.views import BatchView, HintsView

urlpatterns = [
    path("observations/hints", HintsView.as_view(), name="api-hints"),
    path("observations/hints/batch", BatchView.as_view(), name="api-hints-batch"),
]
