"""What a request's page reads: every recorded request byte for byte, windows of long ones, previews of long texts."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from debugger import timeline_store
from debugger.access import GuardedRun
from debugger.queries import request_opening
from debugger.queries.opening import open_run
from debugger.queries.pieces import PREVIEW
from debugger.queries.request_near import read_near
from debugger.queries.request_opening import open_request
from debugger.queries.request_reading import CUT, SHORT, read_outlines, read_previews, read_steps
from debugger.queries.request_told import told_whole, told_window
from debugger.queries.requests import place_block
from debugger.queries.stored import StoredRun
from ingest.messages import load_messages, rebuild_request
from ingest.models import Message, Project, Run
from knowledge.models import RunSummary
from tests.factories import Recorder, make_person, make_project, send
from tests.knowledge.streams import recorded_names, wire_of
from tests.spoken_run import BEFORE, call, requested, said

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
REPLACED = "/runs/work/"  # stands in recordings for the folder of a machine: those messages have another hash now
COUNTS = Path(__file__).parent.parent / "query_counts.json"


@pytest.fixture
def project() -> Project:
    return make_project("alpha")


@pytest.fixture
def client(project: Project) -> Client:
    client = Client()
    client.force_login(make_person("member", project))
    return client


def guarded(project: Project, run_id: str) -> GuardedRun:
    registry = Run.objects.get(project_id=project.pk, run_id=run_id)
    return GuardedRun(project, registry, RunSummary.objects.filter(project_id=project.pk, run_id=run_id).first())


def words(client: Client, address: str, **extra: Any) -> str:
    """The page in plain words."""
    response = client.get(address, **extra)
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def sent_messages(events: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each request of a run with its messages, put together from what was sent and nothing else."""
    sent: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event["type"] == "model.requested":
            data = event["data"]
            kept = sent[data["follows"]][: data["n_kept"]] if data.get("follows") else []
            sent[event["event_id"]] = [*kept, *data["new_messages"]]
    yield from sent.items()


def provider_hash(message: dict[str, Any]) -> str:
    """The hash a kernel gives a message: of what its provider is sent, in one form of JSON."""
    calls = [[one["call_id"], one["name"], one["arguments"]] for one in message.get("calls", ())]
    text = json.dumps([message["role"], message["text"], message.get("call_id"), calls])
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("name", recorded_names())
def test_every_recorded_request_is_rebuilt_byte_for_byte(project: Project, client: Client, name: str) -> None:
    """Messages of the file have the order and the hashes that the kernel reported; the store rebuilds the same."""
    events = wire_of(name)
    send(project, events)
    n_requests = 0
    for event_id, messages in sent_messages(events):
        n_requests += 1
        run_id = next(event["run_id"] for event in events if event["event_id"] == event_id)
        answer = client.get(reverse("request-data", args=["alpha", run_id, event_id]))
        told = json.loads(answer.getvalue())
        assert told["missing"] == []
        assert [one["sent_hash"] for one in told["messages"]] == [one["hash"] for one in messages]
        assert [provider_hash(one) for one in told["messages"]] == [provider_hash(one) for one in messages]
        unchanged = [one for one in told["messages"] if REPLACED not in json.dumps(one)]
        assert unchanged and [provider_hash(one) for one in unchanged] == [one["sent_hash"] for one in unchanged]
        assert list(rebuild_request(project.pk, run_id, event_id).messages) == told["messages"]
        steps = read_steps(guarded(project, run_id), event_id)
        whole = told_whole(steps, event_id)
        assert whole is not None
        for first in range(len(messages)):
            window = range(first, min(first + 2, len(messages)))
            held = read_steps(guarded(project, run_id), event_id, window.start, window.stop)
            part = told_window(held, event_id, len(messages), window)
            assert part is not None
            assert {place: entry for place, entry in part.placed() if place in window} == {
                place: whole.entries[place] for place in window
            }
    assert n_requests


