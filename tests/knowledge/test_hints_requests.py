"""What a hints request may hold: every limit on both its sides, every wrong type by name, bodies of every kind.

A refusal changes nothing, and none repeats what was sent. (Seed 001 §7.1, §7.3.)
"""

import gzip
import json
import math
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.models import Event, Project
from knowledge.find_hints.findings import HintQuery
from knowledge.hints_api.request import FIELDS, parse_batch, parse_request
from knowledge.models import HintAnswer
from tests.knowledge.asking import BATCH, ERROR, URL, add_item, all_rows, failed, key_for, make_project, post

ASTRAL = "🙂"  # one code point, two UTF-16 units, four bytes
IDS = (
    "project", "run", "task", "actor", "tool", "team_root", "mcp_server", "error_class", "activation_source_id",
    "activation_id", "embedding_model",
)  # fmt: skip
LISTS = ("entities", "topics", "active_skills", "issued_knowledge_ids", "suppressed_knowledge_ids")
NOT_TEXTS: list[Any] = [7, 7.5, True, [], ["x"], {}, {"a": 1}]
NOT_LISTS: list[Any] = ["x", 7, True, {"a": 1}]
NOT_WHOLE: list[Any] = [True, False, "8", 8.0, 7.5, [], {}, 10**400]
CANARY = "canary-7f3a9"


@pytest.fixture
def project(db: None) -> Project:
    project = make_project("alpha")
    add_item(project, "git-init", entities=("not a git repository",), trigger="tool.failed")
    return project


def nothing_written() -> bool:
    return not HintAnswer.objects.exists() and not Event.objects.exists()


def refused(response: Any, status: int, code: str, field: str) -> dict[str, Any]:
    """Check a refusal and return its body."""
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["code"], body["field"]) == (status, code, field), body
    assert body["detail"].startswith(field)
    assert CANARY not in response.content.decode()
    assert nothing_written()
    return body


def test_every_field_of_the_contract_is_taken(project: Project) -> None:
    """A request with all of them is answered, and each reaches the search under its name."""
    sent = {
        "project": "alpha", "run": "r-1", "task": "t-1", "actor": "a-1", "query": "Release", "tool": "shell",
        "tool_result": ERROR, "entities": ["git"], "topics": ["vcs"], "limit": 3, "active_skills": ["docker"],
        "issued_knowledge_ids": ["k-1"], "suppressed_knowledge_ids": ["k-2"], "suppressed_revisions": {"k-2": 1},
        "team_root": "r-0", "trigger": "tool.failed", "mcp_server": "git", "error_class": "exit_nonzero",
        "activation_source_id": "r-1:7", "activation_id": "r-1:a1", "embedding": [0.5, -1, 2e-3],
        "embedding_model": "all-MiniLM-L6-v2",
        "budget": {"activation_tokens": 400, "run_tokens": 2000, "hint_limit": 3},
        "tool_arguments": "git status",
    }  # fmt: skip
    assert set(sent) == set(FIELDS)
    assert parse_request(sent, "alpha") == HintQuery(
        run_id="r-1", activation_id="r-1:a1", trigger="tool.failed", query="Release", tool="shell", mcp_server="git",
        tool_result=ERROR, error_class="exit_nonzero", source_event_id="r-1:7", task_id="t-1", actor_id="a-1",
        team_root="r-0", entities=("git",), topics=("vcs",), active_skills=("docker",), issued=("k-1",),
        suppressed=("k-2",), suppressed_revisions={"k-2": 1}, limit=3, embedding=(0.5, -1.0, 0.002),
        embedding_model="all-MiniLM-L6-v2",
        budget={"activation_tokens": 400, "run_tokens": 2000, "hint_limit": 3}, tool_arguments="git status",
    )  # fmt: skip
    answer = post(key_for(project), sent).json()
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["git-init"]


