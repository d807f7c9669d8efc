"""Days that are over: what is forgotten, what is counted before, what is left, and that nobody waits for it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from celery import shared_task
from django.core.management import call_command
from django.db import connection, connections, models, transaction
from django.test import Client
from django.test.utils import override_settings

from ingest import journal
from ingest.accept import accept_events
from ingest.deletion import delete_run
from ingest.forgetting import MARK_DAYS, mark_of
from ingest.models import Batch, Event, GoneRun, Project, Reject, Run
from ingest.partitions import DROP_WAIT_MS, list_partitions
from ingest.retention import apply_retention, first_kept_day
from ingest.tasks import apply_retention as apply_retention_task
from ingest.times import start_of
from knowledge.models import Activation, Candidate, DayTotals, HintAnswer, Rollup, RunSummary
from tests.factories import make_person, make_project, send, typical_run
from tests.ingest.aged import TODAY, age, age_lists, bodies, days_ago, n_events
from tests.ingest.test_accept import event
from tests.ingest.test_journal import in_threads

OLD = days_ago(10)
DERIVED: tuple[type[models.Model], ...] = (RunSummary, Activation, Candidate)


def project_with(slug: str, retention_days: int | None) -> Project:
    project = make_project(slug)
    project.retention_days = retention_days
    project.save()
    return project


def sent(project: Project, run_id: str, ago: int, *, fold: bool = True) -> None:
    send(project, typical_run(run_id), fold=fold)
    age(project, run_id, days_ago(ago))


def has_partition(ago: int) -> bool:
    return journal.partition_name(days_ago(ago)) in {partition.name for partition in list_partitions()}


def n_derived(project: Project) -> int:
    return sum(model._default_manager.filter(project=project).count() for model in DERIVED)


def totals(project: Project) -> list[dict[str, Any]]:
    rows = DayTotals.objects.filter(project=project).order_by("day", "status")
    return list(rows.values("day", "status", "n_runs", "n_events", "n_tool_calls", "model_tokens"))


@pytest.fixture
def no_old_partitions(transactional_db: None) -> Iterator[None]:
    """For tests whose partitions are committed: what they made of earlier days is dropped after them."""
    yield
    with connection.cursor() as cursor:
        for partition in list_partitions():
            if partition.day < TODAY:
                cursor.execute(f"DROP TABLE {partition.name}")


@contextmanager
def another_connection(act: Callable[[], Any]) -> Iterator[None]:
    """Do `act` in a transaction of another connection that stays open meanwhile."""
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                act()
                begun.set()
                assert over.wait(30)
        finally:
            connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert begun.wait(30)
        yield
    finally:
        over.set()
        holder.join()


@pytest.mark.parametrize(("ago", "is_kept"), [(0, True), (6, True), (7, True), (8, False), (400, False)])
@pytest.mark.django_db
def test_a_day_is_kept_for_as_many_whole_days_as_are_set(ago: int, is_kept: bool) -> None:
    """Seven days: seven whole days before today stay, the eighth goes."""
    project = project_with("alpha", 7)
    sent(project, "r-1", ago)
    apply_retention(TODAY)
    assert Run.objects.filter(project=project).exists() is is_kept
    assert (n_events(project) > 0) is is_kept
    assert (n_derived(project) > 0) is is_kept


@pytest.mark.django_db
def test_without_a_limit_everything_stays() -> None:
    """No retention is the default: nothing is touched, however old."""
    project = project_with("alpha", None)
    sent(project, "r-1", 4000)
    before = (n_events(project), n_derived(project), bodies(project))
    done = apply_retention(TODAY)
    assert (done.n_runs, done.partitions) == (0, [])
    assert (n_events(project), n_derived(project), bodies(project)) == before
    assert not DayTotals.objects.exists()


@pytest.mark.parametrize("days", [0, 1, 2**31 - 1])
@pytest.mark.django_db
def test_extreme_limits_are_limits(days: int) -> None:
    """Yesterday stays in any case, and a limit longer than the calendar keeps everything."""
    project = project_with("alpha", days)
    sent(project, "r-1", 1)
    apply_retention(TODAY)
    assert n_events(project, "r-1") > 0
    assert first_kept_day(days, TODAY) < TODAY


@pytest.mark.django_db
def test_a_day_that_everybody_let_go_of_is_dropped() -> None:
    """One table is dropped and no row deleted; days of others are not touched."""
    alpha, beta = project_with("alpha", 7), project_with("beta", 3)
    for project in (alpha, beta):
        sent(project, "r-old", 10)
        sent(project, "r-new", 1)
    done = apply_retention(TODAY)
    assert not has_partition(10)
    assert has_partition(1)
    assert (done.n_runs, done.n_rows, done.left) == (2, 0, [])
    assert journal.partition_name(OLD) in done.partitions
    for project in (alpha, beta):
        assert list(Run.objects.filter(project=project).values_list("run_id", flat=True)) == ["r-new"]
        assert n_events(project) == len(typical_run("r-new"))
        assert not any(model._default_manager.filter(project=project, run_id="r-old").exists() for model in DERIVED)


@pytest.mark.django_db
def test_where_somebody_keeps_the_day_only_the_others_rows_go() -> None:
    """The partition stays for the project that keeps it, with all its rows as they were."""
    alpha, beta, gamma = project_with("alpha", 3), project_with("beta", None), project_with("gamma", 30)
    for project in (alpha, beta, gamma):
        sent(project, "r-1", 10)
    kept = list(Event.objects.exclude(project=alpha).order_by("project", "arrival").values())
    done = apply_retention(TODAY)
    assert has_partition(10)
    assert n_events(alpha) == 0
    assert done.n_rows == len(typical_run("r-1"))
    assert list(Event.objects.order_by("project", "arrival").values()) == kept
    assert n_derived(beta) == n_derived(gamma) > 0
    assert not DayTotals.objects.exclude(project=alpha).exists()


@pytest.mark.django_db
def test_the_counts_of_a_forgotten_day_stay() -> None:
    """Totals hold what the chains held: runs by status, hints by trigger and stage, outcomes, tokens."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10)
    sent(project, "r-2", 10)
    send(project, typical_run("r-3", ended=False))
    age(project, "r-3", OLD)
    summed = {
        name: sum(RunSummary.objects.filter(project=project).values_list(name, flat=True))
        for name in ("n_events", "n_turns", "n_tool_calls", "n_tools_failed", "hint_tokens", "model_tokens")
    }
    searches = Activation.objects.filter(project=project)
    expected = {
        "n_activations": searches.exclude(result="skipped").count(),
        "n_skipped": searches.filter(result="skipped").count(),
        "n_injected": sum(searches.values_list("n_injected", flat=True)),
        "n_dropped": sum(searches.values_list("n_dropped", flat=True)),
        "tokens": sum(searches.values_list("tokens", flat=True)),
        "n_used": Candidate.objects.exclude(used_ns=None).count(),
        "n_helpful": Candidate.objects.filter(outcome="helpful").count(),
    }
    apply_retention(TODAY)
    rows = DayTotals.objects.filter(project=project, day=OLD)
    assert {row.status: row.n_runs for row in rows} == {"completed": 2, "running": 1}
    assert {name: sum(getattr(row, name) for row in rows) for name in summed} == summed
    by_trigger = Rollup.objects.filter(project=project, span=1, day=OLD, forgotten=True)
    assert {name: sum(getattr(row, name) for row in by_trigger) for name in expected} == expected
    assert {row.trigger for row in by_trigger} == {"tool.failed", "mcp.first_call"}
    assert expected["n_injected"] == 3
    assert expected["n_skipped"] == 3


