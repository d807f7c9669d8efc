"""Reports of real failures, replayed at the JSON endpoints: whatever a sender's text holds, nothing else is lost."""

import gzip
import json
import logging
import zlib
from itertools import permutations
from typing import Any

import pytest
from django.test import Client

from contract.events import EVENT_TYPES, ID_FIELDS
from ingest.models import Event, Message, Project, Reject, Run
from ingest.repair import REPAIRS
from knowledge.chains import refresh_run
from knowledge.models import RunSummary
from tests.factories import make_person
from tests.ingest.test_events_api import Sender, chunked, event

pytestmark = pytest.mark.django_db

POISON = "a\x00b\ud83dc"
CLEAN = "a\ufffdb\ufffdc"
HINTS = "/v1/observations/hints"


@pytest.fixture
def sender() -> Sender:
    return Sender(Project.objects.create(slug="alpha", name="Alpha"), "ingest", "read", "observe")


def hint(sender: Sender, body: dict[str, Any], path: str = HINTS) -> Any:
    headers = {"Authorization": f"Bearer {sender.raw}"}
    return sender.client.post(path, json.dumps(body), content_type="application/json", headers=headers)


def read_everything(sender: Sender, run_id: str) -> None:
    """Fold the run and read it by every way there is: what is stored must be readable."""
    refresh_run(sender.project.pk, run_id)
    url = next(one["url"] for one in sender.get("/v1/runs?limit=200").json()["results"] if one["run_id"] == run_id)
    for path in (url, f"{url}/events", f"{url}/activations", "/v1/rejects", "/v1/batches", "/v1/reports/effectiveness"):
        response = sender.get(path)
        assert response.status_code == 200, path
        assert b"\\u0000" not in response.content and b"\\ud83d" not in response.content
    person = make_person("reader", sender.project)
    browser = Client()
    browser.force_login(person)
    page = url.replace("/v1/runs/", "/alpha/runs/")
    assert browser.get(f"{page}/").status_code == 200


# ---- one unstorable row, the others ----------------------------------------------------------------------------------


def test_case_01_one_bad_event_costs_no_other(sender: Sender) -> None:
    """Of 100 events number 57 has a name over its column: 99 are stored, 1 is listed, in the answer and afterwards."""
    events = [event(number, tool="x" * 3_000 if number == 57 else "shell") for number in range(100)]
    response = sender.post({"events": events})
    body = response.json()
    assert (response.status_code, body["accepted"]) == (207, 99)
    assert [(one["index"], one["event_id"]) for one in body["rejected"]] == [(57, "r-1:57")]
    assert "tool" in body["rejected"][0]["detail"] and "200" in body["rejected"][0]["detail"]
    assert Event.objects.count() == 99
    assert [row["event_id"] for row in sender.get("/v1/rejects").json()["results"]] == ["r-1:57"]


@pytest.mark.parametrize("name", ID_FIELDS)
def test_case_01_any_column_too_long_is_one_reject(sender: Sender, name: str) -> None:
    """Whichever bounded column it is: this event is rejected by its index, its neighbours are stored."""
    body = sender.post({"events": [event(1), event(2, **{name: "x" * 201}), event(3)]}).json()
    assert (body["accepted"], [one["index"] for one in body["rejected"]]) == (2, [1])
    assert f"{name} " in body["rejected"][0]["detail"] and "200" in body["rejected"][0]["detail"]
    assert Event.objects.count() == 2


def test_case_01_a_word_outside_its_vocabulary_is_one_reject(sender: Sender) -> None:
    """A bad enum is named with the words that are known."""
    bad = event(2, type="hint.delivery", data={"stage": "teleported"})
    body = sender.post({"events": [event(1), bad, event(3)]}).json()
    assert (body["accepted"], body["rejected"][0]["index"]) == (2, 1)
    assert "selected, injected, dropped" in body["rejected"][0]["detail"]
    assert "teleported" not in json.dumps(body)


# ---- NUL, halves of surrogate pairs, numbers that are none -----------------------------------------------------------


