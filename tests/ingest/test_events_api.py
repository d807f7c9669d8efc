"""`POST /v1/events` and its neighbours over HTTP: statuses, error texts, and that a refusal changes nothing."""

import gzip
import io
import json
import zlib
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ingest.authentication import create_key, revoke_key
from ingest.models import ApiKey, Event, Project, Reject, Run

pytestmark = pytest.mark.django_db

URL = "/v1/events"


def event(number: int = 1, **fields: Any) -> dict[str, Any]:
    base = {"event_id": f"r-1:{number}", "run_id": "r-1", "type": "turn.started", "occurred_at": "2026-11-30T03:00:00Z"}
    return {**base, **fields}


class Sender:
    """A customer's runtime: one key, JSON bodies."""

    def __init__(self, project: Project, *scopes: str) -> None:
        self.project = project
        self.key, self.raw = create_key(project, "test", scopes)
        self.client = Client(raise_request_exception=False)

    def post(self, body: Any, **headers: str) -> Any:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content_type": "application/json", **{k: v for k, v in headers.items() if k == "content_type"}}
        extra = {k: v for k, v in headers.items() if k != "content_type"}
        return self.client.post(URL, sent, headers={"Authorization": f"Bearer {self.raw}", **extra}, **given)

    def get(self, url: str) -> Any:
        return self.client.get(url, headers={"Authorization": f"Bearer {self.raw}"})


@pytest.fixture
def sender() -> Sender:
    return Sender(Project.objects.create(slug="alpha", name="Alpha"), "ingest", "read")


def refused(response: Any, status: int, code: str) -> str:
    """Check a refusal's status and code, and that nothing was stored; return its sentence."""
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert not Event.objects.exists()
    assert not Run.objects.exists()
    return str(response.json()["detail"])


def test_all_stored_is_200_and_partial_is_207(sender: Sender) -> None:
    """A sender can tell from the status alone whether something was rejected."""
    assert sender.post({"events": [event(1)]}).status_code == 200
    response = sender.post(
        {"events": [event(2), {"run_id": "r-1"}, event(3, type="hint.delivery", data={"stage": "sent"})]}
    )
    body = response.json()
    assert (response.status_code, body["accepted"], body["duplicates"]) == (207, 1, 0)
    assert [(item["index"], item["code"]) for item in body["rejected"]] == [(1, "missing_field"), (2, "invalid_data")]
    assert "data.stage must be one of: selected, injected, dropped" in body["rejected"][1]["detail"]


def test_unknown_type_is_stored(sender: Sender) -> None:
    """A well-formed event of a type we derive nothing from is kept."""
    assert sender.post({"events": [event(1, type="weather.changed", data={"to": "rain"})]}).json()["accepted"] == 1
    assert Event.objects.get().type == "weather.changed"


@pytest.mark.parametrize(
    ("header", "code"), [(None, "key_missing"), ("Basic x", "key_missing"), ("Bearer tk_0_no", "key_unknown")]
)
def test_without_a_known_key_is_401(sender: Sender, header: str | None, code: str) -> None:
    """No key, another scheme and an unknown key are told apart."""
    headers = {"Authorization": header} if header else {}
    response = Client().post(URL, json.dumps({"events": [event()]}), content_type="application/json", headers=headers)
    refused(response, 401, code)
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_revoked_key_is_401(sender: Sender) -> None:
    """A revoked key says so."""
    revoke_key(sender.key)
    refused(sender.post({"events": [event()]}), 401, "key_revoked")


def test_wrong_scope_is_403_and_names_it() -> None:
    """A key that may only read cannot write."""
    reader = Sender(Project.objects.create(slug="beta", name="Beta"), "read")
    assert "no scope ingest" in refused(reader.post({"events": [event()]}), 403, "scope_missing")


def test_raw_key_is_not_in_the_database(sender: Sender) -> None:
    """Only the hash and a prefix of a key are kept."""
    row = ApiKey.objects.values().get(pk=sender.key.pk)
    assert sender.raw.split("_", 2)[2] not in str(row)
    assert sender.raw.startswith(row["prefix"])


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"\xff\xfe", 400, "bad_json"),
        (b"[]", 400, "bad_body"),
        (b'{"events": {}}', 400, "bad_body"),
        (b"[" * 200_000, 400, "too_nested"),
    ],
)
def test_undecodable_body_is_400(sender: Sender, body: bytes, status: int, code: str) -> None:
    """A body that is no list of events is refused whole, with the place when there is one."""
    refused(sender.post(body), status, code)


def test_too_many_events_is_413_with_the_limit(sender: Sender, settings: Any) -> None:
    """The limit stands in the text and as a number."""
    settings.INGEST_MAX_EVENTS = 2
    response = sender.post({"events": [event(number) for number in range(3)]})
    assert "the limit is 2" in refused(response, 413, "too_many_events")
    assert response.json()["limit"] == 2


