"""The write path: identity, arrival numbers, partial acceptance, conflicts, racing writers, isolation."""

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from ingest import journal
from ingest.accept import accept_events
from ingest.errors import IngestError
from ingest.messages import load_messages, rebuild_request
from ingest.models import Event, Message, Project, Reject, Run

pytestmark = pytest.mark.django_db


def event(number: int, run: str = "r-1", **fields: Any) -> dict[str, Any]:
    return {
        "event_id": f"{run}:{number}",
        "run_id": run,
        "type": "turn.started",
        "occurred_at": "2026-11-30T03:00:00.123456789Z",
        "seq": number,
        **fields,
    }


@pytest.fixture
def project() -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def test_events_are_stored_once_and_numbered_in_order(project: Project) -> None:
    """A second delivery changes nothing and later events go on from the last number."""
    first = accept_events(project.pk, [event(1), event(2)])
    again = accept_events(project.pk, [event(2), event(3), event(1)])
    assert (first.accepted, first.duplicates) == (2, 0)
    assert (again.accepted, again.duplicates, again.conflicts) == (1, 2, 0)
    rows = journal.read_events(project.pk, "r-1")
    assert [(row.event_id, row.arrival) for row in rows] == [("r-1:1", 1), ("r-1:2", 2), ("r-1:3", 3)]
    assert rows[0].occurred_ns == 1796007600123456789
    assert Run.objects.get(project=project, run_id="r-1").last_arrival == 3


def test_bad_event_costs_no_other(project: Project) -> None:
    """Ninety-nine of a hundred are stored, the bad one is listed by its index."""
    batch: list[Any] = [event(number) for number in range(100)]
    batch[57]["tool"] = "x" * 3000
    result = accept_events(project.pk, batch)
    assert result.accepted == 99
    assert [(item.index, item.code) for item in result.rejected] == [(57, "field_too_long")]
    assert "tool has 3000 characters; the limit is 200" in result.rejected[0].detail
    assert Reject.objects.get(project=project).event_id == "r-1:57"


def test_conflicting_copies_are_counted_and_the_first_is_kept(project: Project) -> None:
    """The first copy wins, within a batch and across batches, and each other copy is listed."""
    accept_events(project.pk, [event(1, data={"a": 1}), event(1, data={"a": 2})])
    result = accept_events(project.pk, [event(1, data={"a": 3})])
    assert (result.accepted, result.duplicates, result.conflicts) == (0, 1, 1)
    assert Event.objects.get(project=project).data == {"a": 1}
    assert Reject.objects.filter(project=project, code="conflict").count() == 2
    assert Run.objects.get(project=project, run_id="r-1").n_conflicts == 2


def test_projects_do_not_share_runs(project: Project) -> None:
    """The same run and event ids in two projects are two runs."""
    other = Project.objects.create(slug="beta", name="Beta")
    accept_events(project.pk, [event(1, data={"of": "alpha"})])
    result = accept_events(other.pk, [event(1, data={"of": "beta"})])
    assert result.accepted == 1
    assert [row.data for row in journal.read_events(other.pk, "r-1")] == [{"of": "beta"}]


def test_a_run_stays_in_the_partition_of_its_first_day(project: Project) -> None:
    """Events that arrive days later join the run where it is."""
    accept_events(project.pk, [event(1)])
    day = timezone.now().date() - timedelta(days=3)
    journal.ensure_partitions([day])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ingest_event SET run_day = %s", [day])
    Run.objects.filter(project=project).update(run_day=day)
    accept_events(project.pk, [event(2)])
    assert set(Event.objects.values_list("run_day", flat=True)) == {day}
    assert len(journal.read_events(project.pk, "r-1")) == 2


def test_secrets_never_reach_the_journal(project: Project) -> None:
    """A known token format is replaced in data and in message bodies."""
    secret = "ghp_" + "a1B2" * 9
    body = {"role": "user", "text": f"use {secret}", "origin": "task"}
    accept_events(
        project.pk,
        [
            event(1, data={"deep": [{"text": f"key {secret}"}]}),
            event(2, type="model.requested", data={"n_messages": 1, "new_messages": [body]}),
        ],
    )
    stored = str(list(Event.objects.values("data"))) + str(list(Message.objects.values("body")))
    assert secret not in stored
    assert "[REDACTED:github_token]" in stored
    assert Event.objects.get(event_id="r-1:1").repairs == ["redacted"]


