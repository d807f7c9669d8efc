"""The page of two runs side by side: access, what it says of missing and odd runs, windows, and hostile texts."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from debugger.queries import compare_loading
from debugger.queries.compare_choices import OFFERED
from debugger.views import compare
from ingest.forgetting import mark_of
from ingest.models import Event, GoneRun, Project, Run
from tests.factories import START, Recorder, make_person, make_project, send, typical_run
from tests.knowledge.spans import TRACE, agent_run

pytestmark = pytest.mark.django_db

COUNTS = Path(__file__).parent.parent / "query_counts.json"
ADDRESS = "/alpha/compare/"


@pytest.fixture
def project() -> Project:
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    return project


def member(project: Project) -> Client:
    client = Client()
    client.force_login(make_person(f"member of {project.slug}", project))
    return client


def page(client: Client, status: int = 200, **params: Any) -> str:
    """The page in plain words: no tags, white space as one blank."""
    response = client.get(ADDRESS, params)
    assert response.status_code == status
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def other_run(
    run_id: str = "r-43", turns: int = 1, result: str = "ok", start: datetime = START
) -> list[dict[str, Any]]:
    """A run of the typical task whose every turn makes one call."""
    to = Recorder(run_id, start)
    limits = {"tokens_per_run": 800}
    about = {"task": "Release the parser package", "agent": "scripted", "tools": ["shell", "git_status"]}
    to.add("run.started", {**about, "limits": limits})
    for turn in range(1, turns + 1):
        to.add("turn.started", turn=turn)
        ids = {"turn": turn, "call_id": f"{run_id}-c{turn}", "tool": "shell"}
        to.add("tool.requested", {"arguments": f'{{"command": "make {turn}"}}'}, **ids)
        to.add("tool.completed", {"result": result if turn == turns else "ok"}, **ids)
    to.add("run.completed", {"answer": "Done"})
    return to.events


def test_only_members_see_it(project: Project) -> None:
    """The anonymous go to sign in, a stranger gets the 404 of what is not there, and nothing is posted to it."""
    send(project, other_run())
    params = {"a": "r-42", "b": "r-43"}
    assert Client().get(ADDRESS, params).headers["Location"].startswith("/sign-in/")
    stranger = member(make_project("gamma")).get(ADDRESS, params)
    assert stranger.status_code == 404 and b"r-42" not in stranger.content
    client = member(project)
    assert client.post(ADDRESS, params).status_code == 405
    response = client.get(ADDRESS, params)
    assert response.status_code == 200
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize("side", ["a", "b"])
def test_another_projects_run_is_as_one_that_never_was(project: Project, side: str) -> None:
    """404 on either side, in the same words, though the person is a member of both projects."""
    gamma = make_project("gamma")
    hidden = other_run("hidden-one")
    hidden[0]["data"]["task"] = "zqx secret task"
    send(gamma, hidden)
    client = Client()
    client.force_login(make_person("both", project, gamma))
    other = "b" if side == "a" else "a"
    known = page(client, 404, **{side: "hidden-one", other: "r-42"})
    unknown = page(client, 404, **{side: "never-seen", other: "r-42"})
    assert known.replace("hidden-one", "never-seen") == unknown
    assert "zqx" not in known and "there is no run never-seen in this project" in unknown


def test_a_forgotten_run_is_told_with_its_day(project: Project) -> None:
    """A run that was taken away is no unknown one: the page says when and by what, and offers others."""
    GoneRun.objects.create(project=project, digest=mark_of("old-run"), gone_at=timezone.now(), reason="retention")
    GoneRun.objects.create(project=project, digest=mark_of("cut-run"), gone_at=timezone.now(), reason="deleted")
    client = member(project)
    assert "B cannot be shown: old-run was forgotten by the project's retention on" in page(
        client, 404, a="r-42", b="old-run"
    )
    assert "A cannot be shown: cut-run was deleted on" in page(client, 404, a="cut-run", b="r-42")


def test_the_choice_offers_the_same_task_first_and_any_id(project: Project) -> None:
    """Runs of the same task stand before the newest of others, the run itself is not among them, lists are bounded."""
    for number in range(OFFERED + 2):
        other = Recorder(f"other-{number:02}")
        other.add("run.started", {"task": "Something else"})
        send(project, other.events)
    send(project, other_run("alike-1"))
    client = member(project)
    response = client.get(ADDRESS, {"a": "r-42"})
    found = re.findall(r'<a data-row href="\?a=([^&"]*)&amp;b=([^"]*)"', response.content.decode().replace(ADDRESS, ""))
    assert found[0] == ("r-42", "alike-1")
    assert len(found) == 1 + OFFERED and {one[0] for one in found} == {"r-42"}
    assert "r-42" not in {one[1] for one in found}
    text = page(client, a="r-42")
    assert "The same task 1 of 1 among the newest 16 runs" in text
    assert '<input name="b" value=""' in response.content.decode()
    assert "Runs the newest" in page(client)
    assert page(client, a="\x00", b="x" * 300, status=404)


def test_a_project_without_another_run_says_so(project: Project) -> None:
    """Nothing to choose from is told with the way to the runs."""
    assert "There is no other run to compare with yet" in page(member(project), a="r-42")


def test_the_run_page_leads_here(project: Project) -> None:
    """The control stands on the run's page, for who only looks on as well."""
    response = member(project).get(reverse("run-detail", args=["alpha", "r-42"]))
    assert f'href="{ADDRESS}?a=r-42">Compare with…</a>' in response.content.decode()


