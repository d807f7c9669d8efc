"""What holds for the pages of requests, escalations and conformance under hostile senders, files and forms."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from debugger.grants import granted_to
from debugger.launching import with_grants
from debugger.models import EscalationDecision
from debugger.queries.conformance import MOST_CELLS, lay_out
from debugger.queries.report_file import ReportProblem
from ingest.deletion import delete_project
from ingest.models import Project
from kernel.edge.spec import spec_problem
from kernel.messages import RunSpec, Switches
from tests.debugger.test_conformance_page import changed, document
from tests.debugger.test_escalations import address, escalated_run
from tests.factories import Recorder, make_person, make_project, send

pytestmark = pytest.mark.django_db

PAGE_BYTES: Final = 60_000  # of a request of one long message, whatever its length
HOSTILE: Final[tuple[dict[str, Any], ...]] = (
    {"new_messages": [{"role": "user", "text": "\ud800 a\x00b"}]},
    {"new_messages": [{"role": 7, "text": ["x"], "calls": {"a": 1}}]},
    {"new_messages": [{"role": "assistant", "calls": [1, None, {"call_id": 7, "name": [], "arguments": {"a": 1}}]}]},
    {"new_messages": [{"hash": "zz", "position": -5, "tokens": -1, "is_new": "yes"}]},
    {"new_messages": [{"role": "user", "text": "x", "tokens": 10**18}], "n_tools": -3, "tokens": 10**17},
    {"new_messages": [{"role": "user", "text": "data:image/png;base64," + "A" * 50_000}]},
    {
        "new_messages": [
            {"role": "user", "text": "[Current state | from the program, not said by the user]\nTime: " * 9}
        ]
    },
    {"new_messages": [{"role": "user", "text": "\n" * 4_000}]},
    {"new_messages": [], "follows": "odd:2", "n_kept": 10**9},
    {"new_messages": [{"role": "user", "text": "x"}], "follows": "odd:2", "n_kept": 1},
    {"new_messages": [{"role": "user", "text": "x"}], "follows": "odd:3", "n_kept": -1},
)


@pytest.fixture
def project() -> Project:
    return make_project("alpha")


@pytest.fixture
def alice(project: Project) -> User:
    return make_person("alice", project)


@pytest.fixture
def client(alice: User) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.mark.parametrize("data", HOSTILE)
def test_a_request_of_any_shape_has_its_page_and_its_file(
    project: Project, client: Client, data: dict[str, Any]
) -> None:
    """What is accepted can be shown, small, and downloaded: wrong types, half characters, cycles, absurd numbers."""
    to = Recorder("odd")
    to.add("run.started", {"task": "x"})
    first = to.add("model.requested", {"n_messages": 1, **data})
    to.add("model.requested", {"n_messages": 2, "follows": first, "n_kept": 1, "new_messages": []})
    send(project, to.events)
    for event_id in (first, "odd:3"):
        page = client.get(reverse("request-detail", args=["alpha", "odd", event_id]))
        assert page.status_code == 200
        assert len(page.content) < PAGE_BYTES
        whole = json.loads(client.get(reverse("request-data", args=["alpha", "odd", event_id])).getvalue())
        assert whole["event_id"] == event_id


def test_a_long_chain_of_requests_that_follow_each_other_is_followed(project: Project, client: Client) -> None:
    """Hundreds of requests, each of which adds one message."""
    to, last = Recorder("odd"), ""
    to.add("run.started", {"task": "x"})
    for number in range(600):
        new = [{"role": "assistant" if number % 2 else "user", "text": f"line {number}."}]
        before = {"follows": last, "n_kept": number} if last else {}
        last = to.add("model.requested", {"n_messages": number + 1, "new_messages": new, **before})
    send(project, to.events)
    page = client.get(reverse("request-detail", args=["alpha", "odd", last])).content.decode()
    assert "messages 501–600 of 600" in page
    assert "did not arrive" not in page


@pytest.mark.parametrize("event_id", ["a\nb", "a\r\nb", " x ", "<b>'\"&amp;", "x" * 200])
def test_an_event_id_of_any_shape_comes_back_from_the_form(project: Project, client: Client, event_id: str) -> None:
    """A browser sends line ends as CR LF, whatever stood in the field: the escalation is decided all the same."""
    to = Recorder("odd")
    to.foreign(event_id, "run.escalated", {"reason": "r"}, task_id="release")
    send(project, to.events)
    sent = re.sub(r"\r\n|\r|\n", "\r\n", event_id)
    assert client.post(address("odd"), {"event": sent, "verdict": "dismissed"}).status_code == 302
    assert [one.event_id for one in EscalationDecision.objects.all()] == [event_id]


def test_grants_never_make_a_spec_that_the_kernel_refuses(project: Project, client: Client) -> None:
    """However many people granted, and however long the names are: what the spec requests comes first."""
    names = [f"{number:03}{'x' * 125}" for number in range(120)]
    for number in range(6):
        send(project, escalated_run(f"r{number}"))
        form = {"event": f"r{number}:4", "verdict": "granted", "tool": names[number * 20 : number * 20 + 20]}
        assert client.post(address(f"r{number}"), form).status_code == 302
    granted = granted_to({"task_id": "release"}, "alpha")
    assert granted == names
    spec = with_grants({"run_id": "r", "task": "t", "tools": [names[-1]], "switches": {"off": ["a" * 90]}}, granted)
    grants = spec["grants"]
    assert isinstance(grants, list)
    assert grants[:3] == ["*", names[-1], names[0]]
    assert spec_problem(RunSpec("r", "t", tools=(names[-1],), grants=tuple(grants), switches=Switches())) == ""
    short = with_grants({"grants": ["a"]}, [f"t{number}" for number in range(300)])["grants"]
    assert isinstance(short, list)
    assert len(short) == 100
    full = {"tools": ["n" * 200] * 20}
    assert with_grants(full, ["deploy"]) == full


@pytest.mark.parametrize("task_id", ["a\x00b", "\ud800"])
def test_an_id_that_no_run_can_have_is_granted_nothing(project: Project, task_id: str) -> None:
    """A spec from a file may hold anything; it is the kernel that refuses it."""
    assert project.slug == "alpha"
    assert granted_to({"task_id": task_id}, "alpha") == []
    assert granted_to({"actor_id": task_id}, "alpha") == []


@pytest.mark.parametrize("made_at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_report_made_outside_of_the_calendar_is_a_banner(
    client: Client, tmp_path: Path, settings: Settings, made_at: str
) -> None:
    """A time that has no place in UTC is named as what is wrong, and no error of the server."""
    settings.CONFORMANCE_REPORT = tmp_path / "conformance.json"
    settings.CONFORMANCE_REPORT.write_text(json.dumps(changed("made_at", value=made_at)))
    page = client.get("/conformance/")
    assert page.status_code == 200
    assert "made_at is outside of the calendar in UTC" in page.content.decode()


def test_a_report_cannot_make_a_page_of_any_size() -> None:
    """Too many cells and too long ids are refused; titles, which stand in every cell, are cut."""
    whole = {**document(), "cells": []}
    sides = {
        side: [{"id": f"{side}{n}", "title": "t" * 3_000} for n in range(101)] for side in ("conditions", "columns")
    }
    with pytest.raises(ReportProblem, match=f"it has 10,201 cells; at most {MOST_CELLS:,} are shown"):
        lay_out({**whole, **sides})
    report = lay_out({**whole, **sides, "columns": sides["columns"][:2]})
    assert {len(cell.condition.title) for cell in report.cells()} == {200}
    with pytest.raises(ReportProblem, match=r"columns\[0\]: id has more than 200 characters"):
        lay_out({**whole, **sides, "columns": [{"id": "c" * 201, "title": "t"}]})


def test_looking_writes_nothing_and_runs_nothing_inline(
    project: Project, client: Client, tmp_path: Path, settings: Settings
) -> None:
    """Every GET of the new pages only reads; none has a script, a style or a handler of its own in its markup."""
    settings.CONFORMANCE_REPORT = tmp_path / "conformance.json"
    settings.CONFORMANCE_REPORT.write_text(json.dumps(document()))
    to = Recorder("spoken")
    to.add("run.started", {"task": "x"})
    request = to.add("model.requested", {"n_messages": 1, "new_messages": [{"role": "user", "text": "hi"}]})
    send(project, [*to.events, *escalated_run()])
    addresses = [
        reverse("request-detail", args=["alpha", "spoken", request]),
        reverse("request-data", args=["alpha", "spoken", request]),
        reverse("escalation-list", args=["alpha"]),
        address(),
        reverse("run-detail", args=["alpha", "asked"]),
        "/conformance/",
        "/conformance/outside-catalogue/scripted/",
    ]
    for one in addresses:
        client.get(one)
        with CaptureQueriesContext(connection) as queries:
            page = client.get(one)
        assert page.status_code == 200
        written = [query["sql"] for query in queries if not query["sql"].lstrip().upper().startswith("SELECT")]
        assert written == [], one
        assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
        markup = page.getvalue().decode()
        assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", markup) == []
        assert re.findall(r"<[^>]+\s(?:on[a-z]+|style)=", markup) == []


def test_pages_of_a_deleted_project_are_gone(project: Project, client: Client) -> None:
    """Neither its escalations nor its requests are found, and what was granted in it is granted no more."""
    to = Recorder("spoken")
    request = to.add("model.requested", {"n_messages": 1, "new_messages": [{"role": "user", "text": "hi"}]})
    send(project, [*to.events, *escalated_run()])
    form = {"event": "asked:4", "verdict": "granted", "tools": "deploy"}
    assert client.post(address(), form).status_code == 302
    delete_project(project)
    assert EscalationDecision.objects.count() == 0
    assert granted_to({"task_id": "release"}, "alpha") == []
    for one in (
        reverse("request-detail", args=["alpha", "spoken", request]),
        reverse("request-data", args=["alpha", "spoken", request]),
        reverse("escalation-list", args=["alpha"]),
        address(),
    ):
        assert client.get(one).status_code == 404
    assert client.post(address(), form).status_code == 404
    assert EscalationDecision.objects.count() == 0
