"""A sender that behaves as an OTLP exporter does: it keeps a batch until it is acknowledged, and notes every answer."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

NATIVE: Final = "/v1/events"
TRACES: Final = "/v1/traces"
PAYLOAD: Final = "t" * 500
START_NS: Final = 1_796_000_000_000_000_000
EVENTS: Final = 20  # of one batch
BATCHES_OF_A_RUN: Final = 4
TIMEOUT: Final = 2.0  # seconds until an answer is given up as unknown
LONGEST_PAUSE: Final = 0.5  # seconds; a Retry-After is noted and cut to this, to keep the load up
RETRY: Final = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery: its status, or None when no answer came and nobody knows what became of it."""

    status: int | None
    retry_after: str | None = None
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """Events that belong together, as sent at one door, and what became of each delivery."""

    path: str
    run_id: str
    event_ids: tuple[str, ...]
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def is_acknowledged(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].status == 200

    def body(self) -> dict[str, Any]:
        if self.path == TRACES:
            spans = [self._span(name) for name in self.event_ids]
            return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        fields = {"run_id": self.run_id, "type": "thinking", "occurred_at": "2026-11-30T03:00:00Z"}
        return {"events": [{"event_id": name, "data": {"text": PAYLOAD}, **fields} for name in self.event_ids]}

    def _span(self, span_id: str) -> dict[str, Any]:
        payload = [{"key": "input.value", "value": {"stringValue": PAYLOAD}}]
        times = {"startTimeUnixNano": str(START_NS), "endTimeUnixNano": str(START_NS + 1000)}
        return {"traceId": self.run_id, "spanId": span_id, "name": "chaos", **times, "attributes": payload}


def ids_of(path: str, run: str, number: int) -> tuple[str, tuple[str, ...]]:
    """Return a run's id and the ids of its batch `number`, as the door wants them."""
    places = range(number * EVENTS, (number + 1) * EVENTS)
    if path == TRACES:
        return run, tuple(f"{place + 1:016x}" for place in places)
    return f"chaos-{run}", tuple(f"chaos-{run}:{place}" for place in places)


class Sender:
    """One exporter in a thread of its own. `batches` are those it began; the last may wait for its answer."""

    def __init__(self, base_url: str, api_key: str, path: str) -> None:
        self.path = path
        self.batches: list[Batch] = []
        self.broken: BaseException | None = None
        self._client = httpx.Client(base_url=base_url, headers={"Authorization": f"Bearer {api_key}"}, timeout=TIMEOUT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let it go on until its last batch is acknowledged, so long as that takes under a minute."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the last batch was never acknowledged"
        self._client.close()
        if self.broken is not None:
            raise self.broken

    @property
    def n_acknowledged(self) -> int:
        return sum(batch.is_acknowledged for batch in list(self.batches))

    def _work(self) -> None:
        try:
            run, number = "", 0
            while not self._stop.is_set():
                if number % BATCHES_OF_A_RUN == 0:
                    run = uuid.uuid4().hex
                self.batches.append(Batch(self.path, *ids_of(self.path, run, number)))
                number += 1
                self._deliver(self.batches[-1])
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits for this thread
            self.broken = error

    def _deliver(self, batch: Batch) -> None:
        while not batch.is_acknowledged:
            attempt = self._try(batch)
            batch.attempts.append(attempt)
            if attempt.status not in (None, 200, *RETRY):
                raise AssertionError(f"an exporter drops its batch at {attempt.status}: {attempt.body}")
            if attempt.status != 200:
                time.sleep(min(LONGEST_PAUSE, 0.05 * 2 ** min(len(batch.attempts), 5)))

    def _try(self, batch: Batch) -> Attempt:
        try:
            answer = self._client.post(batch.path, json=batch.body())
        except httpx.TransportError:
            return Attempt(None)
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        body = answer.json() if is_json else {"text": answer.text[:200]}
        return Attempt(answer.status_code, answer.headers.get("Retry-After"), body)


@dataclass(frozen=True, slots=True)
class Load:
    """Several senders at once, and what all of them have seen."""

    senders: tuple[Sender, ...]

    @property
    def batches(self) -> list[Batch]:
        return [batch for sender in self.senders for batch in list(sender.batches)]

    def answers(self, status: int | None) -> list[Attempt]:
        return [attempt for batch in self.batches for attempt in list(batch.attempts) if attempt.status == status]

    def await_progress(self, seconds: float = 40.0, batches: int = 3) -> None:
        """Wait until each sender had `batches` more acknowledged."""
        wanted = [sender.n_acknowledged + batches for sender in self.senders]
        deadline = time.monotonic() + seconds
        while any(sender.n_acknowledged < number for sender, number in zip(self.senders, wanted, strict=True)):
            assert time.monotonic() < deadline, "the senders do not get on"
            assert all(sender.broken is None for sender in self.senders), [sender.broken for sender in self.senders]
            time.sleep(0.05)


@contextmanager
def load(base_url: str, api_key: str, n_senders: int = 4) -> Iterator[Load]:
    """Have `n_senders` send, every second one OTLP, until the end of the block and what they began is acknowledged."""
    doors = (NATIVE, TRACES)
    running = Load(tuple(Sender(base_url, api_key, doors[number % 2]) for number in range(n_senders)))
    try:
        running.await_progress()
        yield running
    finally:
        for sender in running.senders:
            sender.stop()
