"""The journal in PostgreSQL: partitions, racing writers, lost connections, and that anything repaired can be stored."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest import journal
from ingest.accept import AcceptResult, accept_events
from ingest.models import Event, Message, Project, Run
from ingest.tasks import make_partitions
from tests.ingest.test_accept import event
from tests.ingest.test_repair import any_json, any_text

FAR_DAY = date(2031, 5, 17)


@pytest.fixture
def project() -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def partitions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'ingest_event'::regclass")
        return {row[0] for row in cursor.fetchall()}


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at once, each on a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.dictionaries(any_text, any_json, max_size=4), any_text)
def test_anything_repaired_is_stored_and_read_back(project: Project, data: dict[str, Any], text: str) -> None:
    """No value of data and no text in any text column makes the database refuse a batch."""
    run = f"r-{Run.objects.count()}"
    texts = dict.fromkeys(("caused_by", "task_id", "actor_id", "call_id", "tool", "mcp_server", "hint_id"), text)
    result = accept_events(project.pk, [event(1, run, data=data, **texts), event(2, run)])
    assert (result.accepted, result.rejected) == (2, ())
    first, second = journal.read_events(project.pk, run)
    assert len(first.data) == len(data)
    assert second.data == {}


@pytest.mark.django_db
def test_numbers_survive_the_database(project: Project) -> None:
    """Integers of 64 bits and the extremes of floats come back equal."""
    values = [2**63 - 1, -(2**63), 1e300, -1e300, 5e-324, 0.1, 1.7976931348623157e308, 0]
    accept_events(project.pk, [event(1, data={"values": values})])
    assert journal.read_events(project.pk, "r-1")[0].data["values"] == values


@pytest.mark.django_db
def test_partitions_are_made_ahead_and_only_once() -> None:
    """The daily task makes today and the days ahead; a second call makes none."""
    make_partitions()
    today = datetime.now(UTC).date()
    expected = {journal.partition_name(today + timedelta(days=ahead)) for ahead in range(journal.DAYS_AHEAD + 1)}
    assert expected <= partitions()
    assert make_partitions() == 0


@pytest.mark.django_db
def test_no_partition_catches_the_rest(project: Project) -> None:
    """There is no default partition: a row of a day without its own is an error and not a quiet pile."""
    row = (project.pk, FAR_DAY, "r", "e", 1, "t", 0, timezone.now(), b"", "{}")
    statement = (
        "INSERT INTO ingest_event (project_id, run_day, run_id, event_id, arrival, type, occurred_ns, received_at,"
        " digest, data) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    )
    with pytest.raises(IntegrityError, match="no partition"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, row)
    journal.ensure_partitions([FAR_DAY])
    with connection.cursor() as cursor:
        cursor.execute(statement, row)
        cursor.execute(f"SELECT count(*) FROM {journal.partition_name(FAR_DAY)}")
        assert cursor.fetchone()[0] == 1


@pytest.mark.django_db
def test_two_events_cannot_have_one_arrival_number(project: Project) -> None:
    """The database itself holds the numbering, should the write path ever be wrong."""
    accept_events(project.pk, [event(1), event(2)])
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.filter(event_id="r-1:2").update(arrival=1)


@pytest.mark.django_db
def test_run_is_read_from_one_partition(project: Project) -> None:
    """Reading a run of one day touches no partition of another."""
    make_partitions()
    accept_events(project.pk, [event(1)])
    run = Run.objects.get(project=project)
    with connection.cursor() as cursor:
        cursor.execute(
            "EXPLAIN SELECT * FROM ingest_event WHERE project_id = %s AND run_day = %s AND run_id = %s AND arrival > 0",
            [project.pk, run.run_day, run.run_id],
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert {name for name in partitions() if f"on {name} " in plan} == {journal.partition_name(run.run_day)}


@pytest.mark.django_db
def test_order_is_seq_then_time_then_arrival(project: Project) -> None:
    """A complete reading is in the sender's order; a page by cursor is in the order of arrival."""
    late, early = "2026-11-30T03:00:02Z", "2026-11-30T03:00:01Z"
    accept_events(
        project.pk,
        [
            event(9, seq=None, occurred_at=late),
            event(8, seq=None, occurred_at=early),
            event(3),
            event(2, occurred_at=late),
            event(7, seq=None, occurred_at=early),
        ],
    )
    assert [row.event_id[4:] for row in journal.read_events(project.pk, "r-1")] == ["2", "3", "8", "7", "9"]
    assert [row.event_id[4:] for row in journal.read_events(project.pk, "r-1", limit=2)] == ["9", "8"]
    assert [row.event_id[4:] for row in journal.read_events(project.pk, "r-1", after_arrival=2, limit=2)] == ["3", "2"]


