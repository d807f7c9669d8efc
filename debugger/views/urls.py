"""Pages of the inspector."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
