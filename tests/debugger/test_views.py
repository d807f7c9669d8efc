"""Every page and fragment: works, anonymous, stranger, bad and unknown ids; payload text is never markup."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ingest.models import ApiKey, Project
from tests.factories import Recorder, make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db

COUNTS = Path(__file__).parent.parent / "query_counts.json"
HTMX = {"HX-Request": "true"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe " + "N" * 10_000


@dataclass(frozen=True)
class World:
    """Alice's project with one run, and Charlie, who is no member of it."""

    project: Project
    alice: User
    charlie: User

    def client(self, person: str = "alice") -> Client:
        client = Client()
        if person != "anonymous":
            client.force_login(getattr(self, person))
        return client


@pytest.fixture
def world() -> World:
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    return World(project, make_person("alice", project), make_person("charlie", make_project("gamma")))


PAGES = {
    "run-list": ["alpha"],
    "run-list-rows": ["alpha"],
    "run-new": ["alpha"],
    "run-detail": ["alpha", "r-42"],
    "run-rows": ["alpha", "r-42"],
    "why": ["alpha", "r-42", "r-42:a1"],
    "event-detail": ["alpha", "r-42", "r-42:5"],
    "event-data": ["alpha", "r-42", "r-42:5"],
    "keys": ["alpha"],
    "operations": ["alpha"],
    "escalation-list": ["alpha"],
    "project-settings": ["alpha"],
}
UNKNOWN = {
    "run-list": ["nowhere"],
    "run-list-rows": ["nowhere"],
    "run-detail": ["alpha", "r-0"],
    "run-rows": ["alpha", "r-0"],
    "why": ["alpha", "r-42", "r-42:a99"],
    "event-detail": ["alpha", "r-42", "r-42:999"],
    "event-data": ["alpha", "r-42", "r-42:999"],
    "keys": ["nowhere"],
    "operations": ["nowhere"],
    "escalation-list": ["nowhere"],
    "project-settings": ["nowhere"],
}
FRAGMENTS = ("run-list", "run-list-rows", "run-rows", "why", "event-detail")


@pytest.mark.parametrize("name", PAGES)
def test_works_for_a_member(world: World, name: str) -> None:
    """A member gets the page, with the policy that lets nothing inline or foreign run."""
    response = world.client().get(reverse(name, args=PAGES[name]))
    assert response.status_code == 200
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize("name", PAGES)
def test_sends_the_anonymous_to_sign_in(world: World, name: str) -> None:
    """Nobody sees a page unsigned; a fragment leads the whole page to the sign-in page."""
    address = reverse(name, args=PAGES[name])
    response = world.client("anonymous").get(address)
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/sign-in/")
    fragment = world.client("anonymous").get(address, headers=HTMX)
    assert fragment.headers["HX-Redirect"] == "/sign-in/"
    assert fragment.content == b""


@pytest.mark.parametrize("name", PAGES)
def test_does_not_exist_for_a_stranger(world: World, name: str) -> None:
    """Somebody of another project gets the 404 of a thing that is not there."""
    response = world.client("charlie").get(reverse(name, args=PAGES[name]))
    assert response.status_code == 404
    assert b"r-42" not in response.content


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_ids_are_404(world: World, name: str) -> None:
    """An id that names nothing is a 404 page."""
    response = world.client().get(reverse(name, args=UNKNOWN[name]))
    assert response.status_code == 404
    assert b"Not found" in response.content


@pytest.mark.parametrize("bad", ["%00", "x" * 300, "%E2%80%AE", "..%252F..%252Fetc", "a%0Ab"])
def test_malformed_ids_are_404(world: World, bad: str) -> None:
    """Ids that no sender could have used are 404, never an error."""
    for address in (f"/alpha/runs/{bad}/", f"/alpha/runs/r-42/activations/{bad}/", f"/alpha/runs/r-42/events/{bad}/"):
        assert world.client().get(address).status_code == 404


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments_are_no_pages(world: World, name: str) -> None:
    """What goes into a page brings no page of its own."""
    response = world.client().get(reverse(name, args=PAGES[name]), headers=HTMX)
    assert response.status_code == 200
    assert b"<html" not in response.content
    assert b"<body" not in response.content


