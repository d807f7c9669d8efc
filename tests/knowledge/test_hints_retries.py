"""Retries of hints: the same bytes again and nothing written twice, alone, in batches, in parts of batches, in races.

(Seed 001 §7.2, §9.1, §12.)
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from ingest.accept import accept_events
from ingest.journal import read_events
from ingest.models import Event, Project
from knowledge.find_hints.findings import HintQuery
from knowledge.items import change_state
from knowledge.models import HintAnswer
from knowledge.offering import digest_of
from tests.knowledge.asking import BATCH, ERROR, add_item, all_rows, failed, key_for, make_project, n_failed, post

HOW = "Hint-Answers"
PUMP = "pump pressure lost"


@pytest.fixture
def project(db: None) -> Project:
    return stocked("alpha")


def stocked(slug: str) -> Project:
    """A project that knows two rules for one error and one for another."""
    project = make_project(slug)
    add_item(project, "git-init", entities=("not a git repository",), proposition="Outside of one run `git init`.")
    add_item(project, "git-cd", entities=("not a git repository",), proposition="Go to the checkout: `cd /src`.")
    add_item(project, "prime-pump", entities=(PUMP,), proposition="Prime the pump: `pump --prime`.")
    return project


def asked(number: int, **fields: Any) -> dict[str, Any]:
    return failed(activation_id=f"r-1:a{number}", **fields)


def ids(answer: dict[str, Any]) -> list[str]:
    return [hint["knowledge_id"] for hint in answer["hints"]]


def same_rows(act: Callable[[], Any]) -> bool:
    """Tell whether all tables are as before once `act` is done, but for when a key was last used."""
    before = all_rows()
    act()
    after = all_rows()
    return {table for table in before if before[table] != after[table]} <= {"ingest_apikey"}


def test_a_retry_gets_the_same_bytes_and_writes_nothing(project: Project) -> None:
    """Also when knowledge has changed, and what was offered is retired by now; the header says which one it is."""
    key = key_for(project)
    first = post(key, asked(1, tool_result=f"{ERROR} и ещё 🙂"))
    add_item(project, "another", entities=("not a git repository",))
    change_state(project, "git-init", "invalidated", by="ada", reason="wrong")
    again: list[Any] = []
    assert same_rows(lambda: again.append(post(key, asked(1, tool_result=f"{ERROR} и ещё 🙂"))))
    assert again[0].content == first.content
    assert (first.headers[HOW], again[0].headers[HOW]) == ("new", "kept")
    assert HintAnswer.objects.get().answer.encode() == json.dumps(first.json(), ensure_ascii=False).encode()


def test_another_body_under_the_same_id_gets_the_first_answer(project: Project) -> None:
    """The activation is the identity: same bytes, nothing written, and the difference is told and counted."""
    key, failures = key_for(project), n_failed("other_request")
    first = post(key, asked(1))
    again: list[Any] = []
    assert same_rows(lambda: again.append(post(key, asked(1, tool_result=PUMP))))
    assert again[0].content == first.content
    assert again[0].headers[HOW] == "kept-of-another-request"
    assert n_failed("other_request") == failures + 1
    assert post(key, asked(1)).headers[HOW] == "kept"


def test_what_is_left_out_and_what_is_its_default_are_the_same_request() -> None:
    """So that a sender that was updated between try and retry is no other sender; every field else is compared."""
    bare = HintQuery("r-1", "a", query="x")
    assert digest_of(bare) == digest_of(HintQuery("r-1", "a", "task.priming", "x", limit=8, budget={}))
    assert digest_of(bare) == digest_of(HintQuery("r-1", "a", query="x", offered_before=("k",)))
    others = [
        HintQuery("r-1", "a", query="y"), HintQuery("r-1", "a", query="x", limit=7),
        HintQuery("r-1", "a", query="x", issued=("k",)), HintQuery("r-1", "a", query="x", embedding=(0.5,)),
        HintQuery("r-1", "a", query="x", budget={"run_tokens": 1}), HintQuery("r-2", "a", query="x"),
    ]  # fmt: skip
    assert len({digest_of(query) for query in (bare, *others)}) == len(others) + 1


def test_without_an_id_each_request_is_one_of_its_own(project: Project) -> None:
    """Ids that are made differ, begin with the run, and are written as those that are sent."""
    key = key_for(project)
    answers = [post(key, failed()).json() for _ in range(2)]
    made = {answer["activation_id"] for answer in answers}
    assert len(made) == 2 and all(one.startswith("r-1:") for one in made)
    assert [sorted(ids(answer)) for answer in answers] == [["git-cd", "git-init"]] * 2
    assert {event.activation_id for event in read_events(project.pk, "r-1")} == made


def test_ids_of_two_runs_and_of_two_projects_never_clash(project: Project) -> None:
    """One id in two runs of two projects: four activations, four answers, four hint.query."""
    other = stocked("beta")
    for one in (project, other):
        key = key_for(one)
        answers = [post(key, failed(run=run, activation_id="a1", tool_result=text)).json()
                   for run, text in (("r-1", ERROR), ("r-2", PUMP))]  # fmt: skip
        assert [sorted(ids(answer)) for answer in answers] == [["git-cd", "git-init"], ["prime-pump"]]
    assert HintAnswer.objects.count() == Event.objects.filter(type="hint.query").count() == 4
    batch = [failed(run=run, activation_id="a2", tool_result=PUMP) for run in ("r-1", "r-2")]
    assert [ids(answer) for answer in post(key_for(other), {"requests": batch}, BATCH).json()["answers"]] == [
        ["prime-pump"], [],
    ]  # fmt: skip


def test_a_whole_batch_sent_again_gets_the_same_bytes(project: Project) -> None:
    """Every answer of it, in order, and nothing is written twice."""
    key = key_for(project)
    batch = {"requests": [asked(1, limit=1), asked(2), asked(3, tool_result=PUMP)]}
    first = post(key, batch, BATCH)
    (one,), (two,), (three,) = (ids(answer) for answer in first.json()["answers"])
    assert ({one, two}, three) == ({"git-cd", "git-init"}, "prime-pump")
    again: list[Any] = []
    assert same_rows(lambda: again.append(post(key, batch, BATCH)))
    assert again[0].content == first.content
    assert (first.headers[HOW], again[0].headers[HOW]) == ("new, new, new", "kept, kept, kept")


@pytest.mark.parametrize("before", [[1], [2], [3], [1, 2], [2, 3], [3, 1]])
def test_activations_answered_before_count_for_the_others(project: Project, before: Sequence[int]) -> None:
    """Whichever part of a batch was answered alone: its answers are given again, and nothing is offered twice."""
    key = key_for(project)
    requests = {number: asked(number, limit=1) for number in (1, 2, 3)}
    kept = {number: post(key, requests[number]) for number in before[:1]}
    if len(before) > 1:
        post(key, {"requests": [requests[number] for number in before]}, BATCH)
    answers = post(key, {"requests": list(requests.values())}, BATCH).json()["answers"]
    assert all(answers[number - 1] == response.json() for number, response in kept.items())
    offered = [one for answer in answers for one in ids(answer)]
    assert sorted(offered) == ["git-cd", "git-init"]
    held = [drop["reason"] for answer in answers for drop in answer["dropped"]]
    assert set(held) <= {"offered_in_batch", "limit"}
    assert Event.objects.filter(type="hint.query").count() == 3
    assert Event.objects.filter(type="hint.offered").count() == 2


def test_an_earlier_one_of_a_batch_takes_no_place_of_a_later_ones_limit(project: Project) -> None:
    """The limit is each activation's own and counts what is offered to it, not what was held back from it."""
    for number in range(6):
        words = ("valve", "motor", "fuse", "gear", "lamp", "belt")
        add_item(project, f"k-{number}", entities=(PUMP,), proposition=f"Look at the {words[number]}: `see {number}`.")
    batch = {"requests": [asked(1, limit=2, tool_result=PUMP), asked(2, limit=3, tool_result=PUMP)]}
    first, second = post(key_for(project), batch, BATCH).json()["answers"]
    assert (len(ids(first)), len(ids(second))) == (2, 3)
    assert not set(ids(first)) & set(ids(second))
    assert second["counts"]["dropped_by_reason"] == {"limit": 2, "offered_in_batch": 2}


