"""Measures the sums that reports rest on: `python -m bench.rollups`, in a PostgreSQL of its own.

`rebuild` folds short runs again and sums up what they add, at two sizes; `refresh` brings the sums up to 1,000 new
activations; `growing` folds one run that grows batch by batch; `report` asks for the pages of many activations, whose
sums `bench/rollup_store.py` makes. `work` is processor time of this process, `database` that of its connection (in
hundredths of a second, without parallel workers); both tell about the same on a busy machine.
"""

import argparse
import logging
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import django

from debugger.embedded.scratch import scratch_postgres

DAYS = 90
ROUNDS = 3  # each question, after one that is not counted


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument(
        "--runs", type=int, nargs="+", default=[200, 800], help="runs that are rebuilt, size by size"
    )
    arguments.add_argument("--growing", type=int, default=10_000, help="events of the run that grows")
    arguments.add_argument("--activations", type=int, default=1_000_000, help="activations in the sums that are read")
    given = arguments.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)
    with scratch_postgres() as address:
        os.environ |= {"DATABASE_URL": address, "TEMPORALITY_ENV": "local", "INGEST_EVENTS_PER_MINUTE": "0"}
        os.environ["DJANGO_SETTINGS_MODULE"] = "debugger.settings"
        django.setup()
        logging.disable(logging.WARNING)
        from django.core.management import call_command  # noqa: PLC0415 - Django is set up by then
        from django.db import connections  # noqa: PLC0415

        call_command("migrate", verbosity=0)
        try:
            for n_runs in given.runs:
                rebuild(n_runs)
            growing(given.growing)
            report(given.activations)
        finally:
            connections.close_all()
    return 0


def timed(name: str, act: Callable[[], Any], per: int = 0, unit: str = "events") -> Any:
    """Do it, and tell how long it took; `per` is how much was done."""
    began, work, served = time.perf_counter(), time.process_time(), database_time()
    result = act()
    took, worked, served = time.perf_counter() - began, time.process_time() - work, database_time() - served
    rate = f"  {per / took:,.0f} {unit}/s by the clock, {per / (worked + served):,.0f} by work" if per else ""
    spent = f"work {1_000 * worked:>7,.0f} ms  database {1_000 * served:>7,.0f} ms"
    print(f"{name:<46} {1_000 * took:>9,.0f} ms  {spent}{rate}  load {os.getloadavg()[0]:.0f}", flush=True)
    return result


def database_time() -> float:
    """Return the processor time of our connection's process, in seconds."""
    from django.db import connection  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rebuild(n_runs: int) -> None:
    """Fold `n_runs` runs from the journal, and bring the sums up to 1,000 activations of others."""
    from io import StringIO  # noqa: PLC0415

    from django.core.management import call_command  # noqa: PLC0415

    from ingest.accept import accept_events  # noqa: PLC0415
    from ingest.models import Project  # noqa: PLC0415
    from knowledge import rolling, tasks  # noqa: PLC0415
    from knowledge.models import Activation, RunSummary  # noqa: PLC0415
    from tests.factories import typical_run  # noqa: PLC0415

    project = Project.objects.create(slug=f"rebuilt-{n_runs}", name="Rebuilt")
    for number in range(n_runs):
        accept_events(project.pk, typical_run(f"r-{number}"))
    while tasks.sweep_unfolded():
        pass
    tasks.roll_up()
    n_events = sum(RunSummary.objects.filter(project=project).values_list("n_events", flat=True))
    timed(
        f"rebuild of {n_runs} runs, {n_events:,} events",
        lambda: call_command("rebuild", project=project.slug, stdout=StringIO()),
        n_events,
    )
    new = [f"new-{number}" for number in range(334)]
    for run_id in new:
        accept_events(project.pk, typical_run(run_id))
    while tasks.sweep_unfolded():
        pass
    n_new = Activation.objects.filter(project=project, run_id__in=new).count()
    timed(f"refresh with {n_new:,} new activations", lambda: _roll_all(rolling, project.pk), n_new, "activations")


def _roll_all(rolling: Any, project_id: int) -> None:
    while rolling.roll_up(project_id):
        pass


