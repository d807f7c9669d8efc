"""Machine API of ingest: events in, runs and events out."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
