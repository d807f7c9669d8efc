"""The journal's partitions: listed, made on demand at any hour by any number of writers, never a default one."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import override_settings

from debugger.connection_bounds import bound_statements
from ingest import journal
from ingest.accept import AcceptResult, Sender, accept_drafts, accept_events, limits
from ingest.authentication import create_key
from ingest.envelope import parse_event
from ingest.models import Event, Project, Run
from ingest.partitions import delete_rows, drop_partition, list_partitions, projects_in
from ingest.tasks import make_partitions
from ingest.times import to_nanoseconds
from tests.factories import make_project
from tests.ingest.test_accept import event
from tests.ingest.test_journal import in_threads
from tests.ingest.test_retention import another_connection

FAR = date(2033, 2, 27)
MIDNIGHT = datetime(2033, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def committed(transactional_db: None) -> Iterator[None]:
    """For tests that commit partitions of days to come: they are dropped after them."""
    yield
    with connection.cursor() as cursor:
        for partition in list_partitions():
            if partition.day.year == FAR.year:
                cursor.execute(f"DROP TABLE {partition.name}")


def accept_at(project: Project, received: datetime, number: int, run: str = "r-1") -> AcceptResult:
    """Store an event as a request does that comes at `received`."""
    draft = parse_event(event(number, run), 0, to_nanoseconds(received), limits())
    return accept_drafts(Sender(project.pk, "events"), [draft], [], received)


def days() -> set[date]:
    return {partition.day for partition in list_partitions()}


def without_partitions() -> None:
    """Drop every partition, as in an installation whose beat never ran."""
    with connection.cursor() as cursor:
        for partition in list_partitions():
            cursor.execute(f"DROP TABLE {partition.name}")


@pytest.mark.django_db
def test_partitions_are_listed_by_day_with_rows_and_bytes() -> None:
    """Name, day, the estimate of rows and the size on disk, oldest first, in one query."""
    project = make_project()
    journal.ensure_partitions([FAR + timedelta(days=1), FAR])
    accept_events(project.pk, [event(number, data={"text": "x" * 4000}) for number in range(50)])
    today = Run.objects.get().run_day
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {journal.partition_name(today)}")
    listed = list_partitions()
    assert [partition.day for partition in listed] == sorted(partition.day for partition in listed)
    by_day = {partition.day: partition for partition in listed}
    assert by_day[today].name == journal.partition_name(today)
    assert by_day[today].n_rows == 50
    assert by_day[today].n_bytes > by_day[FAR].n_bytes > 0
    assert by_day[FAR].n_rows == 0


@pytest.mark.django_db
def test_writing_works_when_beat_never_ran() -> None:
    """The first event makes its day's partition itself, and that one alone."""
    project = make_project()
    without_partitions()
    assert days() == set()
    assert accept_events(project.pk, [event(1)]).accepted == 1
    assert days() == {Run.objects.get().run_day}
    assert make_partitions() == journal.DAYS_AHEAD


@pytest.mark.django_db
def test_there_is_never_a_default_partition() -> None:
    """Whoever made them, each partition holds exactly one day, that of its name."""
    accept_events(make_project().pk, [event(1)])
    make_partitions()
    with connection.cursor() as cursor:
        cursor.execute("SELECT partdefid FROM pg_partitioned_table WHERE partrelid = 'ingest_event'::regclass")
        assert cursor.fetchone() == (0,)
        cursor.execute(
            "SELECT relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_class"
            " JOIN pg_inherits ON inhrelid = pg_class.oid WHERE inhparent = 'ingest_event'::regclass"
        )
        bounds = dict(cursor.fetchall())
    for partition in list_partitions():
        after = partition.day + timedelta(days=1)
        assert bounds.pop(partition.name) == f"FOR VALUES FROM ('{partition.day}') TO ('{after}')"
    assert bounds == {}


@pytest.mark.django_db
def test_a_run_across_midnight_stays_in_its_day() -> None:
    """Midnight is that of UTC: who comes before it has the old day for good, who comes after it the new one."""
    project = make_project()
    for number, received in ((1, MIDNIGHT - SECOND), (2, MIDNIGHT), (3, MIDNIGHT + 25 * 3600 * SECOND)):
        assert accept_at(project, received, number).accepted == 1
    accept_at(project, MIDNIGHT, 1, "r-2")
    before, after = (MIDNIGHT - SECOND).date(), MIDNIGHT.date()
    assert dict(Run.objects.values_list("run_id", "run_day")) == {"r-1": before, "r-2": after}
    assert set(Event.objects.filter(run_id="r-1").values_list("run_day", "arrival")) == {
        (before, 1), (before, 2), (before, 3),
    }  # fmt: skip
    assert {before, after} <= days()
    assert MIDNIGHT.date() + timedelta(days=1) not in days()
    assert accept_at(project, MIDNIGHT, 1).duplicates == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("committed")