@pytest.mark.django_db(transaction=True)
def test_racing_makers_of_one_day_make_it_once() -> None:
    """Writers that need a new day at the same moment wait for each other and go on."""
    days = [FAR_DAY + timedelta(days=ahead) for ahead in range(3)]

    def make() -> int:
        with transaction.atomic():
            return journal.ensure_partitions(days)

    try:
        assert sorted(in_threads(make, make, make, make)) == [0, 0, 0, 3]
    finally:
        with connection.cursor() as cursor:
            for day in days:
                cursor.execute(f"DROP TABLE {journal.partition_name(day)}")


@pytest.mark.django_db(transaction=True)
def test_a_day_is_made_while_another_day_is_written(project: Project) -> None:
    """An open write of one run does not hold up the making of a partition, and nobody waits for ever."""
    made = threading.Event()

    def make() -> None:
        with transaction.atomic():
            journal.ensure_partitions([FAR_DAY])
        made.set()
        connections.close_all()

    accept_events(project.pk, [event(1)])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE ingest_event SET turn = 1")
        maker = threading.Thread(target=make)
        maker.start()
        assert made.wait(30)
    maker.join()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {journal.partition_name(FAR_DAY)}")


@pytest.mark.django_db(transaction=True)
def test_racing_writers_of_many_runs_never_deadlock(project: Project) -> None:
    """Batches that name the same runs and messages in opposite order are all stored, each event once."""
    shared = {"n_messages": 2, "new_messages": [{"role": "user", "text": text} for text in ("b", "a")]}
    batch = [event(1, run=f"r-{n:02d}", type="model.requested", data=shared) for n in range(40)]

    def send(events: list[dict[str, Any]]) -> AcceptResult:
        return accept_events(project.pk, events)

    results = in_threads(*(lambda e=events: send(e) for events in (batch, batch[::-1], batch[::2], batch[::-1])))
    assert sum(result.accepted for result in results) == Event.objects.count() == 40
    assert sum(result.duplicates for result in results) == 100
    assert Message.objects.count() == 2
    assert set(Run.objects.values_list("last_arrival", flat=True)) == {1}


@pytest.mark.django_db(transaction=True)
def test_racing_copies_that_differ_leave_one_and_count_the_rest(project: Project) -> None:
    """Whoever comes first wins; every other copy is counted as a conflict."""
    calls = [lambda n=n: accept_events(project.pk, [event(1, data={"by": n})]) for n in range(4)]
    results = in_threads(*calls)
    assert sorted(result.accepted for result in results) == [0, 0, 0, 1]
    assert sum(result.conflicts for result in results) == 3
    assert Run.objects.get().n_conflicts == 3
    (winner,) = [n for n, result in enumerate(results) if result.accepted]
    assert Event.objects.get().data == {"by": winner}


@pytest.mark.django_db(transaction=True)
def test_accepting_inside_another_transaction_ends_with_that_one(project: Project) -> None:
    """A caller that writes more beside the events (an answer and its report) commits both or neither."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert accept_events(project.pk, [event(1)]).accepted == 1
        _ = 1 / 0
    assert not Event.objects.exists()
    with transaction.atomic():
        accept_events(project.pk, [event(1)])
    assert Event.objects.count() == 1


@pytest.mark.django_db
def test_known_events_are_looked_up_by_their_key_on_a_new_day(project: Project) -> None:
    """A day without statistics is read by event ids alone: neither the whole partition nor the whole run."""
    day = FAR_DAY + timedelta(days=1)
    journal.ensure_partitions([day])
    accept_events(project.pk, [event(number) for number in range(1, 501)])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ingest_event SET run_day = %s", [day])
        cursor.execute(
            f"EXPLAIN (ANALYZE, BUFFERS OFF) {journal.STORED_DIGESTS}", [["r-1"], ["r-1:7"], project.pk, day]
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert f"using {journal.partition_name(day)}_pkey" in plan
    assert "rows=500" not in plan and "Rows Removed by Filter: 4" not in plan


@pytest.mark.django_db
def test_ids_that_begin_alike_are_told_apart(project: Project) -> None:
    """What is known is exactly what was stored, whatever stands beside it in the order of ids."""
    stored = [event(0, event_id=name) for name in ("a", "a:1", "a:10", "b", "é", "\U0001f600")]
    accept_events(project.pk, [*stored, event(0, "r-2", event_id="a:2")])
    place = journal.lock_runs(project.pk, ["r-1", "r-2"], timezone.now().date())
    asked = [("r-1", name) for name in ("a", "a:", "a:1", "a:2", "a:100", "b", "c", "é", "\U0001f600", "~")]
    found = journal.stored_digests(project.pk, place, [*asked, ("r-2", "a:2"), ("r-2", "a:1")])
    assert set(found) == {("r-1", name) for name in ("a", "a:1", "b", "é", "\U0001f600")} | {("r-2", "a:2")}
