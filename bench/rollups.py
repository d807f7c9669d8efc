"""Measures the sums that reports rest on: `python -m bench.rollups`, in a PostgreSQL of its own.

`rebuild` folds short runs again and sums up what they add, at two sizes; `refresh` brings the sums up to 1,000 new
activations; `growing` folds one run that grows batch by batch; `report` reads the sums of many activations, which are
made through contributions and not through the journal. `work` is processor time of this process, which tells about the
same on a busy machine; the database's is in the wall clock alone.
"""

import argparse
import logging
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import django

from debugger.embedded.scratch import scratch_postgres

DAYS = 90
ITEMS = 200
TOOLS = tuple(f"tool_{number}" for number in range(10))
BATCH = 500  # events of one request


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument(
        "--runs", type=int, nargs="+", default=[200, 800], help="runs that are rebuilt, size by size"
    )
    arguments.add_argument("--growing", type=int, default=10_000, help="events of the run that grows")
    arguments.add_argument("--runs-a-day", type=int, default=20, help="runs that these activations are of, each day")
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
            report(given.activations, given.runs_a_day)
        finally:
            connections.close_all()
    return 0


def timed(name: str, act: Callable[[], Any], per: int = 0, unit: str = "events") -> Any:
    """Do it, and tell how long it took; `per` is how much was done."""
    began, work = time.perf_counter(), time.process_time()
    result = act()
    took, worked = time.perf_counter() - began, time.process_time() - work
    rate = f"  {per / took:,.0f} {unit}/s by the clock, {per / worked:,.0f} by work" if per else ""
    print(f"{name:<46} {1_000 * took:>9,.0f} ms  work {1_000 * worked:>9,.0f} ms{rate}", flush=True)
    return result


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


def report(n_activations: int, runs_a_day: int) -> None:
    """Read the sums of so many activations of 90 days. Of few runs a day they are made sooner, with rows as many."""
    from ingest.models import Project  # noqa: PLC0415
    from knowledge import effectiveness, rolling  # noqa: PLC0415
    from knowledge.effect_report import Asked, make_report  # noqa: PLC0415
    from knowledge.item_effects import make_item_report  # noqa: PLC0415
    from knowledge.models import ItemRollup, Rollup  # noqa: PLC0415
    from knowledge.rollups import STRATA, read_cells  # noqa: PLC0415

    project = Project.objects.create(slug="large", name="Large")
    chance = random.Random("rollups 1")
    today = datetime.now(UTC).date()
    each = n_activations // (DAYS * runs_a_day)

    def make() -> None:
        for ago in range(DAYS):
            for number in range(runs_a_day):
                day = today - timedelta(days=ago)
                rolling.keep_contribution(project.pk, f"r-{ago}-{number}", day, _chain(chance, each))
            _roll_all(rolling, project.pk)

    timed(f"sums of {each * DAYS * runs_a_day:,} activations made", make, n_activations, "activations")
    print(f"  {Rollup.objects.count():,} rows of searches, {ItemRollup.objects.count():,} of items")
    first, now = today - timedelta(days=DAYS), datetime.now(UTC)
    questions: dict[str, Callable[[], Any]] = {
        "the page's report": lambda: make_report(project.pk, Asked(first, today)),
        "the page's report of items": lambda: make_item_report(project.pk, first, today),
        "the API's report": lambda: effectiveness.report(project.pk, now - timedelta(days=DAYS), now),
        "the two arms by stratum, with replicates": lambda: read_cells(project.pk, first, today, by=STRATA),
        "by day and trigger": lambda: read_cells(project.pk, first, today, by=("day", "trigger"), replicates=False),
        "by tool, with replicates": lambda: read_cells(project.pk, first, today, by=("tool",)),
        "all items by arm": lambda: read_cells(project.pk, first, today, by=("knowledge_id", "arm"), replicates=False),
        "one item by arm, with replicates": lambda: read_cells(
            project.pk, first, today, by=("arm",), where={"knowledge_id": "k-7"}
        ),
        "all items by arm, with replicates": lambda: read_cells(project.pk, first, today, by=("knowledge_id", "arm")),
    }
    for name, ask in questions.items():
        ask()
        timed(name, ask)


def _chain(chance: random.Random, n_activations: int) -> Any:
    """Return the chain of one run: two of three searches drawn, each with two items."""
    from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts  # noqa: PLC0415

    activations, candidates = [], []
    for number in range(n_activations):
        arm = chance.choice(("", "offered", "offered", "withheld"))
        good = chance.random() < (0.7 if arm == "offered" else 0.5)
        name = f"a{number}"
        place = chance.randrange(2 * len(TOOLS))  # an item is found at one place
        activations.append(
            ActivationFacts(
                name, trigger=("tool.failed", "mcp.first_call")[place % 2],
                tool=TOOLS[place // 2],
                result="success", algorithm_version="hybrid.v3", arm=arm, experiment="spring" if arm else "",
                share=0.25 if arm else None, situation_key=name, duration_ms=chance.random() * 80,
                resolved=good, near=good,
                n_retrieved=2, n_offered=2, n_injected=2 if arm != "withheld" else 0, tokens=120, calls_after=3,
            )
        )  # fmt: skip
        for item in chance.sample(range(place, ITEMS, 2 * len(TOOLS)), 2):
            withheld = {"dropped_ns": 3, "drop_reason": "holdout"}
            stamps: Any = withheld if arm == "withheld" else {"selected_ns": 2, "injected_ns": 3}
            candidates.append(CandidateFacts(name, f"k-{item}", tokens=60, offered_ns=1, **stamps))
    return RunChain(RunFacts(success=chance.random() < 0.5), tuple(activations), tuple(candidates))


if __name__ == "__main__":
    raise SystemExit(main())
