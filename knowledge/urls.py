"""Machine API of Observation: hints, activations."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
