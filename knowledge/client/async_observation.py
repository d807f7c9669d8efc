"""Asks Observation for hints and reports what became of them, from an event loop. Best effort unless told to be strict.

No failure of a search or of a report is raised into an agent: it is a result with a short reason. (Seed 001 §7, §12.)
"""

import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import anyio
import httpx

from contract.hint_api import RUN_PART
from knowledge.client.answers import Hints, failed_hints, json_object, parse_hints
from knowledge.client.asking import BATCH, FIRST, Ask, ask_to_json, body_of
from knowledge.client.exchange import Answer, Exchange
from knowledge.client.failures import (
    BadAnswer,
    NotSendable,
    ObservationError,
    ObservationUnreachable,
)
from knowledge.client.hint import Hint
from knowledge.client.reports import (
    EVENTS,
    Report,
    check_stored,
    events_body,
    failed_report,
    hint_event,
    outcome_data,
)

logger = logging.getLogger(__name__)

TIMEOUT: Final = 2.0  # seconds of a search
REPORT_TIMEOUT: Final = 10.0  # seconds of a report with its attempts
REPORT_ATTEMPTS: Final = 3
PAUSE: Final = 0.3  # seconds between attempts, when the server names none
AGAIN: Final = (502, 504)  # statuses of a search that is asked once more; 503 when it says when
LATER: Final = (408, 429, 500, 502, 503, 504)  # statuses of a report that is sent again
KEPT_TIMES: Final = 1_024  # reports whose time is remembered, so that the same report stays the same event


