"""The hints API: what it answers, what it refuses with which status, and that a refusal changes nothing."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from ingest.journal import read_events
from ingest.models import Event, Project
from kernel.edge.observation_client import request_to_json
from kernel.messages import HintRequest, SuppressedItem
from knowledge.drafts import ItemDraft
from knowledge.find_hints import find_hints
from knowledge.find_hints.findings import HintQuery
from knowledge.items import revise_item
from knowledge.models import HintAnswer
from tests.knowledge.asking import BATCH, ERROR, URL, add_item, failed, key_for, make_project, post


def revise(project: Project, knowledge_id: str, proposition: str, **fields: Any) -> None:
    draft = ItemDraft(knowledge_id, proposition, **fields)
    revise_item(project, draft, by="tester", reason="test")


@pytest.fixture
def project(db: None) -> Project:
    project = make_project("alpha")
    add_item(project, "git-init", state="confirmed", entities=("not a git repository",), trigger="tool.failed")
    add_item(project, "sprocket", state="confirmed", proposition="Sprocket jam: run `oil`.")
    return project


def nothing_written() -> bool:
    return not HintAnswer.objects.exists() and not Event.objects.exists()


def test_answer_has_the_agreed_shape(project: Project, settings: Any) -> None:
    """One hint with its identity, its match and its size, the block for existing kernels, counts by stage."""
    settings.HINTS_ALGORITHM = "lexical-entity-topic.v2"
    answer = post(key_for(project), failed(activation_id="r-1:a1")).json()
    (hint,) = answer["hints"]
    assert answer["activation_id"] == "r-1:a1"
    assert answer["algorithm_version"] == "lexical-entity-topic.v2"
    assert answer["count"] == 1
    assert (hint["hint_id"], hint["knowledge_id"], hint["revision"], hint["rank"]) == ("r-1:a1:h1", "git-init", 1, 1)
    assert hint["matched_by"] == ["entity:not a git repository", "terms:git, repository"]
    assert hint["state"] == "confirmed"
    assert hint["tokens"] > 0
    assert answer["context_block"]["type"] == "temporality.memory"
    assert answer["context_block"]["items"][0]["knowledge_id"] == "git-init"
    assert answer["counts"]["retrieved"] == answer["counts"]["offered"] == 1
    assert answer["dropped"] == []


def test_journal_tells_the_query_and_each_offer(project: Project) -> None:
    """hint.query lists candidates and measures of the query without its text; hint.offered is the hint."""
    post(key_for(project), failed(activation_id="r-1:a1", tool_result=f"{ERROR} marzipan", task="t-1"))
    asked, offered = read_events(project.pk, "r-1")
    assert (asked.type, asked.event_id, asked.caused_by, asked.task_id) == (
        "hint.query",
        "r-1:a1:query",
        "r-1:7",
        "t-1",
    )
    assert asked.data["trigger"] == "tool.failed"
    assert asked.data["source_event_id"] == "r-1:7"
    assert asked.data["n_retrieved"] == 1
    assert asked.data["candidates"][0]["knowledge_id"] == "git-init"
    assert asked.data["query_diagnostics"]["tool_result_length"] == len(ERROR) + 9
    assert "marzipan" not in json.dumps(asked.data)
    assert (offered.type, offered.event_id, offered.hint_id) == ("hint.offered", "r-1:a1:h1", "r-1:a1:h1")
    assert (offered.knowledge_id, offered.activation_id) == ("git-init", "r-1:a1")
    assert offered.data["proposition"] == "Rule git-init: run `git-init`."


def test_no_hit_is_a_normal_answer(project: Project) -> None:
    """Nothing that fits is 200 with no hints, and reported as empty."""
    response = post(key_for(project), failed(tool_result="disk quota reached"))
    assert (response.status_code, response.json()["hints"], response.json()["count"]) == (200, [], 0)
    (asked,) = read_events(project.pk, "r-1")
    assert asked.data["result"] == "empty"


OLD_BODIES: list[dict[str, Any]] = [
    {"run": "r-1", "query": "a sprocket jam"},
    {"project": "alpha", "run": "r-1", "query": "a sprocket jam", "limit": 0},
    {
        "project": "alpha", "run": "r-1", "task": "t-1", "actor": "a-1", "query": "a sprocket jam", "tool": "",
        "tool_result": "", "entities": None, "topics": None, "limit": 8, "active_skills": None,
        "issued_knowledge_ids": None, "team_root": "",
    },
]  # fmt: skip


@pytest.mark.parametrize("body", OLD_BODIES)
def test_the_smallest_old_bodies_still_work(project: Project, body: dict[str, Any]) -> None:
    """Without the newer fields, or with null for what is empty, a request is priming; an activation id is made."""
    answer = post(key_for(project), body).json()
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["sprocket"]
    assert answer["activation_id"].startswith("r-1:")
    assert read_events(project.pk, "r-1")[0].data["trigger"] == "task.priming"


def test_retry_gets_the_same_answer_and_writes_nothing_twice(project: Project) -> None:
    """The activation id is the identity: knowledge changed in between changes no answer given."""
    key = key_for(project)
    first = post(key, failed(activation_id="r-1:a1")).json()
    add_item(project, "another", state="confirmed", entities=("not a git repository",))
    assert post(key, failed(activation_id="r-1:a1", query="other words")).json() == first
    assert len(read_events(project.pk, "r-1")) == 2


@pytest.mark.django_db(transaction=True)
def test_racing_retries_get_one_answer() -> None:
    """Eight requests at once with one activation id: one answer, one hint.query, one hint.offered."""
    project = make_project("alpha")
    add_item(project, "git-init", state="confirmed", entities=("not a git repository",))
    key = key_for(project)

    def ask(_: int) -> Any:
        try:
            return post(key, failed(activation_id="r-1:a1")).json()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert [event.type for event in read_events(project.pk, "r-1")] == ["hint.query", "hint.offered"]


def test_batch_answers_in_order_and_offers_nothing_twice(project: Project) -> None:
    """What an earlier activation of the boundary was offered is held back from the later ones, with the reason."""
    requests = [failed(activation_id=f"r-1:a{number}") for number in (1, 2)]
    answers = post(key_for(project), {"requests": requests}, BATCH).json()["answers"]
    assert [answer["activation_id"] for answer in answers] == ["r-1:a1", "r-1:a2"]
    assert [answer["count"] for answer in answers] == [1, 0]
    assert answers[1]["dropped"] == [{"knowledge_id": "git-init", "reason": "offered_in_batch"}]


def test_issued_and_suppressed_are_held_back(project: Project) -> None:
    """Knowledge in the history, and knowledge dropped before, is retrieved and not offered."""
    key = key_for(project)
    for field, reason in (("issued_knowledge_ids", "already_issued"), ("suppressed_knowledge_ids", "suppressed")):
        answer = post(key, failed(**{field: ["git-init"]})).json()
        assert (answer["count"], answer["dropped"][0]["reason"]) == (0, reason)


def suppressing(revision: int | None, **fields: Any) -> dict[str, Any]:
    """A request that says git-init was dropped, at a revision if one is given."""
    revisions = {} if revision is None else {"suppressed_revisions": {"git-init": revision}}
    return failed(suppressed_knowledge_ids=["git-init"], **revisions, **fields)


def test_a_newer_revision_lifts_a_suppression(project: Project) -> None:
    """What was dropped stays suppressed until the item has a newer revision than the one that was dropped."""
    key = key_for(project)
    held = {"knowledge_id": "git-init", "reason": "suppressed"}
    for revision in (None, 1, 2):
        assert post(key, suppressing(revision)).json()["dropped"] == [held]
    revise(project, "git-init", "Run `git init`.", entities=("not a git repository",), trigger="tool.failed")
    assert post(key, suppressing(None)).json()["dropped"] == [held]
    assert post(key, suppressing(2)).json()["dropped"] == [held]
    (hint,) = post(key, suppressing(1)).json()["hints"]
    assert (hint["knowledge_id"], hint["revision"], hint["proposition"]) == ("git-init", 2, "Run `git init`.")


def test_a_newer_revision_lifts_it_in_a_batch_too(project: Project) -> None:
    """Each request of a batch has its own; an id that is not listed as suppressed has no effect; null is none."""
    revise(project, "git-init", "Run `git init`.", entities=("not a git repository",), trigger="tool.failed")
    requests = [suppressing(2), suppressing(1), failed(suppressed_revisions=None)]
    answers = post(key_for(project), {"requests": requests}, BATCH).json()["answers"]
    assert [answer["count"] for answer in answers] == [0, 1, 0]
    assert [answer["dropped"][0]["reason"] for answer in (answers[0], answers[2])] == ["suppressed", "offered_in_batch"]
    assert post(key_for(project), failed(suppressed_revisions={"git-init": 9})).json()["count"] == 1


def test_a_newer_replacement_lifts_its_own_suppression(project: Project) -> None:
    """A live item that stands in for a retired one is judged by its own current revision."""
    add_item(project, "new-way", state="confirmed", proposition="Pump: run `pump --now`.")
    add_item(project, "old-way", state="superseded", replaced_by="new-way", entities=("hull breach",))
    revise(project, "new-way", "Pump at once: run `pump --now`.")
    base = failed(tool_result="hull breach", suppressed_knowledge_ids=["new-way"])
    held = post(key_for(project), {**base, "suppressed_revisions": {"new-way": 2}}).json()
    assert {"knowledge_id": "new-way", "reason": "suppressed"} in held["dropped"]
    (hint,) = post(key_for(project), {**base, "suppressed_revisions": {"new-way": 1}}).json()["hints"]
    assert (hint["knowledge_id"], hint["revision"]) == ("new-way", 2)


def test_what_the_kernel_sends_of_its_suppressions_is_taken(project: Project) -> None:
    """Its request as sent: more suppressions than revisions, one without a usable revision; the newest is lifted."""
    revise(project, "git-init", "Run `git init`.", entities=("not a git repository",), trigger="tool.failed")
    others = tuple(SuppressedItem(f"k-{number}", number) for number in range(299))
    asked = HintRequest(
        activation_id="r-1:a1", trigger="tool.failed", source_event_id="r-1:7", run_id="r-1", task_id="t", actor_id="a",
        team_root=None, query="Release", tool="shell", tool_result=ERROR,
        suppressed=(*others, SuppressedItem("git-init", 1)),
    )  # fmt: skip
    body = request_to_json(asked)
    assert body["suppressed_knowledge_ids"] == [item.knowledge_id for item in asked.suppressed]
    assert body["suppressed_revisions"] == {item.knowledge_id: item.revision for item in asked.suppressed[-200:]}
    (answer,) = post(key_for(project), {"requests": [body]}, BATCH).json()["answers"]
    assert [(hint["knowledge_id"], hint["revision"]) for hint in answer["hints"]] == [("git-init", 2)]
    assert request_to_json(replace(asked, suppressed=(SuppressedItem("k", 0),)))["suppressed_revisions"] == {}
    assert request_to_json(replace(asked, suppressed=()))["suppressed_knowledge_ids"] == []


def test_lifting_suppressions_costs_no_query(
    project: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """As many queries with two hundred suppressed revisions as with none."""
    ids = ["git-init", *(f"k-{number}" for number in range(199))]
    query = HintQuery("r-1", "r-1:a1", "tool.failed", tool="shell", tool_result=ERROR)
    with CaptureQueriesContext(connection) as plain:
        find_hints(project.pk, query, "lexical-entity-topic.v2")
    asked = replace(query, suppressed=tuple(ids), suppressed_revisions=dict.fromkeys(ids, 1))
    with django_assert_num_queries(len(plain)):
        find_hints(project.pk, asked, "lexical-entity-topic.v2")


def test_a_trigger_nobody_knew_is_searched_like_a_failure(project: Project, settings: Any) -> None:
    """By what its tool said; the task is searched only when nothing else is given; scopes of triggers hold."""
    settings.HINTS_ALGORITHM = "lexical-entity-topic.v2"
    key = key_for(project)
    add_item(project, "entity-rule", state="confirmed", entities=("aggregate root",), trigger="entity.appeared")
    new = {"trigger": "entity.appeared", "error_class": "", "query": "a sprocket jam"}
    answer = post(key, failed(**new, tool_result="class Order is an aggregate root", activation_id="r-1:a1")).json()
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["entity-rule"]
    answer = post(key, failed(**new, tool_result="")).json()
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["sprocket"]
    answer = post(key, failed(**new, tool_result=ERROR)).json()
    assert answer["dropped"] == [{"knowledge_id": "git-init", "reason": "scope_mismatch"}]
    assert {event.data["trigger"] for event in read_events(project.pk, "r-1")} == {"entity.appeared"}


def test_the_description_of_the_api_shows_triggers_and_revisions(client: Client) -> None:
    """OpenAPI: both forms take suppressed_revisions, and a trigger is a name of a form, not one of a list."""
    schema = json.loads(client.get("/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"}).content)
    parts = schema["components"]["schemas"]
    fields = parts["HintRequest"]["properties"]
    assert fields["suppressed_revisions"]["additionalProperties"] == {"type": "integer", "minimum": 1}
    assert fields["suppressed_revisions"]["maxProperties"] == 200
    assert "enum" not in fields["trigger"]
    assert (fields["trigger"]["maxLength"], fields["trigger"]["type"]) == (64, "string")
    assert parts["HintBatch"]["properties"]["requests"]["items"]["$ref"].endswith("/HintRequest")
    batch = schema["paths"][BATCH]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert batch["$ref"].endswith("/HintBatch")


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"{", 400, "bad_json", "body"),
        (b"\xff\xfe", 400, "bad_json", "body"),
        (b"[1]", 400, "bad_body", "body"),
        ({"run": "r", "colour": 1}, 400, "unknown_field", "colour"),
        ({"run": "r", "budget": {"gold": 1}}, 400, "unknown_field", "budget.gold"),
        ({"query": "x"}, 400, "invalid_field", "run"),
        ({"run": ""}, 400, "invalid_field", "run"),
        ({"run": "r", "trigger": "full moon"}, 400, "invalid_field", "trigger"),
        ({"run": "r", "trigger": "moon"}, 400, "invalid_field", "trigger"),
        ({"run": "r", "trigger": f"a.{'b' * 63}"}, 400, "invalid_field", "trigger"),
        ({"run": "r", "trigger": 7}, 400, "invalid_field", "trigger"),
        ({"run": "r", "suppressed_revisions": ["k"]}, 400, "invalid_field", "suppressed_revisions"),
        ({"run": "r", "suppressed_revisions": {"k": 0}}, 400, "invalid_field", "suppressed_revisions.k"),
        ({"run": "r", "suppressed_revisions": {"k": True}}, 400, "invalid_field", "suppressed_revisions.k"),
        ({"run": "r", "suppressed_revisions": {"k": "2"}}, 400, "invalid_field", "suppressed_revisions.k"),
        ({"run": "r", "suppressed_revisions": {"k": 1.0}}, 400, "invalid_field", "suppressed_revisions.k"),
        ({"run": "r", "suppressed_revisions": {"k": 2**80}}, 400, "invalid_field", "suppressed_revisions.k"),
        ({"run": "r", "suppressed_revisions": {"": 1}}, 400, "invalid_field", "suppressed_revisions"),
        ({"run": "r", "suppressed_revisions": {"k" * 201: 1}}, 400, "invalid_field", "suppressed_revisions"),
        (
            {"run": "r", "suppressed_revisions": {f"k-{n}": 1 for n in range(201)}},
            400,
            "invalid_field",
            "suppressed_revisions",
        ),
        ({"run": "r", "entities": "git"}, 400, "invalid_field", "entities"),
        ({"run": "r", "query": "x" * 4097}, 422, "limit_exceeded", "query"),
        ({"run": "r", "tool_result": "я" * 8193}, 422, "limit_exceeded", "tool_result"),
        ({"run": "r", "limit": 21}, 422, "limit_exceeded", "limit"),
        ({"run": "r", "activation_id": "a" * 191}, 422, "limit_exceeded", "activation_id"),
        ({"run": "r", "project": "beta"}, 403, "wrong_project", "project"),
    ],
)
def test_refusals_name_the_field_and_change_nothing(
    project: Project, body: Any, status: int, code: str, field: str | None
) -> None:
    """Each bad request has its status and code, names the field, and leaves no trace."""
    response = post(key_for(project), body)
    answer = response.json()
    assert (response.status_code, answer["code"], answer.get("field")) == (status, code, field)
    assert field is None or field in answer["detail"]
    assert field != "trigger" or "must be" in answer["detail"]
    assert nothing_written()


def test_limits_are_counted_in_code_points_and_named(project: Project) -> None:
    """8,192 characters of two or four bytes pass; one more is refused with the number."""
    key = key_for(project)
    assert post(key, failed(tool_result="я" * 8192, query="🙂" * 4096)).status_code == 200
    assert "4096" in post(key, failed(query="x" * 4097)).json()["detail"]
    assert "8192" in post(key, failed(tool_result="🙂" * 8193)).json()["detail"]


def test_body_over_the_limit_is_413(project: Project) -> None:
    """A body over 1 MiB is refused before it is read as JSON."""
    response = post(key_for(project), failed(tool_result="x" * (1024 * 1024)))
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
    assert nothing_written()


def test_keys_are_checked(project: Project) -> None:
    """No or an unknown key is 401, a key without the scope 403."""
    assert post("tk_unknown", failed()).status_code == 401
    assert Client().post(URL, "{}", content_type="application/json").status_code == 401
    assert post(key_for(project, "ingest", "read"), failed()).status_code == 403
    assert nothing_written()


def test_paused_project_answers_503_and_when_to_come_back(project: Project) -> None:
    """While hints are paused both forms answer 503 with Retry-After and write nothing."""
    key = key_for(project)
    Project.objects.filter(pk=project.pk).update(hints_paused=True)
    for url, body in ((URL, failed()), (BATCH, {"requests": [failed()]})):
        response = post(key, body, url)
        assert (response.status_code, response.json()["code"]) == (503, "hints_paused")
        assert int(response.headers["Retry-After"]) > 0
    assert nothing_written()


@pytest.mark.parametrize("requests", [None, [], "x", [{}] * 21])
def test_batch_of_a_wrong_shape_is_400(project: Project, requests: Any) -> None:
    """A batch has 1 to 20 requests."""
    response = post(key_for(project), {"requests": requests}, BATCH)
    assert (response.status_code, response.json()["field"]) == (400, "requests")
    assert nothing_written()


def test_batch_names_the_request_that_is_wrong(project: Project) -> None:
    """One bad request refuses the whole batch, before anything is searched."""
    response = post(key_for(project), {"requests": [failed(), failed(colour=1)]}, BATCH)
    assert (response.status_code, response.json()["field"]) == (400, "requests[1].colour")
    assert nothing_written()


def test_projects_see_nothing_of_each_other(project: Project) -> None:
    """Neither items nor kept answers cross projects, even with equal run, activation and item ids."""
    other = make_project("beta")
    add_item(other, "beta-only", state="confirmed", entities=("not a git repository",))
    mine = post(key_for(project), failed(activation_id="r-1:a1")).json()
    theirs = post(key_for(other), failed(activation_id="r-1:a1")).json()
    assert [hint["knowledge_id"] for hint in mine["hints"]] == ["git-init"]
    assert [hint["knowledge_id"] for hint in theirs["hints"]] == ["beta-only"]
    assert {event.knowledge_id for event in read_events(other.pk, "r-1")} == {None, "beta-only"}


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE x; --", "-b --not \\ & | :*", "\x00nul", "🙂" * 2000, "не найден " * 500]
)
def test_hostile_text_is_answered(project: Project, text: str) -> None:
    """Text of any kind is searched as text."""
    answer = post(key_for(project), failed(tool_result=f"{text}\n{ERROR}")).json()
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["git-init"]
