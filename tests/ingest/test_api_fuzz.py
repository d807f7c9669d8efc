"""The machine API under requests nobody thinks of: made from its own document, and from bytes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from ingest.authentication import create_key
from ingest.models import Event, Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import KnowledgeItem
from tests.ingest.test_events_api import Sender

pytestmark = pytest.mark.django_db

load_all_checks()
CONFORMANCE = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    )
]
OPERATIONS = [
    ("POST", "/v1/events"),
    ("POST", "/v1/observations/hints"),
    ("POST", "/v1/observations/hints/batch"),
    ("GET", "/v1/event-types"),
    ("GET", "/v1/knowledge/items"),
    ("POST", "/v1/knowledge/items"),
    ("GET", "/v1/knowledge/items/{knowledge_id}"),
    ("POST", "/v1/knowledge/items/{knowledge_id}/revisions"),
    ("POST", "/v1/knowledge/items/{knowledge_id}/state"),
    ("POST", "/v1/knowledge/items/{knowledge_id}/suspension"),
    ("POST", "/v1/knowledge/items/{knowledge_id}/evidence"),
    ("GET", "/v1/knowledge/export"),
    ("GET", "/v1/rejects"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/reports/effectiveness"),
    ("GET", "/v1/reports/effects"),
    ("GET", "/v1/reports/effects/items"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/{run_id}"),
    ("GET", "/v1/runs/{run_id}/events"),
    ("GET", "/v1/runs/{run_id}/activations"),
    ("GET", "/v1/runs/{run_id}/requests/{event_id}"),
]
IMPORT = ("POST", "/v1/knowledge/import")
EXAMPLES = 25
# The same examples on every run; what one leaves behind belongs to the next, as in the world.
STEADY = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def headers() -> dict[str, str]:
    """A key that may do everything, of a project with one run that has rejects, repairs and a model request."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    _, raw = create_key(project, "fuzz", ["ingest", "observe", "read", "curate"])
    create_item(project, ItemDraft("k-1", "Run `x`."), by="a", reason="r")
    request = {"n_messages": 1, "n_kept": 0, "new_messages": [{"role": "user", "text": "a\x00"}]}
    base = {"run_id": "r-1", "occurred_at": "2026-11-30T03:00:00Z"}
    events = [
        {**base, "event_id": "e1", "type": "run.started", "data": {"task": "x"}},
        {**base, "event_id": "e2", "type": "model.requested", "data": request},
        {**base, "event_id": "e3", "type": "tool.failed", "seq": -1},
    ]
    found = {"Authorization": f"Bearer {raw}"}
    body = json.dumps({"events": events})
    assert Client().post("/v1/events", body, content_type="application/json", headers=found).status_code == 207
    return found


@pytest.fixture(scope="module")
def api() -> Any:
    """The document, with the application behind it in this process."""
    document = json.loads(Client().get("/v1/schema?format=json").content)
    schema = schemathesis.openapi.from_dict(document)
    schema.app = get_wsgi_application()
    return schema


@contextmanager
def connection_of_the_test() -> Iterator[None]:
    """Let requests use the connection of the test and leave it open, as Django's own test client does."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


def leave_project_out(body: Any) -> None:
    """Make hint requests that name some project ones for the key's own."""
    requests = body.get("requests") if isinstance(body, dict) else None
    for one in (body, *(requests if isinstance(requests, list) else ())):
        if isinstance(one, dict):
            one.pop("project", None)


def test_every_operation_is_tried(api: Any) -> None:
    """A new address joins the list here, or has a fuzz of its own."""
    documented = {(method.upper(), path) for path, item in api.raw_schema["paths"].items() for method in item}
    assert documented - set(OPERATIONS) <= {("POST", "/v1/traces"), ("POST", "/v1/logs"), IMPORT}
    assert set(OPERATIONS) <= documented


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does-not-fit"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_conform_to_the_document(
    api: Any, headers: dict[str, str], method: str, path: str, mode: GenerationMode
) -> None:
    """Whatever is asked, fitting the document or not: no server error, and every answer is as documented."""
    operation = api[path][method]
    if mode is GenerationMode.NEGATIVE and not (list(operation.iter_parameters()) or operation.body):
        mode = GenerationMode.POSITIVE  # there is nothing to get wrong
    statuses: set[int] = set()

    @STEADY
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def try_one(case: Any, known: bool) -> None:
        if known and case.path_parameters and "run_id" in case.path_parameters:
            case.path_parameters = {"run_id": "r-1", "event_id": "e2"}
        if known and case.path_parameters and "knowledge_id" in case.path_parameters:
            case.path_parameters = {"knowledge_id": "k-1"}
        if known:
            leave_project_out(case.body)
        response = case.call(headers=headers)
        case.validate_response(response, checks=CONFORMANCE)
        statuses.add(response.status_code)

    with connection_of_the_test():
        try_one()
    if mode is GenerationMode.POSITIVE:
        assert statuses & {200, 201, 207}, statuses


