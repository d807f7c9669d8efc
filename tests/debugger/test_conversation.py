"""A run that is one turn of a conversation says so on its page, and leads to the turns around it in its project."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from debugger.access import GuardedRun
from debugger.queries.conversation import Talk, run_before, talk_of
from ingest.models import Project, Run
from knowledge.models import RunSummary
from tests.factories import START, Recorder, make_person, make_project, send
from tests.knowledge.streams import wire_of

pytestmark = pytest.mark.django_db
NAME = 'talk "1" <b>'


def turn(run_id: str, name: str, second: int) -> list[dict[str, Any]]:
    to = Recorder(run_id, START.replace(second=second))
    to.add("run.started", {"task": f"turn of {run_id}", "conversation_id": name})
    to.add("run.completed", {"answer": "fine"})
    return to.events


@pytest.fixture
def project() -> Project:
    """Three turns, sent out of their order; another conversation; and one of the same name in another project."""
    project = make_project("alpha")
    for events in (turn("t-3", NAME, 30), turn("t-1", NAME, 10), turn("t-2", NAME, 20), turn("else", "else", 15)):
        send(project, events)
    send(make_project("gamma"), turn("foreign", NAME, 18))
    return project


def guarded(project: Project, run_id: str) -> GuardedRun:
    return GuardedRun(
        project,
        Run.objects.get(project_id=project.pk, run_id=run_id),
        RunSummary.objects.get(project_id=project.pk, run_id=run_id),
    )


def test_a_run_knows_its_turn_and_its_neighbours(project: Project) -> None:
    """In the order in which they began; nothing of another project or conversation stands among them."""
    assert [talk_of(guarded(project, run_id)) for run_id in ("t-1", "t-2", "t-3", "else")] == [
        Talk(NAME, 1, 3, "", "t-2"), Talk(NAME, 2, 3, "t-1", "t-3"), Talk(NAME, 3, 3, "t-2", ""),
        Talk("else", 1, 1, "", ""),
    ]  # fmt: skip
    second = guarded(project, "t-2")
    found = talk_of(second)
    assert found is not None
    before = run_before(second, found)
    assert before is not None and before.registry.run_id == "t-1" and before.project == project


def test_its_page_says_so_and_leads_to_them(project: Project) -> None:
    """The id is escaped and can be copied; the links are those of the turn before and the next."""
    client = Client()
    client.force_login(make_person("member", project))
    page = client.get(reverse("run-detail", args=["alpha", "t-2"])).content.decode()
    head = re.search(r'<p class="facts">.*?</p>', page, re.DOTALL)
    assert head is not None
    assert "turn 2 of 3 in conversation" in " ".join(re.sub(r"<[^>]*>", " ", head[0]).split())
    assert 'data-copy="talk &quot;1&quot; &lt;b&gt;"' in head[0]
    assert f'href="{reverse("run-list", args=["alpha"])}?conversation=talk%20%221%22%20%3Cb%3E"' in head[0]
    for run_id in ("t-1", "t-3"):
        assert f'href="{reverse("run-detail", args=["alpha", run_id])}"' in head[0]
    assert "← turn before" not in client.get(reverse("run-detail", args=["alpha", "t-1"])).content.decode()


@pytest.mark.parametrize("name", ["", "not told"])
def test_a_run_of_no_conversation_asks_and_says_nothing(name: str) -> None:
    """No query is made for it, and its page names no conversation."""
    project = make_project("alpha")
    events = wire_of("special") if name else turn("alone", name, 1)
    send(project, events)
    run = guarded(project, events[0]["run_id"])
    with CaptureQueriesContext(connection) as queries:
        assert talk_of(run) is None
    assert len(queries) == 0
    client = Client()
    client.force_login(make_person("member", project))
    page = client.get(reverse("run-detail", args=["alpha", run.registry.run_id])).content.decode()
    assert "in conversation" not in page
