"""Probes and metrics: what they say while all is well, while the database is away, and to whom."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from debugger.bounded import Bounded, TooSlow
from debugger.queries.lag import (
    LAG_SQL,
    MOST_WAITING,
    PARTITIONS_SQL,
    VECTORS_SQL,
    fold_lag,
    partitions_ahead,
    sums_waiting,
    vectors_waiting,
)
from ingest import journal, metrics
from ingest.authentication import create_key
from ingest.models import Project, Run
from knowledge.models import ItemEmbedding
from knowledge.rolling import roll_up
from tests.effect_runs import Series, run_experiment
from tests.factories import make_person, make_project, send, typical_run
from tests.knowledge.asking import add_item

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def database_away() -> Iterator[None]:
    """Point the connection at a port that is taken and that nobody listens on, with a password in the address."""
    kept = {name: connection.settings_dict[name] for name in ("HOST", "PORT", "PASSWORD")}
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        connection.close()
        connection.settings_dict.update(HOST="127.0.0.1", PORT=str(holder.getsockname()[1]), PASSWORD="secret-pw-7")
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict.update(kept)


def fetch(statement: str, values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def scraped(client: Client | None = None) -> dict[str, float]:
    text = (client or Client()).get("/metrics").content.decode()
    rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def test_a_living_process_says_so_without_the_database() -> None:
    """No query is made, and none is missed while the database is away."""
    with CaptureQueriesContext(connection) as queries:
        assert Client().get("/healthz").json() == {"ok": True}
    assert len(queries) == 0
    with database_away():
        assert Client().get("/healthz").status_code == 200


def test_ready_names_every_part(settings: Settings) -> None:
    """Database and schema are required; a broker that is away is told, and events are taken all the same."""
    settings.CELERY_BROKER_URL = "redis://:hidden-9@127.0.0.1:1/0"
    answer = Client().get("/readyz")
    parts = answer.json()["parts"]
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert parts["database"] == parts["schema"] == {"ok": True, "required": True}
    assert parts["broker"]["required"] is False
    assert b"hidden-9" not in answer.content


def test_not_ready_without_the_database() -> None:
    """503 with a word for each part, soon, and nothing of the address."""
    with database_away():
        answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["database"] == {"ok": False, "required": True, "reason": "unreachable"}
    assert answer.json()["parts"]["schema"]["reason"] == "unknown"
    assert b"secret-pw-7" not in answer.content and b"127.0.0.1" not in answer.content


def test_not_ready_on_an_older_schema() -> None:
    """A migration of the code that the database has not seen is named."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET app = 'gone' WHERE app = 'knowledge'")
        try:
            answer = Client().get("/readyz")
        finally:
            cursor.execute("UPDATE django_migrations SET app = 'knowledge' WHERE app = 'gone'")
    assert answer.status_code == 503
    assert answer.json()["parts"]["schema"]["reason"] == "behind"
    assert any(name.startswith("knowledge.0001") for name in answer.json()["parts"]["schema"]["missing"])


def test_a_look_that_hangs_is_given_up() -> None:
    """The caller waits its bound, and the next one no longer; an error of the look is the caller's."""
    bounded, gate = Bounded(), socket.socketpair()
    with pytest.raises(TooSlow):
        bounded.run(lambda: gate[0].recv(1), 0.05)
    with pytest.raises(TooSlow):
        bounded.run(lambda: b"never asked", 0.05)
    gate[1].send(b"x")
    assert bounded.run(lambda: b"asked", 5) == b"asked"
    with pytest.raises(ValueError, match="of the look"):
        bounded.run(lambda: int_of("of the look"), 5)
    for end in gate:
        end.close()


def int_of(text: str) -> int:
    raise ValueError(text)