# What senders must be ready for; 401 and 403 are other keys, 429 and 503 other times.
ALLOWED = {200, 207, 400, 413, 415}
TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(["\x00", "\ud83d", "a..b", "__proto__", "", "x" * 3_000])
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63) - 1, 10**400])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "event_id",
    "run_id",
    "type",
    "occurred_at",
    "occurred_at_unix_nano",
    "ended_at",
    "seq",
    "turn",
    "tool",
    "data",
)
GOOD = {"event_id": "e9", "run_id": "r-9", "type": "tool.failed", "occurred_at": "2026-11-30T03:00:00Z"}
EVENTS = st.builds(lambda odd: {**GOOD, **odd}, st.dictionaries(st.sampled_from(FIELDS) | TEXT, VALUES, max_size=4))
BODIES = st.builds(
    lambda events: json.dumps({"events": events}).encode(), st.lists(EVENTS | VALUES, max_size=5)
) | st.binary(max_size=300)
ENCODINGS = st.sampled_from(["", "gzip", "deflate", "identity", "br", "gzip, gzip"])
TYPES = st.sampled_from(["application/json", "application/json; charset=utf-8", "", "text/plain"])


def cut_somewhere(body: bytes, places: list[int]) -> bytes:
    """Return the body with some bytes changed, as a broken network or sender would."""
    changed = bytearray(body)
    for place in places:
        if changed:
            changed[place % len(changed)] ^= 1 + place % 255
    return bytes(changed)


@pytest.fixture
def sender() -> Sender:
    return Sender(Project.objects.create(slug="beta", name="Beta"), "ingest")


def check_answer(response: Any, n_before: int) -> int:
    """Check one answer of the write address and that it counts what was stored; return the events stored now."""
    body = response.json()
    n_stored = Event.objects.count()
    assert response.status_code in ALLOWED, (response.status_code, body)
    if response.status_code in (200, 207):
        assert set(body) == {"accepted", "duplicates", "conflicts", "rejected"}
        assert n_stored - n_before == body["accepted"]
        assert (response.status_code == 207) == bool(body["rejected"])
        assert all({"index", "event_id", "run_id", "code", "detail"} == set(one) for one in body["rejected"])
    else:
        assert {"code", "detail"} <= set(body) and n_stored == n_before
    return n_stored


@settings(STEADY, max_examples=100)
@given(body=BODIES, places=st.lists(st.integers(0, 10_000), max_size=3), encoding=ENCODINGS, content_type=TYPES)
def test_any_bytes_get_a_right_answer(
    sender: Sender, body: bytes, places: list[int], encoding: str, content_type: str
) -> None:
    """Bytes of any kind, whole or damaged: never a server error, and what the answer counts is what is stored."""
    n_before = Event.objects.count()
    response = sender.post(
        cut_somewhere(body, places), content_type=content_type, **({"Content-Encoding": encoding} if encoding else {})
    )
    check_answer(response, n_before)


@settings(STEADY, max_examples=100)
@given(events=st.lists(EVENTS, min_size=1, max_size=5))
def test_any_event_is_stored_or_rejected_by_its_index(sender: Sender, events: list[dict[str, Any]]) -> None:
    """Every event of a readable request is stored, known or listed: none is lost and none costs another."""
    n_before = Event.objects.count()
    good = {**GOOD, "event_id": f"good-{n_before}", "run_id": "good"}
    response = sender.post(json.dumps({"events": [*events, good]}).encode())
    check_answer(response, n_before)
    body = response.json()
    assert body["accepted"] + body["duplicates"] + len(body["rejected"]) == len(events) + 1
    assert Event.objects.filter(run_id="good", event_id=good["event_id"]).exists()
    assert all(one["index"] < len(events) for one in body["rejected"])


def some_spans() -> bytes:
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


