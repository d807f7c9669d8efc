"""Tells the workers which runs got events: best effort, quick, and never a reason to fail a request.

A sweep finds every run that was not folded, so a broker that is away costs delay only. It must not cost the sender
time either: a connection is tried once, and after a failure not again for a moment. (Seed 001 §12, §13.)
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from celery import current_app
from django.conf import settings
from kombu.connection import Connection
from kombu.pools import producers

from ingest import metrics

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 1
PAUSE_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 1_000  # runs of one task, which is what one request may bring


class FoldQueue:
    """The way to the broker, with a pause after each failure. `failures` counts runs left to the sweep by one."""

    def __init__(self) -> None:
        self.failures = 0
        self._closed_until = 0.0
        self._lock = threading.Lock()

    def put(self, project_id: int, run_ids: Sequence[str]) -> None:
        """Queue one task, by name, that folds the runs; those over the most at once wait for the sweep."""
        if time.monotonic() < self._closed_until:
            self._count(len(run_ids))
            return
        chosen = list(run_ids[:MOST_AT_ONCE])
        try:
            with producers[_broker()].acquire(block=True, timeout=CONNECT_SECONDS) as producer:
                current_app.send_task(
                    settings.INGEST_FOLD_TASK, args=(project_id, chosen), producer=producer, retry=False
                )
        except Exception as error:  # noqa: BLE001 - a best-effort edge: the sweep stands behind it
            self._closed_until = time.monotonic() + PAUSE_SECONDS
            self._count(len(chosen))
            logger.warning(
                "the broker does not take tasks (%s); the sweep will fold %d runs, %d so far",
                type(error).__name__,
                len(chosen),
                self.failures,
            )

    def _count(self, number: int) -> None:
        with self._lock:
            self.failures += number
        metrics.note_queue_failure(number)


def _broker() -> Connection:
    """Return the broker's address as a connection that gives up after one try instead of waiting for it."""
    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
    sockets = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": CONNECT_SECONDS}
    connection: Connection = current_app.connection_for_write(
        connect_timeout=CONNECT_SECONDS, transport_options={**once, **sockets}
    )
    return connection


fold_queue: Final = FoldQueue()
