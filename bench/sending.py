"""Sends prebuilt bodies over N connections from threads of one process, and keeps what each request took.

Light on purpose, so that the server is what is measured: no client library, one connection a thread, no decoding of
answers. A request that is refused for now (429, 502, 503, 504) or breaks off is sent again after Retry-After, as an
exporter does; its latency counts each try by itself.
"""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.loads import Body

RETRIED = (429, 502, 503, 504)
MOST_TRIES = 20
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0


@dataclass(slots=True)
class Sent:
    """What became of a load: items of requests answered with a 2xx, seconds from first to last, each request's time.

    `waits` are the seconds from when a paced request was due to its answer. `cpu_seconds` is what sending itself took.
    """

    n_items: int = 0
    n_lost: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Items a second."""
        return self.n_items / self.seconds if self.seconds else 0.0

    def add(self, other: "Sent") -> None:
        self.n_items += other.n_items
        self.n_lost += other.n_lost
        self.answers += other.answers
        self.latencies += other.latencies
        self.waits += other.waits
        self.refusals += other.refusals


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return milliseconds of p50, p95, p99 and the largest of `values`, which are seconds."""
    ordered = sorted(values)
    if not ordered:
        return {}
    places = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {
        name: round(ordered[min(int(part * len(ordered)), len(ordered) - 1)] * 1e3, 1) for name, part in places.items()
    }


def send(url: str, headers: Mapping[str, str], plan: Sequence[Sequence[Body]], *, items_a_second: float = 0.0) -> Sent:
    """Send each connection's bodies in order, all connections at once.

    `items_a_second` over 0 paces them together, one connection after the other: exporters do not share a clock.
    """
    whole = Sent()
    ready = threading.Barrier(len(plan) + 1)
    rate = items_a_second / len(plan)
    clients = [_Client(url, headers, bodies, ready, rate, n / len(plan)) for n, bodies in enumerate(plan)]
    threads = [threading.Thread(target=client.run, name=f"connection-{n}") for n, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    busy = time.process_time()
    ready.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    whole.seconds = time.perf_counter() - begin
    whole.cpu_seconds = time.process_time() - busy
    for client in clients:
        whole.add(client.sent)
    return whole


class _Client:
    """One connection, which sends one request after the other."""

    def __init__(self, url: str, headers: Mapping[str, str], bodies: Sequence[Body], ready: threading.Barrier,
                 items_a_second: float, phase: float) -> None:  # fmt: skip
        self.sent = Sent()
        parts = urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=120)
        self._headers = dict(headers)
        self._bodies = bodies
        self._ready = ready
        self._rate = items_a_second
        self._phase = phase  # how far into the time of its first body a paced connection begins

    def run(self) -> None:
        self._ready.wait()
        first = self._bodies[0].n_items if self._bodies else 0
        begin = time.perf_counter() + (self._phase * first / self._rate if self._rate else 0.0)
        n_before = 0
        for body in self._bodies:
            due = begin + n_before / self._rate if self._rate else time.perf_counter()
            time.sleep(max(0.0, due - time.perf_counter()))
            self._deliver(body)
            self.sent.waits.append(time.perf_counter() - due)
            n_before += body.n_items
        self._connection.close()

    def _deliver(self, body: Body) -> None:
        """Send one body until it is taken, refused for good, or tried too often."""
        wait = FIRST_WAIT_SECONDS
        for _ in range(MOST_TRIES):
            begin = time.perf_counter()
            status, told, text = self._post(body)
            self.sent.answers[str(status)] += 1
            if 200 <= status < 300:
                self.sent.latencies.append(time.perf_counter() - begin)
                self.sent.n_items += body.n_items
                return
            if len(self.sent.refusals) < 3:
                self.sent.refusals.append(f"{status} {text}")
            if status and status not in RETRIED:
                break
            time.sleep(float(told) if told.isdigit() else wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        self.sent.n_lost += body.n_items

    def _post(self, body: Body) -> tuple[int, str, str]:
        """Return (status, Retry-After, start of a refusal's text); status 0 when the connection broke."""
        try:
            self._connection.request("POST", self._path, body.content, self._headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return 0, "", type(error).__name__
        shown = "" if answer.status < 300 else text[:300].decode(errors="replace")
        return answer.status, answer.getheader("Retry-After") or "", shown