@pytest.mark.django_db
def test_a_run_that_was_not_folded_is_folded_first() -> None:
    """Nothing is forgotten uncounted: what the queue had lost is derived before it goes."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10, fold=False)
    assert not RunSummary.objects.exists()
    done = apply_retention(TODAY)
    assert done.n_runs == 1
    assert totals(project)[0]["status"] == "completed"
    assert totals(project)[0]["n_tool_calls"] == 4
    assert not has_partition(10)


@pytest.mark.django_db
def test_totals_of_a_day_add_up_over_several_passes() -> None:
    """A day that is forgotten in parts ends with the same totals as one forgotten at once; nothing counts twice."""
    alpha, beta = project_with("alpha", 7), project_with("beta", 7)
    for name in ("r-1", "r-2", "r-3"):
        sent(alpha, name, 10)
        apply_retention(TODAY)
        apply_retention(TODAY)
    for name in ("r-1", "r-2", "r-3"):
        sent(beta, name, 10)
    apply_retention(TODAY)
    assert totals(alpha) == totals(beta)
    assert totals(alpha)[0]["n_runs"] == 3
    one, other = (
        list(Rollup.objects.filter(project=project).order_by("cell").values_list("cell", "forgotten", "n_offered"))
        for project in (alpha, beta)
    )
    assert one == other


@pytest.mark.django_db
def test_messages_of_newer_runs_stay() -> None:
    """A body goes with the last day whose runs carry it."""
    project = project_with("alpha", 7)

    def asking(run: str, *texts: str) -> dict[str, Any]:
        new = [{"role": "user", "text": text} for text in texts]
        return event(1, run, type="model.requested", data={"n_messages": len(new), "new_messages": new})

    send(project, [asking("r-old", "shared", "only old")])
    age(project, "r-old", OLD)
    send(project, [asking("r-new", "shared", "only new")])
    done = apply_retention(TODAY)
    assert bodies(project) == {"shared", "only new"}
    assert done.n_messages == 1


@pytest.mark.django_db
def test_rejects_and_accounts_of_requests_go_by_the_day_they_came() -> None:
    """They belong to no run's day; those of a project that keeps them stay."""
    alpha, beta = project_with("alpha", 7), project_with("beta", None)
    for project in (alpha, beta):
        accept_events(project.pk, [event(1), {"event_id": "bad"}])
        age_lists(project, days_ago(8))
        accept_events(project.pk, [event(2), {"event_id": "bad"}])
    apply_retention(TODAY)
    assert [Reject.objects.filter(project=project).count() for project in (alpha, beta)] == [1, 2]
    assert [Batch.objects.filter(project=project).count() for project in (alpha, beta)] == [1, 2]