@pytest.mark.parametrize("name", PAGES)
def test_reading_changes_nothing(world: World, name: str) -> None:
    """A GET writes nothing at all."""
    client = world.client()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        client.get(reverse(name, args=PAGES[name]))
    written = [query["sql"] for query in queries if not query["sql"].lstrip().upper().startswith("SELECT")]
    assert written == []


@pytest.mark.parametrize("name", PAGES)
def test_query_counts_are_as_committed(world: World, name: str) -> None:
    """A page makes the queries it is known to make, however many runs, events and activations there are."""
    for number in range(3):
        send(world.project, typical_run(f"more-{number}"))
    client = world.client()
    address = reverse(name, args=PAGES[name])
    client.get(address)
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    assert len(queries) == json.loads(COUNTS.read_text())[name]


def test_ids_of_any_shape_have_pages(world: World) -> None:
    """Slashes, dots, percent signs, spaces and other scripts in an id stay part of it."""
    for run_id in ("a/b", ".", "..", "50%", "%2F", "ночь 1", "a?b#c", "rows", "x/activations/y"):
        to = Recorder(run_id)
        to.add("run.started", {"task": "odd"})
        send(world.project, to.events)
        address = reverse("run-detail", args=["alpha", run_id])
        assert urljoin("http://site/", address) == f"http://site{address}"  # a browser takes no segment out of it
        assert world.client().get(address).status_code == 200, address
        event = reverse("event-detail", args=["alpha", run_id, f"{run_id}:1"])
        assert world.client().get(event).status_code == 200, event


def test_hostile_text_is_shown_and_never_run(world: World) -> None:
    """Markup in any text of a sender comes out escaped, on every page."""
    to = Recorder("hostile")
    short = HOSTILE[:150]
    to.add("run.started", {"task": HOSTILE, "agent": short, "model": short, "tools": [short]})
    ids = {"call_id": short, "tool": short, "mcp_server": short, "turn": 1}
    to.add("tool.requested", {"arguments": HOSTILE}, **ids)
    failed = to.add("tool.failed", {"detail": HOSTILE, "error_class": HOSTILE, short: HOSTILE}, **ids)
    about = {"activation_id": "hostile:a1", "caused_by": failed, "tool": short}
    to.add("activation.requested", {"trigger": "tool.failed", "query": HOSTILE, "fingerprint": HOSTILE}, **about)
    offer = {
        "trigger": "tool.failed",
        "revision": 1,
        "proposition": HOSTILE,
        "algorithm_version": HOSTILE,
        "matched_by": [HOSTILE],
        "rank": 1,
    }
    to.foreign(
        "hostile:a1:h1", "hint.offered", offer, activation_id="hostile:a1", hint_id="hostile:a1:h1", knowledge_id=short
    )
    done = {"trigger": "tool.failed", "result": "success", "block": HOSTILE, "error": HOSTILE, "n_offered": 1}
    to.add("activation.completed", done, **about)
    to.add(short, {"name": HOSTILE})
    to.add("run.failed", {"error": HOSTILE, "answer": HOSTILE})
    send(world.project, to.events)
    client = world.client()
    addresses = [
        reverse("run-list", args=["alpha"]),
        reverse("run-detail", args=["alpha", "hostile"]),
        reverse("why", args=["alpha", "hostile", "hostile:a1"]),
        *(reverse("event-detail", args=["alpha", "hostile", f"hostile:{number}"]) for number in range(1, 8)),
    ]
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        body = response.content.decode()
        assert "<script>alert" not in body
        assert not re.search(r"<img[^>]*onerror", body)
        assert " style=" not in body
        assert "alert(1)" in body