def test_oversized_body_is_413_with_the_limit(sender: Sender, settings: Any) -> None:
    """Case 28: the limit is in the JSON answer, plain or inflated; a bomb is cut off."""
    settings.INGEST_MAX_BODY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 20_000
    refused(sender.post(b" " * 30_000), 413, "body_too_large")
    bomb = gzip.compress(b" " * 50_000_000)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
    response = sender.post(bomb, **{"Content-Encoding": "gzip"})
    refused(response, 413, "body_too_large")
    assert response.json()["limit"] == 20_000


def test_encodings(sender: Sender) -> None:
    """Case 30: gzip and deflate are read, a charset parameter is fine, broken data is 400, others 415."""
    body = json.dumps({"events": [event()]}).encode()
    refused(sender.post(gzip.compress(body)[:-9], **{"Content-Encoding": "gzip"}), 400, "bad_encoding")
    refused(sender.post(body, **{"Content-Encoding": "gzip"}), 400, "bad_encoding")
    refused(sender.post(body, **{"Content-Encoding": "br"}), 415, "unsupported_encoding")
    refused(sender.post(body, content_type="text/plain"), 415, "unsupported_type")
    assert sender.post(gzip.compress(body), **{"Content-Encoding": "gzip"}).json()["accepted"] == 1
    assert sender.post(zlib.compress(body), **{"Content-Encoding": "deflate"}).json()["duplicates"] == 1
    assert sender.post(body, content_type="application/json; charset=utf-8").json()["duplicates"] == 1


def test_get_is_405(sender: Sender) -> None:
    """Case 30: reading the write address says that it is for writing."""
    assert sender.get(URL).status_code == 405


@pytest.mark.parametrize(
    ("value", "stored", "word"),
    [
        ("a\x00b", "a\ufffdb", "nul"),
        ("\ud83d!", "\ufffd!", "surrogate"),
        (float("nan"), None, "non_finite"),
        (float("-inf"), None, "non_finite"),
        (2**70, str(2**70), "big_integer"),
    ],
)
def test_poison_is_stored_repaired_and_flagged(sender: Sender, value: Any, stored: Any, word: str) -> None:
    """Cases 2, 7, 9: what PostgreSQL cannot hold is replaced, at any depth and in keys, and the event says so."""
    response = sender.post({"events": [event(1, data={"v": value, "deep": [[{"v": value}]]})]})
    assert response.json()["accepted"] == 1
    row = Event.objects.get()
    assert row.data == {"v": stored, "deep": [[{"v": stored}]]}
    assert row.repairs == [word]


def test_text_about_nul_is_unchanged(sender: Sender) -> None:
    """Case 2: the six characters backslash-u-0000 are text like any other."""
    sender.post({"events": [event(1, data={"v": "\\u0000"})]})
    row = Event.objects.get()
    assert (row.data, row.repairs) == ({"v": "\\u0000"}, None)


@pytest.mark.parametrize("name", ["event_id", "run_id", "type", "tool", "caused_by", "knowledge_id"])
def test_nul_in_any_id_is_stored(sender: Sender, name: str) -> None:
    """Cases 4, 6: poison in an indexed column is repaired as well."""
    assert sender.post({"events": [event(1, **{name: "a\x00\ud800b"})]}).json()["accepted"] == 1
    assert getattr(Event.objects.get(), name) == "a\ufffd\ufffdb"


@pytest.mark.parametrize("key", ["", ".", "a..b", "__class__", "__proto__", "k\x00", "\ud83d", "k" * 5_000])
def test_hostile_keys_are_stored(sender: Sender, key: str) -> None:
    """Case 15: any key is data; a long one is cut."""
    assert sender.post({"events": [event(1, data={key: 1})]}).json()["accepted"] == 1
    (stored,) = Event.objects.get().data
    assert len(stored.encode()) <= 512


def test_deep_data_is_cut_with_a_marker(sender: Sender) -> None:
    """Case 18: nesting past the limit is replaced and flagged."""
    deep: Any = "bottom"
    for _ in range(300):
        deep = {"d": deep}
    assert sender.post({"events": [event(1, data={"deep": deep})]}).json()["accepted"] == 1
    row = Event.objects.get()
    assert row.repairs == ["nesting"]
    assert "nested deeper than" in json.dumps(row.data)


def test_long_string_is_cut_and_neighbours_stay(sender: Sender) -> None:
    """Case 28: one large field costs itself only, and says how long it was."""
    response = sender.post({"events": [event(1, data={"big": "x" * 900_000, "small": "kept"}), event(2)]})
    assert response.json()["accepted"] == 2
    row = Event.objects.get(event_id="r-1:1")
    assert row.data["small"] == "kept"
    assert row.data["big"].endswith("[cut: 900000 characters in all]")
    assert row.repairs == ["cut"]


