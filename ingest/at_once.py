"""Decides how much is decoded at once in one web process, so that large bodies side by side do not add up in memory.

A body takes many times its bytes while it is read. Ordinary requests never wait here; large ones take turns, which
costs no throughput, because one process decodes one thing at a time anyway. (Seed 001 §13.)
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from django.conf import settings

from ingest.errors import RETRY_SECONDS, IngestError

WAIT_SECONDS: Final = 10.0


class Room:
    """Bytes of bodies that are being read now. Whoever is alone is always let in.

    Who waits is let in by the order of coming: a large body is not overtaken for ever by small ones.
    """

    def __init__(self) -> None:
        self._used = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, n_bytes: int, most: int, seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold room for a body in the block. Raises IngestError 503 when there is none within `seconds`."""
        self._enter(n_bytes, most, seconds)
        try:
            yield
        finally:
            with self._changed:
                self._used -= n_bytes
                self._changed.notify_all()

    def _enter(self, n_bytes: int, most: int, seconds: float) -> None:
        ticket = object()

        def is_next() -> bool:
            return self._waiting[0] is ticket and (not self._used or self._used + n_bytes <= most)

        with self._changed:
            self._waiting.append(ticket)
            try:
                if not self._changed.wait_for(is_next, seconds):
                    raise _busy(most)
                self._used += n_bytes
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()


def _busy(most: int) -> IngestError:
    detail = f"bodies of {most} bytes together are being read; send it again in {RETRY_SECONDS} s, or in smaller parts"
    return IngestError("busy", 503, detail, field="body", limit=most, retry_after=RETRY_SECONDS)


_room: Final = Room()


def reading(body: bytes) -> AbstractContextManager[None]:
    """Hold room in this process for an inflated body. Raises IngestError 503 when there is none for long."""
    return _room.taken(len(body), settings.INGEST_BYTES_AT_ONCE)
