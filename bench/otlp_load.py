"""Sends a deterministic load of agent spans to any OTLP/HTTP trace endpoint: `python -m bench.otlp_load --url …`.

Prints what was taken, how fast, and what a request took. With `--dsn` and `--count` it also waits until a table of
the receiver holds as many rows more, so that what counts is what is durable.
"""

import argparse
import json
import sys
import time
from typing import Any

import psycopg

from bench.loads import ATTRIBUTES, Body, span_bodies
from bench.sending import Sent, percentiles, send

PROTOBUF = {"Content-Type": "application/x-protobuf"}
STILL_SECONDS = 20.0  # a count that stands still this long will not grow any more


def today_ns() -> int:
    """Return the start of this day (UTC) in Unix nanoseconds: recent, and the same all day."""
    return int(time.time()) // 86_400 * 86_400 * 10**9


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--url", required=True, help="for example http://127.0.0.1:8000/v1/traces")
    arguments.add_argument("--header", action="append", default=[], metavar="NAME=VALUE")
    arguments.add_argument("--spans", type=int, default=50_000)
    arguments.add_argument("--per-request", type=int, default=512, help="spans of one request")
    arguments.add_argument("--connections", type=int, default=4)
    arguments.add_argument("--dialect", choices=sorted(ATTRIBUTES), default="openinference")
    arguments.add_argument("--seed", default="1", help="the same seed gives the same trace and span ids")
    arguments.add_argument("--rate", type=float, default=0.0, help="spans a second; 0: as fast as they are taken")
    arguments.add_argument("--gzip", action="store_true")
    arguments.add_argument("--dsn", help="database of the receiver, with --count")
    arguments.add_argument("--count", help="a SELECT count(*) of the stored spans")
    given = arguments.parse_args()
    plan = span_bodies(
        given.spans, given.connections, per_request=given.per_request, dialect=given.dialect, seed=given.seed,
        base_ns=today_ns(), zipped=given.gzip,
    )  # fmt: skip
    headers = PROTOBUF | ({"Content-Encoding": "gzip"} if given.gzip else {})
    headers |= dict(pair.split("=", 1) for pair in given.header)
    if given.dsn and given.count:
        report = send_counted(given.url, headers, plan, given.dsn, given.count)
    else:
        report = told(send(given.url, headers, plan, items_a_second=given.rate))
    print(json.dumps(report))
    return 0 if not report["lost"] else 1


def told(sent: Sent) -> dict[str, Any]:
    """Return what was sent as figures: a second, milliseconds of requests, seconds of the sender's processor time."""
    return {
        "accepted": sent.n_items,
        "lost": sent.n_lost,
        "seconds": round(sent.seconds, 3),
        "rate": round(sent.rate),
        "latency_ms": percentiles(sent.latencies),
        "due_to_answer_ms": percentiles(sent.waits),
        "answers": dict(sent.answers),
        "refusals": sent.refusals[:3],
        "generator_cpu_s": round(sent.cpu_seconds, 2),
    }


def send_counted(url: str, headers: dict[str, str], plan: list[list[Body]], dsn: str, count: str) -> dict[str, Any]:
    """Send, then wait until the receiver's table grew by what was accepted; the rate is of rows that are there."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def rows() -> int:
            found = connection.execute(count.encode()).fetchone()
            return int(found[0]) if found else 0

        before, begin = rows(), time.perf_counter()
        sent = send(url, headers, plan)
        n_rows, last_change = rows() - before, time.perf_counter()
        while n_rows < sent.n_items and time.perf_counter() - last_change < STILL_SECONDS:
            time.sleep(0.1)
            n_now = rows() - before
            if n_now != n_rows:
                n_rows, last_change = n_now, time.perf_counter()
        seconds = last_change - begin if n_rows else sent.seconds
    return told(sent) | {"rows": n_rows, "durable_seconds": round(seconds, 3), "durable_rate": round(n_rows / seconds)}


if __name__ == "__main__":
    sys.exit(main())