def test_data_uris_are_chips(world: World) -> None:
    """A picture in a payload is shown by its kind and size; the file has it whole."""
    uri = "data:image/png;base64," + "iVBORw0KGgo" * 400
    to = Recorder("picture")
    event_id = to.add("tool.completed", {"result": uri, "note": "after"}, tool="camera", call_id="c")
    send(world.project, to.events)
    body = world.client().get(reverse("event-detail", args=["alpha", "picture", event_id])).content.decode()
    assert "image/png · 4,422 characters" in body
    assert "iVBORw0KGgoiVBORw0KGgo" not in body
    data = world.client().get(reverse("event-data", args=["alpha", "picture", event_id]))
    assert data.headers["Content-Disposition"].startswith("attachment")
    assert json.loads(data.content)["result"] == uri


def test_long_values_are_previewed(world: World) -> None:
    """4,000 characters of a value are shown, the rest is counted and in the file."""
    to = Recorder("long")
    event_id = to.add("tool.completed", {"result": "line\n" * 2_000}, tool="t", call_id="c")
    send(world.project, to.events)
    body = world.client().get(reverse("event-detail", args=["alpha", "long", event_id])).content.decode()
    assert "6,000 more characters in the file" in body


def test_the_file_of_an_event_has_the_messages_it_names(world: World) -> None:
    """A message is kept once and named by its hash; what the panel cuts of it is whole in the file."""
    to = Recorder("talk")
    said = {"role": "user", "text": "line\n" * 2_000}
    event_id = to.add("model.requested", {"n_messages": 1, "n_kept": 0, "new_messages": [said]}, turn=1)
    send(world.project, to.events)
    whole = json.loads(world.client().get(reverse("event-data", args=["alpha", "talk", event_id])).content)
    (message,) = whole["new_messages"]
    assert (message["role"], message["text"]) == ("user", said["text"])
    assert len(message["hash"]) == 64


def test_runs_are_filtered_by_the_address(world: World) -> None:
    """Each filter of the address holds, and a filter nobody knows says so instead of showing everything."""
    to = Recorder("r-43")
    to.add("run.started", {"task": "Something else"})
    to.add("tool.requested", {}, tool="browser", call_id="c1")
    send(world.project, to.events)
    client = world.client()

    def shown(query: str) -> list[str]:
        page = client.get(f"/alpha/runs/?{query}").content.decode()
        return re.findall(r'data-key="([^"]+)"', page)

    assert shown("") == ["r-43", "r-42"]
    assert shown("status=running") == ["r-43"]
    assert shown("trigger=mcp.first_call") == ["r-42"]
    assert shown("drop_reason=hint_limit") == ["r-42"]
    assert shown("knowledge_id=k-31") == ["r-42"]
    assert shown("tool=browser") == ["r-43"]
    assert shown("mcp_server=git") == ["r-42"]
    assert shown("has_injection=true&text=parser") == ["r-42"]
    assert shown("within=hour&text=ELSE") == ["r-43"]
    bad = client.get("/alpha/runs/?status=lovely")
    assert bad.status_code == 400
    assert b"status must be one of" in bad.content
    assert b"data-key" not in bad.content
    assert client.get("/alpha/runs/?cursor=nonsense").status_code == 400


def test_a_run_is_there_from_its_first_event(world: World) -> None:
    """Before anything was folded the run is listed as running, and its page says that counts follow."""
    to = Recorder("new")
    to.add("run.started", {"task": "Fresh"})
    send(world.project, to.events, fold=False)
    client = world.client()
    assert 'data-key="new"' in client.get("/alpha/runs/").content.decode()
    page = client.get("/alpha/runs/new/").content.decode()
    assert "Fresh" in page
    assert "1 event not folded yet" in page
    assert 'hx-trigger="every 2s"' in page