@pytest.mark.django_db
def test_answers_of_runs_that_never_came_go_too() -> None:
    """An answer whose report was lost belongs to no run in the journal and is forgotten by its own day."""
    project = project_with("alpha", 7)
    for run_id, ago in (("r-lost", 9), ("r-fresh", 1)):
        HintAnswer.objects.create(project=project, run_id=run_id, activation_id="a", answer={})
        HintAnswer.objects.filter(run_id=run_id).update(created_at=timezone_of(ago))
    sent(project, "r-1", 10)
    apply_retention(TODAY)
    assert list(HintAnswer.objects.values_list("run_id", flat=True)) == ["r-fresh"]


def timezone_of(ago: int) -> Any:
    send(make_project("clock"), [event(1, f"t-{ago}")])
    age(make_project("clock"), f"t-{ago}", days_ago(ago))
    return Run.objects.get(run_id=f"t-{ago}").first_received_at


@pytest.mark.django_db
def test_a_late_event_of_a_forgotten_run_is_a_new_run_that_says_what_it_lacks() -> None:
    """It is not put beside what was forgotten: a run of today, numbered from 1, whose page tells of the gap."""
    project = project_with("alpha", 7)
    events = typical_run("r-1")
    send(project, events[:-1])
    age(project, "r-1", OLD)
    apply_retention(TODAY)
    counted = totals(project)
    send(project, events[-1:])
    run = Run.objects.get(project=project, run_id="r-1")
    assert (run.run_day, run.last_arrival) == (TODAY, 1)
    assert [row.event_id for row in journal.read_events(project.pk, "r-1")] == [events[-1]["event_id"]]
    assert not has_partition(10)
    assert totals(project) == counted
    client = Client()
    client.force_login(make_person("alice", project))
    page = client.get("/alpha/runs/r-1/").content.decode()
    assert "An earlier part of this run was forgotten by the project&#x27;s retention on" in page


@pytest.mark.django_db
def test_marks_of_gone_runs_tell_of_the_last_time_and_are_kept_for_a_while() -> None:
    """A run that went twice has the mark of the second time; a mark older than MARK_DAYS says nothing to anybody."""
    project = project_with("alpha", 7)
    for run_id in ("r-1", "r-2", "r-3"):
        sent(project, run_id, 10)
    apply_retention(TODAY)
    send(project, typical_run("r-1"))
    delete_run(project.pk, "r-1")
    marks = GoneRun.objects.filter(project=project)
    reasons = dict(marks.values_list("digest", "reason"))
    assert {bytes(digest): reason for digest, reason in reasons.items()} == {
        mark_of("r-1"): "deleted",
        mark_of("r-2"): "retention",
        mark_of("r-3"): "retention",
    }
    for run_id, ago in (("r-2", MARK_DAYS + 1), ("r-3", MARK_DAYS - 1)):
        marks.filter(digest=mark_of(run_id)).update(gone_at=start_of(days_ago(ago)))
    apply_retention(TODAY)
    assert {bytes(digest) for digest in marks.values_list("digest", flat=True)} == {mark_of("r-1"), mark_of("r-3")}


