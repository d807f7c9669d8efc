"""A trigger nobody knew, a holdout and a family of runs, on the whole way: API, journal, fold, runs API, pages."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from ingest.authentication import create_key
from ingest.models import Event, Project
from knowledge.chains import refresh_run
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from tests.factories import Recorder, make_person, make_project, send

pytestmark = pytest.mark.django_db

NEW = "entity.appeared"
RULE = "An aggregate root is saved whole: call `save_aggregate`."


class Customer:
    """A kernel's program with one key, and a person who looks at the pages."""

    def __init__(self) -> None:
        self.project: Project = make_project("alpha")
        _, raw = create_key(self.project, "kernel", ["ingest", "observe", "read"])
        self.headers = {"Authorization": f"Bearer {raw}"}
        self.browser = Client()
        self.browser.force_login(make_person("alice", self.project))

    def post(self, path: str, body: Any) -> Any:
        return Client().post(path, json.dumps(body), content_type="application/json", headers=self.headers)

    def get(self, path: str, **params: str) -> Any:
        return Client().get(path, params, headers=self.headers).json()

    def page(self, path: str, status: int = 200) -> str:
        response = self.browser.get(path)
        assert response.status_code == status
        return " ".join(response.content.decode().split())


@pytest.fixture
def customer() -> Customer:
    return Customer()


def run_with_new_trigger(customer: Customer) -> dict[str, Any]:
    """Send what a kernel with one more trigger sends: the search, the answer, the injection; return the hint."""
    to = Recorder("r-7")
    to.add("run.started", {"task": "Store the order", "tools": ["read_file"]})
    call = {"call_id": "c1", "tool": "read_file", "turn": 1}
    to.add("tool.requested", {"arguments": '{"path": "order.py"}'}, **call)
    seen = to.add("tool.completed", {"result": "class Order is an aggregate root"}, **call)
    about = {"activation_id": "r-7:a1", "turn": 1, "tool": "read_file"}
    asked = to.add("activation.requested", {"trigger": NEW, "query": "Store the order"}, caused_by=seen, **about)
    question = {"run": "r-7", "trigger": NEW, "activation_id": "r-7:a1", "activation_source_id": seen}
    text = {"query": "Store the order", "tool": "read_file", "tool_result": "class Order is an aggregate root"}
    answer = customer.post("/v1/observations/hints", {**question, **text})
    assert answer.status_code == 200
    (hint,) = answer.json()["hints"]
    done = {"trigger": NEW, "result": "success", "n_retrieved": 1, "n_offered": 1, "n_selected": 1, "tokens": 30}
    to.add("activation.completed", done, caused_by=asked, **about)
    ids = {"activation_id": "r-7:a1", "hint_id": hint["hint_id"], "knowledge_id": hint["knowledge_id"]}
    to.add("hint.delivery", {"stage": "selected", "tokens": 20}, **ids)
    to.add("hint.delivery", {"stage": "injected", "tokens": 20, "position": 3}, **ids)
    skipped = {"trigger": NEW, "skip_reason": "duplicate_situation", "same_as": "r-7:a1"}
    to.add("activation.skipped", skipped, activation_id="r-7:a2", turn=2)
    to.add("run.completed", {"answer": "Stored."})
    assert customer.post("/v1/events", {"events": to.events}).status_code == 200
    refresh_run(customer.project.pk, "r-7")
    return dict(hint)