def test_the_first_run_is_waited_for(world: World) -> None:
    """A project without runs shows how to send one with its real address, and reloads once one has come."""
    client = world.client("charlie")
    page = client.get("/gamma/runs/").content.decode()
    assert "http://testserver/v1/events" in page
    assert reverse("keys", args=["gamma"]) in page
    assert client.get("/gamma/runs/rows/latest/?first=1", headers=HTMX).status_code == 204
    send(make_project("gamma"), typical_run("first"))
    assert client.get("/gamma/runs/rows/latest/?first=1", headers=HTMX).headers["HX-Refresh"] == "true"


def test_the_list_is_redrawn_only_when_it_changed(world: World) -> None:
    """A page that shows what is true gets 204; new runs are counted, and shown when nothing is pointed at."""
    client = world.client()
    poll = re.search(r'id="run-rows" hx-get="([^"]+)"', client.get("/alpha/runs/").content.decode())
    assert poll is not None
    address = poll[1].replace("&amp;", "&")
    assert client.get(address, headers=HTMX).status_code == 204
    send(world.project, typical_run("r-43"))
    held = client.get(address, headers=HTMX).content.decode()
    assert 'data-key="r-43"' not in held
    assert "1 new" in held
    assert 'data-key="r-43"' in client.get(address + "&fresh=1", headers=HTMX).content.decode()


def follow(client: Client, page: str) -> Any:
    poll = re.search(r'id="live" hx-get="([^"]+)"', page)
    assert poll is not None, page[-500:]
    return client.get(poll[1].replace("&amp;", "&"), headers=HTMX)


def test_a_run_in_progress_is_followed_to_its_end(world: World) -> None:
    """204 while nothing is new, changed and new rows when there are, 286 and no further asking after the end."""
    events = typical_run("live")
    half = len(events) // 2
    send(world.project, events[:half])
    client = world.client()
    page = client.get("/alpha/runs/live/").content.decode()
    assert 'hx-trigger="run-ended from:body"' in page
    assert follow(client, page).status_code == 204
    send(world.project, events[half:-1])
    changed = follow(client, page)
    assert changed.status_code == 200
    assert "git init" in changed.content.decode()
    assert 'id="axis-end" hx-swap-oob="true"' in changed.content.decode()
    assert "HX-Trigger" not in changed.headers
    send(world.project, events[-1:])
    ended = follow(client, changed.content.decode())
    assert ended.status_code == 286
    assert json.loads(ended.headers["HX-Trigger"]) == {"run-ended": {}}, "the panel with the run's status asks again"
    assert 'hx-trigger="every 2s"' not in ended.content.decode()
    over = client.get("/alpha/runs/live/").content.decode()
    assert 'hx-trigger="every 2s"' not in over
    assert "run-ended" not in over


def test_an_event_of_the_address_is_open(world: World) -> None:
    """`?event=` opens the row and its panel; an event that is not there is said to be lost."""
    client = world.client()
    activation = client.get("/alpha/runs/r-42/?event=r-42%3Aa1%3Ah1").content.decode()
    assert 'aria-current="true"><span class="t">' in activation
    assert 'id="why"' in activation
    lost = client.get("/alpha/runs/r-42/?event=gone").content.decode()
    assert "has not arrived, or is no longer kept" in lost


def test_the_why_panel_tells_the_whole_chain(world: World) -> None:
    """What was found, offered, selected, injected, dropped and why, used, and where the block stood."""
    page = world.client().get(reverse("why", args=PAGES["why"])).content.decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for told in (
        "fatal: not a git repository",
        "k-17", "k-20", "k-03", "k-31",
        "it did not fit the tokens left for this activation (needed 212 tokens, 188 left of 400)",
        "the limit of hints in one activation was reached (0 left of 2)",
        "not offered: its match was too weak to be worth a hint",
        "lexical-entity-topic.v2",
        "96 of 400 tokens here",
        "2 earlier messages, unchanged",
        "message 5 of 5 in r-42:14",
        "Later calls of shell",
    ):  # fmt: skip
        assert told in text, told
    assert '<li class="block">' in page


