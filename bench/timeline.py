"""Measures the timeline of long runs: `python -m bench.timeline --events 5000 50000 [--browser]`.

Each size is one run that ended, stored by the write path and folded, in a PostgreSQL of its own. The pages are asked
for in this process by Django's client, so a time is that of the server with its queries, without the network. `work` is
processor time, which tells the same on a busy machine.
`--browser` opens the same pages in Chromium over HTTP.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import django

from bench.process_figures import tree
from debugger.embedded.scratch import scratch_postgres

ROUNDS = 5
BATCH = 500  # events of one request
LOW, HIGH = 2_000, 20_000  # characters of a payload

Figures = dict[str, Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--events", type=int, nargs="+", default=[5_000, 50_000])
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="requests of each page, after one to warm up")
    arguments.add_argument("--browser", action="store_true", help="also open the pages in Chromium")
    arguments.add_argument("--json", action="store_true", help="print one JSON object a size instead of text")
    given = arguments.parse_args()
    if len(given.events) > 1:
        return _each_in_its_own_process(given)
    with scratch_postgres() as address:
        os.environ |= {"DATABASE_URL": address, "ALLOWED_HOSTS": "127.0.0.1,testserver", "TEMPORALITY_ENV": "local"}
        os.environ |= {"INGEST_EVENTS_PER_MINUTE": "0", "DJANGO_SETTINGS_MODULE": "debugger.settings"}
        django.setup()
        logging.disable(logging.WARNING)
        try:
            report = measured(given.events[0], given.rounds, in_browser=given.browser)
        finally:
            from django.db import connections  # noqa: PLC0415 - Django is set up by then

            connections.close_all()
    print(json.dumps(report) if given.json else "\n".join(lines(report)), flush=True)
    return 0


def _each_in_its_own_process(given: argparse.Namespace) -> int:
    """Measure each size in a process that knows no other."""
    options = ["--rounds", str(given.rounds)]
    options += [f"--{name}" for name in ("browser", "json") if getattr(given, name)]
    for size in given.events:
        done = subprocess.run([sys.executable, "-m", "bench.timeline", "--events", str(size), *options])
        if done.returncode:
            return done.returncode
    return 0


def measured(n_events: int, rounds: int, *, in_browser: bool) -> Figures:
    """Load a run and return what its pages cost."""
    from django.test import Client  # noqa: PLC0415 - needs the settings

    project, person, report = loaded(n_events)
    client = Client()
    client.force_login(person)
    report["pages"] = {name: asked(client, address, rounds) for name, address in addresses(project, n_events)}
    if in_browser:
        from bench.timeline_browser import browsed  # noqa: PLC0415 - Playwright only where it is wanted

        report["browser"] = browsed(person, f"/{project.slug}/runs/long/")
    return report


def loaded(n_events: int) -> tuple[Any, Any, Figures]:
    """Store and fold the run; return its project, a member of it, and what that took in seconds."""
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import transaction  # noqa: PLC0415

    from bench.timeline_rows import long_run  # noqa: PLC0415 - needs the settings
    from ingest.accept import accept_events  # noqa: PLC0415
    from ingest.journal import ensure_partitions  # noqa: PLC0415
    from knowledge.tasks import fold_runs  # noqa: PLC0415
    from tests.factories import START, make_person, make_project  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    with transaction.atomic():
        ensure_partitions([START.date()])
    project = make_project("bench")
    person = make_person("bench", project)
    begun = time.perf_counter()
    events = long_run("long", n_events, LOW, HIGH)
    while batch := list(islice(events, BATCH)):
        accept_events(project.pk, batch)
    stored = time.perf_counter()
    fold_runs(project.pk, ["long"])
    folded = time.perf_counter()
    report = {"events": n_events, "load_s": round(stored - begun, 1), "fold_s": round(folded - stored, 1)}
    return project, person, report | finished(project.pk)


def finished(project_id: int) -> Figures:
    """Do what the queue's worker does after a fold; return what it took."""
    from debugger.tasks import store_timeline  # noqa: PLC0415 - needs the settings

    begun = time.perf_counter()
    if not store_timeline(project_id, "long"):
        raise RuntimeError("the timeline was not stored")
    return {"store_s": round(time.perf_counter() - begun, 1)}


def addresses(project: Any, n_events: int) -> Iterator[tuple[str, str]]:
    """Yield the name and address of each page that is measured."""
    from knowledge.models import Activation  # noqa: PLC0415 - needs the settings

    run = f"/{project.slug}/runs/long/"
    rows = f"{run}rows/"
    middle, last = n_events // 6, n_events
    activations = Activation.objects.filter(project_id=project.pk, run_id="long").order_by("ordinal")
    chosen = activations[activations.count() // 2]
    yield "page", run
    yield "page at an event", f"{run}?event=long:{n_events // 2}"
    yield "window, first", rows
    yield "window, middle", f"{rows}?from={middle}"
    yield "window, last", f"{rows}?from={last}"
    yield "window, failed", f"{rows}?show=failed"
    yield "window, activations", f"{rows}?show=activations"
    yield "window, text", f"{rows}?q=step+{n_events // 50 // 12 * 12}"
    yield "why panel", f"{run}activations/{chosen.activation_id}/"
    yield "event panel", f"{run}events/long:{n_events // 2}/"


def asked(client: Any, address: str, rounds: int) -> Figures:
    """Return the median time of a page, its bytes, its rows and its queries."""
    from django.db import connection  # noqa: PLC0415 - needs the settings
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    headers = {"HX-Request": "true"}
    page: Callable[[], Any] = lambda: client.get(address, headers=headers)  # noqa: E731
    with CaptureQueriesContext(connection) as queries:
        response = page()
        n_queries = len(queries)
    if response.status_code != 200:  # noqa: PLR2004
        raise RuntimeError(f"{address} answered {response.status_code}")
    times = []
    worked = _work()
    for _ in range(rounds):
        begun = time.perf_counter()
        response = page()
        times.append((time.perf_counter() - begun) * 1000)
    body = response.content
    return {
        "ms": round(statistics.median(times), 1), "worst_ms": round(max(times), 1),
        "work_ms": round((_work() - worked) * 1000 / rounds, 1), "bytes": len(body),
        "rows": body.count(b'class="row"'), "queries": n_queries,
    }  # fmt: skip


def _work() -> float:
    """Return the processor seconds of this process and of its connection's server process, in steps of 10 ms."""
    from django.db import connection  # noqa: PLC0415 - needs the settings

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    return time.process_time() + tree(pid, memory=False).cpu_seconds


def lines(report: Figures) -> Iterator[str]:
    """Return the report as text."""
    told = ", ".join(f"{name} {value}" for name, value in report.items() if not isinstance(value, dict))
    yield f"{told}; {os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}"
    for name, page in report["pages"].items():
        yield (
            f"  {name:<22} {page['ms']:>9,.1f} ms (worst {page['worst_ms']:,.1f}, work {page['work_ms']:,.1f})"
            f" {page['bytes']:>9,} bytes"
            f" {page['rows']:>4} rows {page['queries']:>3} queries"
        )
    for name, value in report.get("browser", {}).items():
        yield f"  {name:<22} {value:>9,}"


if __name__ == "__main__":
    raise SystemExit(main())
