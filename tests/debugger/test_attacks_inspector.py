"""What holds for the pages of runs, reports and files under hostile senders, addresses and forms."""

import html
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from debugger import benchmark, timeline_store
from ingest.authentication import create_key
from ingest.models import Project
from knowledge.models import HintVerdict
from tests.factories import Recorder, make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db
TEMPLATES = Path(__file__).parents[2] / "templates"
EVERY = 'hx-trigger="every '


@pytest.fixture
def project() -> Project:
    return make_project("alpha")


@pytest.fixture
def client(project: Project) -> Client:
    signed_in = Client()
    signed_in.force_login(make_person("alice", project))
    return signed_in


# ---- runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [1, 10_000])
def test_an_event_that_cannot_be_is_not_there(client: Client, project: Project, settings: Any, least: int) -> None:
    """A NUL in the address of an event opens the run's own panel, be its timeline stored or built."""
    settings.TIMELINE_STORED_FROM = least
    send(project, typical_run("r-42"))
    assert timeline_store.store(project.pk, "r-42")
    answer = client.get(reverse("run-detail", args=["alpha", "r-42"]), {"event": "r-42\0"})
    assert (answer.status_code, "this link names has not arrived" in answer.content.decode()) == (200, True)


def test_what_is_not_there_is_kept_by_no_cache(client: Client, project: Project) -> None:
    """The 404 of a page names who looks and their projects: it is as private as the page itself."""
    answer = client.get(reverse("run-detail", args=["alpha", "r-404"]))
    assert (answer.status_code, "signed in as alice" in answer.content.decode()) == (404, True)
    assert set(answer.headers["Cache-Control"].split(", ")) == {"private", "no-cache"}


@pytest.mark.parametrize(
    ("event_id", "named"),
    [
        ("запрос-1", "filename*=utf-8''%D0%B7%D0%B0"),
        ("x\r\nX-Evil: 1", 'filename="xX-Evil_1'),
        ('\u202e"; filename=a.exe', 'filename="_filenamea.exe'),
        ("../../etc/passwd", 'filename=".._.._etc_passwd'),
    ],
)
def test_what_is_told_of_a_sender_is_always_a_file(client: Client, project: Project, event_id: str, named: str) -> None:
    """Whatever an event is called, its files are kept and not shown, under a name that says which it is."""
    to = Recorder("odd")
    to.foreign(event_id, "model.requested", {"n_messages": 1, "new_messages": [{"role": "user", "text": "x"}]})
    send(project, to.events)
    for name, more in (("event-data", ()), ("request-data", ()), ("request-message", (1,))):
        answer = client.get(reverse(name, args=["alpha", "odd", event_id, *more]))
        told = answer.headers["Content-Disposition"]
        assert (answer.status_code, told.startswith("attachment; "), named in told) == (200, True, True), told
        assert (answer.headers["X-Content-Type-Options"], "X-Evil" in answer.headers) == ("nosniff", False)


@pytest.mark.parametrize("path", sorted(path for path in TEMPLATES.glob("*.html") if EVERY in path.read_text()))
def test_what_asks_again_and_again_stops_while_nobody_looks(path: Path) -> None:
    """static/app.js keeps back what is marked as live while the page is hidden, so that no forgotten tab goes on."""
    asking = [one for one in re.split(r"\n\s*(?=<)|(?<=>)\n", path.read_text()) if EVERY in one]
    assert asking
    for one in asking:
        assert re.search(r"\sdata-live[\s{>]", one), one


def test_a_panel_that_waits_for_its_chain_never_covers_another(client: Client, project: Project) -> None:
    """A slow answer to its asking would come over the row that was opened meanwhile: both go through one queue."""
    send(project, typical_run("r-42"), fold=False)
    panel = client.get(reverse("why", args=["alpha", "r-42", "r-42:a1"]), headers={"HX-Request": "true"})
    asking = re.search(r'<div hx-get="[^"]*" hx-trigger="every 2s"[^>]*>', panel.content.decode())
    assert asking and 'hx-target="#panel"' in asking[0] and 'hx-sync="#panel:drop"' in asking[0]


# ---- verdicts --------------------------------------------------------------------------------------------------