def test_a_skipped_activation_says_why(world: World) -> None:
    """A search that was not made has its reason in words and leads to the one that was."""
    page = world.client().get(reverse("why", args=["alpha", "r-42", "r-42:a3"])).content.decode()
    assert "the same situation was already searched for in this run" in page
    assert "Why no search" in page
    assert "r-42:a1" in page


def test_an_activation_that_is_not_folded_yet_has_a_page(world: World) -> None:
    """Its events are shown at once and the chain is waited for."""
    send(world.project, typical_run("raw"), fold=False)
    page = world.client().get(reverse("why", args=["alpha", "raw", "raw:a1"])).content.decode()
    assert "not derived from them yet" in page
    assert "hint.query" in page


def test_what_is_wrong_with_a_run_is_said(world: World) -> None:
    """Lost events, conflicting copies and repairs stand above the timeline."""
    events = [event for event in typical_run("bad") if event.get("seq") != 3]
    events[0]["data"]["task"] = "nul \x00 here"
    send(world.project, events)
    send(world.project, [{**events[1], "data": {"other": 1}}])
    page = world.client().get("/alpha/runs/bad/").content.decode()
    assert "1 event of the sender&#x27;s numbering did not arrive" in page
    assert "1 event came again with other content" in page
    assert "Events were changed before they were stored: nul 1" in page


def test_a_request_that_did_not_arrive_is_said(world: World) -> None:
    """Where the request that carried a block is lost, the panel says so and still shows the block."""
    events = [event for event in typical_run("lost") if event["event_id"] != "lost:14"]
    send(world.project, events)
    page = world.client().get(reverse("why", args=["alpha", "lost", "lost:a1"])).content.decode()
    assert "The request that carried it has not arrived" in page


def test_a_key_is_made_shown_once_and_revoked(world: World) -> None:
    """Only the answer to the POST shows the key; making and revoking take a POST with a token."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.alice)
    form = {"name": "kernel", "scopes": ["ingest", "read"]}
    assert client.post("/alpha/keys/", form).status_code == 403
    assert not ApiKey.objects.exists()
    client.get("/alpha/keys/")
    form["csrfmiddlewaretoken"] = client.cookies["csrftoken"].value
    made = client.post("/alpha/keys/", form)
    key = ApiKey.objects.get()
    raw = re.search(r"tk_[0-9a-f]+_[\w-]+", made.content.decode())
    assert raw is not None
    assert "no-store" in made.headers["Cache-Control"]
    assert raw[0] not in client.get("/alpha/keys/").content.decode()
    ingest = Client(headers={"Authorization": f"Bearer {raw[0]}"})
    event = {"events": typical_run("by-key")[:1]}
    assert ingest.post("/v1/events", event, content_type="application/json").status_code == 200
    address = reverse("key-revoke", args=["alpha", key.pk])
    assert client.get(address).status_code == 405
    assert world.client("charlie").post(address).status_code == 404
    assert ApiKey.objects.get().revoked_at is None
    client.post(address, {"csrfmiddlewaretoken": client.cookies["csrftoken"].value})
    assert ApiKey.objects.get().revoked_at is not None
    assert ingest.post("/v1/events", event, content_type="application/json").status_code == 401


def test_a_key_without_name_or_scope_is_not_made(world: World) -> None:
    """A refused form says which field and makes nothing."""
    response = world.client().post("/alpha/keys/", {"name": " ", "scopes": ["root"]})
    assert response.status_code == 400
    assert b"Name:" in response.content
    assert b"Scopes:" in response.content
    assert not ApiKey.objects.exists()


def test_a_broken_page_says_that_nothing_is_lost(world: World, settings: Any) -> None:
    """The error page is plain, brings no trace and no payload."""
    client = world.client()
    client.raise_request_exception = False
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE knowledge_activation RENAME TO gone")
    response = client.get("/alpha/runs/r-42/")
    assert response.status_code == 500
    assert b"Nothing that was sent is lost" in response.content
    assert b"Traceback" not in response.content
