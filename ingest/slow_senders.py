"""Decides which senders are too slow to be waited for, so that a few of them cannot hold every thread of a web process.

A thread that waits for a request is watched from beside it. What ends the wait is the end of the connection's reading
side: the waiting thread sees a body that broke off, and can still answer. (Seed 001 §13.)
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

SLOW_SECONDS: Final = 1.0  # who is waited for longer is slow
_LOOK_SECONDS: Final = 0.25


@dataclass(slots=True, eq=False)
class Wait:
    """A thread waits for this connection. `is_ended` is set when it was waited for long enough."""

    connection: socket.socket
    since: float
    until: float
    is_ended: bool = False


def too_slow(waits: list[Wait], now: float, most: int) -> list[Wait]:
    """Return the waits to end: those past their time, and of the slow ones all but the `most` that began first.

    The first ones stay, so that slow senders come to their end one after the other, and none begins for ever anew.
    """
    slow = sorted((wait for wait in waits if now - wait.since > SLOW_SECONDS), key=lambda wait: wait.since)
    return [wait for place, wait in enumerate(slow) if place >= most or now > wait.until]


class SlowSenders:
    """All waits of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[Wait, int] = {}
        self._looking: threading.Thread | None = None

    def begin(self, connection: socket.socket, seconds: float, most: int) -> Wait:
        """Watch over a wait of at most `seconds`; `most` slow ones are borne at a time."""
        now = time.monotonic()
        wait = Wait(connection, now, now + seconds)
        with self._lock:
            self._waits[wait] = most
            if self._looking is None or not self._looking.is_alive():
                self._looking = threading.Thread(target=self._look, name="slow-senders", daemon=True)
                self._looking.start()
        return wait

    def end(self, wait: Wait) -> None:
        """Watch no longer; ending twice is no harm."""
        with self._lock:
            self._waits.pop(wait, None)

    @contextmanager
    def watched(self, connection: socket.socket, seconds: float, most: int) -> Iterator[Wait]:
        """Watch over what the block waits for."""
        wait = self.begin(connection, seconds, most)
        try:
            yield wait
        finally:
            self.end(wait)

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                most = min(self._waits.values(), default=0)
                for wait in too_slow(list(self._waits), time.monotonic(), most):
                    wait.is_ended = True
                    self._waits.pop(wait)
                    with contextlib.suppress(OSError):  # it hung up meanwhile
                        wait.connection.shutdown(socket.SHUT_RD)


slow_senders: Final = SlowSenders()
