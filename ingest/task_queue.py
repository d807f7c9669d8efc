"""Queues tasks by name: best effort, quick, and never a reason to fail what queues them.

A sweep stands behind each task that is queued here, so a broker that is away costs delay only. It must not cost the
sender time either: a connection is tried once, and after a failure not again for a moment. (Seed 001 §12, §13.)
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from celery import current_app
from kombu.connection import Connection
from kombu.pools import producers

CONNECT_SECONDS: Final = 1
PAUSE_SECONDS: Final = 5.0


class TaskQueue:
    """The way to the broker, with a pause after each failure."""

    def __init__(self) -> None:
        self._closed_until = 0.0

    @property
    def is_closed(self) -> bool:
        """Tell whether a failure was so short a time ago that nothing is tried."""
        return time.monotonic() < self._closed_until

    def put(self, task: str, args: Sequence[Any]) -> str:
        """Queue one task by its name; return the kind of error that kept it out, or an empty string."""
        try:
            with producers[_broker()].acquire(block=True, timeout=CONNECT_SECONDS) as producer:
                current_app.send_task(task, args=tuple(args), producer=producer, retry=False)
        except Exception as error:  # noqa: BLE001 - a best-effort edge: a sweep stands behind it
            self._closed_until = time.monotonic() + PAUSE_SECONDS
            return type(error).__name__
        return ""


def _broker() -> Connection:
    """Return the broker's address as a connection that gives up after one try instead of waiting for it."""
    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
    sockets = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": CONNECT_SECONDS}
    connection: Connection = current_app.connection_for_write(
        connect_timeout=CONNECT_SECONDS, transport_options={**once, **sockets}
    )
    return connection