@pytest.mark.parametrize("name", ID_FIELDS)
def test_case_02_07_poison_in_any_column_is_stored(sender: Sender, name: str) -> None:
    """NUL and half a surrogate pair in an indexed column are replaced and flagged."""
    body = sender.post({"events": [event(1, **{name: POISON})]}).json()
    assert body["accepted"] == 1
    row = Event.objects.get()
    assert getattr(row, name) == CLEAN
    assert row.repairs == ["nul", "surrogate"]
    read_everything(sender, row.run_id)


def poisoned(value: Any, is_word: bool) -> Any:
    """Return the value with every free text and every key of it poisoned."""
    if isinstance(value, str):
        return value if is_word else POISON
    if isinstance(value, dict):
        return {f"{key}\x00": poisoned(item, False) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(item, False) for item in value]
    return value


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_case_02_04_06_poison_in_every_text_of_every_type(sender: Sender, kind: str) -> None:
    """Notes, reasons, stack traces, results: every text field an event type has, and one it does not have."""
    known = EVENT_TYPES[kind]
    data = {
        name: poisoned(value, bool(known.fields[name].words or known.fields[name].is_trigger))
        if name in known.fields
        else poisoned(value, False)
        for name, value in known.example.items()
    }
    texts = [name for name, one in known.fields.items() if one.kind == "str" and not one.words and not one.is_trigger]
    data |= dict.fromkeys(texts, POISON)
    data |= {"exception.stacktrace": f"Traceback{POISON}", f"odd{POISON}": {f"deep{POISON}": [POISON]}}
    body = sender.post({"events": [event(1, type=kind, data=data)]}).json()
    assert (body["accepted"], body["rejected"]) == (1, [])
    row = Event.objects.get()
    assert {"nul", "surrogate"} <= set(row.repairs)
    assert row.data["exception.stacktrace"] == f"Traceback{CLEAN}"
    assert row.data[f"odd{CLEAN}"] == {f"deep{CLEAN}": [CLEAN]}
    assert all(row.data[name] == CLEAN for name in texts if name in row.data)
    read_everything(sender, "r-1")


def test_case_02_text_about_nul_is_unchanged(sender: Sender) -> None:
    """The six characters backslash-u-0000 are text: stored as they are, in values and keys, and not flagged."""
    literal = "\\u0000"
    sender.post({"events": [event(1, data={"v": literal, literal: 1}), event(2, data={"v": "\x00"})]})
    told, real = Event.objects.order_by("arrival")
    assert (told.data, told.repairs) == ({"v": literal, literal: 1}, None)
    assert (real.data, real.repairs) == ({"v": "\ufffd"}, ["nul"])


def test_case_02_07_poison_in_a_message_of_a_model_request(sender: Sender) -> None:
    """The message store holds what the journal would, and the request can be read."""
    message = {"role": f"user{POISON}", "text": POISON, "calls": [{"name": POISON, "arguments": {POISON: POISON}}]}
    data = {"n_messages": 1, "n_kept": 0, "new_messages": [message]}
    assert sender.post({"events": [event(1, type="model.requested", data=data)]}).json()["accepted"] == 1
    assert Message.objects.get().body["text"] == CLEAN
    (read,) = sender.get("/v1/runs/r-1/requests/r-1:1").json()["messages"]
    assert (read["role"], read["calls"]) == (f"user{CLEAN}", [{"name": CLEAN, "arguments": {CLEAN: CLEAN}}])
    read_everything(sender, "r-1")


HINT_TEXTS = (
    "query", "task", "actor", "tool", "tool_result", "team_root", "mcp_server", "error_class",
    "activation_source_id", "activation_id", "run",
)  # fmt: skip


