"""The page of a model request: access, parts, origins, the cacheable prefix, what is missing, hostile texts."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from contract.stages import MESSAGE_ORIGINS
from contract.state_block import GAP, LABELS, date_line, split_user_text
from debugger.queries.request_protocol import check_protocol
from ingest.models import Message, Project
from kernel.messages import Origin
from tests.factories import Recorder, make_person, make_project, send, typical_run
from tests.knowledge.spans import TRACE, agent_run
from tests.spoken_run import BEFORE, CALLED, EN, UTTERANCE, call, requested, said, spoken_run

HTMX = {"HX-Request": "true"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
COUNTS = Path(__file__).parent.parent / "query_counts.json"


def member(project: Project) -> Client:
    client = Client()
    client.force_login(make_person(f"member of {project.slug}", project))
    return client


def page(client: Client, run_id: str, event_id: str, **extra: Any) -> str:
    """The page in plain words: no tags, white space as one blank."""
    response = client.get(reverse("request-detail", args=["alpha", run_id, event_id]), **extra)
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


@pytest.mark.django_db
def test_only_members_see_a_request() -> None:
    """The anonymous go to sign in, a stranger and an unknown request get the 404 of what is not there."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    stranger, client = member(make_project("gamma")), member(project)
    for name in ("request-detail", "request-data"):
        address = reverse(name, args=["alpha", "r-42", "r-42:3"])
        assert Client().get(address).headers["Location"].startswith("/sign-in/")
        assert stranger.get(address).status_code == 404
        assert client.get(reverse(name, args=["alpha", "r-42", "r-42:999"])).status_code == 404
        assert client.get(reverse(name, args=["alpha", "r-42", "r-42:1"])).status_code == 404
        assert client.get(address).status_code == 200
        assert client.post(address).status_code == 405