def test_null_is_not_given(project: Project) -> None:
    """Every field but the run may be null, which is as if it were left out; limit 0 and null are 8."""
    bare = parse_request({"run": "r-1", "activation_id": "a"}, "alpha")
    nothing = {name: None for name in FIELDS if name not in ("run", "activation_id")}
    assert parse_request({**nothing, "run": "r-1", "activation_id": "a"}, "alpha") == bare
    assert parse_request({"run": "r-1", "activation_id": "a", "limit": 0, "trigger": ""}, "alpha") == bare
    assert (bare.limit, bare.trigger) == (8, "task.priming")
    refused(post(key_for(project), {"run": None}), 400, "invalid_field", "run")


@pytest.mark.parametrize(
    ("field", "limit"),
    [
        ("query", 4096),
        ("tool_result", 8192),
        ("tool_arguments", 1024),
        *((name, 200) for name in IDS if name != "project"),
    ],
)
def test_texts_are_counted_in_code_points(project: Project, field: str, limit: int) -> None:
    """As many astral characters as the limit pass; one more is refused with the field, the limit and the number."""
    limit = 190 if field == "activation_id" else limit
    key = key_for(project)
    body = refused(post(key, failed(**{field: ASTRAL * (limit + 1)})), 422, "limit_exceeded", field)
    assert (body["limit"], body["actual"], body["unit"]) == (limit, limit + 1, "characters")
    assert str(limit) in body["detail"] and str(limit + 1) in body["detail"] and ASTRAL not in body["detail"]
    assert post(key, failed(**{field: ASTRAL * limit})).status_code == 200


def test_escaped_pairs_are_one_character(project: Project) -> None:
    """An astral character escaped as two halves counts one, as it does unescaped."""
    escaped = '{"run": "r-1", "query": "' + "\\ud83d\\ude42" * 4096 + '"}'
    assert post(key_for(project), escaped).status_code == 200
    response = post(key_for(project), escaped.replace('"run"', '"tool": "\\ud83d\\ude42", "run"'))
    assert response.status_code == 200


@pytest.mark.parametrize("field", LISTS)
def test_lists_are_bounded(project: Project, field: str) -> None:
    """A thousand entries of two hundred characters; more, longer or empty ones are refused by their place."""
    key = key_for(project)
    body = refused(post(key, failed(**{field: ["x"] * 1001})), 422, "limit_exceeded", field)
    assert (body["limit"], body["actual"], body["unit"]) == (1000, 1001, "entries")
    body = refused(post(key, failed(**{field: ["x", ASTRAL * 201]})), 422, "limit_exceeded", f"{field}[1]")
    assert (body["limit"], body["actual"]) == (200, 201)
    refused(post(key, failed(**{field: ["x", ""]})), 400, "invalid_field", f"{field}[1]")
    refused(post(key, failed(**{field: ["x", None]})), 400, "invalid_field", f"{field}[1]")
    assert post(key, failed(**{field: [ASTRAL * 200] * 300 + ["x"] * 700})).status_code == 200


@pytest.mark.parametrize("field", [*IDS, "query", "tool_result", "tool_arguments"])
@pytest.mark.parametrize("value", NOT_TEXTS, ids=repr)
def test_a_text_is_a_text(project: Project, field: str, value: Any) -> None:
    """Numbers, true, lists and objects are no text."""
    refused(post(key_for(project), failed(**{field: value})), 400, "invalid_field", field)


@pytest.mark.parametrize("field", [*LISTS, "embedding"])
@pytest.mark.parametrize("value", NOT_LISTS, ids=repr)
def test_a_list_is_a_list(project: Project, field: str, value: Any) -> None:
    """A text is not a list of its characters, an object not one of its names."""
    refused(post(key_for(project), failed(**{field: value})), 400, "invalid_field", field)


@pytest.mark.parametrize("field", ["limit", "budget.activation_tokens", "budget.run_tokens", "budget.hint_limit"])
@pytest.mark.parametrize("value", NOT_WHOLE, ids=lambda value: f"{str(value)[:8]}")
def test_a_whole_number_is_one(project: Project, field: str, value: Any) -> None:
    """True, digits as text, fractions and numbers beyond 64 bits are no whole numbers here."""
    group, _, name = field.rpartition(".")
    sent = {group: {name: value}} if group else {name: value}
    refused(post(key_for(project), failed(**sent)), 400, "invalid_field", field)