@pytest.mark.django_db
def test_a_dry_run_only_tells(capsys: pytest.CaptureFixture[str]) -> None:
    """The command names what would go and changes nothing; without the flag it does it."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10)
    before = (n_events(project), n_derived(project), len(bodies(project)))
    call_command("apply_retention", "--dry-run")
    told = capsys.readouterr().out
    assert "1 runs would be forgotten" in told
    assert journal.partition_name(OLD) in told
    assert (n_events(project), n_derived(project), len(bodies(project))) == before
    assert not DayTotals.objects.exists()
    call_command("apply_retention")
    assert "1 runs forgotten" in capsys.readouterr().out
    assert n_events(project) == 0


@pytest.mark.django_db
def test_a_pass_that_was_cut_off_is_completed_by_the_next() -> None:
    """Journal rows and messages whose run is taken away already go with the next pass, and are not counted again."""
    alpha, beta = project_with("alpha", 7), project_with("beta", None)
    sent(alpha, "r-1", 10)
    sent(beta, "r-1", 10)
    Run.objects.filter(project=alpha).delete()  # where the process ended: before the rows of the partition went
    assert n_events(alpha) > 0 and bodies(alpha)
    kept = bodies(beta)
    assert apply_retention_task() == 0
    assert (n_events(alpha), bodies(alpha)) == (0, set())
    assert n_events(beta) > 0
    assert bodies(beta) == kept


@shared_task(name="tests.folds_nothing")
def folds_nothing(project_id: int, run_ids: list[str]) -> None:
    """Stand for a fold that leaves a run behind: it failed, or an event came right after it."""


@pytest.mark.django_db
def test_a_run_that_is_not_folded_to_its_end_stays() -> None:
    """Its counts would be lost: it is left, whole, and named."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10, fold=False)
    with override_settings(INGEST_FOLD_TASK="tests.folds_nothing"):
        done = apply_retention(TODAY)
    assert done.n_runs == 0
    assert "1 runs of project" in done.left[0]
    assert n_events(project, "r-1") == len(typical_run("r-1"))
    assert not DayTotals.objects.exists()
    assert apply_retention(TODAY).n_runs == 1


def failing_totals(project_id: int, run_ids: list[str]) -> None:
    raise ZeroDivisionError


@pytest.mark.django_db
def test_what_cannot_be_counted_is_not_forgotten() -> None:
    """Counting and forgetting are one transaction: when the one fails the other has not happened."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10)
    before = (n_events(project), n_derived(project), Run.objects.count())
    failing = override_settings(INGEST_TOTALS="tests.ingest.test_retention.failing_totals")
    with failing, pytest.raises(ZeroDivisionError):
        apply_retention(TODAY)
    assert (n_events(project), n_derived(project), Run.objects.count()) == before
    assert has_partition(10)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_old_partitions")
@pytest.mark.parametrize("fold", [True, False])
def test_a_run_in_other_hands_stays_with_its_day(fold: bool) -> None:
    """A run that is being folded is not waited for, and its partition stays; the next pass takes both."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10, fold=fold)
    sent(project, "r-2", 10)

    def hold() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('r-1', %s))", [project.pk])

    with another_connection(hold):
        done = apply_retention(TODAY)
        assert done.n_runs == 1
        assert "1 runs of project" in done.left[0]
        assert n_events(project, "r-1") == len(typical_run("r-1"))
        assert has_partition(10)
    assert apply_retention(TODAY).left == []
    assert not has_partition(10)
    assert totals(project)[0]["n_runs"] == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_old_partitions")