@pytest.mark.django_db
def test_page_and_fragment_show_the_same() -> None:
    """For htmx the panel comes alone, with links that stay in the panel."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    client, address = member(project), reverse("request-detail", args=["alpha", "r-42", "r-42:3"])
    whole, fragment = client.get(address), client.get(address, headers=HTMX)
    assert b"<body" in whole.content and b"<body" not in fragment.content
    assert b'id="sent-request"' in whole.content and b'id="sent-request"' in fragment.content
    following = reverse("request-detail", args=["alpha", "r-42", "r-42:14"])
    assert f'hx-get="{following}"' in fragment.content.decode()
    assert f'hx-get="{following}"' not in whole.content.decode()


@pytest.mark.django_db
def test_a_request_reads_in_its_four_parts() -> None:
    """System, history, this turn and tools, each message with its origin; within a user message its marked lines."""
    project = make_project("alpha")
    events, first, second = spoken_run()
    send(project, events)
    client = member(project)
    text = page(client, "spoken", first)
    assert "System 1 message, about 4 tokens" in text
    assert "History 2 messages, about 19 tokens" in text
    assert "This turn 1 message, about 30 tokens" in text
    assert "Tools 2 offered shell magic_brush" in text
    assert "all of it: the first request of the run" in text
    for words in ("date line [Thursday, 24 September]", f"state block {EN.header}", "time line Time: 2026-11-30 11:12"):
        assert words in text
    assert "cut line Previous answer: cut, the user heard only “The bu”" in text
    assert "request 1 of 2" in text
    text = page(client, "spoken", second)
    assert "This turn 5 messages" in text
    assert "no tools were sent with it" in text and "Tools none were sent" in text
    assert "Size 8 messages, about 78 tokens (1 reported) New 4 messages, about 25 tokens" in text
    assert "finale note new" in text and "tool reply receipt new" in text
    assert "answers shell c2 · denied · tool_unavailable" in text
    assert "Protocol kept" in text
    assert "the first 4 messages, about 53 tokens, are those of the request before (all 4 of it)" in text
    assert "The number of tools changed" in text


@pytest.mark.django_db
def test_where_the_prefix_broke_is_named() -> None:
    """A request that rewrites what was sent shares only the messages before the first that differs."""
    project, to = make_project("alpha"), Recorder("broken")
    to.add("run.started", {"task": "x"})
    first = requested(to, BEFORE)
    changed = [said("user", "Build it all", "record"), *BEFORE[2:]]
    second = requested(to, changed, first, 1)
    send(project, to.events)
    text = page(member(project), "broken", second)
    assert "the first 1 message, about 4 tokens, are those of the request before" in text
    assert "The prefix broke at message 2 of the 4 before" in text
    assert "was user: Build it is user: Build it all" in text


@pytest.mark.django_db
def test_missing_parts_are_said() -> None:
    """A request before that never arrived and a text that is no longer kept are named; nothing is made up."""
    project, to = make_project("alpha"), Recorder("gap")
    to.add("run.started", {"task": "x"})
    first = requested(to, BEFORE)
    second = requested(to, CALLED, first, 4)
    send(project, [event for event in to.events if event["event_id"] != first])
    client = member(project)
    text = page(client, "gap", second)
    assert "1 part of this request did not arrive or was forgotten" in text and first in text
    assert "not known: the request before is not here whole" in text
    assert "not checked: parts are missing" in text and "History none arrived" in text
    assert "– assistant" in text  # its place among messages that did not come is not guessed
    send(project, [event for event in to.events if event["event_id"] == first])
    assert "Protocol kept" in page(client, "gap", second)
    gone = next(one.pk for one in Message.objects.filter(project=project) if one.body["text"] == UTTERANCE)
    Message.objects.filter(pk=gone).delete()
    text = page(client, "gap", second)
    assert "1 part of this request" in text and "its text did not arrive or was forgotten" in text
    assert "Go on, please" not in text.split("Size")[1]


@pytest.mark.django_db
def test_a_request_that_did_not_arrive_is_told_by_its_answer() -> None:
    """The row of an answer without its request leads to a page that says so."""
    project, to = make_project("alpha"), Recorder("late")
    to.add("run.started", {"task": "x"})
    lost = requested(to, BEFORE)
    send(project, [event for event in to.events if event["event_id"] != lost])
    assert "The request itself has not arrived" in page(member(project), "late", "late:3")


@pytest.mark.django_db
def test_hint_messages_lead_to_their_activation() -> None:
    """A block of an activation of the run links to why it was offered; one that names another does not."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    client = member(project)
    shown = client.get(reverse("request-detail", args=["alpha", "r-42", "r-42:14"])).content.decode()
    assert f'href="{reverse("why", args=["alpha", "r-42", "r-42:a1"])}"' in shown
    to = Recorder("other")
    block = '<temporality.memory activation="r-42:a1" trigger="x">\n- a rule\n</temporality.memory>'
    event_id = requested(to, [said("context", block, "hints")])
    send(project, to.events)
    shown = client.get(reverse("request-detail", args=["alpha", "other", event_id])).content.decode()
    assert "runtime hint" in shown
    assert "/activations/" not in shown


@pytest.mark.django_db
def test_a_foreign_request_is_shown_too() -> None:
    """A request told with its answer, as spans tell it: its messages, the one before, and no claim about tools."""
    project, to = make_project("alpha"), Recorder("foreign")
    messages = [said("system", "Be brief."), said("user", "Hello")]
    span = {"name": "chat gpt", "kind": "client"}
    answered = {"duration_ms": 5, "text": "Hi", "n_kept": 0, "span": span}
    first = to.add("model.completed", {**answered, "n_messages": 2, "new_messages": messages})
    more = [*messages, said("assistant", "Hi"), said("user", "Bye")]
    second = to.add("model.completed", {**answered, "n_messages": 4, "new_messages": more})
    send(project, to.events)
    client = member(project)
    text = page(client, "foreign", second)
    assert "4 messages, about" in text and "History 2 messages" in text and "Tools not reported" in text
    assert "the first 2 messages" in text and "(all 2 of it)" in text
    assert "request 1 of 2" in page(client, "foreign", first)


