"""Bounds a look at a service: the caller waits so long and no longer, however dead the service is."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class TooSlow(Exception):
    """The service did not answer within the bound."""


class Bounded:
    """Runs one look after the other, each in a thread of its own: a service that hangs costs one thread, not many."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def run(self, look: Callable[[], T], seconds: float) -> T:
        """Return what `look` returns or raise what it raises. Raises TooSlow when it takes longer than `seconds`."""
        if not self._busy.acquire(timeout=seconds):
            raise TooSlow
        answer: Future[T] = Future()
        threading.Thread(target=self._work, args=(look, answer), daemon=True).start()
        try:
            return answer.result(timeout=seconds)
        except TimeoutError:
            if answer.done():  # the look itself ran into a time limit
                raise
            raise TooSlow from None

    def _work(self, look: Callable[[], T], answer: Future[T]) -> None:
        try:
            answer.set_result(look())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            answer.set_exception(error)
        finally:
            self._busy.release()
