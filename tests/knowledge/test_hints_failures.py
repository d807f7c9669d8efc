"""What fails around hints withholds none that was found, and what fails in the search is told and counted.

The causes are real: constraints, tables that are away, a full quota, a broker that is gone, a run that is held.
Nothing of a request's text reaches a table or the log, whatever fails. (Seed 001 §7.3, §12, §13.)
"""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import current_app
from django.db import connection, transaction

from contract.redaction import redact
from ingest import accept
from ingest.fold_queue import FoldQueue
from ingest.journal import lock_runs, read_events
from ingest.models import Event, Project
from knowledge import find_hints
from knowledge.chains import refresh_run
from knowledge.find_hints import VERSIONS
from knowledge.find_hints.findings import Findings, HintQuery
from knowledge.models import Activation, HintAnswer
from tests.knowledge.asking import BATCH, ERROR, URL, add_item, all_rows, failed, key_for, make_project, n_failed, post

CANARY = "zqxcanary"


def stocked(slug: str = "alpha") -> Project:
    project = make_project(slug)
    add_item(project, "git-init", entities=("not a git repository",), error_examples=(ERROR,))
    return project


@contextmanager
def changed(there: str, back: str) -> Iterator[None]:
    """Change the database by one statement, and back by another."""
    with connection.cursor() as cursor:
        cursor.execute(there)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(back)


