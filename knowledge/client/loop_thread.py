"""Runs coroutines for callers that have no event loop: one daemon thread with one loop.

The thread ends with its owner or with the process. A forked child has no threads of its parent's, and starts its own.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """One loop in one thread. `run` may be called from several threads at once."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def is_ours(self) -> bool:
        """Say whether the loop was started in this process and runs."""
        return self._loop is not None and self._pid == os.getpid()

    def start(self) -> None:
        """Start the thread. Not to be called while it runs."""
        self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
        threading.Thread(target=_serve, args=(self._loop,), name="observation-client", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns. What interrupts the caller cancels it."""
        assert self._loop is not None, "start it first"
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread; it may be started again."""
        loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
