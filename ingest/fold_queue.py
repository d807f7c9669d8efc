"""Tells the workers which runs got events; a sweep finds every run that was not folded. (Seed 001 §12, §13.)"""

import logging
import threading
from collections.abc import Sequence
from typing import Final

from django.conf import settings

from ingest import metrics
from ingest.task_queue import TaskQueue

logger = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 1_000  # runs of one task, which is what one request may bring


class FoldQueue:
    """Queues folds. `failures` counts runs left to the sweep because the broker was away."""

    def __init__(self) -> None:
        self.failures = 0
        self._tasks = TaskQueue()
        self._lock = threading.Lock()

    def put(self, project_id: int, run_ids: Sequence[str]) -> None:
        """Queue one task, by name, that folds the runs; those over the most at once wait for the sweep."""
        if self._tasks.is_closed:
            self._count(len(run_ids))
            return
        chosen = list(run_ids[:MOST_AT_ONCE])
        problem = self._tasks.put(settings.INGEST_FOLD_TASK, (project_id, chosen))
        if problem:
            self._count(len(chosen))
            told = "the broker does not take tasks (%s); the sweep will fold %d runs, %d so far"
            logger.warning(told, problem, len(chosen), self.failures)

    def _count(self, number: int) -> None:
        with self._lock:
            self.failures += number
        metrics.note_queue_failure(number)


fold_queue: Final = FoldQueue()
