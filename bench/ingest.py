"""How much telemetry one machine takes in, durably: `python -m bench.ingest [--rows N] [--workers] [--json]`.

Starts the product's own stack on a durable PostgreSQL and sends it agent spans over OTLP and native events over JSON,
everything on: HTTP, keys, redaction, mapping, one commit a request. Counted are rows that another connection sees. In
the same rounds one Python thread shows what is possible at all without HTTP, keys, redaction and checks
(`bench/ingest_limit.py`), so that a ratio says more than a rate of one machine. The load average stands beside each
figure: on a busy machine they are too low.

`--rows` measures on a journal of few rows, grows it and measures again: once with a month of days, once with as many
rows again in today's partition.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from statistics import median
from typing import Any

from bench.ingest_limit import copy_rate, limit_rate
from bench.ingest_rows import fill_days, fill_month
from bench.ingest_stack import BenchStack, running_stack
from bench.loads import Body, event_bodies, span_bodies
from bench.otlp_load import PROTOBUF, today_ns, told
from bench.process_figures import Watch
from bench.sending import Sent, send

CONNECTIONS = 4
LIMIT_SPANS = 20_000
FEW_ROWS = 100_000
Figures = dict[str, Any]


class Loads:
    """Fresh bodies for each round: no two rounds send the same ids."""

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self._seeds: Iterator[int] = count(1)

    def spans(
        self, dialect: str = "openinference", n_items: int = 0, connections: int = CONNECTIONS
    ) -> list[list[Body]]:
        seed = f"spans {next(self._seeds)}"
        return span_bodies(n_items or self.n_items, connections, dialect=dialect, seed=seed, base_ns=today_ns())

    def events(self, *, zipped: bool = False) -> list[list[Body]]:
        seed = f"e{next(self._seeds)}"
        return event_bodies(self.n_items, CONNECTIONS, seed=seed, base_ns=today_ns(), zipped=zipped)


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--spans", type=int, default=50_000, help="spans, and events, of one round")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--rows", type=int, default=0, help="measure only how the rate stands on a journal of so many rows"
    )
    arguments.add_argument("--only", choices=("otlp", "native"), help="leave the other door out")
    arguments.add_argument("--workers", action="store_true", help="fold what arrives meanwhile, as a real stack does")
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given = arguments.parse_args()
    loads = Loads(given.spans)
    report: Figures = {"python": platform.python_version(), "cpus": os.cpu_count(), "workers": given.workers}
    with running_stack(workers=given.workers) as stack:
        warm_up(stack, loads, given.only)
        if given.rows:
            report["rows"] = rows_figures(stack, loads, given.rows, given.rounds, native=given.only == "native")
        else:
            report |= door_figures(stack, loads, given.rounds, given.only)
    print(json.dumps(report) if given.json else tables(report))
    return 0


def warm_up(stack: BenchStack, loads: Loads, only: str | None) -> None:
    """Have every web process load what it needs and open its connections."""
    if only != "native":
        span_round(stack, loads.spans(n_items=5_000))
    if only != "otlp":
        native_round(stack, loads, zipped=False)


def door_figures(stack: BenchStack, loads: Loads, rounds: int, only: str | None) -> Figures:
    figures = {} if only == "native" else spans_figures(stack, loads, rounds)
    if only != "otlp":
        figures["native JSON"] = [native_round(stack, loads, zipped=False) for _ in range(rounds)]
        figures["native JSON, gzip"] = [native_round(stack, loads, zipped=True) for _ in range(rounds)]
    return figures


def spans_figures(stack: BenchStack, loads: Loads, rounds: int) -> Figures:
    """Return the figures of OTLP: full load beside the limit, then half of that load, then the other dialect."""
    full, limits, copies = [], [], []
    for _ in range(rounds):
        limits.append(limit_rate(stack.dsn, loads.spans(n_items=LIMIT_SPANS, connections=1)[0]))
        full.append(span_round(stack, loads.spans()))
        copies.append(copy_rate(stack.dsn, LIMIT_SPANS))
    half = 0.5 * median(one["rate"] for one in full)
    return {
        "OTLP": full,
        "limit": [round(rate) for rate in limits],
        "COPY alone": [round(rate) for rate in copies],
        "OTLP / limit": [round(one["rate"] / limit, 3) for one, limit in zip(full, limits, strict=True)],
        "OTLP, half load": [span_round(stack, loads.spans(), items_a_second=half) for _ in range(rounds)],
        "OTLP, GenAI attributes": [span_round(stack, loads.spans("genai")) for _ in range(rounds)],
    }


def span_round(stack: BenchStack, plan: Sequence[Sequence[Body]], *, items_a_second: float = 0.0) -> Figures:
    return one_round(stack, stack.traces_url(), PROTOBUF, plan, items_a_second)


def native_round(stack: BenchStack, loads: Loads, *, zipped: bool) -> Figures:
    headers = {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if zipped else {})
    return one_round(stack, stack.events_url(), headers, loads.events(zipped=zipped))


def one_round(stack: BenchStack, url: str, headers: dict[str, str], plan: Sequence[Sequence[Body]],
              items_a_second: float = 0.0) -> Figures:  # fmt: skip
    """Send one load and count what the journal holds of it. Raises RuntimeError when that is not all of it."""
    load_average, before = os.getloadavg()[0], stack.count()
    with Watch(stack.roots) as watch:
        sent = send(url, {**stack.headers, **headers}, plan, items_a_second=items_a_second)
    check_all_there(sent, stack.count() - before, plan)
    busy = sum(watch.cpu_seconds.values()) + sent.cpu_seconds
    return told(sent) | {
        "cpu_us_each": round(busy / sent.n_items * 1e6, 1),
        "load_average": round(load_average, 1),
        "cpu_s": watch.cpu_seconds,
        "cpu_s_of_web_processes": watch.cpu_seconds_of_children("web"),
        "web_rss_mib": watch.peak_rss_mib["web"],
        "web_pss_mib": watch.peak_pss_mib["web"],
    }


def check_all_there(sent: Sent, n_rows: int, plan: Sequence[Sequence[Body]]) -> None:
    n_items = sum(body.n_items for bodies in plan for body in bodies)
    if n_rows != n_items or sent.n_items != n_items:
        raise RuntimeError(
            f"sent {n_items}, accepted {sent.n_items}, stored {n_rows}: {dict(sent.answers)} {sent.refusals[:3]}"
        )


def rows_figures(stack: BenchStack, loads: Loads, n_rows: int, rounds: int, *, native: bool) -> Figures:
    """Return rates on a journal of few rows, of a month of many, and with as many again in today's partition."""
    today = datetime.now(UTC).date()

    def rates() -> Figures:
        found = [native_round(stack, loads, zipped=False) if native else span_round(stack, loads.spans())
                 for _ in range(rounds)]  # fmt: skip
        limits = [limit_rate(stack.dsn, loads.spans(n_items=LIMIT_SPANS, connections=1)[0]) for _ in range(rounds)]
        rate, limit = median(one["rate"] for one in found), median(limits)
        return {"rows": stack.count(), "rate": rate, "limit": round(limit), "rounds": found}

    fill_days(stack.dsn, [today], max(0, FEW_ROWS - stack.count()))
    few = rates()
    fill_month(stack.dsn, today, max(0, n_rows - stack.count()))
    month = rates()
    fill_days(stack.dsn, [today], n_rows)
    one_day = rates()
    return {
        "few": few,
        "many, over a month": month | {"ratio": round(month["rate"] / few["rate"], 3)},
        "as many again, all today": one_day | {"ratio": round(one_day["rate"] / few["rate"], 3)},
    }