@pytest.mark.parametrize(
    ("fields", "nanos"),
    [
        ({"occurred_at": "1970-01-01T00:00:00Z"}, 0),
        ({"occurred_at": "2026-11-30T03:00:00.000000001+03:00"}, 1795996800000000001),
        ({"occurred_at": None, "occurred_at_unix_nano": "123"}, 123),
        ({"occurred_at": None, "occurred_at_unix_nano": 2**63 - 1}, 2**63 - 1),
        ({"occurred_at": None, "occurred_at_unix_nano": -1}, -1),
    ],
)
def test_times_become_exact_nanoseconds(sender: Sender, fields: dict[str, Any], nanos: int) -> None:
    """Case 26: any time that fits 64 bits is kept as sent."""
    assert sender.post({"events": [event(1, **fields)]}).json()["accepted"] == 1
    assert Event.objects.get().occurred_ns == nanos


@pytest.mark.parametrize("text", ["yesterday", "2026-11-30", "2026-13-01T00:00:00Z", "3774-01-01T00:00:00Z", 12, True])
def test_times_that_cannot_be_kept_are_rejected(sender: Sender, text: Any) -> None:
    """Case 27: a bad time is rejected by index with what it must be."""
    body = sender.post({"events": [event(1, occurred_at=text)]}).json()
    assert body["rejected"][0]["code"] == "invalid_time"
    assert not Event.objects.exists()


def test_rejects_are_listed_for_the_sender(sender: Sender) -> None:
    """A sender whose SDK only logs answers finds its rejects later, and never its payload in them."""
    sender.post({"events": [{"event_id": "r-9:1", "run_id": "r-9", "type": "x", "occurred_at": "s3cret-looking"}]})
    (row,) = sender.get("/v1/rejects").json()["results"]
    assert (row["event_id"], row["code"]) == ("r-9:1", "invalid_time")
    assert "s3cret" not in json.dumps(row)


def test_events_are_read_by_cursor(sender: Sender) -> None:
    """Pages of a run's events join without gap or overlap."""
    sender.post({"events": [event(number) for number in range(1, 6)]})
    first = sender.get("/v1/runs/r-1/events?limit=3").json()
    rest = sender.get(f"/v1/runs/r-1/events?limit=3&after={first['next']}").json()
    assert [row["event_id"] for row in first["results"] + rest["results"]] == [f"r-1:{n}" for n in range(1, 6)]
    assert rest["next"] is None
    assert sender.get("/v1/runs/r-1/events?limit=x").json()["field"] == "limit"


def test_another_projects_run_is_404(sender: Sender) -> None:
    """A run of another project and one that does not exist look the same."""
    sender.post({"events": [event()]})
    stranger = Sender(Project.objects.create(slug="beta", name="Beta"), "read")
    theirs, nowhere = stranger.get("/v1/runs/r-1/events"), stranger.get("/v1/runs/r-0/events")
    assert theirs.status_code == nowhere.status_code == 404
    assert theirs.json() == nowhere.json()
    assert stranger.get("/v1/rejects").json()["results"] == []