def test_the_page_tells_where_two_runs_part(project: Project) -> None:
    """Heads, numbers, settings, hints, situations and rows; the first difference in words, with links into both."""
    send(project, other_run())
    client = member(project)
    text = page(client, a="r-42", b="r-43")
    assert "First difference Turn 1 : A has a request to the model here that B has not." in text
    assert "≠ Failed calls 2 0 −2" in text and "≠ Turns 3 1 −2" in text
    assert "limits · tokens per run 1,600 800" in text
    assert "only in A k-17" in text and "not found" in text
    assert "dropped : it did not fit the tokens left for this activation" in text.replace("dropped:", "dropped :")
    assert "only in A tool.failed shell · fatal: not a git repository" in text
    assert "not met" in text and "no such row" in text
    html = client.get(ADDRESS, {"a": "r-42", "b": "r-43"}).content.decode()
    for address in ("/alpha/runs/r-42/activations/", "/alpha/runs/r-42/?event=r-42%3A3", "/alpha/runs/r-43/?event="):
        assert address in html
    mirrored = page(client, a="r-43", b="r-42")
    assert "B has a request to the model here that A has not." in mirrored
    assert "≠ Failed calls 0 2 +2" in mirrored


def test_runs_that_went_alike_say_that_nothing_differs(project: Project) -> None:
    """Another id, hours later: no first difference, no hint and no setting that differs."""
    send(project, typical_run("later-run", START.replace(hour=20)))
    text = page(member(project), a="r-42", b="later-run")
    assert "First difference None: all 14 rows tell the same in both runs." in text or re.search(
        r"First difference None: all \d+ rows tell the same", text
    )
    assert "None: every hint that was offered came to the same in both" in text
    assert "reported settings are the same" in text
    assert "0 changed · 0 only in A · 0 only in B" in text
    assert "No row differs." in page(member_again(project), a="r-42", b="later-run", show="different")


def member_again(project: Project) -> Client:
    client = Client()
    client.force_login(project.memberships.first().user)  # type: ignore[union-attr]
    return client


def test_the_same_run_twice_is_said(project: Project) -> None:
    """A run beside itself is no error and no riddle."""
    text = page(member(project), a="r-42", b="r-42")
    assert "A and B are the same run: nothing can differ." in text and "First difference None" in text


def test_runs_that_are_not_whole_are_told(project: Project) -> None:
    """Still going, not folded, a gap in its numbers, told by foreign spans: each is said of its side."""
    send(project, typical_run("going", ended=False), fold=False)
    holed = other_run("holed")
    send(project, [event for event in holed if event["event_id"] != "holed:3"])
    send(project, agent_run())
    client = member(project)
    text = page(client, a="going", b="holed")
    assert "A has not ended" in text and "of A not folded yet" in text
    assert "1 event of B did not arrive" in text
    text = page(client, a="r-42", b=TRACE)
    assert "B is told by spans of an application that is not ours" in text
    assert "B did not report how it was started" in text
    assert "Neither" not in page(client, a=TRACE, b=TRACE).split("First difference")[0]


