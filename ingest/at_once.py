"""Decides how much is decoded at once in one web process, so that large bodies side by side do not add up in memory.

A body takes many times its bytes while it is read. Ordinary requests never wait here; large ones take turns, which
costs no throughput, because one process decodes one thing at a time anyway. (Seed 001 §13.)
"""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from django.conf import settings

from ingest.errors import IngestError

WAIT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 5  # what a sender is told that found no room


class Room:
    """Bytes of bodies that are being read now. Whoever is alone is always let in."""

    def __init__(self) -> None:
        self._used = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, n_bytes: int, most: int, seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold room for a body in the block. Raises IngestError 503 when there is none within `seconds`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._used and self._used + n_bytes > most:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise _busy(most)
            self._used += n_bytes
        try:
            yield
        finally:
            with self._changed:
                self._used -= n_bytes
                self._changed.notify_all()


def _busy(most: int) -> IngestError:
    detail = f"bodies of {most} bytes together are being read; send it again in {RETRY_SECONDS} s, or in smaller parts"
    return IngestError("busy", 503, detail, field="body", limit=most, retry_after=RETRY_SECONDS)


_room: Final = Room()


def reading(body: bytes) -> AbstractContextManager[None]:
    """Hold room in this process for an inflated body. Raises IngestError 503 when there is none for long."""
    return _room.taken(len(body), settings.INGEST_BYTES_AT_ONCE)
