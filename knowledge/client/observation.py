"""The Python client of Observation: ask for hints, report what became of them. Nothing of it needs Django.

`Observation` is for programs without an event loop, `AsyncObservation` for those with one; both do the same. (Seed 001
§7, §12.)
"""

import threading
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from knowledge.client.answers import Hints
from knowledge.client.asking import Ask
from knowledge.client.async_observation import REPORT_TIMEOUT, TIMEOUT, AsyncObservation
from knowledge.client.failures import (
    BadAnswer,
    NotSendable,
    ObservationError,
    ObservationRefused,
    ObservationTimeout,
    ObservationUnreachable,
)
from knowledge.client.hint import Hint
from knowledge.client.loop_thread import LoopThread
from knowledge.client.reports import Report

__all__ = [
    "Ask",
    "AsyncObservation",
    "BadAnswer",
    "Hint",
    "Hints",
    "NotSendable",
    "Observation",
    "ObservationError",
    "ObservationRefused",
    "ObservationTimeout",
    "ObservationUnreachable",
    "Report",
]

T = TypeVar("T")


class Observation:
    """The same for programs without an event loop. One object serves several threads; close it, or use `with`."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = TIMEOUT,
        report_timeout: float = REPORT_TIMEOUT,
        strict: bool = False,
    ) -> None:
        """Raises ValueError for an address or a key that cannot be one; later nothing is raised unless `strict`."""

        def make() -> AsyncObservation:
            return AsyncObservation(url, key, timeout=timeout, report_timeout=report_timeout, strict=strict)

        self._make = make
        self._inner = make()
        self._thread = LoopThread()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return repr(self._inner).removeprefix("Async")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections and the thread; a later call starts new ones."""
        if self._thread.is_ours():
            self._thread.run(self._inner.close())
            self._thread.stop()

    def find_hints(self, run: str, **fields: Any) -> Hints:
        """Search once. `fields` are those of Ask: trigger, query, tool, tool_arguments, tool_result, limit …"""
        return self.find(Ask(run, **fields))

    def find(self, ask: Ask) -> Hints:
        """Return the hints of one search. Raises ObservationError if strict."""
        return self._run(lambda inner: inner.find(ask))

    def find_hints_batch(self, asks: Sequence[Ask]) -> tuple[Hints, ...]:
        """Search for all activations of one moment, in order; none is offered what an earlier one is.

        Raises ObservationError if strict.
        """
        return self._run(lambda inner: inner.find_hints_batch(asks))

    def report_injected(self, hint: Hint, *, turn: int | None = None) -> Report:
        """Report that the hint's text stood in a request sent to the model."""
        return self._run(lambda inner: inner.report_injected(hint, turn=turn))

    def report_used(self, hint: Hint, *, evidence: str = "", turn: int | None = None) -> Report:
        """Report that the agent acted on the hint; `evidence` says what shows it."""
        return self._run(lambda inner: inner.report_used(hint, evidence=evidence, turn=turn))

    def report_ignored(self, hint: Hint, *, evidence: str = "", turn: int | None = None) -> Report:
        """Report that the agent did not act on the hint."""
        return self._run(lambda inner: inner.report_ignored(hint, evidence=evidence, turn=turn))

    def report_outcome(
        self, hint: Hint, outcome: str, *, note: str = "", by: str = "agent", turn: int | None = None
    ) -> Report:
        """Report what came of the hint: helpful, harmful or neutral. A later verdict of other words wins.

        Raises ValueError for another word, which is a fault of the program and of no server.
        """
        return self._run(lambda inner: inner.report_outcome(hint, outcome, note=note, by=by, turn=turn))

    def _run(self, call: Callable[[AsyncObservation], Coroutine[Any, Any, T]]) -> T:
        with self._lock:
            if not self._thread.is_ours():
                # Connections belong to the loop they were made in.
                self._inner = self._make()
                self._thread.start()
        return self._thread.run(call(self._inner))