@pytest.mark.parametrize("from_statement", ["SELECT", "INSERT INTO ingest_run (", "INSERT INTO ingest_run AS"])
def test_silent_database_is_503_with_retry_after(sender: Sender, from_statement: str) -> None:
    """Nothing is acknowledged when the database is lost at any step, and the sender is told when to come back."""

    def lose(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if from_statement in sql:
            raise OperationalError("server closed the connection")
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(lose):
        response = sender.post({"events": [event()]})
    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
    assert int(response.headers["Retry-After"]) > 0
    assert not Event.objects.exists()


def test_one_query_checks_a_key(sender: Sender) -> None:
    """Authentication costs one query."""
    with CaptureQueriesContext(connections["default"]) as queries:
        sender.post(b"{")
    assert len(queries) == 1


def test_no_payload_in_logs(sender: Sender, caplog: pytest.LogCaptureFixture) -> None:
    """Case 5: whatever goes wrong, the log holds no text of an event."""
    sender.post({"events": [event(1, data={"v": "canary-text\x00"}, occurred_at="canary-time")]})
    sender.post(b'{"canary-body')
    assert "canary" not in caplog.text
    assert Reject.objects.count() == 1


def test_event_schemas_are_published(sender: Sender) -> None:
    """Each type's JSON Schema can be read without a key."""
    schemas = Client().get("/v1/event-types").json()["results"]
    assert "holdout" in schemas["hint.delivery"]["properties"]["drop_reason"]["enum"]


def test_empty_batch_is_fine(sender: Sender) -> None:
    """A sender with nothing to say has done nothing wrong."""
    response = sender.post({"events": []})
    assert (response.status_code, response.json()) == (
        200,
        {"accepted": 0, "duplicates": 0, "conflicts": 0, "rejected": []},
    )


def test_poison_in_one_event_costs_no_other(sender: Sender) -> None:
    """Cases 1, 9, 18: bottomless nesting, bytes that are no UTF-8 and endless digits stay their own event's matter."""
    head = b'{"run_id":"r-1","type":"x","occurred_at":"2026-11-30T03:00:00Z","event_id":"%d","data":{"v":%s}}'
    values = [
        b"1",
        b"[" * 5_000 + b"]" * 5_000,
        b'"\xff\xfe"',
        b"7" * 10_000,
        b"NaN",
        b"{" + b'"a":{' * 999 + b"}" * 1_000,
    ]
    body = b'{"events":[' + b",".join(head % (number, value) for number, value in enumerate(values)) + b"]}"
    response = sender.post(body)
    assert (response.status_code, response.json()["accepted"]) == (200, len(values))
    repairs = dict(Event.objects.values_list("event_id", "repairs"))
    assert [repairs[str(number)] for number in range(len(values))] == [
        None,
        ["nesting"],
        ["surrogate"],
        ["big_integer"],
        ["non_finite"],
        ["nesting"],
    ]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("hint.outcome", {"outcome": "helpful", "note": "good\x00", "by": "owner\x00"}),
        ("hint.delivery", {"stage": "dropped", "needed": 1, "message_hash": "\x00"}),
        ("tool.failed", {"detail": "Traceback\x00 …", "error_class": "\x00"}),
        (
            "model.requested",
            {"n_messages": 1, "new_messages": [{"role": "user", "text": "a\x00\ud83d", "calls": ["\x00"]}]},
        ),
    ],
)
def test_nul_in_any_text_is_stored(sender: Sender, kind: str, data: dict[str, Any]) -> None:
    """Cases 2, 4, 6: notes, reasons, stack traces and message bodies."""
    assert sender.post({"events": [event(1, type=kind, data=data)]}).json()["accepted"] == 1
    assert "nul" in Event.objects.get().repairs


@pytest.mark.parametrize("accept", ["text/html", "application/x-protobuf", "*/*", "nonsense"])
def test_answer_is_json_whatever_is_asked_for(sender: Sender, accept: str) -> None:
    """Case 30: an exporter's Accept header is no reason to refuse its events."""
    response = sender.post({"events": [event(1)]}, Accept=accept)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")


def test_own_causes_and_cycles_are_stored(sender: Sender) -> None:
    """Case 20: an event that causes itself, or two that cause each other, are kept as told."""
    causes = {1: 1, 2: 3, 3: 2, 4: 99}
    events = [event(number, caused_by=f"r-1:{cause}") for number, cause in causes.items()]
    assert sender.post({"events": events}).json()["accepted"] == len(causes)
    assert dict(Event.objects.values_list("event_id", "caused_by")) == {
        f"r-1:{number}": f"r-1:{cause}" for number, cause in causes.items()
    }


def test_long_chain_of_causes_is_stored(sender: Sender) -> None:
    """Case 16: a chain of 5,000 is like any other run."""
    for start in range(0, 5_000, 1_000):
        events = [event(number, caused_by=f"r-1:{number - 1}") for number in range(start, start + 1_000)]
        assert sender.post({"events": events}).json()["accepted"] == 1_000
    assert Run.objects.get().last_arrival == Event.objects.count() == 5_000


def chunked(sender: Sender, body: bytes) -> Any:
    """Post without Content-Length, as a server passes a chunked body on: a stream that it ends itself."""
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": URL,
        "CONTENT_TYPE": "application/json",
        "HTTP_AUTHORIZATION": f"Bearer {sender.raw}",
        "wsgi.input": io.BytesIO(body),
        "wsgi.input_terminated": True,
    }
    return sender.client.request(**environ)


def test_chunked_body_is_read_within_the_limit(sender: Sender, settings: Any) -> None:
    """A sender that does not know its length beforehand is read as well, and bounded as well."""
    settings.INGEST_MAX_BODY_BYTES = 5_000
    response = chunked(sender, json.dumps({"events": [event(1, data={"v": "x" * 6_000})]}).encode())
    refused(response, 413, "body_too_large")
    assert chunked(sender, json.dumps({"events": [event(1)]}).encode()).json()["accepted"] == 1


def test_statements_do_not_grow_with_the_batch(sender: Sender) -> None:
    """A thousand events take as many statements as one."""
    counts = []
    for first, size in ((0, 1), (1, 1), (2, 998)):
        with CaptureQueriesContext(connections["default"]) as queries:
            sender.post({"events": [event(number) for number in range(first, first + size)]})
        counts.append(len(queries))
    assert counts[1] == counts[2] == 10