@pytest.mark.django_db
def test_a_span_without_messages_is_no_request_that_was_lost() -> None:
    """Many applications report no messages: the page says so, and compares the next request with nothing."""
    project = make_project("alpha")
    send(project, agent_run())
    client = member(project)
    for number in (2, 6):
        text = page(client, TRACE, f"{number:016x}")
        assert "No message of this request was reported." in text and "Tools not reported" in text
        assert "Cacheable" not in text and "Protocol" not in text and "not arrived" not in text
    assert client.get(reverse("request-detail", args=["alpha", TRACE, f"{3:016x}"])).status_code == 404


@pytest.mark.django_db
def test_hostile_text_is_shown_and_never_run() -> None:
    """Markup in any field of a message comes out escaped, in the page and in the panel; long texts are cut."""
    project, to = make_project("alpha"), Recorder("hostile")
    to.add("run.started", {"task": "x", "tools": [HOSTILE]})
    new = [
        said(HOSTILE, HOSTILE, HOSTILE, status=HOSTILE, code=HOSTILE, call_id=HOSTILE),
        said("user", f"{UTTERANCE} {HOSTILE}", "utterance"),
        said("assistant", HOSTILE + "N" * 9_000, "model", calls=[call(HOSTILE, HOSTILE, HOSTILE + "M" * 9_000)]),
        said("context", f'<temporality.memory activation="{HOSTILE}">{HOSTILE}', "hints"),
    ]
    event_id = requested(to, new, messages_missing=HOSTILE)
    again = requested(to, [said("user", HOSTILE)], event_id, 0)
    send(project, to.events)
    client = member(project)
    for shown in (event_id, again):
        for headers in ({}, HTMX):
            content = client.get(reverse("request-detail", args=["alpha", "hostile", shown]), headers=headers).content
            assert b"<script>alert" not in content and b"<img" not in content
            assert b"&lt;script&gt;alert" in content
            assert b"N" * 4_001 not in content and b"M" * 4_001 not in content
    assert "more characters in the file" in page(client, "hostile", event_id)
    answer = client.get(reverse("request-data", args=["alpha", "hostile", event_id]))
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert json.loads(answer.getvalue())["messages"][2]["text"].endswith("N" * 9_000)


@pytest.mark.django_db
def test_many_messages_come_in_windows() -> None:
    """A long request shows its last hundred messages, says so, and leads to the others; an odd start is no error."""
    project, to = make_project("alpha"), Recorder("long")
    event_id = requested(to, [said("assistant" if n % 2 else "user", f"line {n}.") for n in range(250)])
    send(project, to.events)
    client = member(project)
    text = page(client, "long", event_id)
    assert "messages 151–250 of 250" in text and "line 150." in text and "line 149." not in text
    earlier = page(client, "long", event_id, data={"from": "50"})
    assert "messages 51–150 of 250" in earlier and "Later messages" in earlier
    for start in ("-1", "x", "9" * 30, "²"):
        assert "messages 151–250 of 250" in page(client, "long", event_id, data={"from": start})
    assert "messages 250–250 of 250" in page(client, "long", event_id, data={"from": "99999"})


@pytest.mark.django_db
@pytest.mark.parametrize("event_id", ["a/b", "..", "50% of ночь", "x/data", "?from=1"])
def test_ids_of_any_shape_have_a_request(event_id: str) -> None:
    """What a sender calls its event stays one part of the address, in the links of the timeline too."""
    project, to = make_project("alpha"), Recorder("x/requests/y")
    to.foreign(event_id, "model.requested", {"n_messages": 1, "new_messages": [said("user", "Hello there")]})
    send(project, to.events)
    client, address = member(project), reverse("request-detail", args=["alpha", "x/requests/y", event_id])
    assert "Hello there" in client.get(address).content.decode()
    whole = client.get(reverse("request-data", args=["alpha", "x/requests/y", event_id])).getvalue()
    assert json.loads(whole)["messages"]
    assert f'href="{address}"' in client.get(reverse("run-detail", args=["alpha", "x/requests/y"])).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("n_requests", [2, 12])
