"""Makes every Django process load the Celery application, so that a task queued anywhere finds the broker."""

from django.apps import AppConfig

from debugger import celery  # noqa: F401  (imported for its effect)


class DebuggerConfig(AppConfig):
    name = "debugger"