def test_metrics_count_what_was_sent() -> None:
    """Accepted, known, differing and rejected events, the answers by endpoint, and what waits to be folded."""
    project = make_project("alpha")
    _, raw = create_key(project, "test", ["ingest"])
    headers = {"Authorization": f"Bearer {raw}"}
    events = [*typical_run("r-1"), {"event_id": "bad"}]
    before = scraped()

    def post() -> Any:
        body = json.dumps({"events": events})
        return Client().post("/v1/events", body, content_type="application/json", headers=headers)

    assert post().status_code == post().status_code == 207
    after = scraped()

    def more(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    n_events = len(events) - 1
    assert more('temporality_events_accepted_total{source="events"}') == n_events
    assert more('temporality_events_duplicate_total{source="events"}') == n_events
    rejected = [name for name in after if name.startswith("temporality_events_rejected_total") and more(name)]
    assert len(rejected) == 1 and more(rejected[0]) == 2
    assert more('temporality_requests_total{endpoint="api-events",status="207"}') == 2
    assert more('temporality_request_seconds_count{endpoint="api-events"}') == 2
    assert after["temporality_fold_waiting_events"] == n_events
    assert after["temporality_fold_waiting_runs"] == 1
    assert after["temporality_vectors_waiting"] == 0
    assert after["temporality_database_up"] == 1


def test_metrics_name_no_project_key_or_run() -> None:
    """No label is a sender's word."""
    project = make_project("verysecretproject")
    key, raw = create_key(project, "keyname77", ["ingest"])
    headers = {"Authorization": f"Bearer {raw}"}
    run = {
        "event_id": "e-nobodys",
        "run_id": "run-nobodys",
        "type": "odd.nobodys",
        "occurred_at": "2026-01-01T00:00:00Z",
    }
    body = json.dumps({"events": [run]})
    assert Client().post("/v1/events", body, content_type="application/json", headers=headers).status_code == 200
    text = Client().get("/metrics").content.decode()
    assert [word for word in ("verysecret", "keyname77", "nobodys", key.prefix) if word in text] == []


def test_metrics_without_the_database_are_still_read() -> None:
    """The counts are there, the gauge says that it is away, and no lag of zero is invented."""
    before = scraped()
    with database_away():
        Client().get("/v1/runs", headers={"Authorization": "Bearer tk_x"})
        after = scraped()
    assert after["temporality_database_up"] == 0
    assert "temporality_fold_waiting_events" not in after
    name = "temporality_database_failures_total"
    assert after[name] - before.get(name, 0) == 1


def test_a_page_without_the_database_says_so() -> None:
    """503 and when to come back, instead of an error page."""
    before = scraped()["temporality_database_failures_total"]
    client = Client()
    client.force_login(make_person("alice", make_project("alpha")))
    with database_away():
        answer = client.get("/alpha/runs/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert b"The database does not answer" in answer.content and b"secret-pw-7" not in answer.content
    assert scraped()["temporality_database_failures_total"] == before + 1


def test_metrics_are_for_this_machine_or_a_token(settings: Settings) -> None:
    """Without a token only loopback, and not through a proxy; with one, only its bearer."""
    assert Client().get("/metrics").status_code == 200
    assert Client(REMOTE_ADDR="10.0.0.7").get("/metrics").status_code == 403
    assert Client(REMOTE_ADDR="").get("/metrics").status_code == 403
    assert Client().get("/metrics", headers={"X-Forwarded-For": "10.0.0.7"}).status_code == 403
    settings.METRICS_TOKEN = "let-me-read"
    assert Client().get("/metrics").status_code == 401
    assert Client().get("/metrics", headers={"Authorization": "Bearer let-me-rea"}).status_code == 401
    allowed = Client(REMOTE_ADDR="10.0.0.7").get("/metrics", headers={"Authorization": "Bearer let-me-read"})
    assert allowed.status_code == 200 and b"temporality_info" in allowed.content


def test_words_of_a_label_are_bounded() -> None:
    """After its first words a label says "other"; words that were seen keep their name."""
    words = metrics.BoundedWords(3)
    assert [words.word(text) for text in "abcdea"] == ["a", "b", "c", "other", "other", "a"]


def test_lag_and_partitions_are_counted() -> None:
    """Events behind, per project and in all, and the days ahead that have a partition."""
    alpha, beta = make_project("alpha"), make_project("beta")
    n_alpha = send(alpha, typical_run("r-1"), fold=False).accepted
    send(beta, typical_run("r-2"))
    n_beta = send(beta, typical_run("r-3"), fold=False).accepted
    assert fold_lag(fetch, beta.pk).n_events == n_beta
    assert (fold_lag(fetch).n_runs, fold_lag(fetch).n_events) == (2, n_alpha + n_beta)
    assert 0 <= fold_lag(fetch).oldest_seconds < 60
    today = datetime.now(UTC).date()
    ahead = partitions_ahead(fetch, today)
    journal.ensure_partitions([date(2099, 1, 1)])
    assert partitions_ahead(fetch, today) == ahead + 1


def test_items_without_a_vector_are_counted() -> None:
    """Per project and in all, and in the exposition; one that has been looked at counts no more."""
    alpha, beta = make_project("alpha"), make_project("beta")
    for name in ("one", "two"):
        add_item(alpha, name)
    add_item(beta, "three")
    assert (vectors_waiting(fetch, alpha.pk), vectors_waiting(fetch, beta.pk), vectors_waiting(fetch)) == (2, 1, 3)
    ItemEmbedding.objects.filter(item__knowledge_id="one").update(model="some")
    assert (vectors_waiting(fetch, alpha.pk), vectors_waiting(fetch)) == (1, 2)


def test_runs_that_are_not_summed_up_yet_are_counted() -> None:
    """A run that searched waits from its fold until its sums are made, in the exposition too."""
    project = make_project("alpha")
    run_experiment(project, Series("offered", 2, 1), roll=False)
    assert sums_waiting(fetch) == 2
    assert scraped()["temporality_rollup_waiting_runs"] == 2
    assert roll_up(project.pk) == 2
    assert sums_waiting(fetch) == 0


def plan_of(statement: str, values: list[object]) -> str:
    return "\n".join(str(row[0]) for row in fetch(f"EXPLAIN {statement}", values))


def test_a_scrape_reads_no_big_table_through() -> None:
    """With many folded runs, the few that wait come from their own index; the partitions from the catalog's."""
    project: Project = make_project("alpha")
    moment = datetime.now(UTC)
    Run.objects.bulk_create(
        Run(
            project=project,
            run_id=f"r-{number}",
            run_day=moment.date(),
            first_received_at=moment,
            last_received_at=moment - timedelta(seconds=number),
            last_arrival=5,
            folded_arrival=5 if number % 1000 else 3,
        )
        for number in range(20_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ingest_run")
    whole = plan_of(LAG_SQL.format(project=""), [MOST_WAITING])
    one = plan_of(LAG_SQL.format(project="AND project_id = %s"), [project.pk, MOST_WAITING])
    assert "ingest_run_unfolded" in whole and "Seq Scan" not in whole
    assert "ingest_run_unfolded" in one and "Seq Scan" not in one
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # a table of few rows is read through in any case
        assert "item_embedding_pending" in plan_of(VECTORS_SQL.format(project=""), [MOST_WAITING])
    assert "Seq Scan on pg_class" not in plan_of(PARTITIONS_SQL, ["ingest_event_20260101"])
    assert (fold_lag(fetch).n_runs, fold_lag(fetch).n_events) == (20, 40)