def test_a_request_is_rebuilt_from_what_each_one_added(project: Project) -> None:
    """Three requests, each told as what it adds, give their messages back in order."""

    def told(number: int, follows: int | None, kept: int, *texts: str) -> dict[str, Any]:
        messages = [{"role": "user", "text": text, "origin": "task", "tokens": 1} for text in texts]
        data = {"n_kept": kept, "n_messages": kept + len(texts), "new_messages": messages}
        return event(
            number, type="model.requested", data={**data, **({"follows": f"r-1:{follows}"} if follows else {})}
        )

    accept_events(project.pk, [told(1, None, 0, "a", "b"), told(2, 1, 1, "c"), told(3, 2, 2, "d")])
    rebuilt = rebuild_request(project.pk, "r-1", "r-1:3")
    assert [message["text"] for message in rebuilt.messages] == ["a", "c", "d"]
    assert [message["is_new"] for message in rebuilt.messages] == [False, False, True]
    assert rebuilt.missing == ()


def test_a_lost_request_is_named_and_not_guessed(project: Project) -> None:
    """What follows a lost event is rebuilt in part and says which event is missing."""
    new = [{"role": "user", "text": "late", "origin": "task"}]
    lost = {"n_messages": 3, "n_kept": 2, "follows": "r-1:1", "new_messages": new}
    accept_events(project.pk, [event(2, type="model.requested", data=lost)])
    rebuilt = rebuild_request(project.pk, "r-1", "r-1:2")
    assert [message["text"] for message in rebuilt.messages] == ["late"]
    assert rebuilt.missing == ("r-1:1",)
    with pytest.raises(KeyError):
        rebuild_request(project.pk, "r-1", "r-1:9")


def test_messages_are_kept_once_a_project(project: Project) -> None:
    """The same text in two runs is one row."""
    data = {"n_messages": 1, "new_messages": [{"role": "system", "text": "rules", "origin": "rules"}]}
    accept_events(project.pk, [event(1, run, type="model.requested", data=data) for run in ("r-1", "r-2")])
    (digest,) = Message.objects.values_list("hash", flat=True)
    assert load_messages(project.pk, [digest])[digest]["text"] == "rules"


@pytest.mark.django_db(transaction=True)
def test_racing_writers_of_one_run_lose_and_repeat_nothing() -> None:
    """Four writers send overlapping batches: each event is there once, numbers have no gap."""
    project = Project.objects.create(slug="race", name="Race")

    def send(offset: int) -> int:
        try:
            return accept_events(project.pk, [event(number) for number in range(offset, offset + 50)]).accepted
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        accepted = sum(pool.map(send, (0, 25, 50, 0)))
    rows = journal.read_events(project.pk, "r-1")
    assert accepted == len(rows) == 100
    assert sorted(row.arrival for row in rows) == list(range(1, 101))


def test_patterns_of_the_project_are_taken_out(project: Project) -> None:
    """What a project calls a secret leaves its texts and ids before they are written; another project keeps it."""
    other = Project.objects.create(slug="beta", name="Beta")
    Project.objects.filter(pk=project.pk).update(redaction_patterns=[{"kind": "badge", "pattern": "BADGE-[0-9]{6}"}])
    sent = [event(1, actor_id="BADGE-123456", data={"note": "seen with BADGE-654321 at noon"})]
    for each in (project, other):
        accept_events(each.pk, sent)
    kept = Event.objects.get(project_id=project.pk)
    assert (kept.actor_id, kept.data["note"]) == ("[REDACTED:badge]", "seen with [REDACTED:badge] at noon")
    assert kept.repairs == ["redacted"]
    assert Event.objects.get(project_id=other.pk).actor_id == "BADGE-123456"


def test_patterns_that_cannot_be_used_refuse_the_request(project: Project) -> None:
    """Nothing is stored with what a pattern would have taken out: the sender is asked to come again."""
    Project.objects.filter(pk=project.pk).update(redaction_patterns=[{"kind": "badge", "pattern": "("}])
    with pytest.raises(IngestError) as refused:
        accept_events(project.pk, [event(1)])
    assert (refused.value.status, refused.value.code) == (503, "redaction_unavailable")
    assert not Event.objects.filter(project_id=project.pk).exists()


def test_a_message_is_kept_as_the_bytes_of_its_hash(project: Project) -> None:
    """What is kept can be checked against the name it is kept under: not a byte differs."""
    told = {"n_messages": 1, "new_messages": [{"role": "user", "text": "a 1.50 b", "calls": [1.5, 2]}]}
    accept_events(project.pk, [event(1, type="model.requested", data=told)])
    with connection.cursor() as cursor:
        cursor.execute("SELECT hash, body::text FROM ingest_message")
        ((name, body),) = cursor.fetchall()
    assert hashlib.sha256(body.encode()).hexdigest() == name