@pytest.mark.parametrize(("value", "limit"), [(-1, 0), (21, 20), (2**63 - 1, 20), (-(2**63), 0)])
def test_the_limit_has_limits(project: Project, value: int, limit: int) -> None:
    """0 to 20; beyond, both numbers are told."""
    body = refused(post(key_for(project), failed(limit=value)), 422, "limit_exceeded", "limit")
    assert (body["limit"], body["actual"]) == (limit, value)


@pytest.mark.parametrize(
    "value", [True, "0.5", None, [0.5], {}, 10**400], ids=lambda value: f"{type(value).__name__}-{str(value)[:6]}"
)
def test_an_embedding_is_finite_numbers(project: Project, value: Any) -> None:
    """What is none is refused by its place."""
    refused(post(key_for(project), failed(embedding=[0.5, value])), 400, "invalid_field", "embedding[1]")


def test_numbers_beyond_all_bounds_are_told_as_such(project: Project) -> None:
    """1e400 reads as infinite and is none; NaN and Infinity are no JSON; a number of ten thousand digits is unread."""
    key = key_for(project)
    sent = '{"run": "r-1", "embedding": [0.5, %s]}'
    refused(post(key, sent % "1e400"), 400, "invalid_field", "embedding[1]")
    refused(post(key, sent % ("9" * 400)), 400, "invalid_field", "embedding[1]")
    for word in ("NaN", "Infinity", "-Infinity", "9" * 10_000):
        response = post(key, sent % word)
        assert (response.status_code, response.json()["code"]) == (400, "bad_json")
    assert nothing_written()


def test_an_embedding_has_at_most_4096_numbers(project: Project) -> None:
    """That many pass, whatever the items have; the answer says that they were not compared."""
    key = key_for(project)
    body = refused(post(key, failed(embedding=[0.1] * 4097)), 422, "limit_exceeded", "embedding")
    assert (body["limit"], body["actual"], body["unit"]) == (4096, 4097, "numbers")
    answer = post(key, failed(embedding=[0.1] * 4096, embedding_model="another")).json()
    assert answer["count"] == 1
    assert any("embedding" in note for note in answer["notes"])
    assert post(key, failed()).json()["notes"] == []


@pytest.mark.parametrize(
    "name", ["colour", "Query", "query ", "", "issued", "__proto__", "я" * 300, "a\x00b", "run_id", "\x1b[31m"]
)
def test_unknown_fields_are_named(project: Project, name: str) -> None:
    """By name, in a form that is short and printable; the known ones are told."""
    response = post(key_for(project), failed(**{name: CANARY}))
    body = response.json()
    assert (response.status_code, body["code"]) == (400, "unknown_field")
    assert body["field"].isprintable() and len(body["field"]) <= 65
    assert body["field"].rstrip("…") in name.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert "known are activation_id, " in body["detail"] and CANARY not in body["detail"]
    assert nothing_written()


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "bad_json"),
        (b" \n", 400, "bad_json"),
        (b"null", 400, "bad_body"),
        (b"true", 400, "bad_body"),
        (b'"run"', 400, "bad_body"),
        (b"[]", 400, "bad_body"),
        (b'[{"run": "r-1"}]', 400, "bad_body"),
        (b'{"run": "r-1"', 400, "bad_json"),
        (b'{"run": "r-1"} {}', 400, "bad_json"),
        (b"{'run': 'r-1'}", 400, "bad_json"),
        (b'{"run": "a\x00b"}', 400, "bad_json"),
        (b'{"run": "\xff"}', 400, "bad_json"),
        ('{"run": "r-1"}'.encode("utf-16"), 400, "bad_json"),
        (b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "too_nested"),
        (b"[" * 500_000, 400, "too_nested"),
    ],
    ids=lambda value: repr(value)[:24],
)
@pytest.mark.parametrize("url", [URL, BATCH])
def test_bodies_that_are_no_request(project: Project, raw: bytes, status: int, code: str, url: str) -> None:
    """Each is told what it is, in both forms of the call."""
    response = post(key_for(project), raw, url)
    body = response.json()
    assert (response.status_code, body["code"], body["field"]) == (status, code, "body"), body
    assert nothing_written()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ('{"run": "r-1", "run": "r-2"}', "run"),
        ('{"run": "r-1", "budget": {"run_tokens": 1, "run_tokens": 2}}', "run_tokens"),
        ('{"run": "r-1", "suppressed_revisions": {"k": 1, "k": 2}}', "k"),
        ('{"run": "r-1", "\\u0071uery": "a", "query": "b"}', "query"),
    ],
)
def test_a_field_that_stands_twice_is_refused(project: Project, raw: str, field: str) -> None:
    """Which of the two is meant is not guessed, at any depth and however it is escaped."""
    refused(post(key_for(project), raw), 400, "duplicate_key", field)