def tables(report: Figures) -> str:
    """Return the report as text: best and median of the rounds."""
    workers = "with" if report["workers"] else "without"
    lines = [f"Python {report['python']}, {report['cpus']} processors, {workers} the queue's workers"]
    for name, found in report.items():
        if isinstance(found, list) and isinstance(found[0], dict):
            lines += door_lines(name, found)
        elif isinstance(found, list):
            lines.append(f"{name}: median {median(found):,.5g}, best {max(found):,.5g}")
    for name, found in report.get("rows", {}).items():
        ratio = f", ratio to few {found['ratio']:.2f}" if "ratio" in found else ""
        lines.append(
            f"journal of {found['rows']:,} rows ({name}): {found['rate']:,.0f}/s{ratio}; limit {found['limit']:,}/s"
        )
    return "\n".join(lines)


def door_lines(name: str, rounds: Sequence[Figures]) -> Iterator[str]:
    rates = [one["rate"] for one in rounds]
    each = median(one["cpu_us_each"] for one in rounds)
    most = (
        f"{each:.0f} µs of a processor each: at most {(os.cpu_count() or 1) * 1e6 / each:,.0f}/s with all of them free"
    )
    yield f"{name}: median {median(rates):,.0f}/s, best {max(rates):,.0f}/s, lowest {min(rates):,.0f}/s ({most})"
    for one in rounds:
        cpu = ", ".join(f"{part} {seconds:.1f}" for part, seconds in one["cpu_s"].items() if seconds >= 0.1)
        spread = " + ".join(f"{seconds:.1f}" for seconds in one["cpu_s_of_web_processes"])
        yield (
            f"    {one['rate']:>7,.0f}/s  ms {one['latency_ms']}  CPU s: {cpu}, generator {one['generator_cpu_s']:.1f}"
            f" (web processes {spread})  web RSS {one['web_rss_mib']:.0f} PSS {one['web_pss_mib']:.0f} MiB"
            f"  load average {one['load_average']}"
        )


if __name__ == "__main__":
    sys.exit(main())