@pytest.mark.parametrize("name", HINT_TEXTS)
def test_case_04_07_poison_in_any_text_of_a_hint_request(sender: Sender, name: str) -> None:
    """Observation answers, reports the activation, and the run can be read."""
    body = {"run": "r-1", "trigger": "tool.failed", "activation_source_id": "r-1:1", name: POISON}
    for path, sent in ((HINTS, body), (f"{HINTS}/batch", {"requests": [{**body, "activation_id": f"b-{name}"}]})):
        assert hint(sender, sent, path).status_code == 200
    run_id = CLEAN if name == "run" else "r-1"
    assert Event.objects.filter(run_id=run_id, type="hint.query").exists()
    read_everything(sender, run_id)


@pytest.mark.parametrize("name", ["entities", "topics", "active_skills", "issued_knowledge_ids"])
def test_case_04_07_poison_in_a_list_of_a_hint_request(sender: Sender, name: str) -> None:
    """Lists of texts as well, and the keys of the one object there is."""
    body = {"run": "r-1", name: [POISON], "suppressed_revisions": {POISON: 1}}
    assert hint(sender, body).status_code == 200


def test_case_05_no_payload_in_logs(sender: Sender, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong with a text, and wherever, the logs at their lowest level hold none of it."""
    caplog.set_level(logging.DEBUG)
    canary = "canary-of-the-payload"
    sender.post({"events": [event(1, type="tool.completed", data={"result": f"{canary}\x00"})]})
    sender.post({"events": [event(2, occurred_at=canary), event(3, seq=canary), event(4, type=canary * 20)]})
    sender.post({"events": [event(1, data={"result": f"{canary} other"})]})
    sender.post(f'{{"events": [{{"{canary}'.encode())
    sender.post(canary.encode(), **{"Content-Encoding": "gzip"})
    sender.post(canary.encode(), content_type="text/plain")
    sender.post({canary: 1})
    hint(sender, {"run": "r-1", "query": f"{canary}\x00", "nonsense": canary})
    hint(sender, {"run": "r-1", "tool_result": canary * 10_000})
    sender.get(f"/v1/runs?text={canary}&status={canary}")
    refresh_run(sender.project.pk, "r-1")
    text = caplog.text + "".join(str(record.__dict__.get("exc_text") or "") for record in caplog.records)
    assert canary not in text
    assert not Reject.objects.filter(detail__contains=canary).exists()


@pytest.mark.parametrize("depth", [0, 5])
@pytest.mark.parametrize("bare", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_case_09_numbers_that_are_none(sender: Sender, bare: str, depth: int) -> None:
    """Bare NaN and Infinity become null and are flagged, at any depth; what is read back is strict JSON."""
    value = '{"v":' * depth + bare + "}" * depth
    body = json.dumps({"events": [event(1, data={"v": "here"})]}).replace('"here"', value)
    response = sender.post(body.encode())
    assert (response.status_code, response.json()["accepted"]) == (200, 1)
    row = Event.objects.get()
    assert row.repairs == ["non_finite"] and "null" in json.dumps(row.data)
    json.loads(sender.get("/v1/runs/r-1/events").content, parse_constant=pytest.fail)


@pytest.mark.parametrize("name", ["seq", "turn", "occurred_at_unix_nano"])
def test_case_09_numbers_that_are_none_in_the_envelope(sender: Sender, name: str) -> None:
    """Where a number is meant, the event is rejected by its index."""
    odd = json.dumps(event(1)).replace("{", f'{{"{name}": NaN, ', 1)
    response = sender.post(f'{{"events": [{odd}, {json.dumps(event(2))}]}}'.encode())
    assert (response.status_code, response.json()["accepted"]) == (207, 1)
    assert response.json()["rejected"][0]["index"] == 0


# ---- shape -----------------------------------------------------------------------------------------------------------

KEYS = ["", ".", "..", "a..b", "__class__", "__proto__", "constructor", "input.value", "$ref", "k" * 5_000, "é" * 3_000]


@pytest.mark.parametrize("key", KEYS)
def test_case_15_hostile_keys(sender: Sender, key: str) -> None:
    """Any key is data, at any level; a long one is shortened the same way every time, and flagged."""
    data = {key: {key: "inner"}, "input": "plain", "input.value": "dotted"}
    sender.post({"events": [event(1, data=data), event(2, data=data)]})
    one, two = Event.objects.order_by("arrival")
    assert one.data == two.data
    assert all(len(name.encode()) <= 512 for name in one.data)
    assert (one.data["input"], one.repairs) == ("plain", ["long_key"] if len(key) > 512 else None)
    if key != "input.value":
        assert one.data["input.value"] == "dotted"
        assert one.data[key if len(key) <= 512 else next(name for name in one.data if "…#" in name)]
    read_everything(sender, "r-1")


def test_case_15_keys_that_become_one_both_stay(sender: Sender) -> None:
    """Two keys that repair would make equal are told apart, in a way that does not depend on chance."""
    sender.post({"events": [event(1, data={"k\x00": 1, "k\ufffd": 2})]})
    data = Event.objects.get().data
    assert sorted(data.values()) == [1, 2]
    assert {"nul", "key_collision"} <= set(Event.objects.get().repairs)


@pytest.mark.parametrize("depth", [12, 20, 200, 5_000])
@pytest.mark.parametrize(("opening", "closing"), [('{"d":', "}"), ("[", "]")])
def test_case_18_deep_nesting(sender: Sender, depth: int, opening: str, closing: str) -> None:
    """Beyond the limit a marker stands in place of the rest; nothing recurses to death, the neighbour is stored."""
    deep = opening * depth + '"bottom"' + closing * depth
    body = f'{{"events": [{json.dumps(event(1))[:-1]}, "data": {{"deep": {deep}}}}}, {json.dumps(event(2))}]}}'
    response = sender.post(body.encode())
    assert response.json()["accepted"] == 2
    row = Event.objects.get(event_id="r-1:1")
    assert ("bottom" in json.dumps(row.data)) == (depth < 60)
    assert row.repairs == (None if depth < 60 else ["nesting"])
    read_everything(sender, "r-1")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"events":' + b"[" * 100_000, b'{"a":' * 100_000])
def test_case_18_bottomless_bodies(sender: Sender, body: bytes) -> None:
    """A body that is nothing but depth is refused with 400, by every endpoint that reads JSON."""
    for response in (
        sender.post(body),
        sender.client.post(
            HINTS, body, content_type="application/json", headers={"Authorization": f"Bearer {sender.raw}"}
        ),
    ):
        assert (response.status_code, "code" in response.json()) == (400, True)
    assert not Event.objects.exists()


LIFE = [
    {"type": "run.started", "data": {"task": "Build", "agent": "mine"}, "seq": 1},
    {"type": "tool.requested", "data": {"tool": "shell"}, "call_id": "c1", "tool": "shell", "seq": 2},
    {"type": "tool.failed", "data": {"detail": "no"}, "call_id": "c1", "tool": "shell", "seq": 3},
    {"type": "run.completed", "data": {"answer": "Done"}, "seq": 4},
]


def test_case_23_any_order_gives_the_same_run(sender: Sender) -> None:
    """End before start, in one request or several, with resends: name, input and totals are the same."""
    seen = set()
    for number, order in enumerate(permutations(range(4))):
        run_id = f"r-{number}"
        for place in (*order, order[0]):
            moment = f"2026-11-30T03:00:0{place}Z"
            sent = event(place, run_id=run_id, event_id=f"{run_id}:{place}", occurred_at=moment, **LIFE[place])
            assert sender.post({"events": [sent]}).status_code == 200
            refresh_run(sender.project.pk, run_id)
        run = RunSummary.objects.get(run_id=run_id)
        seen.add((run.status, run.task, run.agent, run.answer, run.n_tool_calls, run.n_tools_failed, run.n_events))
    assert seen == {("completed", "Build", "mine", "Done", 1, 1, 4)}


def test_case_23_a_start_without_an_end_is_running(sender: Sender) -> None:
    """What has not ended is shown as running, with what is known of it."""
    sender.post({"events": [event(0, **LIFE[0])]})
    refresh_run(sender.project.pk, "r-1")
    run = sender.get("/v1/runs/r-1").json()
    assert (run["status"], run["task"], run["ended_at"], run["duration_ms"]) == ("running", "Build", None, None)


# ---- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "is_far"),
    [
        ("1970-01-01T00:00:00Z", True),
        ("2261-01-01T00:00:00Z", True),
        ("2026-11-29T00:00:00Z", False),
        ("2026-11-30T03:07:00Z", False),
    ],
)
def test_case_27_odd_clocks_lose_nothing(sender: Sender, moment: str, is_far: bool) -> None:
    """A run dated anywhere is stored, listed by when it arrived, found by its id, its time kept and flagged."""
    assert sender.post({"events": [event(1, run_id="r-odd", occurred_at=moment)]}).json()["accepted"] == 1
    sender.post({"events": [event(2)]})
    row = Event.objects.get(run_id="r-odd")
    assert (row.repairs or []) == (["clock_far"] if is_far else [])
    listed = {run["run_id"] for run in sender.get("/v1/runs?since=2020-01-01T00:00:00Z").json()["results"]}
    assert listed == {"r-1", "r-odd"}
    assert sender.get("/v1/runs/r-odd/events").json()["results"][0]["occurred_at"].startswith(moment[:19])
    read_everything(sender, "r-odd")


def test_case_27_a_year_beyond_64_bits_is_one_reject(sender: Sender) -> None:
    """A time no column can hold is rejected by its index with what it must be, and never an error."""
    body = sender.post({"events": [event(1, occurred_at="3774-01-01T00:00:00Z"), event(2)]}).json()
    assert (body["accepted"], body["rejected"][0]["code"]) == (1, "invalid_time")
    assert "2261" in body["rejected"][0]["detail"]


@pytest.mark.parametrize("nanos", [1_795_996_800, 1_795_996_800_000, 0, -1, 2**63 - 1, -(2**63)])
def test_case_27_seconds_sent_as_nanoseconds(sender: Sender, nanos: int) -> None:
    """Another unit than nanoseconds is kept as sent and flagged: the run is there and its page opens."""
    sent = event(1, occurred_at=None, occurred_at_unix_nano=nanos)
    assert sender.post({"events": [sent]}).json()["accepted"] == 1
    assert (Event.objects.get().occurred_ns, Event.objects.get().repairs) == (nanos, ["clock_far"])
    read_everything(sender, "r-1")


def test_case_27_a_long_event_is_legal_and_a_turned_one_flagged(sender: Sender) -> None:
    """27 hours from start to end are no mistake; an end before the start is, and both times stay."""
    long = event(1, ended_at="2026-12-01T06:00:00Z")
    turned = event(2, ended_at="2026-11-30T02:59:59.999999999Z")
    assert sender.post({"events": [long, turned]}).json()["accepted"] == 2
    one, two = Event.objects.order_by("arrival")
    assert one.repairs is None or "end_before_start" not in one.repairs
    assert two.repairs == ["end_before_start"] and two.ended_ns == two.occurred_ns - 1


# ---- size and protocol -----------------------------------------------------------------------------------------------


def test_case_28_too_large_a_body_names_the_limit(sender: Sender) -> None:
    """30 MB are refused with a JSON answer that names the limit in words and as a number, declared or not."""
    body = b'{"events": [' + b" " * 30_000_000 + b"]}"
    for response in (sender.post(body), chunked(sender, body)):
        answer = response.json()
        assert (response.status_code, answer["code"], answer["limit"]) == (413, "body_too_large", 8 * 1024 * 1024)
        assert str(8 * 1024 * 1024) in answer["detail"]
    assert not Run.objects.exists()


def test_case_28_too_many_events_names_the_limit(sender: Sender) -> None:
    """1,446 events at once are refused with how many may be sent; in parts they are stored."""
    events = [event(number) for number in range(1_446)]
    answer = sender.post({"events": events}).json()
    assert (answer["code"], answer["limit"]) == ("too_many_events", 1_000)
    assert "1000" in answer["detail"] and "1446" in answer["detail"]
    assert not Event.objects.exists()
    assert [sender.post({"events": part}).json()["accepted"] for part in (events[:1_000], events[1_000:])] == [
        1_000,
        446,
    ]


def test_case_28_one_large_field_costs_itself_only(sender: Sender) -> None:
    """A field of 7 MB among small ones is cut, with its length; the rest of the event and its neighbours stay."""
    data = {"big": "x" * 7_000_000, "small": "kept"}
    body = sender.post({"events": [event(1), event(2, data=data), event(3)]}).json()
    assert (body["accepted"], body["rejected"]) == (3, [])
    row = Event.objects.get(event_id="r-1:2")
    assert row.data["small"] == "kept" and "7000000 characters" in row.data["big"]
    assert row.repairs == ["cut"]


def test_case_28_many_small_parts_are_one_reject(sender: Sender) -> None:
    """An event that cutting texts cannot make small is rejected with the limit; its neighbours are stored."""
    data = {f"k{number}": number for number in range(40_000)}
    body = sender.post({"events": [event(1), event(2, data=data)]}).json()
    assert (body["accepted"], body["rejected"][0]["index"]) == (1, 1)
    assert str(256 * 1024) in body["rejected"][0]["detail"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_case_28_a_bomb_is_cut_off(sender: Sender, encoding: str) -> None:
    """200 KB that become 200 MB are read no further than the limit."""
    blank = b" " * 200_000_000
    bomb = gzip.compress(blank, 1) if encoding == "gzip" else zlib.compress(blank, 1)
    response = sender.post(bomb, **{"Content-Encoding": encoding})
    assert (response.status_code, response.json()["limit"]) == (413, 8 * 1024 * 1024)
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON;x=y"]
)
@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "x-gzip", "deflate"])
def test_case_30_ways_to_send_the_same(sender: Sender, content_type: str, encoding: str) -> None:
    """JSON with or without a charset, plain, gzip or deflate: stored, and answered in JSON."""
    body = json.dumps({"events": [event(1)]}).encode()
    squeezed = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}.get(encoding, bytes)(body)
    headers = {"Content-Encoding": encoding} if encoding else {}
    response = sender.post(squeezed, content_type=content_type, **headers)
    assert (response.status_code, response.json()["accepted"]) == (200, 1)
    assert response.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"", {}, 400, "bad_json"),
        (b"{", {}, 400, "bad_json"),
        (b"\x1f\x8b\x00broken", {"Content-Encoding": "gzip"}, 400, "bad_encoding"),
        (gzip.compress(b"{}")[:-4], {"Content-Encoding": "gzip"}, 400, "bad_encoding"),
        (b"{}", {"Content-Encoding": "br"}, 415, "unsupported_encoding"),
        (b"{}", {"content_type": "application/xml"}, 415, "unsupported_type"),
        (b"{}", {"content_type": "application/json; charset=utf-16"}, 415, "unsupported_type"),
        (b"{}", {}, 400, "bad_body"),
        (b"null", {}, 400, "bad_body"),
    ],
)
def test_case_30_broken_input_is_4xx(
    sender: Sender, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    """Broken bodies are the sender's matter, never a 500, and answered in JSON whatever is accepted."""
    response = sender.post(body, Accept="text/html", **headers)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["Content-Type"] == "application/json"
    assert not Event.objects.exists()


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete"])
def test_case_30_other_methods_are_405(sender: Sender, method: str) -> None:
    """Another method is told apart from a wrong address, with what is allowed."""
    response = getattr(sender.client, method)("/v1/events", headers={"Authorization": f"Bearer {sender.raw}"})
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"] and response.json()["code"] == "method_not_allowed"


def test_every_repair_word_has_its_sentence(sender: Sender) -> None:
    """What a sender reads of a repair says what was done, not only a word."""
    assert all(len(sentence) > 15 for sentence in REPAIRS.values())