def test_a_batch_offers_no_text_twice(project: Project) -> None:
    """Another item with the same or almost the same rule is held back from a later one; the next takes its place."""
    rule = "When the boiler hums reduce the current step by step and wait until it cools down: `cool now`."
    same = {"entities": ("boiler hum",)}
    add_item(project, "a-first", proposition=rule, **same)
    add_item(project, "b-same", proposition=rule.upper(), entities=("kettle hum",))
    add_item(project, "c-near", proposition=rule.replace("cools", "chills"), entities=("kettle hum",))
    add_item(project, "d-other", proposition="Close the lid of the kettle: `lid close`.", entities=("kettle hum",))
    batch = {"requests": [asked(1, tool_result="boiler hum"), asked(2, tool_result="kettle hum")]}
    first, second = post(key_for(project), batch, BATCH).json()["answers"]
    assert (ids(first), ids(second)) == (["a-first"], ["d-other"])
    by_id = {drop["knowledge_id"]: drop for drop in second["dropped"]}
    assert by_id["b-same"]["reason"] == "duplicate_text"
    assert by_id["c-near"]["reason"] == "near_duplicate"
    assert 0.8 <= by_id["c-near"]["value"] < 1
    assert second["hints"][0]["hint_id"] == "r-1:a2:h1"
    told = read_events(project.pk, "r-1")[-2].data["candidates"]
    assert [one["rank"] for one in told] == list(range(1, len(told) + 1))