def test_a_run_that_is_written_to_at_that_moment_stays_whole() -> None:
    """The late event is accepted and neither side waits: the run goes with all its events at the next pass."""
    project = project_with("alpha", 7)
    events = typical_run("r-1")
    send(project, events[:-1])
    age(project, "r-1", OLD)
    with another_connection(lambda: accept_events(project.pk, events[-1:])):
        assert apply_retention(TODAY).n_runs == 0
    assert n_events(project, "r-1") == len(events)
    apply_retention(TODAY)
    assert totals(project) == [
        {"day": OLD, "status": "completed", "n_runs": 1, "n_events": len(events), "n_tool_calls": 4,
         "model_tokens": totals(project)[0]["model_tokens"]}
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_old_partitions")
def test_a_drop_waits_shortly_and_holds_up_no_writer() -> None:
    """While a transaction reads the journal a drop gives up within its bound; who writes meanwhile is soon served."""
    project = project_with("alpha", 7)
    sent(project, "r-1", 10)
    waited: list[float] = []

    def write() -> None:
        try:
            for number in range(50):
                began = time.monotonic()
                accept_events(project.pk, [event(number, "r-live")])
                waited.append(time.monotonic() - began)
        finally:
            connections.close_all()

    with another_connection(lambda: Event.objects.filter(project=project).count()):
        writer = threading.Thread(target=write)
        writer.start()
        began = time.monotonic()
        done = apply_retention(TODAY)
        took = time.monotonic() - began
        writer.join()
        assert has_partition(10)
    assert journal.partition_name(OLD) in done.left[-1]
    assert took < 100
    assert len(waited) == 50
    assert max(waited) < DROP_WAIT_MS / 1000 + 60
    apply_retention(TODAY)
    assert not has_partition(10)
    assert n_events(project, "r-live") == 50


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_old_partitions")
def test_a_day_that_gains_a_keeper_while_the_drop_waits_is_not_dropped() -> None:
    """Whoever keeps the day commits while the drop waits for the journal: under its lock the drop looks again."""
    alpha, beta = project_with("alpha", 7), project_with("beta", None)
    sent(alpha, "r-1", 10)
    written = threading.Event()

    def keep_the_day() -> None:
        try:
            with transaction.atomic():
                sent(beta, "r-1", 10)
                written.set()
                await_a_drop()
        finally:
            connections.close_all()

    keeper = threading.Thread(target=keep_the_day)
    keeper.start()
    assert written.wait(30)
    apply_retention(TODAY)
    keeper.join()
    assert has_partition(10)
    assert n_events(beta, "r-1") == len(typical_run("r-1"))
    assert not Run.objects.filter(project=alpha).exists()


def await_a_drop() -> None:
    """Return as soon as somebody waits for the whole journal, inside the caller's transaction."""
    pause, deadline = threading.Event(), time.monotonic() + 20
    with connection.cursor() as cursor:
        n_waiting = 0
        while not n_waiting and time.monotonic() < deadline:
            pause.wait(0.005)
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE relation = 'ingest_event'::regclass"
                " AND mode = 'AccessExclusiveLock' AND NOT granted"
            )
            n_waiting = cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_old_partitions")
def test_a_day_is_dropped_by_beat() -> None:
    """The scheduled task does it, and what is kept of today can be written on."""
    project = project_with("alpha", 1)
    sent(project, "r-1", 10)
    assert apply_retention_task() == 1
    assert not has_partition(10)
    assert accept_events(project.pk, [event(1, "r-2")]).accepted == 1
    assert first_kept_day(1, TODAY) == TODAY - timedelta(days=1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_old_partitions")
def test_two_passes_at_once_count_once() -> None:
    """Beat and a command at the same moment share the work; each run is counted by one of them."""
    alpha, beta = project_with("alpha", 7), project_with("beta", None)
    for number in range(12):
        sent(alpha, f"r-{number}", 8 + number % 3)
    sent(beta, "r-1", 9)
    done = in_threads(*[lambda: apply_retention(TODAY)] * 3)
    done.append(apply_retention(TODAY))
    assert sum(one.n_runs for one in done) == 12
    assert sum(row["n_runs"] for row in totals(alpha)) == 12
    assert sum(row["n_events"] for row in totals(alpha)) == sum(len(typical_run(f"r-{n}")) for n in range(12))
    assert (n_events(alpha), has_partition(8), has_partition(9), has_partition(10)) == (0, False, True, False)
    assert n_events(beta) == len(typical_run("r-1"))