def test_nested_junk_is_refused_by_the_field_it_stands_in(project: Project) -> None:
    """What is deeper than anything of a request ends as a wrong value of its field."""
    key = key_for(project)
    deep: Any = CANARY
    for _ in range(60):
        deep = {"a": [deep]}
    refused(post(key, failed(query=deep)), 400, "invalid_field", "query")
    refused(post(key, failed(budget={"run_tokens": deep})), 400, "invalid_field", "budget.run_tokens")
    refused(post(key, failed(budget=[1])), 400, "bad_body", "budget")
    refused(post(key, failed(issued_knowledge_ids=[deep])), 400, "invalid_field", "issued_knowledge_ids[0]")
    refused(post(key, failed(suppressed_revisions={"k": deep})), 400, "invalid_field", "suppressed_revisions.k")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/json; charset=latin-1", 415),
    ],
)
def test_the_body_is_declared_as_json(project: Project, content_type: str, status: int) -> None:
    """Another media type or charset is 415 with the fix."""
    response = post(key_for(project), json.dumps(failed()), content_type=content_type)
    assert response.status_code == status
    if status == 415:
        assert response.json()["code"] == "unsupported_type"
        assert "application/json" in response.json()["detail"]
        assert nothing_written()


def test_compressed_bodies_are_read_within_the_limit(project: Project) -> None:
    """gzip is inflated; what is too large inside, broken or of another encoding is refused."""
    key = key_for(project)
    whole = gzip.compress(json.dumps(failed()).encode())
    assert post(key, whole, **{"Content-Encoding": "gzip"}).json()["count"] == 1
    Event.objects.all().delete()
    HintAnswer.objects.all().delete()
    bomb = gzip.compress(b" " * (64 * 1024 * 1024))
    for content, encoding, status, code in (
        (bomb, "gzip", 413, "body_too_large"),
        (whole[:-9], "gzip", 400, "bad_encoding"),
        (b"no gzip", "gzip", 400, "bad_encoding"),
        (whole, "", 400, "bad_json"),
        (whole, "br", 415, "unsupported_encoding"),
    ):
        response = post(key, content, **{"Content-Encoding": encoding})
        assert (response.status_code, response.json()["code"]) == (status, code)
    assert nothing_written()


def test_a_body_of_one_mebibyte_is_taken_and_one_byte_more_is_not(project: Project) -> None:
    """The limit is in bytes of the body, spaces and all."""
    key = key_for(project)
    body = json.dumps(failed()).encode()
    response = post(key, body + b" " * (1024 * 1024 + 1 - len(body)))
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
    assert (response.json()["limit"], nothing_written()) == (1024 * 1024, True)
    assert "events" not in response.json()["detail"]
    assert post(key, body + b" " * (1024 * 1024 - len(body))).status_code == 200


def test_what_postgres_cannot_hold_is_replaced(project: Project) -> None:
    """NUL and half surrogate pairs are repaired, as everywhere in the API; the rest of the text is searched."""
    sent = json.dumps(failed()).replace("fatal", "\\u0000 \\ud83d fatal").replace("r-1:7", "r\\u00001")
    answer = post(key_for(project), sent).json()
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["git-init"]
    assert Event.objects.filter(type="hint.query", caused_by="r\ufffd1").exists()