def test_a_trigger_nobody_knew_goes_all_the_way(customer: Customer) -> None:
    """No code names it: it is searched, stored, folded, listed, filtered by, and explained on its page."""
    draft = ItemDraft("agg", RULE, state="confirmed", entities=("aggregate root",), trigger=NEW)
    create_item(customer.project, draft, by="tester", reason="test")
    hint = run_with_new_trigger(customer)
    assert hint["proposition"] == RULE
    first, second = customer.get("/v1/runs/r-7/activations")["results"]
    assert (first["trigger"], first["trigger_meaning"], first["result"]) == (NEW, NEW, "success")
    assert (first["n_offered"], first["n_selected"], first["n_injected"]) == (1, 1, 1)
    assert (second["trigger"], second["skip_reason"]) == (NEW, "duplicate_situation")
    assert [run["run_id"] for run in customer.get("/v1/runs", trigger=NEW)["results"]] == ["r-7"]
    assert customer.get("/v1/runs", trigger="entity.vanished")["results"] == []
    timeline = customer.page("/alpha/runs/r-7/")
    assert timeline.count(f'<span class="badge hint">{NEW}</span>') == 2
    why = customer.page("/alpha/runs/r-7/activations/r-7:a1/")
    assert NEW in why
    assert "a trigger that is not explained here" in why
    assert "aggregate root" in why


def test_the_run_list_offers_the_triggers_its_runs_had(customer: Customer) -> None:
    """The filter has the kernel's own triggers, those that were used, and the one in the URL; the list obeys it."""
    draft = ItemDraft("agg", RULE, state="confirmed", entities=("aggregate root",))
    create_item(customer.project, draft, by="tester", reason="test")
    run_with_new_trigger(customer)
    values = re.findall(r'<option value="([a-z_.]+\.[a-z_.]+)"', customer.page("/alpha/runs/"))
    assert values == ["task.priming", "tool.failed", "mcp.first_call", "agent.search", NEW]
    chosen = customer.page(f"/alpha/runs/?trigger={NEW}")
    assert f'<option value="{NEW}" title="" selected>' in chosen
    assert 'data-key="r-7"' in chosen
    absent = customer.page("/alpha/runs/?trigger=entity.vanished")
    assert '<option value="entity.vanished" title="" selected>' in absent
    assert "data-key" not in absent
    stranger = make_project("beta")
    customer.browser.force_login(make_person("bob", stranger))
    assert NEW not in customer.page("/beta/runs/")


@pytest.mark.parametrize("bad", ["entity", "Entity.Appeared", "a..b", "a b.c", f"a.{'b' * 63}", "a.b<script>"])
def test_a_malformed_trigger_is_refused_everywhere(customer: Customer, bad: str) -> None:
    """Events, hints, filters and the page say what a trigger must be; nothing is stored and nothing is echoed."""
    event = {"event_id": "e1", "run_id": "r-8", "type": "activation.requested", "occurred_at": "2026-11-30T03:00:00Z"}
    sent = customer.post("/v1/events", {"events": [{**event, "data": {"trigger": bad}}]}).json()
    assert (sent["accepted"], len(sent["rejected"])) == (0, 1)
    asked = customer.post("/v1/observations/hints", {"run": "r-8", "trigger": bad}).json()
    listed = customer.get("/v1/runs", trigger=bad)
    page = customer.page(f"/alpha/runs/?trigger={bad.replace(' ', '%20')}", status=400)
    assert (asked["field"], listed["field"]) == ("trigger", "trigger")
    for told in (sent["rejected"][0]["detail"], asked["detail"], listed["detail"], page):
        assert "trigger" in told
        assert "at most 64 characters" in told
        assert "such as tool.failed" in told
    assert bad not in sent["rejected"][0]["detail"]
    assert not Event.objects.exists()


def withheld_run(customer: Customer) -> None:
    to = Recorder("r-9")
    to.add("run.started", {"task": "Release"})
    failed = to.add("tool.failed", {"detail": "no repository"}, call_id="c1", tool="shell", turn=1)
    about = {"activation_id": "r-9:a1", "turn": 1, "tool": "shell"}
    asked = to.add("activation.requested", {"trigger": "tool.failed"}, caused_by=failed, **about)
    ids = {"activation_id": "r-9:a1", "hint_id": "r-9:a1:h1", "knowledge_id": "k-1"}
    offered = {"trigger": "tool.failed", "revision": 1, "proposition": "Run `git init`", "algorithm_version": "v2"}
    to.foreign("r-9:a1:h1", "hint.offered", offered, **ids)
    draw = {"experiment": "spring", "arm": "withheld", "share": 0.2, "tokens": 212}
    done = {"trigger": "tool.failed", "result": "success", "n_offered": 1, "n_selected": 0, "holdout": draw}
    to.add("activation.completed", done, caused_by=asked, **about)
    to.add("hint.delivery", {"stage": "dropped", "drop_reason": "holdout", "needed": 200, "probability": 0.2}, **ids)
    send(customer.project, to.events)


