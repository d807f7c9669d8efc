"""Deleting a run or a project: complete by the catalog, nothing of others touched, safe beside writers and folders."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, connections, transaction
from django.test import Client

from ingest import deletion, forgetting, unused_messages
from ingest.accept import accept_events
from ingest.authentication import create_key
from ingest.deletion import begin_deletion, delete_project, delete_run, finish_deletion
from ingest.messages import rebuild_request
from ingest.models import UNCLAIMED, ApiKey, Batch, Membership, Message, Project, Reject, Run
from ingest.projects import create_project
from ingest.retention import apply_retention
from ingest.tasks import finish_deletions
from knowledge.chains import refresh_run
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import HintAnswer, KnowledgeChange, KnowledgeRevision, RunSummary
from tests.factories import make_person, make_project, send, typical_run
from tests.ingest.aged import TODAY, age, bodies, days_ago, n_events
from tests.ingest.test_accept import event
from tests.ingest.test_journal import in_threads
from tests.ingest.test_retention import another_connection

pytestmark = pytest.mark.django_db(transaction=True)


def tables_with(column: str) -> list[str]:
    """Every table of the database with that column, the journal's partitions one by one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
            " WHERE attname = %s AND relkind = 'r' AND NOT attisdropped"
            " AND relnamespace = current_schema()::regnamespace ORDER BY 1",
            [column],
        )
        return [row[0] for row in cursor.fetchall()]


def rows_where(column: str, value: object) -> dict[str, list[str]]:
    """Table -> its rows with that value, as JSON texts in order; tables without any are left out."""
    found = {}
    with connection.cursor() as cursor:
        for table in tables_with(column):
            cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t WHERE {column} = %s ORDER BY 1", [value])
            rows = [row[0] for row in cursor.fetchall()]
            if rows:
                found[table] = rows
    return found


def full_project(slug: str) -> Project:
    """A project with rows in every table that can name one."""
    project = make_project(slug)
    make_person(f"member-of-{slug}", project)
    create_key(project, "agent", ["ingest"])
    for run_id, ago in (("r-1", 0), ("r-2", 0), ("r-3", 5)):
        send(project, [*typical_run(run_id), event(900, run_id, data={"text": "a\x00b"}, seq=None)])
        send(project, [event(900, run_id, data={"text": "other"}, seq=None)], fold=False)  # a conflict is listed
        HintAnswer.objects.create(project=project, run_id=run_id, activation_id="a", answer={})
        if ago:
            age(project, run_id, days_ago(ago))
    accept_events(project.pk, [{"event_id": "bad", "run_id": "r-1"}])
    draft = ItemDraft(knowledge_id="k-1", proposition="Run `git init` first.", entities=("git",), topics=("git",))
    create_item(project, draft, by="test", reason="test")
    send(project, typical_run("r-gone"))
    age(project, "r-gone", days_ago(9))
    Project.objects.filter(pk=project.pk).update(retention_days=7)
    apply_retention(TODAY)
    return project


def asking(run: str, *texts: str) -> dict[str, Any]:
    new = [{"role": "user", "text": text} for text in texts]
    return event(1, run, type="model.requested", data={"n_messages": len(new), "new_messages": new})


