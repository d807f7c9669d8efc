"""Makes every Django process load the Celery application with its tasks, and the system checks."""

from django.apps import AppConfig

from debugger import checks  # noqa: F401  (the checks register themselves)
from debugger.celery import TASK_PACKAGES, app


class DebuggerConfig(AppConfig):
    name = "debugger"

    def ready(self) -> None:
        """Register the tasks at once, so that a check can say which are missing before anything is queued."""
        app.autodiscover_tasks(TASK_PACKAGES, force=True)