def test_a_withheld_hint_is_told_by_api_and_page(customer: Customer) -> None:
    """Offered and dropped, not injected; why, for what and how often, in words, and findable by its drop reason."""
    withheld_run(customer)
    (activation,) = customer.get("/v1/runs/r-9/activations")["results"]
    words = "withheld on purpose (experiment spring, 1 in 5 situations): it would have taken 212 tokens"
    assert (activation["experiment"], activation["arm"], activation["share"]) == ("spring", "withheld", 0.2)
    assert (activation["arm_meaning"], activation["holdout_tokens"]) == (words, 212)
    counts = [activation[f"n_{stage}"] for stage in ("offered", "selected", "injected", "dropped")]
    assert counts == [1, 0, 0, 1]
    assert activation["candidates"][0]["drop_reason"] == "holdout"
    assert [run["run_id"] for run in customer.get("/v1/runs", drop_reason="holdout")["results"]] == ["r-9"]
    page = customer.page("/alpha/runs/r-9/activations/r-9:a1/")
    assert page.count(words) == 2
    assert "<dt>Holdout</dt>" in page
    assert "it would have taken 200 tokens" in page


def test_a_delegate_and_its_child_lead_to_each_other(customer: Customer) -> None:
    """The parent's row and panel link the child's page, whose head links parent and team root."""
    parent, child = Recorder("r-1.2"), Recorder("r-1.2.1")
    started = {"child_run_id": "r-1.2.1", "member": "reviewer", "task": "Review it"}
    parent.add("run.started", {"task": "Write"}, parent_run_id="r-1", team_root="r-1")
    event_id = parent.add("delegate.started", started, call_id="c1", turn=1)
    child.add("run.started", {"task": "Review it"}, parent_run_id="r-1.2", team_root="r-1")
    send(customer.project, parent.events)
    send(customer.project, child.events, fold=False)
    link = 'href="/alpha/runs/r-1.2.1/"'
    assert link in customer.page("/alpha/runs/r-1.2/")
    assert link in customer.page(f"/alpha/runs/r-1.2/events/{event_id}/")
    assert customer.page("/alpha/runs/r-1.2/").count('href="/alpha/runs/r-1/"') == 1
    for _ in range(2):  # before and after the child was folded
        page = customer.page("/alpha/runs/r-1.2.1/")
        assert 'child of <a class="mono" href="/alpha/runs/r-1.2/">' in page
        assert 'in the team of <a class="mono" href="/alpha/runs/r-1/">' in page
        refresh_run(customer.project.pk, "r-1.2.1")
    body = customer.get("/v1/runs/r-1.2.1")
    assert (body["parent_run_id"], body["team_root"]) == ("r-1.2", "r-1")


def test_a_hostile_child_id_is_a_link_to_nowhere(customer: Customer) -> None:
    """Whatever stands in child_run_id, the page is drawn, its markup holds, and no link leaves the pages of runs."""
    to = Recorder("r-5")
    to.add("run.started", {"task": "Write"})
    for number, child in enumerate(["//evil.example/", '"><script>alert(1)</script>', "..", "x" * 900, " ", ""]):
        to.add("delegate.started", {"child_run_id": child}, call_id=f"c{number}", turn=1)
    send(customer.project, to.events)
    page = customer.page("/alpha/runs/r-5/")
    links = re.findall(r'<a class="to-run" href="([^"]*)"', page)
    assert len(links) == 5
    assert all(re.fullmatch(r"/alpha/runs/[^/]+/", link) for link in links)
    assert "<script>alert" not in page