MADE_BY_AN_EXPORTER = ExportTraceServiceRequest(
    resource_spans=[{"scope_spans": [{"spans": [{"trace_id": b"a" * 16, "span_id": b"b" * 8, "name": "chat"}]}]}]
).SerializeToString()
OTLP_BODIES = st.sampled_from([some_spans(), MADE_BY_AN_EXPORTER, b"", b"{}", b'{"resourceSpans": {}}']) | st.binary()


@settings(STEADY, max_examples=120)
@given(
    body=OTLP_BODIES,
    places=st.lists(st.integers(0, 10_000), max_size=3),
    encoding=ENCODINGS,
    content_type=st.sampled_from(["application/json", "application/x-protobuf", "text/plain"]),
    path=st.sampled_from(["/v1/traces", "/v1/logs"]),
)
def test_any_bytes_get_a_right_otlp_answer(
    sender: Sender, body: bytes, places: list[int], encoding: str, content_type: str, path: str
) -> None:
    """Bytes of any kind at the OTLP addresses: a known status, in the sender's own media type."""
    headers = {"Authorization": f"Bearer {sender.raw}", **({"Content-Encoding": encoding} if encoding else {})}
    sent = cut_somewhere(body, places)
    response = sender.client.post(path, sent, content_type=content_type, headers=headers)
    assert response.status_code in ALLOWED - {207}, (response.status_code, response.content)
    if content_type == "application/x-protobuf" and sent:  # the test client declares no type of an empty body
        assert response.headers["Content-Type"] == "application/x-protobuf"
    elif response.content:
        assert isinstance(response.json(), dict)


@settings(STEADY, max_examples=120)
@given(
    body=BODIES | st.builds(lambda odd: json.dumps({"run": "r-1", **odd}).encode(), st.dictionaries(TEXT, VALUES)),
    places=st.lists(st.integers(0, 10_000), max_size=2),
    path=st.sampled_from(["/v1/observations/hints", "/v1/observations/hints/batch"]),
)
def test_any_bytes_get_a_right_hints_answer(headers: dict[str, str], body: bytes, places: list[int], path: str) -> None:
    """Bytes of any kind at the hints addresses: an answer, or a refusal by name."""
    client = Client(raise_request_exception=False)
    response = client.post(path, cut_somewhere(body, places), content_type="application/json", headers=headers)
    assert response.status_code in {200, 400, 403, 413, 422}, (response.status_code, response.content)
    assert response.status_code == 200 or {"code", "detail"} <= set(response.json())


ITEM_LINES = st.lists(
    st.builds(
        lambda odd: json.dumps({"knowledge_id": "k-2", "proposition": "Run `y`.", **odd}),
        st.dictionaries(st.sampled_from(["knowledge_id", "topics", "why", "state"]) | TEXT, VALUES, max_size=3),
    ),
    max_size=3,
).map(lambda lines: "\n".join(lines).encode())
ITEM_FILES = st.builds(
    lambda front, body: f"---\nknowledge_id: k-3\n{front}\n---\nRun `z`.\n{body}".encode(errors="replace"), TEXT, TEXT
)
PACKED = b"PK\x03\x04" + b"\x00" * 40


@settings(STEADY, max_examples=150)
@given(
    body=ITEM_LINES | ITEM_FILES | st.binary(max_size=200) | st.just(PACKED),
    places=st.lists(st.integers(0, 10_000), max_size=2),
    content_type=st.sampled_from(["application/jsonl", "application/zip", "text/markdown", "text/plain"]),
    query=st.sampled_from(["", "?dry_run=1", "?dry_run=maybe"]),
)
def test_any_bytes_get_a_right_import_answer(
    headers: dict[str, str], body: bytes, places: list[int], content_type: str, query: str
) -> None:
    """Bytes of any kind to be imported: done whole and counted, or refused by name and nothing done."""
    client = Client(raise_request_exception=False)
    n_before = KnowledgeItem.objects.count()
    sent = cut_somewhere(body, places)
    response = client.post(f"/v1/knowledge/import{query}", sent, content_type=content_type, headers=headers)
    assert response.status_code in {200, 400, 409, 415, 422}, (response.status_code, response.content)
    told = response.json()
    made = told["created"] if response.status_code == 200 and not query else 0
    assert KnowledgeItem.objects.count() - n_before == made
    assert response.status_code == 200 or {"code", "detail"} <= set(told)