@pytest.mark.parametrize(
    ("entry", "status", "field"),
    [
        (7, 400, "requests[1]"),
        ([], 400, "requests[1]"),
        (None, 400, "requests[1]"),
        ({}, 400, "requests[1].run"),
        ({"run": "r-1", "colour": CANARY}, 400, "requests[1].colour"),
        ({"run": "r-1", "budget": {"gold": 1}}, 400, "requests[1].budget.gold"),
        ({"run": "r-1", "entities": ["a", 7]}, 400, "requests[1].entities[1]"),
        ({"run": "r-1", "query": "x" * 4097}, 422, "requests[1].query"),
        ({"run": "r-1", "project": "beta"}, 403, "requests[1].project"),
        ({"run": "r-1", "activation_id": "r-1:a1"}, 400, "requests[1].activation_id"),
    ],
)
def test_one_wrong_entry_refuses_the_batch_with_its_path(project: Project, entry: Any, status: int, field: str) -> None:
    """All or nothing: the entry before and the entry behind are not answered either, and nothing is written."""
    requests = [failed(activation_id="r-1:a1"), entry, failed(activation_id="r-1:a3")]
    response = post(key_for(project), {"requests": requests}, BATCH)
    body = response.json()
    assert (response.status_code, body["field"]) == (status, field), body
    assert body["detail"].startswith(field) and CANARY not in body["detail"]
    assert nothing_written()


def test_a_batch_has_at_most_twenty_requests(project: Project) -> None:
    """Twenty are answered; one more is refused with both numbers."""
    key = key_for(project)
    requests = [failed(activation_id=f"r-1:a{number}", limit=20) for number in range(21)]
    response = post(key, {"requests": requests}, BATCH)
    assert (response.status_code, response.json()["limit"]) == (400, 20)
    assert "it has 21" in response.json()["detail"]
    assert nothing_written()
    assert len(post(key, {"requests": requests[:20]}, BATCH).json()["answers"]) == 20


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
REQUESTS = st.dictionaries(st.sampled_from(sorted(FIELDS)) | st.text(max_size=6), JUNK, max_size=6)
STEADY = settings(
    max_examples=150, derandomize=True, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


@STEADY
@given(odd=REQUESTS)
def test_any_values_are_answered_or_refused_by_name(project: Project, odd: dict[str, Any]) -> None:
    """Whatever stands in whatever field: an answer, or a refusal that names a field; never a fault of ours."""
    raw = json.dumps({"run": "r-1", **odd})
    client = Client(raise_request_exception=False)
    headers = {"Authorization": f"Bearer {key_for(project)}"}
    for url, content in ((URL, raw), (BATCH, f'{{"requests": [{raw}]}}')):
        response = client.post(url, content, content_type="application/json", headers=headers)
        assert response.status_code in (200, 400, 403, 422), response.content
        assert response.status_code == 200 or response.json()["field"] is not None


@given(embedding=st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63), max_size=8))
def test_an_embedding_reaches_the_search_as_it_was_sent(embedding: list[float]) -> None:
    """A tuple of floats, whole numbers among them."""
    found = parse_request({"run": "r", "embedding": embedding}, "alpha").embedding
    assert found == tuple(float(number) for number in embedding)
    assert all(isinstance(number, float) and math.isfinite(number) for number in found)


def test_activation_ids_may_be_equal_in_two_runs_of_a_batch() -> None:
    """Their identity is the run and the id; ids that are made are never equal."""
    queries = parse_batch({"requests": [{"run": run, "activation_id": "a1"} for run in ("r-1", "r-2")]}, "alpha")
    assert [(query.run_id, query.activation_id) for query in queries] == [("r-1", "a1"), ("r-2", "a1")]
    made = parse_batch({"requests": [{"run": "r" * 200}] * 2}, "alpha")
    assert made[0].activation_id != made[1].activation_id
    assert all(query.activation_id.startswith("r" * 150) and len(query.activation_id) <= 190 for query in made)


def test_a_refusal_leaves_no_row_in_any_table(project: Project) -> None:
    """Every table is as it was, but for the moment the key was last used."""
    key = key_for(project)
    before = all_rows()
    for body, url in (({"run": "r-1", "x": 1}, URL), ({"requests": [failed(), {}]}, BATCH), (b"{", URL)):
        assert post(key, body, url).status_code == 400
    after = all_rows()
    assert {table for table in before if before[table] != after[table]} <= {"ingest_apikey"}