def grown(run_id: str, n_requests: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a run whose requests add a reply with its call and the result, and the ids of the requests."""
    to = Recorder(run_id)
    to.add("run.started", {"task": "x", "tools": ["shell"], "agent": "scripted"})
    ids = [requested(to, [said("system", "Rules.", "rules", tokens=2), said("user", "Go", "task", tokens=1)])]
    for number in range(1, n_requests):
        call_id = f"c{number}"
        to.add("time.receipt", {"utc": "2026-11-30T03:12:00Z"}, call_id=call_id, tool="magic_brush")
        new = [
            said("assistant", f"step {number}", "model", calls=[call(call_id)], tokens=3),
            said("tool", f"result {number}", "tool", call_id=call_id, tokens=4),
        ]
        ids.append(requested(to, new, ids[-1], 2 * number))
    to.add("run.completed", {"answer": "done"})
    return to.events, ids


def stored(project: Project, run_id: str) -> None:
    assert timeline_store.want(project.pk, run_id)
    assert timeline_store.store(project.pk, run_id)


def test_a_stored_run_shows_its_requests_as_a_built_one(project: Project, client: Client, settings: Any) -> None:
    """Place, neighbours, parts and badges are the same; from the store no more is read for a longer run."""
    counts = set()
    for n_requests in (4, 40):
        run_id = f"run-{n_requests}"
        events, ids = grown(run_id, n_requests)
        send(project, events)
        address = reverse("request-detail", args=["alpha", run_id, ids[2]])
        settings.TIMELINE_STORED_FROM = 500
        built = client.get(address, headers=HTMX).content
        settings.TIMELINE_STORED_FROM = 1
        stored(project, run_id)
        assert isinstance(open_run(guarded(project, run_id)), StoredRun)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address, headers=HTMX).content == built
        assert f"request <b>3</b> of {n_requests}" in built.decode()
        assert ids[1] in built.decode() and ids[3] in built.decode()
        counts.add(len(queries))
    assert counts == {json.loads(COUNTS.read_text())["stored-request-detail"]}


def test_a_request_of_many_messages_is_read_by_windows(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of it the window and what is new are read; asked for it, the page tells all, and the same of that window."""
    monkeypatch.setattr(request_opening, "READ_WHOLE", 50)
    events, ids = grown("long", 200)
    send(project, events)
    address = reverse("request-detail", args=["alpha", "long", ids[-1]])
    text = words(client, address)
    assert "400 messages, about 1 token (as reported: so long a request is not read whole at once)" in text
    assert "not checked yet: read all 400 messages" in text and "New 2 messages, about 7 tokens" in text
    assert "the first 398 messages, about 0 tokens, are those of the request before (all 398 of it)" in text
    assert "messages 301–400 of 400" in text and "result 199" in text and "step 149 " not in text
    assert "receipt" in text
    whole = words(client, address, data={"whole": "1"})
    assert "Protocol kept" in whole and "This turn 399 messages, about 1,394 tokens" in whole
    assert "the first 398 messages, about 1,389 tokens" in whole
    run = open_run(guarded(project, "long"))
    for start in (0, 7, 101, 299):
        part = open_request(run, ids[-1], start, whole=False)
        full = open_request(run, ids[-1], start, whole=True)
        assert part is not None and full is not None
        shown = [message for one in full.view.parts for message in one.messages]
        assert list(part.view.parts[0].messages) == shown
        assert not part.view.is_whole and full.view.is_whole


def test_a_long_request_that_is_not_there_in_part_is_told(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole in the window is no short window: all that is left is read, and what is missing is named."""
    monkeypatch.setattr(request_opening, "READ_WHOLE", 50)
    events, ids = grown("long", 60)
    send(project, [event for event in events if event["event_id"] != ids[40]])
    text = words(client, reverse("request-detail", args=["alpha", "long", ids[-1]]))
    assert "1 part of this request did not arrive" in text and ids[40] in text and "result 59" in text


def test_of_a_long_text_a_preview_is_read(project: Project, client: Client) -> None:
    """A text beyond the bound leaves the database cut, with its length; tokens and what is left count all of it."""
    to = Recorder("texts")
    to.add("run.started", {"task": "x"})
    long = [
        said("user", "é" * 60_000, "task", n_text=7),
        said("assistant", "short", "model", n_text=7, calls=[call("c1", arguments="M" * 100_000)]),
        said("tool", "fine", "tool", call_id="c1"),
    ]
    event_id = requested(to, long)
    send(project, to.events)
    hashes = list(Message.objects.filter(project=project).values_list("hash", flat=True))
    previews = {one["role"]: one for one in read_previews(project.pk, hashes).values()}
    assert len(previews["user"]["text"]) == CUT and previews["user"]["n_text"] == 60_000
    assert len(previews["assistant"]["calls"][0]["arguments"]) == CUT
    assert "n_text" not in previews["tool"] and sum(len(json.dumps(one)) for one in previews.values()) < 10 * SHORT
    outlines = {one["role"]: one for one in read_outlines(project.pk, hashes).values()}
    assert (
        outlines["assistant"]["calls"][0].items() >= {"call_id": "c1", "arguments": "", "n_arguments": 100_000}.items()
    )
    text = words(client, reverse("request-detail", args=["alpha", "texts", event_id]))
    assert "3 messages, about 40,005 tokens" in text
    assert f"{60_000 - PREVIEW:,} more characters in the file" in text
    assert f"{100_000 - PREVIEW:,} more characters in the file" in text


def test_one_message_is_a_file_of_its_own(project: Project, client: Client) -> None:
    """Whole, never shown as a page; a place that is not there, and other people, get 404."""
    events, ids = grown("files", 5)
    send(project, events)
    stranger = Client()
    stranger.force_login(make_person("stranger", make_project("gamma")))
    whole = json.loads(client.get(reverse("request-data", args=["alpha", "files", ids[-1]])).getvalue())["messages"]
    for number, message in enumerate(whole, 1):
        address = reverse("request-message", args=["alpha", "files", ids[-1], number])
        answer = client.get(address)
        assert json.loads(answer.content) == message
        assert answer.headers["Content-Disposition"] == f'attachment; filename="files9-message-{number}.json"' or (
            answer.headers["Content-Disposition"].startswith("attachment")
        )
        assert stranger.get(address).status_code == 404
        assert Client().get(address).headers["Location"].startswith("/sign-in/")
    for number in (0, len(whole) + 1, 999_999):
        assert client.get(reverse("request-message", args=["alpha", "files", ids[-1], number])).status_code == 404
    assert client.get(reverse("request-message", args=["alpha", "files", "files:1", 1])).status_code == 404


def turn(run_id: str, conversation: str, history: list[dict[str, Any]], minutes: int) -> tuple[list[Any], str]:
    """Return a run that is one turn of a conversation, and its last request."""
    to = Recorder(run_id, timezone.now() + timezone.timedelta(minutes=minutes))
    to.add("run.started", {"task": "x", "conversation_id": conversation})
    return to.events, requested(to, history)


def test_the_next_turn_of_a_conversation_is_held_against_the_one_before(project: Project, client: Client) -> None:
    """Its first request tells what it shares with the last request of the turn before, and leads there."""
    first = [said("system", "Rules.", tokens=2, hash="h1"), said("user", "Hi", "utterance", tokens=1, hash="h2")]
    then = [first[0], said("user", "Hi", "record", tokens=1, hash="h2"), said("assistant", "Yes", "record", tokens=1)]
    events, before = turn("t-1", "talk", first, -9)
    more, now = turn("t-2", "talk", [*then, said("user", "More", "utterance", tokens=1)], -5)
    other, alone = turn("t-3", "another talk", [said("system", "Else.")], -1)
    send(project, [*events, *more, *other])
    address = reverse("request-detail", args=["alpha", "t-1", before])
    page = client.get(reverse("request-detail", args=["alpha", "t-2", now])).content.decode()
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "Since the turn before 60 % the first 2 messages, about 3 tokens, are those of" in text
    assert f'<a href="{address}">the last request of the turn before</a>' in page
    for run_id, event_id in (("t-1", before), ("t-3", alone)):
        assert "turn before" not in words(client, reverse("request-detail", args=["alpha", run_id, event_id]))


def test_a_message_that_is_gone_is_missed_wherever_it_stands(project: Project, client: Client) -> None:
    """Outside the window its text is not read; that it is gone is told all the same."""
    events, ids = grown("lost", 80)
    send(project, events)
    gone = next(one.hash for one in Message.objects.filter(project=project) if one.body["text"] == "result 3")
    assert load_messages(project.pk, [gone])
    Message.objects.filter(project=project, hash=gone).delete()
    text = words(client, reverse("request-detail", args=["alpha", "lost", ids[-1]]))
    assert "1 part of this request did not arrive or was forgotten" in text and "not checked" in text


def test_before_is_the_request_that_was_sent_before(project: Project, client: Client) -> None:
    """Without a request that it follows it is compared with the one before it in the run."""
    to = Recorder("plain")
    to.add("run.started", {"task": "x"})
    requested(to, BEFORE)
    second = requested(to, [*BEFORE, said("assistant", "Done", "model", tokens=5)])
    send(project, to.events)
    text = words(client, reverse("request-detail", args=["alpha", "plain", second]))
    assert "the first 4 messages, about 53 tokens, are those of the request before (all 4 of it)" in text


def test_a_block_is_shown_between_its_neighbours_and_no_more_is_read(project: Project) -> None:
    """Of a long request two messages on either side come whole; a neighbour that is gone is missed."""
    events, ids = grown("near", 60)
    send(project, events)
    run = guarded(project, "near")
    whole = rebuild_request(project.pk, "near", ids[-1])
    for position in (0, 1, 60, len(whole.messages) - 1):
        with CaptureQueriesContext(connection) as queries:
            near = read_near(run, ids[-1], position)
        assert near is not None and len(queries) == 2 and near.missing == ()
        assert sum("text" in one for one in near.messages) <= 5
        assert place_block(near, position, "") == place_block(whole, position, "")
    Message.objects.filter(project=project, hash=whole.messages[60]["hash"]).delete()
    near = read_near(run, ids[-1], 61)
    assert near is not None and near.missing == (whole.messages[60]["hash"],)
    assert read_near(run, "near:1", 0) is None and read_near(run, "nowhere", 0) is None
