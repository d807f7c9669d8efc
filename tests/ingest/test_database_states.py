"""Each state in which PostgreSQL cannot write now: 503 with Retry-After, nothing stored; the retry is whole."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from ingest.authentication import create_key
from ingest.models import Event, Run
from tests.factories import make_project
from tests.ingest.test_accept import event

pytestmark = pytest.mark.django_db(transaction=True)

STATES = {
    "53000": "insufficient_resources",
    "53100": "disk_full",
    "53200": "out_of_memory",
    "53300": "too_many_connections",
    "57P01": "admin_shutdown",
    "57P02": "crash_shutdown",
    "57P03": "cannot_connect_now",
    "57014": "query_canceled",
    "55P03": "lock_not_available",
    "40P01": "deadlock_detected",
    "40001": "serialization_failure",
    "58030": "io_error",
    "25006": "read_only_sql_transaction",
}


def post(headers: dict[str, str]) -> Any:
    body = json.dumps({"events": [event(1), event(2)]})
    client = Client(raise_request_exception=False)
    return client.post("/v1/events", body, content_type="application/json", headers=headers)


@pytest.mark.parametrize("table", ["ingest_event", "ingest_run"])
@pytest.mark.parametrize("state", STATES)
def test_a_database_that_cannot_write_now_is_503(state: str, table: str) -> None:
    """Raised while the journal or the registry of runs is written."""
    _, raw = create_key(make_project("alpha"), "test", ["ingest"])
    headers = {"Authorization": f"Bearer {raw}"}
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION cannot() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'cannot' USING ERRCODE = '{state}'; END $$;"
            f"CREATE TRIGGER cannot BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION cannot()"
        )
    try:
        answer = post(headers)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION cannot() CASCADE")
    assert answer.status_code == 503, (STATES[state], answer.content)
    assert int(answer.headers["Retry-After"]) > 0
    assert not Event.objects.exists() and not Run.objects.exists()
    assert post(headers).json()["accepted"] == 2
