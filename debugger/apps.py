"""Makes every Django process load the Celery application with its tasks, and the system checks."""

from typing import Any

from django.apps import AppConfig
from django.utils.module_loading import import_string

from debugger import checks  # noqa: F401  (the checks register themselves)
from debugger.celery import TASK_PACKAGES, app
from knowledge.signals import run_folded


class DebuggerConfig(AppConfig):
    name = "debugger"

    def ready(self) -> None:
        """Register the tasks at once, so that a check can say which are missing before anything is queued."""
        app.autodiscover_tasks(TASK_PACKAGES, force=True)
        run_folded.connect(_on_folded, dispatch_uid="debugger.store_timeline")


def _on_folded(**told: Any) -> None:
    """Hand a fold on to the task's module, which needs the models and so cannot be imported before they are there."""
    import_string("debugger.tasks.on_folded")(**told)