def test_two_writers_make_the_same_day_at_once() -> None:
    """Both need a partition that is not there: both are served, and it is made once."""
    project = make_project()
    without_partitions()
    results = in_threads(*(lambda n=n: accept_at(project, MIDNIGHT, n, f"r-{n}") for n in range(4)))
    assert [result.accepted for result in results] == [1, 1, 1, 1]
    assert days() == {MIDNIGHT.date()}
    assert Event.objects.count() == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("committed")
def test_two_writers_on_both_sides_of_midnight() -> None:
    """Requests that begin on different days register their runs on those days; one run is registered once."""
    project = make_project()
    without_partitions()
    calls = [
        lambda: accept_at(project, MIDNIGHT - SECOND, 1, "r-old"),
        lambda: accept_at(project, MIDNIGHT, 1, "r-new"),
        lambda: accept_at(project, MIDNIGHT - SECOND, 1, "r-both"),
        lambda: accept_at(project, MIDNIGHT, 2, "r-both"),
    ]
    assert [result.accepted for result in in_threads(*calls)] == [1, 1, 1, 1]
    registered = dict(Run.objects.values_list("run_id", "run_day"))
    assert registered["r-old"] < registered["r-new"]
    rows = Event.objects.filter(run_id="r-both").values_list("run_day", "arrival")
    assert set(rows) == {(registered["r-both"], 1), (registered["r-both"], 2)}


@pytest.mark.django_db
def test_owners_of_a_partition_and_bounded_deletion() -> None:
    """Whose rows lie in a day is read off its key; a deletion takes one project's rows, so many at a time."""
    projects = [make_project(slug) for slug in ("alpha", "beta", "gamma")]
    for project in projects:
        accept_events(project.pk, [event(number) for number in range(5)])
    (partition,) = [one for one in list_partitions() if one.day == Run.objects.first().run_day]  # type: ignore[union-attr]
    assert projects_in(partition) == sorted(project.pk for project in projects)
    assert [delete_rows(partition, projects[1].pk, 3) for _ in range(3)] == [3, 2, 0]
    assert projects_in(partition) == [projects[0].pk, projects[2].pk]
    assert Event.objects.count() == 10


@pytest.mark.django_db
def test_a_partition_is_dropped_only_while_its_condition_holds() -> None:
    """The condition is asked for again under the lock."""
    journal.ensure_partitions([FAR])
    (partition,) = [one for one in list_partitions() if one.day == FAR]
    assert drop_partition(partition, lambda: False) is False
    assert FAR in days()
    assert drop_partition(partition, lambda: True) is True
    assert FAR not in days()


@pytest.mark.django_db
def test_a_table_that_is_no_day_is_no_partition_of_ours() -> None:
    """What an operator attached by hand under another name is neither listed nor dropped."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE by_hand PARTITION OF ingest_event FOR VALUES FROM ('1999-01-01') TO ('1999-01-02')"
        )
    assert "by_hand" not in {partition.name for partition in list_partitions()}


@pytest.mark.django_db
def test_a_partition_that_was_dropped_meanwhile_has_no_rows() -> None:
    """Two passes at once do not trip over each other's drops."""
    journal.ensure_partitions([FAR])
    (partition,) = [one for one in list_partitions() if one.day == FAR]
    assert drop_partition(partition, lambda: True)
    assert projects_in(partition) == []
    assert delete_rows(partition, 1, 10) == 0
    assert drop_partition(partition, lambda: True)
    assert make_project("still").pk  # the transaction around goes on


@pytest.mark.django_db(transaction=True)
def test_a_writer_that_cannot_have_the_journal_is_told_to_come_back() -> None:
    """A web process does not hang in COPY behind somebody's lock: 503 with Retry-After, and nothing is stored."""
    project = make_project()
    _, raw = create_key(project, "agent", ["ingest"])
    accept_events(project.pk, [event(1)])

    def post() -> Any:
        body = json.dumps({"events": [event(2)]})
        headers = {"Authorization": f"Bearer {raw}"}
        return Client().post("/v1/events", body, content_type="application/json", headers=headers)

    def hold() -> None:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE ingest_event IN ACCESS EXCLUSIVE MODE")

    with override_settings(WEB_LOCK_SECONDS=1):
        bound_statements(connection)
    try:
        with another_connection(hold):
            refused = post()
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        assert Event.objects.count() == 1
        assert post().status_code == 200
        assert Event.objects.count() == 2
    finally:
        connection.close()  # the next test gets a connection without bounds
