"""How long after its commit an event is in the chains: `python -m bench.lag [--rate N] [--seconds N] [--json]`.

Starts the product's whole stack, its queue's worker and clock included, and sends native events at a steady rate: once
over many runs that live side by side, once into a single run that grows to 20,000 events. An event's lag lasts from the
answer to its request, which means committed, until its run's `folded_arrival` has reached it, as another connection
sees it, looked at every 20 ms.
"""

import argparse
import http.client
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psycopg

from bench.ingest_stack import BenchStack, running_stack
from bench.loads import Words, native_event
from bench.otlp_load import today_ns
from bench.sending import percentiles

LOOK_SECONDS = 0.02
MOST_WAIT_SECONDS = 120.0
REQUESTS_A_SECOND = 20
RUNS_AT_ONCE = 40
EVENTS_A_RUN = 100
ONE_RUN_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class Committed:
    """One run's part of a request: its events up to `arrival` were committed at `at` (monotonic seconds)."""

    run_id: str
    arrival: int
    n_events: int
    at: float


@dataclass(slots=True)
class Lags:
    """What is waited for, and the lag of each event that was seen folded."""

    waiting: deque[Committed] = field(default_factory=deque)
    seconds: list[float] = field(default_factory=list)
    sending: bool = True


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rate", type=int, default=1_000, help="events a second")
    arguments.add_argument("--seconds", type=int, default=20, help="how long the load over many runs lasts")
    arguments.add_argument(
        "--one-run", type=int, default=ONE_RUN_EVENTS, help="events of the single run; 0 leaves it out"
    )
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    given = arguments.parse_args()
    report: dict[str, Any] = {}
    with running_stack(workers=True) as stack:
        measure(stack, "warm", given.rate, RUNS_AT_ONCE, given.rate * 3)
        name = f"{given.rate:,} events/s over many runs"
        report[name] = measure(stack, "many", given.rate, RUNS_AT_ONCE, given.rate * given.seconds)
        if given.one_run:
            name = f"{given.rate:,} events/s into one run of {given.one_run:,}"
            report[name] = measure(stack, "one", given.rate, 1, given.one_run)
    print(json.dumps(report) if given.json else "\n".join(f"{name}: {figures}" for name, figures in report.items()))
    return 0


def measure(stack: BenchStack, prefix: str, rate: int, n_runs: int, n_events: int) -> dict[str, Any]:
    """Send `n_events` at `rate`, `n_runs` alive at once, and return the lag of each in milliseconds, and what else."""
    lags, load_average = Lags(), os.getloadavg()[0]
    watcher = threading.Thread(target=watch, args=(stack, lags), name="watcher")
    watcher.start()
    begin = time.monotonic()
    late = deliver(stack, lags, requests(prefix, rate, n_runs, n_events))
    seconds = time.monotonic() - begin
    lags.sending = False
    watcher.join()
    return {
        "lag_ms": percentiles(lags.seconds),
        "events": len(lags.seconds),
        "never_folded": n_events - len(lags.seconds),
        "rate_sent": round(n_events / seconds),
        "longest_late_s": round(late, 2),
        "load_average": round(load_average, 1),
    }


def requests(prefix: str, rate: int, n_runs: int, n_events: int) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """Yield (seconds after the start at which it is due, its events) of each request."""
    words, base_ns, size = Words(Random(prefix)), today_ns(), max(1, rate // REQUESTS_A_SECOND)
    numbers = range(n_events)
    for first in numbers[::size]:
        yield first / rate, [_event(prefix, number, n_runs, words, base_ns) for number in numbers[first : first + size]]


def _event(prefix: str, number: int, n_runs: int, words: Words, base_ns: int) -> dict[str, Any]:
    """Runs take turns event by event; a slot's run is followed by a new one when it has its events."""
    place, slot = divmod(number, n_runs)
    generation, place = (0, place) if n_runs == 1 else divmod(place, EVENTS_A_RUN)
    return native_event(f"{prefix}-{slot}-{generation}", place, words, base_ns)


def deliver(stack: BenchStack, lags: Lags, plan: Iterator[tuple[float, list[dict[str, Any]]]]) -> float:
    """Send each request when it is due; return by how many seconds the latest one was behind."""
    connection = http.client.HTTPConnection(urlsplit(stack.base_url).netloc, timeout=60)
    headers = {**stack.headers, "Content-Type": "application/json"}
    sent: dict[str, int] = {}
    begin, late = time.monotonic(), 0.0
    for due, events in plan:
        time.sleep(max(0.0, begin + due - time.monotonic()))
        late = max(late, time.monotonic() - begin - due)
        connection.request("POST", "/v1/events", json.dumps({"events": events}).encode(), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {text[:300].decode(errors='replace')}")
        at = time.monotonic()
        added: dict[str, int] = {}
        for event in events:
            added[event["run_id"]] = added.get(event["run_id"], 0) + 1
        for run_id, n_events in added.items():
            sent[run_id] = sent.get(run_id, 0) + n_events
            lags.waiting.append(Committed(run_id, sent[run_id], n_events, at))
    connection.close()
    return late


def watch(stack: BenchStack, lags: Lags) -> None:
    """Note the lag of what was folded until nothing is waited for any more, or for too long."""
    pending: list[Committed] = []
    with psycopg.connect(stack.dsn, autocommit=True) as connection:
        while lags.sending or lags.waiting or pending:
            time.sleep(LOOK_SECONDS)
            while lags.waiting:
                pending.append(lags.waiting.popleft())
            if not pending:
                continue
            rows = connection.execute(
                "SELECT run_id, folded_arrival FROM ingest_run WHERE project_id = %s AND run_id = ANY(%s)",
                [stack.project_id, list({item.run_id for item in pending})],
            ).fetchall()
            now, folded = time.monotonic(), dict(rows)
            lags.seconds += [
                now - item.at for item in pending if folded[item.run_id] >= item.arrival for _ in range(item.n_events)
            ]
            pending = [item for item in pending if folded[item.run_id] < item.arrival]
            if pending and now - pending[0].at > MOST_WAIT_SECONDS:
                return


if __name__ == "__main__":
    sys.exit(main())
