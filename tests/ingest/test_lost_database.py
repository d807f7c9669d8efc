"""A database that is away or goes away: 503 with Retry-After in JSON, nothing half stored, and the retry is whole."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client

from ingest.authentication import create_key
from ingest.models import Event, Message, Project, Reject, Run
from tests.ingest.test_accept import event

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGE = {"role": "user", "text": "Release it", "origin": "task"}
BATCH = [
    event(1),
    event(2, type="model.requested", data={"n_messages": 1, "new_messages": [MESSAGE]}),
    {"event_id": "bad"},
]


@pytest.fixture
def headers() -> dict[str, str]:
    _, raw = create_key(Project.objects.create(slug="alpha", name="Alpha"), "test", ["ingest", "read"])
    return {"Authorization": f"Bearer {raw}"}


def post(headers: dict[str, str]) -> Any:
    return Client().post("/v1/events", json.dumps({"events": BATCH}), content_type="application/json", headers=headers)


def assert_try_again(answer: Any) -> None:
    assert answer.status_code == 503
    assert answer.headers["Content-Type"] == "application/json"
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["code"] == "database_unavailable"


@contextmanager
def database_at_closed_port() -> Iterator[None]:
    """Point the connection at a port that is taken and that nobody listens on."""
    kept = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        connection.close()
        connection.settings_dict.update(HOST="127.0.0.1", PORT=str(holder.getsockname()[1]))
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict.update(kept)


def test_unreachable_database_is_503(headers: dict[str, str]) -> None:
    """Writing and reading both say when to come back; nothing was stored, and afterwards everything is."""
    with database_at_closed_port():
        assert_try_again(post(headers))
        assert_try_again(Client().get("/v1/runs/r-1/events", headers=headers))
        assert_try_again(Client().get("/v1/rejects", headers=headers))
    assert not Event.objects.exists() and not Run.objects.exists()
    assert post(headers).json()["accepted"] == 2


@pytest.mark.parametrize(
    "after",
    [
        "ingest_apikey",
        "INSERT INTO ingest_run",
        "FROM pg_class",
        "INSERT INTO ingest_message",
        "INSERT INTO ingest_run AS",
        'INTO "ingest_reject',
    ],
)
def test_connection_lost_at_any_step_stores_nothing(headers: dict[str, str], after: str) -> None:
    """The server ends our connection after one statement: 503, no trace of the batch, and the retry is not a repeat."""
    address = {"host": connection.settings_dict["HOST"], "port": connection.settings_dict["PORT"] or None}
    seen = []

    def end_after(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if after in sql and not seen:
            seen.append(sql)
            pid = connection.connection.info.backend_pid
            with psycopg.connect(
                dbname=connection.settings_dict["NAME"], user=connection.settings_dict["USER"], **address
            ) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return result

    with connection.execute_wrapper(end_after):
        answer = post(headers)
    assert seen
    assert_try_again(answer)
    connection.close()
    for model in (Event, Run, Message, Reject):
        assert not model.objects.exists()
    again = post(headers).json()
    assert (again["accepted"], again["duplicates"], len(again["rejected"])) == (2, 0, 1)
    assert Run.objects.get().last_arrival == 2