def test_query_count(n_requests: int) -> None:
    """A request costs the same queries whatever the run holds, and writes nothing."""
    project, to = make_project("alpha"), Recorder("many")
    to.add("run.started", {"task": "x"})
    last = requested(to, BEFORE)
    for number in range(1, n_requests):
        last = requested(to, [said("user", f"more {number}"), said("assistant", "yes")], last, 2 * number + 2)
    send(project, to.events)
    client, address = member(project), reverse("request-detail", args=["alpha", "many", last])
    client.get(address, headers=HTMX)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address, headers=HTMX).status_code == 200
    assert len(queries) == json.loads(COUNTS.read_text())["request-detail"]
    assert [one["sql"] for one in queries if not one["sql"].lstrip().upper().startswith("SELECT")] == []


def test_every_origin_of_the_kernel_has_its_words() -> None:
    """What the kernel writes as a message's origin is what the pages explain."""
    assert set(MESSAGE_ORIGINS) == set(get_args(Origin))


@pytest.mark.parametrize("locale", sorted(LABELS))
def test_a_user_message_is_taken_apart_by_its_markers(locale: str) -> None:
    """Date line, block with its labelled lines, and what was said, in each language; together they are the message."""
    labels, day = LABELS[locale], date_line(locale, 9, 24, 3)
    lines = (labels.header, f"{labels.time}11:42", labels.mode, f"{labels.cut}“a”", labels.pending, labels.running)
    block = "\n".join(lines)
    text = f"{day}\nunanswered{GAP}{block}{GAP}{labels.time}is what I said\n{labels.header}"
    pieces = split_user_text(text)
    assert "".join(piece.text for piece in pieces) == text
    kinds = ["date", "text", "header", "time", "mode", "cut", "pending", "running", "text"]
    assert [piece.kind for piece in pieces] == kinds
    assert split_user_text(f"I saw {day}\n{labels.header} once")[0].kind == "text"
    for gap in ("\n", GAP):  # rows that were said one after the other are joined
        assert [piece.kind for piece in split_user_text(f"so{gap}{day}\nmore")] == ["text", "date", "text"]


OK = [said("system"), said("user"), said("assistant", calls=[call("a"), call("b")])]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([*OK, said("tool", call_id="a"), said("tool", call_id="b"), said("context"), said("user")], []),
        ([*OK, said("tool", call_id="a")], [(3, "the request ends and 1 call had no reply: b")]),
        ([*OK, said("user")], [(3, "a user stands here and 2 calls had no reply: a, b")]),
        ([*OK, said("tool", call_id="b"), said("tool", call_id="a")],
         [(3, "the reply to b stands out of the order of the calls")]),
        ([said("user"), said("tool", call_id="z")], [(1, "a reply to z, which no message calls")]),
        ([*OK, said("tool", call_id="a"), said("tool", call_id="a"), said("tool", call_id="b")],
         [(4, "the reply to a comes again, or too late")]),
        ([said("user"), said("user")], [(1, "the user speaks twice in a row")]),
        ([said("user"), said("system")], [(1, "a system message stands here: it belongs at the start")]),
        ([said("assistant", calls=[call("a"), call("a")]), said("tool", call_id="a")],
         [(0, "the call id a was used before, in message 1")]),
        ([said("user", calls=[call("a")]), said("tool", call_id="a")],
         [(0, "only an assistant message carries calls, not one of user")]),
        ([said("assistant", calls=[{"name": "x"}, {"name": "y"}]), said("tool", call_id="1"), said("tool")], []),
    ],
)  # fmt: skip
def test_the_protocol_is_checked_on_what_was_sent(messages: list[dict[str, Any]], told: list[tuple[int, str]]) -> None:
    """Each breach is named once, with the message it was found at; what is allowed is not."""
    assert [(problem.position, problem.text) for problem in check_protocol(messages)] == told