def test_a_message_that_is_only_named_is_kept_for_the_day_of_who_names_it(project: Project) -> None:
    """A run of today that names a message of an old one by hash alone needs it for as long as it needs its own."""
    told = {"n_messages": 1, "new_messages": [{"role": "user", "text": "hello"}]}
    accept_events(project.pk, [event(1, type="model.requested", data=told)])
    today = Message.objects.get().last_run_day
    old = today - timedelta(days=30)
    Message.objects.update(last_run_day=old)
    named = {"n_messages": 1, "new_messages": [{"hash": Message.objects.get().hash}]}
    accept_events(project.pk, [event(1, "r-2", type="model.requested", data=named)])
    assert Message.objects.get().last_run_day == today


class Hostile(dict[str, Any]):
    """An event that meets a fault: reading it raises what nobody foresaw."""

    def get(self, key: str, default: Any = None) -> Any:
        if key == "occurred_at":
            raise RuntimeError("canary-payload")
        return super().get(key, default)


def test_an_event_that_meets_a_fault_of_ours_costs_no_other(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """The rest of the batch is stored, the one is listed, and the log has the place without the text."""
    result = accept_events(project.pk, [event(1), Hostile(event(9)), event(2)])
    assert (result.accepted, [(item.index, item.code) for item in result.rejected]) == (2, [(1, "internal_fault")])
    listed = Reject.objects.get()
    assert (listed.code, listed.event_id) == ("internal_fault", "r-1:9")
    assert [record.name for record in caplog.records if record.exc_info] == ["ingest.errors"]
    assert "canary" not in result.rejected[0].detail


@pytest.mark.django_db(transaction=True)
def test_writers_that_send_what_the_other_names_do_not_block_each_other() -> None:
    """Each sends a message of an older day whose other the other one sends: both get through, one after the other."""
    project = Project.objects.create(slug="race", name="Race")
    bodies = [{"role": "user", "text": text} for text in ("one", "two")]
    ask = {"type": "model.requested", "data": {"n_messages": 2, "new_messages": bodies}}
    accept_events(project.pk, [event(1, "r-0", **ask)])
    names = {load_messages(project.pk, [kept.hash])[kept.hash]["text"]: kept.hash for kept in Message.objects.all()}
    low, high = sorted(bodies, key=lambda body: names[body["text"]])
    Message.objects.update(last_run_day="2026-01-01")

    def send(run: str, sent: dict[str, Any], named: dict[str, Any]) -> int:
        told = {"n_messages": 2, "new_messages": [sent, {"hash": names[named["text"]]}]}
        try:
            return accept_events(project.pk, [event(1, run, type="model.requested", data=told)]).accepted
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic():
            Message.objects.select_for_update().get(hash=names[low["text"]])
            senders = [pool.submit(send, "r-1", low, high)]
            await_blocked(1)
            senders.append(pool.submit(send, "r-2", high, low))
            await_blocked(2)
        assert [sender.result() for sender in senders] == [1, 1]


def await_blocked(number: int) -> None:
    """Wait until that many connections wait for a lock."""
    pause, deadline = threading.Event(), time.monotonic() + 20
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database()) OR NOT granted AND database IS NULL"
            )
            if cursor.fetchone()[0] >= number:
                return
        pause.wait(0.02)
    raise AssertionError(f"not {number} connections wait")


def test_case_28_a_conversation_of_thousands_of_messages_is_kept_whole(project: Project) -> None:
    """What names the messages does not count against the size of the event; a long text beside them is still cut."""
    texts = [f"message {number}" for number in range(3_000)]
    told = {"n_messages": 3_000, "new_messages": [{"role": "user", "text": text} for text in texts], "x": "y" * 300_000}
    result = accept_events(project.pk, [event(1, type="model.requested", data=told)])
    assert (result.accepted, result.rejected) == (1, ())
    assert [message["text"] for message in rebuild_request(project.pk, "r-1", "r-1:1").messages] == texts
    kept = Event.objects.get()
    assert kept.repairs == ["cut"] and len(kept.data["x"]) < 262_144


def test_patterns_of_the_project_are_taken_out_of_rejects(project: Project) -> None:
    """The id of what was refused is shown as it would have been stored."""
    Project.objects.filter(pk=project.pk).update(redaction_patterns=[{"kind": "badge", "pattern": "BADGE-[0-9]{6}"}])
    result = accept_events(project.pk, [event(1, event_id="BADGE-123456", occurred_at="never")])
    assert [item.event_id for item in result.rejected] == ["[REDACTED:badge]"]
    assert Reject.objects.get().event_id == "[REDACTED:badge]"