def growing(n_events: int) -> None:
    """Send one run in batches of 100 events, and refresh it after each."""
    from ingest.accept import accept_events  # noqa: PLC0415
    from ingest.models import Project  # noqa: PLC0415
    from knowledge import chains  # noqa: PLC0415
    from tests.factories import typical_run  # noqa: PLC0415

    project = Project.objects.create(slug="growing", name="Growing")
    one = [event for event in typical_run("g-1") if not event["type"].startswith("run.")]
    events = [
        {**event, "event_id": f"{event['event_id']}~{turn}", "seq": turn * 1_000 + number}
        for turn in range(n_events // len(one) + 1)
        for number, event in enumerate(one)
    ][:n_events]

    def grow() -> int:
        n_folds = 0
        for start in range(0, n_events, 100):
            accept_events(project.pk, events[start : start + 100])
            n_folds += chains.refresh_run(project.pk, "g-1")
        return n_folds

    n_folds = timed(f"a run that grows to {n_events:,} events", grow, n_events)
    timed("its last fold", lambda: chains.refresh_run(project.pk, "g-1", force=True), n_events)
    print(f"  {n_folds} folds after {n_events // 100} batches of 100")


def report(n_activations: int) -> None:
    """Ask for what pages and API say of so many activations of 90 days, and for some sums by themselves."""
    from bench.rollup_store import make_store  # noqa: PLC0415
    from ingest.models import Project  # noqa: PLC0415
    from knowledge.effect_report import Asked, make_report  # noqa: PLC0415
    from knowledge.item_effects import make_item_report  # noqa: PLC0415
    from knowledge.models import ItemRollup, Rollup  # noqa: PLC0415
    from knowledge.rollups import STRATA, read_cells  # noqa: PLC0415

    project = Project.objects.create(slug="large", name="Large")
    last = datetime.now(UTC).date()
    first = last - timedelta(days=DAYS - 1)
    timed(f"sums of {n_activations:,} activations made", lambda: make_store(project.pk, last, DAYS, n_activations))
    for model in (Rollup, ItemRollup):
        n_rows = [model.objects.filter(span=span).count() for span in (1, 7)]
        print(f"  {model.__name__}: {n_rows[0]:,} rows of days, {n_rows[1]:,} of weeks")
    questions: dict[str, Callable[[], Any]] = {
        "make_report": lambda: make_report(project.pk, Asked(first, last)),
        "make_item_report": lambda: make_item_report(project.pk, first, last),
        **_pages(project, f"since={first}&until={last}"),
        "the two arms by stratum": lambda: read_cells(project.pk, first, last, by=STRATA, words=False),
        "by day and trigger": lambda: read_cells(project.pk, first, last, by=("day", "trigger"), replicates=False),
        "one item by arm": lambda: read_cells(project.pk, first, last, by=("arm",), where={"knowledge_id": "k-7"}),
    }
    for name, ask in questions.items():
        ask()
        for _ in range(ROUNDS):
            timed(name, ask)
    refresh(project.pk, last)


def refresh(project_id: int, day: date) -> None:
    """Bring the sums up to 1,000 activations of 50 runs, most of them drawn, with two items each."""
    from knowledge import rolling  # noqa: PLC0415

    chance = random.Random("rollups 1")
    for turn in range(ROUNDS):
        for number in range(50):
            rolling.keep_contribution(project_id, f"new-{turn}-{number}", day, _chain(chance, 20))
        timed("refresh with 1,000 new activations", lambda: _roll_all(rolling, project_id), 1_000, "activations")


def _chain(chance: random.Random, n_activations: int) -> Any:
    """Return the chain of one run: three of four searches drawn, each with two items."""
    from bench.rollup_store import ITEMS, PLACES  # noqa: PLC0415
    from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts  # noqa: PLC0415

    activations, candidates = [], []
    for number in range(n_activations):
        arm = chance.choice(("", "offered", "offered", "withheld"))
        good = chance.random() < (0.7 if arm == "offered" else 0.5)
        name = f"a{number}"
        place = chance.randrange(PLACES)  # an item is found at one place
        activations.append(
            ActivationFacts(
                name, trigger=("tool.failed", "mcp.first_call")[place % 2],
                tool=f"tool_{place // 2}",
                result="success", algorithm_version="hybrid.v3", arm=arm, experiment="spring" if arm else "",
                share=0.25 if arm else None, situation_key=name, duration_ms=chance.random() * 80,
                resolved=good, near=good,
                n_retrieved=2, n_offered=2, n_injected=2 if arm != "withheld" else 0, tokens=120, calls_after=3,
            )
        )  # fmt: skip
        for item in chance.sample(range(place, ITEMS, PLACES), 2):
            withheld = {"dropped_ns": 3, "drop_reason": "holdout"}
            stamps: Any = withheld if arm == "withheld" else {"selected_ns": 2, "injected_ns": 3}
            candidates.append(CandidateFacts(name, f"k-{item}", tokens=60, offered_ns=1, **stamps))
    return RunChain(RunFacts(success=chance.random() < 0.5), tuple(activations), tuple(candidates))


def _pages(project: Any, days: str) -> dict[str, Callable[[], Any]]:
    """Return the requests of a signed in member, and of a key that may read."""
    from django.test import Client  # noqa: PLC0415

    from ingest.authentication import create_key  # noqa: PLC0415
    from tests.factories import make_person  # noqa: PLC0415

    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(make_person("ann", project))
    key = create_key(project, "bench", ["read"])[1]
    headers = {"Authorization": f"Bearer {key}"}

    def asking(address: str) -> Callable[[], Any]:
        def ask() -> None:
            answer = client.get(address, headers=headers if address.startswith("/v1/") else {})
            if answer.status_code != 200:  # noqa: PLR2004
                raise RuntimeError(f"{address}: {answer.status_code}")

        return ask

    own = f"/{project.slug}"
    addresses = [f"{own}/effects/?days=90", f"{own}/effects/?days=365&group=tool", f"{own}/effects/items/?days=90"]
    addresses += [f"{own}/experiments/", f"/v1/reports/effects?{days}", f"/v1/reports/effects/items?{days}"]
    return {f"GET {address}": asking(address) for address in addresses}


if __name__ == "__main__":
    raise SystemExit(main())