class AsyncObservation:
    """Speaks to one Observation with one project's key, from one event loop. Use it as an async context manager."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = TIMEOUT,
        report_timeout: float = REPORT_TIMEOUT,
        strict: bool = False,
        connections: httpx.AsyncClient | None = None,
    ) -> None:
        """Raises ValueError for an address or a key that cannot be one; later nothing is raised unless `strict`.

        `connections` of exchange.open_connections are shared by several clients, and closed by whoever opened them.
        """
        self._exchange = Exchange(url, key, connections)
        self._timeout = timeout
        self._report_timeout = report_timeout
        self._strict = strict
        self._times: OrderedDict[str, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._exchange.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._exchange.close()

    async def find_hints(self, run: str, **fields: Any) -> Hints:
        """Search once. `fields` are those of Ask: trigger, query, tool, tool_arguments, tool_result, limit …"""
        return await self.find(Ask(run, **fields))

    async def find(self, ask: Ask) -> Hints:
        """Return the hints of one search. Raises ObservationError if strict."""
        activation_id = _activation_id(ask)
        try:
            body = _body(lambda: ask_to_json(ask, activation_id))
            answer = await self._ask(FIRST, body)
            return parse_hints(ask, activation_id, json_object(answer.content))
        except ObservationError as error:
            return self._failed([ask], [activation_id], error)[0]

    async def find_hints_batch(self, asks: Sequence[Ask]) -> tuple[Hints, ...]:
        """Search for all activations of one moment, in order; none is offered what an earlier one is.

        Raises ObservationError if strict.
        """
        if not asks:
            return ()
        ids = [_activation_id(ask) for ask in asks]
        try:
            pairs = list(zip(asks, ids, strict=True))
            body = _body(lambda: {"requests": [ask_to_json(ask, one) for ask, one in pairs]})
            answers = json_object((await self._ask(BATCH, body)).content).get("answers")
            if not isinstance(answers, list) or len(answers) != len(asks):
                raise BadAnswer(f"the answer must have {len(asks)} answers")
            return tuple(parse_hints(ask, one, said) for (ask, one), said in zip(pairs, answers, strict=True))
        except ObservationError as error:
            return self._failed(asks, ids, error)

    async def report_injected(self, hint: Hint, *, turn: int | None = None) -> Report:
        """Report that the hint's text stood in a request sent to the model."""
        return await self.send([hint_event(hint, "hint.delivery", {"stage": "injected"}, turn)])

    async def report_used(self, hint: Hint, *, evidence: str = "", turn: int | None = None) -> Report:
        """Report that the agent acted on the hint; `evidence` says what shows it."""
        return await self.send([hint_event(hint, "hint.used", _said(evidence), turn)])

    async def report_ignored(self, hint: Hint, *, evidence: str = "", turn: int | None = None) -> Report:
        """Report that the agent did not act on the hint."""
        return await self.send([hint_event(hint, "hint.ignored", _said(evidence), turn)])

    async def report_outcome(
        self, hint: Hint, outcome: str, *, note: str = "", by: str = "agent", turn: int | None = None
    ) -> Report:
        """Report what came of the hint: helpful, harmful or neutral. A later verdict of other words wins.

        Raises ValueError for another word, which is a fault of the program and of no server.
        """
        return await self.send([hint_event(hint, "hint.outcome", outcome_data(outcome, note, by), turn)])

    async def send(self, events: Sequence[Mapping[str, Any]]) -> Report:
        """Send events (each without its time, as reports.hint_event makes them). Raises ObservationError if strict."""
        try:
            body = events_body([{**event, "occurred_at": self._time_of(event)} for event in events])
            await self._deliver(body)
        except ObservationError as error:
            if self._strict:
                raise
            logger.warning("a report about hints was not stored: %s", error)
            return failed_report(error)
        return Report("stored")

    async def _ask(self, path: str, body: bytes) -> Answer:
        """Return a 200, asked for at most twice within the time of a search. Raises ObservationError."""
        deadline = time.monotonic() + self._timeout
        try:
            answer = await self._exchange.post(path, body, self._timeout)
            if answer.status == 200:
                return answer
            refusal = self._exchange.refusal(answer)
            pause = refusal.retry_after if refusal.retry_after is not None else PAUSE
            again = answer.status in AGAIN or (answer.status == 503 and refusal.retry_after is not None)
            if not again or time.monotonic() + pause >= deadline:
                raise refusal
            await anyio.sleep(pause)
        except ObservationUnreachable:
            if time.monotonic() >= deadline:
                raise
        # The activation has its id, so the server answers the second time what it answered the first.
        answer = await self._exchange.post(path, body, deadline - time.monotonic())
        if answer.status != 200:
            raise self._exchange.refusal(answer)
        return answer

    async def _deliver(self, body: bytes) -> None:
        """Send events until they are stored, within the attempts and the time of a report. Raises ObservationError."""
        deadline = time.monotonic() + self._report_timeout
        for attempt in range(1, REPORT_ATTEMPTS + 1):
            try:
                answer = await self._exchange.post(EVENTS, body, deadline - time.monotonic())
                if answer.status in (200, 207):
                    check_stored(answer.content)
                    return
                failure: ObservationError = self._exchange.refusal(answer)
                if answer.status not in LATER:
                    raise failure
            except ObservationUnreachable as error:
                failure = error
            pause = failure.retry_after if failure.retry_after is not None else PAUSE * attempt
            if attempt == REPORT_ATTEMPTS or time.monotonic() + pause >= deadline:
                raise failure
            await anyio.sleep(pause)

    def _failed(self, asks: Sequence[Ask], ids: Sequence[str], error: ObservationError) -> tuple[Hints, ...]:
        if self._strict:
            raise error
        logger.warning("no hints: %s: %s", error.result, error)
        return tuple(failed_hints(ask, one, error) for ask, one in zip(asks, ids, strict=True))

    def _time_of(self, event: Mapping[str, Any]) -> str:
        """Return when a report was first made: sent again it must be the same event."""
        name = str((event.get("run_id"), event.get("event_id")))
        now = str(event.get("occurred_at") or datetime.now(UTC).isoformat())
        told = self._times.setdefault(name, now)
        while len(self._times) > KEPT_TIMES:
            self._times.popitem(last=False)
        return told


def _activation_id(ask: Ask) -> str:
    return ask.activation_id or f"{str(ask.run)[:RUN_PART]}:{uuid.uuid4()}"


def _said(evidence: str) -> dict[str, Any]:
    return {"evidence": evidence} if evidence else {}


def _body(make: Callable[[], Mapping[str, Any]]) -> bytes:
    """Return the body of what `make` returns. Raises NotSendable, also for fields of another type than asked."""
    try:
        value = make()
    except (TypeError, ValueError, AttributeError) as error:
        problem = f"a field of the search is of another type than asked ({type(error).__name__})"
    else:
        return body_of(value)
    raise NotSendable(problem)