def test_turns_come_in_windows_and_lines_are_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of turns by the address, any number in it is taken; what is cut is said and stays reachable."""
    send(project, other_run("long-a", 45))
    send(project, other_run("long-b", 45, result="other"))
    client = member(project)
    first = page(client, a="long-a", b="long-b")
    assert "1–20 of 47 headings" in first and "Turn 19" in first and "Turn 20 " not in first.split("Turn by turn")[1]
    assert "First difference Turn 45 : a call in both; what differs: result." in first
    html = client.get(ADDRESS, {"a": "long-a", "b": "long-b"}).content.decode()
    assert 'href="?a=long-a&amp;b=long-b&amp;from=40#turn-45"' in html
    assert 'id="turn-45"' in client.get(ADDRESS, {"a": "long-a", "b": "long-b", "from": "40"}).content.decode()
    for odd in ("999999", "-3", "x", "9" * 40, "²"):
        assert "headings" in page(client, a="long-a", b="long-b", **{"from": odd})
    only = page(client, a="long-a", b="long-b", show="different")
    assert "Turn 45 1 of 1 row differs" in only and "Turn 44" not in only
    monkeypatch.setattr(compare, "LINES", 1)
    assert re.search(r"1 of [2-9] rows shown", page(client, a="r-42", b="long-b"))


def test_of_a_long_run_the_beginning_is_compared(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound only the first events are read: the page says so, and what was not read is no difference."""
    send(project, other_run("long-a", 12))
    send(project, other_run("long-b", 12))
    client = member(project)
    monkeypatch.setattr(compare_loading, "EVENTS", 21)
    text = page(client, a="long-a", b="long-b")
    assert "A is long: the first 21 of 38 events are read." in text and "B is long" in text
    assert "Rows are compared before turn 7." in text
    assert "First difference None: all 7 rows tell the same" in text
    assert "Turn 6" in text and "Turn 7 " not in text.split("Turn by turn")[1]
    assert "Turns 12 12" in text and "did not arrive" not in text
    mixed = page(client, a="r-42", b="long-b")
    assert "before turn" in mixed and "Turn 7 " not in mixed.split("Turn by turn")[1]
    send(project, agent_run())
    monkeypatch.setattr(compare_loading, "EVENTS", 3)
    assert "Rows are compared as far as both were read." in page(client, a=TRACE, b=TRACE)


def test_hostile_texts_are_shown_and_never_run(project: Project) -> None:
    """Markup in ids, tasks, settings and rows comes out escaped, on the page and on the choice."""
    bad = "<script>alert(1)</script>"
    to = Recorder(f"{bad}&b=x")
    to.add("run.started", {"task": bad, "agent": bad, "limits": {bad: bad}, "switches": {bad: [bad]}})
    to.add("tool.requested", {"arguments": bad}, turn=1, call_id="c", tool=bad)
    failed = to.add("tool.failed", {"detail": bad}, turn=1, call_id="c", tool=bad)
    about = {"activation_id": bad, "caused_by": failed, "tool": bad, "turn": 1}
    to.add("activation.requested", {"trigger": "tool.failed", "query": bad, "fingerprint": bad}, **about)
    offer = {"trigger": "tool.failed", "revision": 1, "proposition": bad, "rank": 1, "matched_by": [bad]}
    offer["algorithm_version"] = bad
    to.foreign("offer", "hint.offered", offer, activation_id=bad, hint_id="h", knowledge_id=bad)
    to.add("run.failed", {"error": bad})
    send(project, to.events)
    client = member(project)
    for params in ({"a": to.run_id, "b": "r-42"}, {"a": "r-42", "b": to.run_id}, {"a": to.run_id}, {"b": bad}):
        response = client.get(ADDRESS, params)
        assert response.status_code in (200, 404)
        assert "<script>alert" not in response.content.decode()
    assert f"{bad}&b=x".encode() not in client.get(ADDRESS, {"a": "r-42"}).content


def test_reading_writes_nothing_and_asks_as_often_as_committed(project: Project) -> None:
    """The number of queries is that of the baseline, whatever the size of the runs."""
    send(project, other_run())
    send(project, other_run("long-run", 30))
    client = member(project)
    counts = []
    for b in ("r-43", "long-run"):
        with CaptureQueriesContext(connection) as queries:
            client.get(ADDRESS, {"a": "r-42", "b": b})
        assert [query["sql"] for query in queries if not query["sql"].lstrip().upper().startswith("SELECT")] == []
        counts.append(len(queries))
    assert counts == [json.loads(COUNTS.read_text())["run-compare"]] * 2
    before = Event.objects.count(), Run.objects.count()
    client.get(ADDRESS, {"a": "r-42"})
    assert (Event.objects.count(), Run.objects.count()) == before