def injected(project: Project, run_id: str, knowledge_id: str) -> str:
    """Send a run with one injected hint; return the address of its verdict."""
    to = Recorder(run_id)
    to.add("run.started", {"task": "t"})
    ids = {"activation_id": "a:1", "hint_id": "h1", "knowledge_id": knowledge_id}
    to.add("activation.requested", {"trigger": "tool.failed", "query": "q"}, activation_id="a:1", turn=1)
    offered = {"trigger": "tool.failed", "algorithm_version": "v", "rank": 1, "revision": 1, "proposition": "p"}
    to.foreign("o1", "hint.offered", offered, **ids)
    asked = to.add("model.requested", {"n_messages": 1, "new_messages": [{"role": "user", "text": "b"}]}, turn=2)
    to.add("hint.delivery", {"stage": "injected", "tokens": 1, "position": 0, "request_event_id": asked}, **ids)
    send(project, to.events)
    return reverse("hint-verdict", args=["alpha", run_id, "a:1"])


@pytest.mark.parametrize("knowledge_id", ["a\nb", "a\r\nb", " k ", "<b>'\"&amp;", "k/%2F", "k\u2028z", "x" * 200])
def test_a_hint_of_any_id_can_be_judged(client: Client, project: Project, knowledge_id: str) -> None:
    """A browser sends line ends as CR LF, whatever stood in the field: that hint is judged, and no other."""
    address = injected(project, "odd", knowledge_id)
    sent = re.sub(r"\r\n|\r|\n", "\r\n", knowledge_id)
    assert client.post(address, {"knowledge_id": sent, "outcome": "helpful"}).status_code == 302
    assert [one.knowledge_id for one in HintVerdict.objects.all()] == [knowledge_id]


def test_nothing_is_said_of_a_hint_but_by_a_button(client: Client, project: Project) -> None:
    """A form without the word of a button takes nothing back, and Enter in the field of the reason presses none."""
    address = injected(project, "odd", "k-1")
    page = client.get(reverse("why", args=["alpha", "odd", "a:1"])).content.decode()
    assert re.search(r'<textarea name="reason"', page) and not re.search(r'<input type="text" name="reason"', page)
    assert client.post(address, {"knowledge_id": "k-1", "outcome": "harmful"}).status_code == 302
    refused = client.post(address, {"knowledge_id": "k-1", "reason": "it led astray"})
    assert (refused.status_code, "Outcome must be one of" in refused.content.decode()) == (400, True)
    assert [one.outcome for one in HintVerdict.objects.all()] == ["harmful"]


# ---- reports ---------------------------------------------------------------------------------------------------


EDGES: list[tuple[dict[str, Any], str]] = [
    ({"until": "9999-12-31"}, "until must be a day such as 2026-01-31"),
    ({"since": "9999-12-01", "until": "9999-12-31"}, "until must be a day such as 2026-01-31"),
    ({"until": "0001-01-01"}, "until must be a day such as 2026-01-31"),
    ({"since": "0001-01-01", "until": "0001-01-03"}, "until must be a day such as 2026-01-31"),
]


@pytest.mark.parametrize(("asked", "said"), EDGES)
def test_days_at_the_edges_of_the_calendar_are_refused_by_name(
    client: Client, project: Project, asked: dict[str, str], said: str
) -> None:
    """No day can be counted before the first or after the last: the parameter is named, on pages, files and the API."""
    for address in ("effects/", "effects/file/", "effects/items/", "effects/items/file/"):
        answer = client.get(f"/alpha/{address}", asked)
        assert (answer.status_code, said in html.unescape(answer.content.decode())) == (400, True), address
    headers = {"Authorization": f"Bearer {create_key(project, 'report', ['read'])[1]}"}
    for path in ("effects", "effects/items"):
        answer = Client().get(f"/v1/reports/{path}", asked, headers=headers)
        assert (answer.status_code, said in answer.content.decode()) == (400, True), path


def test_of_those_who_start_a_benchmark_at_once_one_does(settings: Any, tmp_path: Path) -> None:
    """A button pressed twice, in two threads of the server, finds one place and takes it once."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(30):
            settings.EXPERIMENTS_DIR = str(tmp_path / str(number))
            at_once = Barrier(6)
            with ThreadPoolExecutor(6) as threads:
                took = list(threads.map(lambda _, gate=at_once: (gate.wait(), benchmark.claim("ann"))[1], range(6)))
            assert (took.count(True), getattr(benchmark.running(), "by", "")) == (1, "ann")
    finally:
        sys.setswitchinterval(usual)