BROKEN = {
    "the journal refuses a kind of event": (
        "ALTER TABLE ingest_event ADD CONSTRAINT no_queries CHECK (type <> 'hint.query') NOT VALID",
        "ALTER TABLE ingest_event DROP CONSTRAINT no_queries",
    ),
    "the list of deliveries is away": (
        "ALTER TABLE ingest_batch RENAME TO ingest_batch_away",
        "ALTER TABLE ingest_batch_away RENAME TO ingest_batch",
    ),
    "the runs cannot be written": (
        "CREATE RULE no_runs AS ON INSERT TO ingest_run DO INSTEAD SELECT 1/0",
        "DROP RULE no_runs ON ingest_run",
    ),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cause", BROKEN)
def test_a_journal_that_fails_withholds_no_hint(cause: str, caplog: pytest.LogCaptureFixture) -> None:
    """The hints are given and kept for retries, nothing half is written, and the failure is counted."""
    project = stocked()
    key, failures = key_for(project), n_failed("telemetry")
    body = failed(activation_id="r-1:a1", tool_result=f"{ERROR} {CANARY}")
    with changed(*BROKEN[cause]):
        answer = post(key, body)
        again = post(key, body)
    assert [hint["knowledge_id"] for hint in answer.json()["hints"]] == ["git-init"]
    assert again.content == answer.content
    assert n_failed("telemetry") == failures + 1
    assert not Event.objects.exists()
    assert CANARY not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_batch_keeps_all_its_hints_when_the_journal_fails() -> None:
    """Each answer of a boundary is given and kept; what it could not tell is counted once."""
    project = stocked()
    key, failures = key_for(project), n_failed("telemetry")
    batch = {"requests": [failed(activation_id=f"r-1:a{number}") for number in (1, 2)]}
    with changed(*BROKEN["the journal refuses a kind of event"]):
        answers = post(key, batch, BATCH).json()["answers"]
    assert [answer["count"] for answer in answers] == [1, 0]
    assert HintAnswer.objects.count() == 2
    assert n_failed("telemetry") == failures + 1


@pytest.mark.django_db
def test_redaction_rules_that_are_broken_withhold_no_hint() -> None:
    """Nothing is stored with what they would have taken out: neither events nor the answer, which is given."""
    project = stocked()
    Project.objects.filter(pk=project.pk).update(redaction_patterns=[{"kind": "order", "pattern": "("}])
    answer = post(key_for(project), failed(activation_id="r-1:a1")).json()
    assert answer["count"] == 1
    assert not Event.objects.exists() and not HintAnswer.objects.exists()


@pytest.mark.django_db
def test_events_that_are_rejected_withhold_no_hint(settings: Any) -> None:
    """Many candidates under a small bound: hint.query cannot be stored, which is counted; the hints are given."""
    project = stocked()
    for number in range(40):
        add_item(project, f"k-{number}", entities=("not a git repository",), topics=(f"t-{number}",))
    settings.INGEST_MAX_EVENT_BYTES = 4_096
    failures = n_failed("telemetry")
    answer = post(key_for(project), failed(activation_id="r-1:a1")).json()
    assert answer["count"] == 8
    assert n_failed("telemetry") == failures + 1
    assert [event.type for event in read_events(project.pk, "r-1")] == ["hint.offered"] * 8
    assert HintAnswer.objects.count() == 1


@pytest.mark.django_db
def test_a_full_quota_withholds_neither_hints_nor_their_events() -> None:
    """The quota is of what a key sends: events that Observation reports of its own are not counted and not lost."""
    project = stocked()
    key = key_for(project, "ingest", "observe", events_per_minute=1)
    sent = {"event_id": "r-9:1", "run_id": "r-9", "type": "turn.started", "occurred_at": "2026-11-30T03:00:00Z"}
    statuses = [post(key, {"events": [sent]}, "/v1/events").status_code for _ in range(2)]
    assert statuses == [200, 429]
    for number in range(5):
        assert post(key, failed(activation_id=f"r-1:a{number}")).status_code == 200
    assert post(key, {"events": [sent]}, "/v1/events").status_code == 429
    assert Event.objects.filter(type="hint.query").count() == 5


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that nobody listens on: bound, so that nobody else can take it meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_gone_withholds_no_hint(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    """The events are in the journal, the fold comes by its sweep."""
    project, queue = stocked(), FoldQueue()
    monkeypatch.setattr(accept, "fold_queue", queue)
    for name in ("broker_url", "broker_write_url"):
        monkeypatch.setattr(current_app.conf, name, f"redis://127.0.0.1:{closed_port}/0")
    assert post(key_for(project), failed(activation_id="r-1:a1")).json()["count"] == 1
    assert queue.failures == 1
    assert [event.type for event in read_events(project.pk, "r-1")] == ["hint.query", "hint.offered"]


@pytest.mark.django_db(transaction=True)
def test_a_run_that_somebody_holds_withholds_no_hint() -> None:
    """While another writer keeps the run locked the hints are given; their events are given up after a moment."""
    project = stocked()
    key, failures = key_for(project), n_failed("telemetry")
    post(key, failed(activation_id="r-1:a0"))
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                lock_runs(project.pk, {"r-1"}, Event.objects.get(type="hint.query").run_day)
                held.set()
                over.wait(60)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    try:
        answer = post(key, failed(activation_id="r-1:a1")).json()
    finally:
        over.set()
        holder.join()
    assert answer["count"] == 1
    assert n_failed("telemetry") == failures + 1
    assert HintAnswer.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_no_writes_withholds_no_hint() -> None:
    """As a standby after a failover: what is known can be read, so it is answered; nothing is kept."""
    project = stocked()
    key, failures = key_for(project), n_failed("keeping")
    post(key, failed())  # the key's first use of the minute is written
    n_events, n_answers = Event.objects.count(), HintAnswer.objects.count()
    with changed("SET default_transaction_read_only = on", "SET default_transaction_read_only = off"):
        answer = post(key, failed(activation_id="r-1:a1")).json()
    assert answer["count"] == 1
    assert n_failed("keeping") == failures + 1
    assert (Event.objects.count(), HintAnswer.objects.count()) == (n_events, n_answers)


def quoting(project_id: int, query: HintQuery, *, gated: bool = True) -> Findings:
    """A version that stumbles and says over what."""
    raise ValueError(f"cannot read {query.tool_result!r}")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cause", ["a version nobody knows", "a version that raises", "a table that is away"])
def test_a_search_that_fails_is_503_and_counted(
    cause: str, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With Retry-After, in both forms, nothing written even of a batch's first answer, no text in the log."""
    project = stocked()
    key, failures = key_for(project), n_failed("search")
    first, second = failed(activation_id="r-1:a1"), failed(activation_id="r-1:a2", tool_result=f"{ERROR} {CANARY}")
    steps = ("SELECT 1", "SELECT 1")
    if cause == "a version that raises":
        monkeypatch.setattr(find_hints, "VERSIONS", {**VERSIONS, "quoting.v0": quoting})
        settings.HINTS_ALGORITHM = "quoting.v0"
    elif cause == "a version nobody knows":
        settings.HINTS_ALGORITHM = CANARY
    else:
        steps = (
            "ALTER TABLE knowledge_knowledgeitem RENAME TO items_away",
            "ALTER TABLE items_away RENAME TO knowledge_knowledgeitem",
        )
    with changed(*steps):
        for url, body in ((URL, second), (BATCH, {"requests": [first, second]})):
            response = post(key, body, url)
            assert (response.status_code, response.json()["code"]) == (503, "search_failed")
            assert int(response.headers["Retry-After"]) == response.json()["retry_after"] > 0
            assert CANARY not in response.content.decode()
    assert n_failed("search") == failures + 2
    assert not HintAnswer.objects.exists() and not Event.objects.exists()
    assert CANARY not in caplog.text and "search failed" in caplog.text
    settings.HINTS_ALGORITHM = next(iter(VERSIONS))
    assert post(key, second).json()["count"] == 1


# What a request says, apart from the ids under which it is filed.
SAID: dict[str, Any] = {
    "query": f"Release it {CANARY}1",
    "tool_result": f"{ERROR}\n{CANARY}2 password=hunter2hunter2",
    "tool_arguments": f'{{"command": "git push {CANARY}10"}}',
    "error_class": f"{CANARY}3",
    "entities": [f"{CANARY}4", "not a git repository"],
    "topics": [f"{CANARY}5"],
    "active_skills": [f"{CANARY}6"],
    "issued_knowledge_ids": [f"{CANARY}7"],
    "suppressed_knowledge_ids": [f"{CANARY}8"],
    "suppressed_revisions": {f"{CANARY}8": 7},
    "embedding": [0.77712345] * 3,
    "embedding_model": f"{CANARY}9",
}


def told_anywhere(*texts: str) -> list[str]:
    """Return where one of the texts stands: in which tables, after the run was folded."""
    return [table for table, rows in all_rows().items() if any(text in row for row in rows for text in texts)]


@pytest.mark.django_db
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("trigger", ["task.priming", "tool.failed", "mcp.first_call", "entity.appeared"])
def test_nothing_that_a_request_says_is_written_anywhere(
    settings: Any, caplog: pytest.LogCaptureFixture, version: str, trigger: str
) -> None:
    """Not in the journal, not in the kept answer, not in what is derived, not in the log at any level."""
    settings.HINTS_ALGORITHM = version
    project = stocked()
    key = key_for(project)
    with caplog.at_level(logging.DEBUG):
        for url in (URL, BATCH):
            one = failed(**SAID, trigger=trigger, activation_id=f"{url[-5:]}:a1", mcp_server="git")
            response = post(key, one if url == URL else {"requests": [one]}, url)
            assert response.status_code == 200
            assert CANARY not in response.content.decode()
            post(key, failed(query=f"{CANARY} other", activation_id=f"{url[-5:]}:a1"))
        refresh_run(project.pk, "r-1")
    assert Activation.objects.count() == 2
    assert told_anywhere(CANARY, "0.77712345", "hunter2") == []
    assert CANARY not in caplog.text and "hunter2" not in caplog.text


@pytest.mark.django_db
def test_a_secret_in_an_id_is_not_written_anywhere() -> None:
    """An answer is not kept under such an id; the hints are given, and events are stored without the secret."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert secret not in redact(secret)[0]
    project = stocked()
    key = key_for(project)
    for field in ("run", "activation_id", "task", "actor", "tool", "mcp_server", "team_root", "activation_source_id"):
        response = post(key, {**failed(activation_id=f"{field}:a1"), field: f"x {secret}"})
        assert (response.status_code, field == "tool" or response.json()["count"]) == (200, field == "tool" or 1)
    assert told_anywhere(secret) == []
    assert Event.objects.filter(type="hint.query").count() == 8
    kept = set(HintAnswer.objects.values_list("activation_id", flat=True))
    assert kept == {f"{field}:a1" for field in ("task", "actor", "tool", "mcp_server", "team_root",
                                               "activation_source_id")}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    "run_id", ["reset-password-run", "token-rotation:7", "3f2c9d0e-8a51-4c1b-9f0a-7d7d1c0e2b11", "я🙂"]
)
def test_ids_that_only_sound_like_secrets_are_kept(run_id: str) -> None:
    """The word password in a run's name costs it no retry."""
    stocked()
    key = key_for(Project.objects.get(slug="alpha"))
    first = post(key, failed(run=run_id, activation_id=f"{run_id}:a1"))
    again = post(key, failed(run=run_id, activation_id=f"{run_id}:a1"))
    assert again.content == first.content and again.headers["Hint-Answers"] == "kept"


@pytest.mark.django_db(transaction=True)
def test_a_table_of_answers_that_somebody_holds_withholds_no_hint() -> None:
    """While nothing can be kept the hints are given, and it is counted."""
    project = stocked()
    key, failures = key_for(project), n_failed("keeping")
    post(key, failed())
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("LOCK TABLE knowledge_hintanswer IN SHARE MODE")
                held.set()
                over.wait(60)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    try:
        answer = post(key, failed(activation_id="r-1:a1")).json()
    finally:
        over.set()
        holder.join()
    assert answer["count"] == 1
    assert n_failed("keeping") == failures + 1
    assert not HintAnswer.objects.filter(activation_id="r-1:a1").exists()


@pytest.mark.django_db
def test_a_projects_own_pattern_holds_for_ids_as_well() -> None:
    """What a project calls a secret is not kept in an id of an answer either."""
    project = stocked()
    Project.objects.filter(pk=project.pk).update(redaction_patterns=[{"kind": "order", "pattern": "ORD-[0-9]{8}"}])
    answer = post(key_for(project), failed(run="r-ORD-12345678", activation_id="a1")).json()
    assert answer["count"] == 1
    assert told_anywhere("ORD-12345678") == []


@pytest.mark.django_db
def test_what_hint_query_and_hint_offered_tell() -> None:
    """All that the chain needs: ids, trigger, source, counts, version, measures, time, what is left, each candidate."""
    project = stocked()
    budget = {"activation_tokens": 400, "run_tokens": 2000, "hint_limit": 3}
    sent = failed(
        activation_id="r-1:a1", task="t-1", actor="a-1", team_root="r-0", mcp_server="git", budget=budget,
        embedding=[0.1, 0.2], issued_knowledge_ids=["k-9"], tool_arguments="git status",
    )  # fmt: skip
    answer = post(key_for(project), sent).json()
    asked, offered = read_events(project.pk, "r-1")
    for event in (asked, offered):
        assert (event.run_id, event.activation_id, event.caused_by) == ("r-1", "r-1:a1", "r-1:7")
        assert (event.task_id, event.actor_id, event.team_root) == ("t-1", "a-1", "r-0")
        assert (event.tool, event.mcp_server) == ("shell", "git")
        assert event.data["trigger"] == "tool.failed" and event.data["source_event_id"] == "r-1:7"
        assert event.data["algorithm_version"] == answer["algorithm_version"]
        assert event.data["matcher"] == answer["matcher"]
    assert (asked.event_id, asked.type) == ("r-1:a1:query", "hint.query")
    assert (asked.data["n_retrieved"], asked.data["n_offered"], asked.data["result"]) == (1, 1, "success")
    assert asked.data["duration_ms"] > 0 and asked.data["budget"] == budget
    assert asked.data["notes"] == answer["notes"] != []
    measures = asked.data["query_diagnostics"]
    assert (measures["query_length"], measures["tool_result_length"]) == (len(sent["query"]), len(ERROR))
    assert measures["tool_arguments_length"] == len("git status")
    assert (measures["n_issued"], measures["n_embedding"], len(measures["fingerprint"])) == (1, 2, 16)
    (hint,) = answer["hints"]
    assert (offered.event_id, offered.type) == (hint["hint_id"], "hint.offered")
    assert (offered.hint_id, offered.knowledge_id) == (hint["hint_id"], "git-init")
    assert {
        name: offered.data[name] for name in ("revision", "proposition", "state", "matched_by", "scores", "rank")
    } == {name: hint[name] for name in ("revision", "proposition", "state", "matched_by", "scores", "rank")}
    assert json.dumps(asked.data["candidates"][0]["scores"]) == json.dumps(hint["scores"])