def test_events_under_the_ids_of_an_activation_withhold_no_hint(project: Project) -> None:
    """Someone has used its event ids: the first copies stay, the hints are given, the conflict is counted."""
    stranger = {"event_id": "r-1:a1:query", "run_id": "r-1", "type": "note", "occurred_at": "2026-11-30T03:00:00Z"}
    accept_events(project.pk, [stranger])
    failures = n_failed("telemetry")
    answer = post(key_for(project), asked(1)).json()
    assert sorted(ids(answer)) == ["git-cd", "git-init"]
    assert n_failed("telemetry") == failures + 1
    assert Event.objects.get(event_id="r-1:a1:query").type == "note"


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Do `act` in as many threads at once, each with a connection of its own."""
    barrier = Barrier(count)

    def one(number: int) -> Any:
        try:
            barrier.wait()
            return act(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_racing_requests_get_one_answer_whatever_they_ask() -> None:
    """Six at once under one id, two kinds of bodies: one answer, byte for byte, and one set of events."""
    project = stocked("alpha")
    key = key_for(project)
    answers = together(6, lambda number: post(key, asked(1, tool_result=PUMP if number % 2 else ERROR)).content)
    assert len(set(answers)) == 1
    assert HintAnswer.objects.count() == Event.objects.filter(type="hint.query").count() == 1
    assert Event.objects.filter(type="hint.offered").count() == len(json.loads(answers[0])["hints"])


@pytest.mark.django_db(transaction=True)
def test_racing_batches_that_overlap_agree() -> None:
    """Batches over the same activations in different orders: one answer each, offers without doubles, no deadlock."""
    project = stocked("alpha")
    key, failures = key_for(project), n_failed("keeping")
    orders = [[1, 2, 3], [3, 2, 1], [2, 3], [1], [3, 1], [2, 1, 3]]

    def ask(number: int) -> dict[str, Any]:
        requests = [asked(one, limit=1) for one in orders[number]]
        answers = post(key, {"requests": requests}, BATCH).json()["answers"]
        return {answer["activation_id"]: answer for answer in answers}

    found = together(len(orders), ask)
    kept = {row.activation_id: json.loads(row.answer) for row in HintAnswer.objects.all()}
    assert set(kept) == {"r-1:a1", "r-1:a2", "r-1:a3"}
    assert all(answer == kept[name] for answers in found for name, answer in answers.items())
    assert Event.objects.filter(type="hint.query").count() == 3
    assert n_failed("keeping") == failures