def test_nothing_of_a_deleted_project_is_left_anywhere() -> None:
    """No table of the catalog that can name a project names it, and every row of the other project is as it was."""
    alpha, beta = full_project("alpha"), full_project("beta")
    filled = set(rows_where("project_id", alpha.pk))
    assert len(filled) >= 14
    before = rows_where("project_id", beta.pk)
    n_texts = KnowledgeRevision.objects.count(), KnowledgeChange.objects.count()
    delete_project(alpha)
    assert rows_where("project_id", alpha.pk) == {}
    assert rows_where("project_id", beta.pk) == before
    assert set(before) >= {table for table in filled if not table.startswith("ingest_event_")}
    assert (KnowledgeRevision.objects.count(), KnowledgeChange.objects.count()) == (n_texts[0] // 2, n_texts[1] // 2)
    assert list(Project.objects.values_list("slug", flat=True)) == ["beta"]


def test_every_table_that_can_name_a_project_is_known_to_the_models() -> None:
    """Deletion reads its tables from the models; the catalog holds no other table with such a column."""
    known = {model._meta.db_table for model in forgetting.project_models()}
    in_catalog = {table for table in tables_with("project_id") if not table.startswith("ingest_event")}
    assert in_catalog == known
    of_runs = {model._meta.db_table for model in forgetting.run_models()} | {"ingest_run"}
    assert {table for table in tables_with("run_id") if not table.startswith("ingest_event")} == of_runs


def test_nothing_of_a_deleted_run_is_left_anywhere() -> None:
    """No table of the catalog that can name a run names it; other runs, also of its id elsewhere, are as they were."""
    alpha, beta = full_project("alpha"), full_project("beta")
    assert len([rows for rows in rows_where("run_id", "r-1").values() if len(rows) > 1]) >= 6
    kept = {run: rows_where("run_id", run) for run in ("r-2", "r-3")}
    others = rows_where("project_id", beta.pk)
    shared = bodies(alpha)
    deleted = delete_run(alpha.pk, "r-1")
    assert deleted is not None
    assert deleted.n_events == len(typical_run("r-1")) + 1
    unused_messages.sweep(alpha.pk)
    left = [row for rows in rows_where("run_id", "r-1").values() for row in rows]
    assert left
    assert {json.loads(row)["project_id"] for row in left} == {beta.pk}
    assert {run: rows_where("run_id", run) for run in kept} == kept
    assert rows_where("project_id", beta.pk) == others
    # typical runs differ in their hint block alone, which names its activation; everything else is shared
    assert shared - bodies(alpha) == {text for text in shared if 'activation="r-1:a1"' in text}
    assert not Message.objects.filter(last_run_day=UNCLAIMED).exists()


def test_accounts_of_requests_no_longer_name_a_deleted_run() -> None:
    """The example that an account of repairs gives is taken out; its counts stay."""
    project = make_project()
    send(project, [event(1, "r-1", data={"text": "a\x00b"}), event(1, "r-2", data={"text": "c"})])
    send(project, [event(2, "r-2", data={"text": "a\x00b"})])
    first, second = Batch.objects.order_by("pk").values_list("repairs", flat=True)
    assert "r-1" in json.dumps(first)
    delete_run(project.pk, "r-1")
    now = list(Batch.objects.order_by("pk").values_list("repairs", flat=True))
    assert "r-1" not in json.dumps(now)
    assert {word: about["n"] for word, about in now[0].items()} == {word: about["n"] for word, about in first.items()}
    assert now[1] == second


def test_deleting_what_is_not_there_changes_nothing() -> None:
    """An unknown run and a run of another project are no runs of this one."""
    alpha, beta = make_project("alpha"), make_project("beta")
    send(beta, typical_run("r-1"))
    before = rows_where("project_id", beta.pk)
    assert delete_run(alpha.pk, "r-1") is None
    assert delete_run(alpha.pk, "r-0") is None
    finish_deletion(beta.pk)  # not marked: not deleted
    finish_deletion(10**9)
    assert rows_where("project_id", beta.pk) == before


def test_a_message_that_another_run_names_is_kept() -> None:
    """Bodies are shared by hash: those of other runs stay, also where a run names one without sending it again."""
    project = make_project()
    send(project, [asking("r-1", "shared", "only mine", "by hash")])
    send(project, [asking("r-2", "shared", "theirs")])
    by_hash = next(message.hash for message in Message.objects.all() if message.body["text"] == "by hash")
    send(
        project, [event(1, "r-3", type="model.requested", data={"n_messages": 1, "new_messages": [{"hash": by_hash}]})]
    )
    delete_run(project.pk, "r-1")
    swept = unused_messages.sweep(project.pk)
    assert bodies(project) == {"shared", "theirs", "by hash"}
    assert (swept.n_deleted, swept.n_kept) == (1, 2)
    assert rebuild_request(project.pk, "r-2", "r-2:1").missing == ()
    assert set(Message.objects.values_list("last_run_day", flat=True)) == {TODAY}


def test_a_kept_message_has_the_day_of_its_newest_run_again() -> None:
    """After a deletion retention still knows how long a shared body is needed."""
    project = make_project()
    send(project, [asking("r-old", "shared")])
    age(project, "r-old", days_ago(4))
    send(project, [asking("r-new", "shared")])
    assert Message.objects.get().last_run_day == TODAY
    delete_run(project.pk, "r-new")
    unused_messages.sweep(project.pk)
    assert Message.objects.get().last_run_day == days_ago(4)
    delete_run(project.pk, "r-old")
    unused_messages.sweep(project.pk)
    assert not Message.objects.exists()


def test_a_writer_that_found_a_body_does_not_lose_it() -> None:
    """A transaction that saw the body before the run went is waited for; its reference then keeps the body."""
    project = make_project()
    send(project, [asking("r-1", "shared")])
    with another_connection(lambda: accept_events(project.pk, [asking("r-2", "shared")])):
        delete_run(project.pk, "r-1")
        waiting = unused_messages.sweep(project.pk, wait_seconds=0.2)
        assert (waiting.n_deleted, waiting.n_waiting) == (0, 1)
        assert bodies(project) == {"shared"}
    assert finish_deletions() == 0
    assert bodies(project) == {"shared"}
    assert rebuild_request(project.pk, "r-2", "r-2:1").missing == ()
    assert not Message.objects.filter(last_run_day=UNCLAIMED).exists()


def test_a_writer_that_comes_after_the_mark_claims_the_body() -> None:
    """Between deletion and sweep a body that is sent again is somebody's again."""
    project = make_project()
    send(project, [asking("r-1", "sent again", "left")])
    delete_run(project.pk, "r-1")
    send(project, [asking("r-2", "sent again")])
    unused_messages.sweep(project.pk)
    assert bodies(project) == {"sent again"}


def test_a_late_event_of_a_deleted_run_is_a_new_run_and_says_so() -> None:
    """A sender that goes on makes a run of today with what it still sends; its page tells that a part was deleted."""
    project = make_project()
    events = typical_run("r-1")
    send(project, events[:-1])
    delete_run(project.pk, "r-1")
    assert send(project, events[-1:]).accepted == 1
    assert n_events(project, "r-1") == 1
    assert Run.objects.get().last_arrival == 1
    client = Client()
    client.force_login(make_person("alice", project))
    assert "An earlier part of this run was deleted on" in client.get("/alpha/runs/r-1/").content.decode()
    assert "An earlier part" not in client.get(f"/{full_project('beta').slug}/runs/r-1/").content.decode()


def test_a_deletion_waits_for_the_writer_and_takes_its_events_too() -> None:
    """Who was writing when the deletion came is answered, and what it wrote goes with the run."""
    project = make_project()
    events = typical_run("r-1")
    send(project, events[:5])
    gone: list[Any] = []
    with another_connection(lambda: accept_events(project.pk, events[5:10])):
        deleter = in_thread(lambda: gone.append(delete_run(project.pk, "r-1")))
        deleter.join(0.3)
        assert deleter.is_alive()
    deleter.join(30)
    assert gone[0].n_events == 10
    assert rows_where("run_id", "r-1") == {}


def test_a_fold_under_way_leaves_nothing_behind() -> None:
    """A deletion waits for the process that folds the run; nothing derived from it comes back."""
    project = make_project()
    send(project, typical_run("r-1"), fold=False)
    with another_connection(lambda: refresh_run(project.pk, "r-1")):
        deleter = in_thread(lambda: delete_run(project.pk, "r-1"))
        deleter.join(0.3)
        assert deleter.is_alive()
    deleter.join(30)
    assert not RunSummary.objects.exists()
    assert refresh_run(project.pk, "r-1") is False
    assert rows_where("run_id", "r-1") == {}


def in_thread(act: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_marked_project_is_refused_and_hidden_at_once() -> None:
    """From the first moment its keys are refused and its pages are not there, while its rows wait for their turn."""
    project = make_project()
    alice = make_person("alice", project)
    _, raw = create_key(project, "agent", ["ingest", "read"])
    send(project, typical_run("r-1"))
    client = Client()
    client.force_login(alice)
    begin_deletion(project)
    headers = {"Authorization": f"Bearer {raw}"}
    body = json.dumps({"events": [event(1, "r-2")]})
    assert Client().post("/v1/events", body, content_type="application/json", headers=headers).status_code == 401
    assert Client().get("/v1/runs", headers=headers).status_code == 401
    assert client.get("/alpha/runs/").status_code == 404
    assert client.get("/alpha/runs/r-1/").status_code == 404
    assert list(Run.objects.values_list("run_id", flat=True)) == ["r-1"]
    assert finish_deletions() == 1
    assert rows_where("project_id", project.pk) == {}


def test_a_deletion_that_was_cut_off_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are transactions: what went stays gone, the rest goes when beat comes round."""
    alpha, beta = full_project("alpha"), full_project("beta")
    before = rows_where("project_id", beta.pk)
    begin_deletion(alpha)
    monkeypatch.setattr(deletion, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(deletion, "ROWS_AT_ONCE", 2)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE guard (project_id bigint REFERENCES ingest_project)")
        cursor.execute("INSERT INTO guard VALUES (%s)", [alpha.pk])
    try:
        with pytest.raises(IntegrityError):
            finish_deletion(alpha.pk)
        assert set(rows_where("project_id", alpha.pk)) == {"guard"}
        assert Project.objects.get(pk=alpha.pk).deleted_at is not None
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE guard")
    assert finish_deletions() == 1
    assert not Project.objects.filter(pk=alpha.pk).exists()
    assert rows_where("project_id", beta.pk) == before


def test_a_request_to_a_known_run_is_waited_for_and_deleted() -> None:
    """A request that passed its key check before the deletion is answered, and what it wrote goes with the rest."""
    project = make_project()
    project_id = project.pk
    send(project, typical_run("r-1"))
    with another_connection(lambda: accept_events(project_id, [event(77, "r-1")])):
        deleter = in_thread(lambda: delete_project(project))
        deleter.join(0.5)
        assert deleter.is_alive()
    deleter.join(30)
    assert rows_where("project_id", project_id) == {}


def test_a_request_that_a_deletion_cannot_see_fails_as_a_whole() -> None:
    """Every request leaves a row that refers to its project: once that is gone, nothing of the request is stored."""
    project = make_project()
    project_id = project.pk
    send(project, typical_run("r-1"))
    failed: list[IntegrityError] = []

    def write(may_commit: threading.Event, has_written: threading.Event) -> None:
        try:
            with transaction.atomic():
                accept_events(project_id, [event(77, "r-late")])
                has_written.set()
                assert may_commit.wait(30)
        except IntegrityError as error:
            failed.append(error)

    may_commit, has_written = threading.Event(), threading.Event()
    writer = in_thread(lambda: write(may_commit, has_written))
    assert has_written.wait(30)
    delete_project(project)
    may_commit.set()
    writer.join(30)
    assert len(failed) == 1
    with pytest.raises(IntegrityError):
        accept_events(project_id, [event(78, "r-later")])
    assert rows_where("project_id", project_id) == {}


def test_commands_delete_what_they_name_and_nothing_by_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands say what went; a project needs its slug twice, an unknown name is an error."""
    project = full_project("alpha")
    with pytest.raises(CommandError, match="nothing was deleted"):
        call_command("delete_project", "alpha", confirm="beta")
    with pytest.raises(CommandError, match="no project 'gamma'"):
        call_command("delete_project", "gamma", confirm="gamma")
    with pytest.raises(CommandError, match="no run 'r-9'"):
        call_command("delete_run", project="alpha", run="r-9")
    assert n_events(project, "r-1") > 0
    call_command("delete_run", project="alpha", run="r-1")
    assert f"{len(typical_run('r-1')) + 1} events and 1 messages deleted" in capsys.readouterr().out
    assert n_events(project, "r-1") == 0
    call_command("delete_project", "alpha", confirm="alpha")
    assert rows_where("project_id", project.pk) == {}
    assert create_project("alpha", "Alpha again").pk != project.pk
    assert not Membership.objects.exists()
    assert not ApiKey.objects.exists()
    assert not Reject.objects.exists()


def test_two_processes_finish_one_deletion() -> None:
    """The command and beat at the same moment: both come to an end, and nothing of the project is left."""
    alpha, beta = full_project("alpha"), full_project("beta")
    before = rows_where("project_id", beta.pk)
    begin_deletion(alpha)
    in_threads(*[lambda: finish_deletion(alpha.pk)] * 3)
    assert rows_where("project_id", alpha.pk) == {}
    assert rows_where("project_id", beta.pk) == before


def test_a_deletion_that_cannot_be_finished_keeps_no_other_waiting() -> None:
    """What fails is logged and tried again with the next look; the projects behind it go."""
    alpha, beta = full_project("alpha"), full_project("beta")
    for project in (alpha, beta):
        begin_deletion(project)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE guard (project_id bigint REFERENCES ingest_project)")
        cursor.execute("INSERT INTO guard VALUES (%s)", [alpha.pk])
    try:
        assert finish_deletions() == 1
        assert list(Project.objects.values_list("slug", flat=True)) == ["alpha"]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE guard")
    assert finish_deletions() == 1


def test_a_deletion_inside_a_failed_transaction_did_not_happen() -> None:
    """A run goes whole or not at all."""
    project = make_project()
    send(project, typical_run("r-1"))
    before = rows_where("run_id", "r-1")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        delete_run(project.pk, "r-1")
        _ = 1 / 0
    assert rows_where("run_id", "r-1") == before
