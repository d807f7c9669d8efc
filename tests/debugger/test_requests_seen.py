"""The line of a request, its id, and an error inside it: nothing of what was sent reaches the log."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from debugger.logs import JsonFormatter, RedactingFormatter
from ingest.authentication import create_key
from ingest.models import ApiKey, Event
from tests.factories import make_person, make_project

pytestmark = pytest.mark.django_db(transaction=True)

POISON = "PAYLOAD-of-somebody"


class Log:
    """What both formatters write of everything that is logged."""

    def __init__(self) -> None:
        self.lines, self.objects = io.StringIO(), io.StringIO()
        self.handlers = [logging.StreamHandler(self.lines), logging.StreamHandler(self.objects)]
        self.handlers[0].setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self.handlers[1].setFormatter(JsonFormatter())

    def requests(self) -> list[dict[str, Any]]:
        """The parsed lines of requests."""
        lines = [json.loads(line) for line in self.objects.getvalue().splitlines()]
        return [line for line in lines if line["logger"] == "temporality.requests"]

    def text(self) -> str:
        return self.lines.getvalue() + self.objects.getvalue()


@pytest.fixture
def log() -> Iterator[Log]:
    written, root = Log(), logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    for handler in written.handlers:
        root.addHandler(handler)
    yield written
    for handler in written.handlers:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def headers() -> dict[str, str]:
    _, raw = create_key(make_project("alpha"), "test", ["ingest", "read"])
    return {"Authorization": f"Bearer {raw}"}


def event(data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    sent = {"event_id": "e-1", "run_id": "r-1", "type": "tool.completed", "occurred_at": "2026-01-01T00:00:00Z"}
    return {**sent, "data": data, **fields}


def post(headers: dict[str, str], *events: object, **more: Any) -> Any:
    client = Client(raise_request_exception=False)
    body = json.dumps({"events": events})
    return client.post("/v1/events", body, content_type="application/json", headers=headers, **more)


def test_a_request_of_the_machine_api_has_one_line(log: Log, headers: dict[str, str]) -> None:
    """Route, status, time, project number and counts; no id of a run, no key, no value of the query."""
    answer = post(headers, event({"output": POISON}), {"event_id": POISON})
    assert answer.status_code == 207
    Client().get("/v1/runs/r-1/events?limit=QUERYVALUE", headers=headers)
    first, second = log.requests()
    wanted = {"method": "POST", "status": 207, "n_accepted": 1, "n_rejected": 1, "route": "v1/events"}
    assert {name: first[name] for name in wanted} == wanted
    assert first["project_id"] > 0 and first["duration_ms"] > 0
    assert first["request_id"] == answer.headers["X-Request-ID"] != second["request_id"]
    assert second["route"].startswith("v1/runs/<") and second["status"] == 400
    requests = json.dumps([first, second])
    hidden = (POISON, "QUERYVALUE", "r-1", headers["Authorization"].split()[1])
    assert [word for word in hidden if word in requests] == []


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("trace-7.a_B", True),
        ("", False),
        ("x" * 65, False),
        ("a b", False),
        ("a\tb", False),
        ("ghp_" + "a1B2" * 9, False),
    ],
)
def test_an_id_that_is_plain_is_kept(given: str, is_kept: bool) -> None:
    """A sane X-Request-ID comes back; another, or a secret in its place, gets an id of ours."""
    answer = Client().get("/v1/event-types", headers={"X-Request-ID": given})
    assert (answer.headers["X-Request-ID"] == given) is is_kept
    assert 0 < len(answer.headers["X-Request-ID"]) <= 64


def test_case_05_payload_that_breaks_something_inside_is_not_logged(log: Log, headers: dict[str, str]) -> None:
    """A database error that quotes the row: 500 or 503 for the sender, type and place in the log, no payload."""
    answers = []
    for state in ("23514", "22P02", "XX000"):
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" RAISE EXCEPTION 'refused %%', NEW.data USING ERRCODE = '{state}', DETAIL = NEW.data::text; END $$;"
                "CREATE TRIGGER refuse BEFORE INSERT ON ingest_event FOR EACH ROW EXECUTE FUNCTION refuse()".replace(
                    "%%", "%"
                )
            )
        try:
            answers.append(post(headers, event({"output": f"{POISON} \u0000"}, tool=POISON)))
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP TRIGGER refuse ON ingest_event; DROP FUNCTION refuse()")
    assert {answer.status_code for answer in answers} <= {500, 503}
    assert [POISON in answer.content.decode() for answer in answers] == [False, False, False]
    assert POISON not in log.text()
    assert "CheckViolation (SQLSTATE 23514)" in log.text()
    assert "at ingest/journal.py:" in log.text()
    assert not Event.objects.exists()


def test_case_05_a_nul_in_a_tool_result_is_stored_and_not_logged(log: Log, headers: dict[str, str]) -> None:
    """The ordinary way of such a text: repaired, stored, and no word of it in the log."""
    assert post(headers, event({"output": f"{POISON} \u0000 \ud83d"})).status_code == 200
    assert POISON in json.dumps(Event.objects.get().data)
    assert POISON not in log.text()


def test_a_page_that_writes_to_a_standby_is_503() -> None:
    """After a failover the database may only be read for a while: the page says when to look again, nothing is made."""
    client = Client(raise_request_exception=False)
    client.force_login(make_person("alice", make_project("alpha")))
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION cannot() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'cannot' USING ERRCODE = '25006'; END $$;"
            "CREATE TRIGGER cannot BEFORE INSERT ON ingest_apikey FOR EACH ROW EXECUTE FUNCTION cannot()"
        )
    try:
        answer = client.post(reverse("keys", args=["alpha"]), {"name": "mine", "scopes": ["ingest"]})
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION cannot() CASCADE")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert not ApiKey.objects.exists()
