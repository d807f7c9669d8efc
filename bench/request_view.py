"""Measures the view of model requests and the comparison of runs: `python -m bench.request_view --events 5000 50000`.

Each size is two runs of `bench.request_rows`, stored by the write path and folded, in a PostgreSQL of its own. Pages
are asked for in this process by Django's client, as `bench.timeline` does, whose figures these stand beside.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import django

from bench.timeline import BATCH, HIGH, LOW, ROUNDS, Figures, asked, lines
from debugger.embedded.scratch import scratch_postgres

RUNS = ("long", "other")


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--events", type=int, nargs="+", default=[5_000, 50_000])
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="requests of each page, after one to warm up")
    arguments.add_argument("--characters", type=int, nargs=2, default=[LOW, HIGH], help="of a payload, from and to")
    arguments.add_argument("--runs", type=int, choices=(1, 2), default=2, help="1: without the comparison")
    arguments.add_argument("--json", action="store_true", help="print one JSON object a size instead of text")
    given = arguments.parse_args()
    if len(given.events) > 1:
        options = [
            "--rounds",
            str(given.rounds),
            "--runs",
            str(given.runs),
            "--characters",
            *map(str, given.characters),
        ]
        options += ["--json"] if given.json else []
        commands = ([sys.executable, "-m", "bench.request_view", "--events", str(n), *options] for n in given.events)
        return max(subprocess.run(command).returncode for command in commands)
    with scratch_postgres() as address:
        os.environ |= {"DATABASE_URL": address, "ALLOWED_HOSTS": "127.0.0.1,testserver", "TEMPORALITY_ENV": "local"}
        os.environ |= {"INGEST_EVENTS_PER_MINUTE": "0", "DJANGO_SETTINGS_MODULE": "debugger.settings"}
        django.setup()
        logging.disable(logging.WARNING)
        try:
            report = measured(given)
        finally:
            from django.db import connections  # noqa: PLC0415 - Django is set up by then

            connections.close_all()
    print(json.dumps(report) if given.json else "\n".join(lines(report)), flush=True)
    return 0


def measured(given: argparse.Namespace) -> Figures:
    """Load the runs and return what their pages cost."""
    from django.test import Client  # noqa: PLC0415 - needs the settings

    project, person, report = loaded(given.events[0], RUNS[: given.runs], *given.characters)
    client = Client()
    client.force_login(person)
    report["pages"] = {name: asked(client, address, given.rounds) for name, address in addresses(project, given.runs)}
    return report


def loaded(n_events: int, run_ids: Sequence[str], low: int, high: int) -> tuple[Any, Any, Figures]:
    """Store and fold the runs and make their timelines; return the project, a member of it, and what that took."""
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import connection, transaction  # noqa: PLC0415

    from bench.request_rows import talking_run  # noqa: PLC0415 - needs the settings
    from debugger.tasks import store_timeline  # noqa: PLC0415
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
    for run_id in run_ids:
        events = talking_run(run_id, n_events, low, high, run_id)
        while batch := list(islice(events, BATCH)):
            accept_events(project.pk, batch)
        fold_runs(project.pk, [run_id])
        if not store_timeline(project.pk, run_id):
            raise RuntimeError("the timeline was not stored")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return project, person, {"events": n_events, "load_s": round(time.perf_counter() - begun, 1)}


def addresses(project: Any, n_runs: int) -> Iterator[tuple[str, str]]:
    """Yield the name and address of each page that is measured."""
    from ingest.models import Event  # noqa: PLC0415 - needs the settings

    asked_for = Event.objects.filter(project=project, run_id=RUNS[0], type="model.requested").order_by("arrival")
    ids = list(asked_for.values_list("event_id", flat=True))
    requests = f"/{project.slug}/runs/{RUNS[0]}/requests/"
    for name, event_id in (
        ("first", ids[0]),
        ("hundredth", ids[99]),
        ("middle", ids[len(ids) // 2]),
        ("last", ids[-1]),
    ):
        yield f"request, {name}", f"{requests}{event_id}/"
    yield "its first window", f"{requests}{ids[-1]}/?from=0"
    yield "read whole", f"{requests}{ids[-1]}/?whole=1"
    yield "one message", f"{requests}{ids[-1]}/messages/{len(ids)}/"
    if n_runs == 1:
        return
    yield "compare, first window", f"/{project.slug}/compare/?a={RUNS[0]}&b={RUNS[1]}"
    yield "compare, differences", f"/{project.slug}/compare/?a={RUNS[0]}&b={RUNS[1]}&show=different&from=200"


if __name__ == "__main__":
    raise SystemExit(main())
