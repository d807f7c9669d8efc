"""The operations page: what it counts for whom, and that a part that cannot be read says so."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from debugger.embedded.sockets import free_port
from debugger.queries.lag import MOST_WAITING, FoldLag
from debugger.queries.operations import DAYS_SQL, INTAKE_SQL, MOST_ROWS, size_words
from debugger.versions import redaction_version, versions
from ingest.accept import accept_events
from ingest.models import Batch, Project, Run
from tests.factories import make_person, make_project, send, typical_run
from tests.knowledge.asking import add_item

pytestmark = pytest.mark.django_db(transaction=True)

COUNTS = Path(__file__).parent.parent / "query_counts.json"


@pytest.fixture(autouse=True)
def no_temporal(settings: Settings) -> None:
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"


@pytest.fixture
def alpha() -> Project:
    project = make_project("alpha")
    send(project, typical_run("r-1"))
    make_person("alice", project)
    return project


def page(person: str = "alice", slug: str = "alpha") -> str:
    client = Client()
    client.force_login(User.objects.get(username=person))
    answer = client.get(f"/{slug}/operations/")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_counts_of_the_last_day_by_source(alpha: Project) -> None:
    """Each door with what became of its events; older requests and other projects do not count."""
    n_events = len(typical_run("r-1"))
    accept_events(alpha.pk, [*typical_run("r-1"), {"event_id": "bad"}])
    accept_events(alpha.pk, typical_run("r-2"), source="otlp_traces")
    send(make_project("beta"), typical_run("r-9"))
    Batch.objects.filter(source="otlp_traces").update(received_at=datetime.now(UTC) - timedelta(hours=25))
    text = page()
    row = f'<td>events</td><td class="r">2</td><td class="r">{n_events}</td><td class="r">{n_events}</td>'
    assert f'{row}<td class="r">0</td><td class="r bad">1</td>' in text
    assert "OTLP traces" not in text


def test_an_empty_project_says_so() -> None:
    """No key was used and no run came: sentences with the next step, not empty tables."""
    make_person("alice", make_project("alpha"))
    text = page()
    assert "Nothing came in." in text and "caught up" in text
    assert "No run was first seen in the last 14 days." in text
    assert "<tbody></tbody>" not in text


def test_what_waits_to_be_folded(alpha: Project) -> None:
    """Runs and events behind, of this project alone, and how long the longest waits."""
    send(make_project("beta"), typical_run("r-9"), fold=False)
    assert "caught up" in page()
    n_events = send(alpha, typical_run("r-2"), fold=False).accepted
    text = page()
    assert "at work" in text and "caught up" not in text
    assert f"<dt>Events waiting</dt><dd>{n_events}</dd>" in text and "<dt>Runs waiting</dt><dd>1</dd>" in text
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ingest_run SET last_received_at = now() - interval '2 hours' WHERE run_id = 'r-2'")
    text = page()
    assert ">behind<" in text and "2 h 00 m since the run" in text


def test_items_without_a_vector_are_counted(alpha: Project, settings: Settings) -> None:
    """Of this project alone; with embeddings switched off the page says so."""
    add_item(make_project("beta"), "other")
    assert ">all made<" in page() and "<dt>Items waiting</dt><dd>0</dd>" in page()
    add_item(alpha, "one")
    assert ">being made<" in page() and "<dt>Items waiting</dt><dd>1</dd>" in page()
    settings.HINTS_EMBEDDINGS = False
    assert ">switched off<" in page() and ">being made<" not in page()


def test_days_kept_follow_the_retention_rule(alpha: Project) -> None:
    """Everything by default; else the oldest day that is kept, with the way to the settings."""
    assert "<p>Everything. <a href=" in page()
    Project.objects.filter(pk=alpha.pk).update(retention_days=30)
    oldest = datetime.now(UTC).date() - timedelta(days=30)
    text = page()
    assert f"30 whole days: {oldest} and later." in text
    assert 'href="/alpha/settings/"' in text and 'href="/alpha/keys/"' in text


def test_partitions_of_the_site_are_for_staff(alpha: Project) -> None:
    """Their rows are those of all projects: a member sees the days of the own project only."""
    today = datetime.now(UTC).date()
    assert f"ingest_event_{today:%Y%m%d}" not in page()
    assert f'<td class="mono">{today}</td><td class="r">1</td>' in page()
    User.objects.filter(username="alice").update(is_staff=True)
    assert f"ingest_event_{today:%Y%m%d}" in page()


def test_only_members_see_it(alpha: Project) -> None:
    """A stranger, staff or not, gets the 404 of a page that is not there; nobody unsigned gets it."""
    stranger = make_person("charlie", make_project("gamma"))
    User.objects.filter(pk=stranger.pk).update(is_staff=True)
    client = Client()
    assert client.get("/alpha/operations/").status_code == 302
    client.force_login(stranger)
    assert client.get("/alpha/operations/").status_code == 404


@contextmanager
def renamed(table: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO away")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE away RENAME TO {table}")


def test_a_part_that_cannot_be_read_is_a_banner_with_its_cause(alpha: Project) -> None:
    """The others stand; what is missing is called unknown, not empty and not 0."""
    with renamed("ingest_batch"):
        text = page()
    assert "<b>Intake</b> could not be read: the database answered UndefinedTable (SQLSTATE 42P01)." in text
    assert "Nothing came in." not in text and "Unknown." in text
    assert "caught up" in text
    with renamed("ingest_run"):
        text = page()
    assert "<b>Fold</b> could not be read" in text and "<b>Days</b> could not be read" in text
    assert "caught up" not in text and "<td>events</td>" in text


def test_services_are_told_by_a_word(alpha: Project, settings: Settings) -> None:
    """What is away, and what that means; no address of any of them."""
    settings.CELERY_BROKER_URL = "redis://:hidden-9@127.0.0.1:1/0"
    text = page()
    assert '<dt>database</dt><dd><span class="badge ok">well</span></dd>' in text
    assert '<dt>temporal</dt><dd><span class="badge warn">unreachable</span>' in text
    assert "hidden-9" not in text and settings.TEMPORAL_ADDRESS not in text


def test_versions_in_use_are_named(alpha: Project) -> None:
    """Each of them, as it is."""
    text = page()
    assert {"Temporality", "fold", "FindHints", "redaction", "PostgreSQL", "Django"} <= set(versions())
    assert len(redaction_version()) == 8
    for name, version in versions().items():
        assert f'<dt>{name}</dt><dd class="mono">{version}</dd>' in text


def test_the_page_makes_the_queries_it_is_known_to_make(alpha: Project) -> None:
    """However much there is."""
    for number in range(3):
        send(alpha, typical_run(f"more-{number}"))
    client = Client()
    client.force_login(User.objects.get(username="alice"))
    client.get("/alpha/operations/")
    with CaptureQueriesContext(connection) as queries:
        client.get("/alpha/operations/")
    assert len(queries) == json.loads(COUNTS.read_text())["operations"]
    assert {query["sql"].lstrip().split()[0] for query in queries} == {"SELECT"}


def test_its_counts_come_from_indexes(alpha: Project) -> None:
    """The newest rows of one project, without reading a table through."""
    moment = datetime.now(UTC)
    totals = {"source": "events", "n_accepted": 1, "n_duplicates": 0, "n_conflicts": 0, "n_rejected": 0}
    times = [moment - timedelta(days=9, seconds=n) for n in range(5000)]
    Batch.objects.bulk_create([Batch(project=alpha, received_at=time, **totals) for time in times])
    Run.objects.bulk_create(
        Run(project=alpha, run_id=f"old-{n}", run_day=time.date(), first_received_at=time, last_received_at=time)
        for n, time in enumerate(times)
    )
    for sql, index in ((INTAKE_SQL, "ingest_batch_recent"), (DAYS_SQL, "ingest_run_recent")):
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE ingest_batch, ingest_run")
            cursor.execute(f"EXPLAIN {sql}", [alpha.pk, moment - timedelta(days=1), MOST_ROWS])
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert index in plan and "Seq Scan" not in plan, plan


@pytest.mark.parametrize(("n_bytes", "words"), [(0, "0 B"), (24_000, "24 kB"), (1_340_000, "1.3 MB"), (5e12, "5.0 TB")])
def test_sizes_have_units(n_bytes: int, words: str) -> None:
    """From bytes to terabytes."""
    assert size_words(n_bytes) == words


def test_a_lag_that_was_not_counted_to_its_end_says_so() -> None:
    """As many runs as are counted at most: there may be more, and the page says `more than`."""
    counted = {"n_events": 9, "oldest_seconds": 1.0}
    assert FoldLag(n_runs=MOST_WAITING, **counted).is_capped
    assert not FoldLag(n_runs=MOST_WAITING - 1, **counted).is_capped
