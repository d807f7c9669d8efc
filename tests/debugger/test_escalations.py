"""Escalations: the list, the page of one, who may decide it, and what a grant gives to the next run. (Seed 003.)"""

import asyncio
import html
import io
import json
import re
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings
from temporalio.client import Client

from debugger.grants import AlreadyDecided, Ask, Choice, RunIsGone, decide, granted_to
from debugger.launching import with_grants
from debugger.models import EscalationDecision
from debugger.queries import escalations
from debugger.queries.escalations import list_escalations, n_open, read_asked
from ingest.deletion import delete_project, delete_run
from ingest.models import Project, Run
from tests.factories import Recorder, make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db

REASON = "The registry wants a key that I do not have."
SECRET = "ghp_" + "a1B2" * 9


@dataclass(frozen=True)
class World:
    """Alice and Bob act, Vera looks on, Charlie is a stranger; one project with one escalated run."""

    project: Project
    people: dict[str, User]

    def client(self, person: str = "alice", *, csrf: bool = False) -> Browser:
        client = Browser(enforce_csrf_checks=csrf)
        if person != "anonymous":
            client.force_login(self.people[person])
        return client

    def post(self, data: dict[str, Any], person: str = "alice", run_id: str = "asked", slug: str = "alpha") -> Any:
        form = {"event": f"{run_id}:4", **data}
        return self.client(person).post(address(run_id, slug), form)


def address(run_id: str = "asked", slug: str = "alpha") -> str:
    return reverse("escalation", args=[slug, run_id])


def shown(response: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(response.content.decode()))


def escalated_run(
    run_id: str = "asked", *, reason: str = REASON, reviewer: str = "owner", n_denied: int = 2, **ids: Any
) -> list[dict[str, Any]]:
    """A run that calls a tool it is not offered and then asks."""
    who = {"task_id": "release", "actor_id": "builder"} | ids
    who = {name: value for name, value in who.items() if value}
    to = Recorder(run_id)
    to.add("run.started", {"task": "Release the parser package", "agent": "scripted"}, **who)
    to.add("tool.requested", {"arguments": "{}"}, tool="deploy", call_id="c1", turn=1, **who)
    refused = {"status": "blocked", "code": "tool_unavailable"}
    to.add("tool.blocked", refused, tool="deploy", call_id="c1", turn=1, **who)
    to.add("run.escalated", {"reason": reason, "reviewer": reviewer, "n_denied": n_denied, "call_id": "c2"}, **who)
    return to.events


def decisions() -> list[tuple[str, str, list[str], str]]:
    rows = EscalationDecision.objects.order_by("pk")
    return [(one.decided_by, one.verdict, one.tools, one.note) for one in rows]


@pytest.fixture
def world() -> World:
    project = make_project("alpha")
    send(project, escalated_run())
    people = {name: make_person(name, project) for name in ("alice", "bob", "vera")}
    people["vera"].groups.add(Group.objects.create(name="alpha viewers"))
    people["charlie"] = make_person("charlie", make_project("gamma"))
    return World(project, people)


def test_the_list_says_who_asked_whom_for_what(world: World) -> None:
    """Reason, reviewer, task, denied calls, the run at its escalation; runs that ended otherwise are not there."""
    send(world.project, typical_run("r-42"))
    page = world.client("vera").get(reverse("escalation-list", args=["alpha"]))
    text = shown(page)
    assert REASON in text
    assert ">owner<" in text
    assert "Release the parser package · " in text
    assert 'href="/alpha/runs/asked/?event=asked%3A4"' in text
    assert f'href="{address()}"' in text
    assert re.search(r'class="r mid mono">2<', text)
    assert "r-42" not in text
    assert '<span class="badge warn">open</span>' in text


def test_open_ones_are_counted_beside_the_name_of_the_page(world: World) -> None:
    """On every page of the project, until they are decided; nothing is shown when none is open."""
    count = re.compile(r'Escalations <span class="n" title="not decided yet">(\d+\+?)</span>')
    send(world.project, escalated_run("second"))
    found = count.search(shown(world.client().get("/alpha/runs/")))
    assert found is not None
    assert found[1] == "2"
    for run_id in ("asked", "second"):
        assert world.post({"verdict": "dismissed"}, run_id=run_id).status_code == 302
    page = shown(world.client().get("/alpha/runs/"))
    assert count.search(page) is None
    assert ">Escalations</a>" in page


def test_the_count_ends_somewhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the most that are counted the page says that there are more."""
    monkeypatch.setattr(escalations, "NAV_MOST", 1)
    monkeypatch.setattr("debugger.templatetags.inspector.NAV_MOST", 1)
    for number in range(3):
        send(world.project, escalated_run(f"more-{number}"))
    assert n_open(world.project.pk) == 2
    assert ">1+</span>" in shown(world.client().get("/alpha/runs/"))


def test_the_list_is_parted_into_open_and_decided(world: World) -> None:
    """What is decided leaves the open ones; an unknown word shows the open ones; an empty part says so."""
    send(world.project, escalated_run("second"))
    world.post({"verdict": "granted", "tools": "deploy"})
    listed = {}
    for show in ("open", "decided", "all", "nonsense"):
        page = shown(world.client().get(reverse("escalation-list", args=["alpha"]), {"show": show}))
        listed[show] = re.findall(r'data-row href="/alpha/escalations/([^/]+)/"', page)
    assert listed == {
        "open": ["second"],
        "decided": ["asked"],
        "all": ["second", "asked"],
        "nonsense": ["second"],
    }
    world.post({"verdict": "dismissed"}, run_id="second")
    assert "Nothing waits for a decision." in shown(world.client().get(reverse("escalation-list", args=["alpha"])))


def test_pages_follow_one_another(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, each once, over as many pages as it takes; a cursor that is none is refused."""
    monkeypatch.setattr(escalations, "PAGE", 2)
    for number in range(4):
        send(world.project, escalated_run(f"more-{number}"))
    seen, cursor = list[str](), ""
    for _ in range(3):
        page = list_escalations(world.project.pk, "open", cursor)
        assert page.n_matching == 5
        seen += [line.run_id for line in page.lines]
        cursor = page.next or ""
    assert seen == ["more-3", "more-2", "more-1", "more-0", "asked"]
    assert cursor == ""
    refused = world.client().get(reverse("escalation-list", args=["alpha"]), {"cursor": "!"})
    assert refused.status_code == 400
    assert "This page cannot be shown: cursor must be" in shown(refused)


def test_the_list_makes_as_many_queries_for_many_as_for_few(world: World) -> None:
    """No query for each run."""
    client, url = world.client(), reverse("escalation-list", args=["alpha"]) + "?show=all"
    world.post({"verdict": "dismissed"})
    counts = []
    for number in range(3):
        client.get(url)
        with CaptureQueriesContext(connection) as queries:
            client.get(url)
        counts.append(len(queries))
        for more in range(4):
            send(world.project, escalated_run(f"more-{number}-{more}"))
    assert counts == [counts[0]] * 3


def test_an_end_far_from_the_last_event_is_told_by_what_the_fold_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list looks at the last events of each run only; the page of one looks at all of them."""
    monkeypatch.setattr(escalations, "LAST_READ", 2)
    more = [{**one, "event_id": f"late-{n}", "type": "thinking"} for n, one in enumerate(escalated_run()[:3])]
    send(world.project, more)
    [line] = list_escalations(world.project.pk, "open").lines
    assert (line.asked, line.reason) == (None, REASON)
    assert REASON in shown(world.client().get(reverse("escalation-list", args=["alpha"])))
    assert world.post({"verdict": "granted", "tools": "deploy"}).status_code == 302


def test_an_escalation_whose_event_is_gone_cannot_be_decided(world: World) -> None:
    """The summary says that the run escalated, its journal does not hold the event any more: shown, and no form."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM ingest_event WHERE type = 'run.escalated'")
    for url in (address(), "/alpha/runs/asked/"):
        assert REASON in shown(world.client().get(url))
    assert "The event that ended the run is no longer kept" in shown(world.client().get(address()))
    assert world.post({"verdict": "dismissed"}).status_code == 409
    assert decisions() == []


@pytest.mark.parametrize(
    "data", [{}, {"reason": 7, "reviewer": None, "n_denied": True}, {"reason": ["x"], "n_denied": "many"}]
)
def test_a_sender_that_tells_little_is_shown_with_gaps(world: World, data: dict[str, Any]) -> None:
    """Absent fields, and such as have another type, count as not reported."""
    asked = read_asked("e", None, None, -1, data)
    assert (asked.reason, asked.reviewer, asked.n_denied, asked.at, asked.holds_for) == ("", "", None, None, "")
    to = Recorder("bare")
    to.add("run.escalated", {})
    send(world.project, to.events)
    assert "(reason not reported)" in shown(world.client().get(reverse("escalation-list", args=["alpha"])))
    assert world.client().get(address("bare")).status_code == 200


def test_hostile_text_is_shown_and_never_run(world: World) -> None:
    """Markup comes out escaped, and what would reorder a line is written out, on all pages of an escalation."""
    hostile = "<script>alert(1)</script>\u202egnp.exe"
    send(world.project, escalated_run("hostile", reason=hostile, reviewer=hostile, task_id="<b>t", actor_id="<b>a"))
    for url in (reverse("escalation-list", args=["alpha"]), address("hostile"), "/alpha/runs/hostile/"):
        page = world.client().get(url).content.decode()
        assert "<script>alert" not in page
        assert "<b>t" not in page
        head = page.partition('id="rows"')[0]
        assert "\u202e" not in head
        assert "\\u202egnp.exe" in head


def test_what_may_be_granted_is_proposed(world: World) -> None:
    """The tools that the run called in vain stand as boxes; the page says what a grant does, and for whom."""
    page = shown(world.client().get(address()))
    assert '<input type="checkbox" name="tool" value="deploy">' in page
    assert "A grant resumes nothing: runs of task release that are started later may use its tools" in page


def test_a_grant_is_kept_and_shown(world: World) -> None:
    """Named and ticked tools together, the note without its secret, who and for whom; the run's page says so too."""
    sent = {"verdict": "granted", "tool": ["deploy"], "tools": "push_tag, deploy", "note": f"once\n{SECRET}"}
    answer = world.post(sent)
    assert (answer.status_code, answer.headers["Location"]) == (302, address())
    [kept] = EscalationDecision.objects.all()
    assert kept.tools == ["deploy", "push_tag"]
    assert kept.note.startswith("once\n[REDACTED:")
    assert SECRET not in kept.note
    assert (kept.run_id, kept.event_id, kept.decided_by) == ("asked", "asked:4", "alice")
    assert (kept.task_id, kept.actor_id) == ("release", "")
    page = shown(world.client("vera").get(address()))
    assert "granted</span> by <b>alice</b>" in page
    assert "It holds for runs started later of task" in page
    assert "<form" not in page.partition("<main")[2].partition("</main")[0]
    notice = shown(world.client().get("/alpha/runs/asked/"))
    assert "by alice: deploy, push_tag" in notice
    assert f'href="{address()}">The decision</a>' in notice


def test_the_projects_own_patterns_hold_for_the_note(world: World) -> None:
    """What the project counts as a secret is not kept with a decision either."""
    Project.objects.update(redaction_patterns=[{"kind": "order", "pattern": "ORD-[0-9]{8}"}])
    world.post({"verdict": "dismissed", "note": "see ORD-12345678"})
    assert decisions() == [("alice", "dismissed", [], "see [REDACTED:order]")]


def test_a_run_that_asked_says_so_above_its_timeline(world: World) -> None:
    """Reason, reviewer, what was not executed, and the way to decide; a run that ended otherwise has no notice."""
    page = shown(world.client().get("/alpha/runs/asked/")).partition('id="timeline"')[0]
    assert "Asked owner to decide" in page
    assert page.count(REASON) == 1
    assert "2 calls after the ask were not executed." in page
    assert f'href="{address()}">Look and decide</a>' in page
    send(world.project, typical_run("r-42"))
    assert 'aria-label="Escalation"' not in shown(world.client().get("/alpha/runs/r-42/"))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"verdict": "granted"}, "Name at least one tool, or dismiss it."),
        ({"verdict": "granted", "tools": "shell *"}, "* is not the name of a tool"),
        ({"verdict": "granted", "tools": "rm/rf"}, "A tool's name has 1 to 128 Latin letters"),
        ({"verdict": "granted", "tools": "x" * 129}, "A tool's name has 1 to 128 Latin letters"),
        ({"verdict": "granted", "tools": "deploy\x00"}, "A tool's name has 1 to 128 Latin letters"),
        ({"verdict": "granted", "tools": SECRET}, "One of them looks like a secret"),
        ({"verdict": "granted", "tools": " ".join(f"t{n}" for n in range(21))}, "a grant holds at most 20"),
        ({"verdict": "granted", "tools": "t " * 2_001}, "At most 4,000 characters of names"),
        ({"verdict": "granted", "tools": "deploy", "note": "n" * 1_001}, "Shorten it by 1."),
        ({"verdict": "perhaps"}, "Say whether it is granted or dismissed."),
        ({}, "Say whether it is granted or dismissed."),
    ],
)
def test_what_cannot_be_decided_is_refused_and_stays_typed(world: World, sent: dict[str, Any], said: str) -> None:
    """Each refusal names the field and what would do; nothing is kept, and the form holds what was written."""
    refused = world.post({"note": "because", **sent})
    assert refused.status_code == 400
    assert said in shown(refused)
    assert decisions() == []
    if "note" not in sent:
        assert ">because</textarea>" in shown(refused)


def test_the_same_decision_sent_twice_is_one(world: World) -> None:
    """A double click, or a form sent again after a lost answer, leads to the page of the decision that stands."""
    sent = {"verdict": "granted", "tools": "deploy", "note": "once"}
    assert [world.post(sent).status_code for _ in range(2)] == [302, 302]
    assert decisions() == [("alice", "granted", ["deploy"], "once")]


@pytest.mark.parametrize(("person", "sent"), [("bob", {"verdict": "dismissed"}), ("alice", {"verdict": "dismissed"})])
def test_the_first_decision_stands(world: World, person: str, sent: dict[str, Any]) -> None:
    """Who comes second, with another decision, is told whose stands and that theirs was not kept."""
    world.post({"verdict": "granted", "tools": "deploy"})
    late = world.post(sent, person)
    assert late.status_code == 409
    assert "Already granted by alice. Yours was not kept." in shown(late)
    assert decisions() == [("alice", "granted", ["deploy"], "")]


@pytest.mark.parametrize("event", ["", "asked:3", "other:4", "\x00", "x" * 5_000])
def test_a_form_of_another_event_decides_nothing(world: World, event: str) -> None:
    """A forged or outdated event id is refused, and the page shows what there is to decide."""
    refused = world.post({"verdict": "granted", "tools": "deploy", "event": event})
    assert refused.status_code == 409
    assert "This form is not that of the escalation shown here." in shown(refused)
    assert decisions() == []


def test_only_members_who_may_act_decide(world: World) -> None:
    """A viewer, a stranger, nobody, and a form without its token: refused, and nothing is kept."""
    sent = {"verdict": "granted", "tools": "deploy"}
    viewer = world.post(sent, "vera")
    assert viewer.status_code == 403
    assert "You look on in Alpha; members who act decide its escalations." in shown(viewer)
    assert world.post(sent, "charlie").status_code == 404
    assert world.post(sent, "anonymous").headers["Location"].startswith("/sign-in/")
    assert world.client(csrf=True).post(address(), {"event": "asked:4", **sent}).status_code == 403
    assert world.client().put(address()).status_code == 405
    assert decisions() == []
    page = shown(world.client("vera").get(address()))
    assert "Members who act decide it; you may look." in page
    assert 'name="verdict"' not in page


def test_another_projects_escalation_is_out_of_reach(world: World) -> None:
    """A run of the same id in a project of one's own is that project's: its decision grants nothing elsewhere."""
    gamma = Project.objects.get(slug="gamma")
    assert world.post({"verdict": "dismissed"}, "charlie", slug="gamma").status_code == 404
    send(gamma, escalated_run())
    assert world.post({"verdict": "granted", "tools": "deploy"}, "charlie", slug="gamma").status_code == 302
    assert granted_to({"task_id": "release"}, "alpha") == []
    assert n_open(world.project.pk) == 1


def test_a_run_that_did_not_escalate_has_no_such_page(world: World) -> None:
    """Neither one that goes on nor one that ended otherwise nor one that is not there."""
    send(world.project, typical_run("going", ended=False))
    send(world.project, typical_run("done"))
    for run_id in ("going", "done", "nothing"):
        assert world.client().get(address(run_id)).status_code == 404
        assert world.post({"verdict": "dismissed"}, run_id=run_id).status_code == 404
    assert decisions() == []


def test_a_grant_that_could_reach_nobody_is_not_offered(world: World) -> None:
    """Without a task and an actor the run can only be dismissed."""
    send(world.project, escalated_run("bare", task_id="", actor_id=""))
    page = shown(world.client().get(address("bare")))
    assert "a grant would reach no other run" in page
    assert 'value="granted"' not in page
    refused = world.post({"verdict": "granted", "tools": "deploy"}, run_id="bare")
    assert refused.status_code == 400
    assert decisions() == []
    assert world.post({"verdict": "dismissed"}, run_id="bare").status_code == 302


def test_the_next_run_of_the_task_is_given_what_was_granted(world: World) -> None:
    """The task decides; without one the actor; what was dismissed and other tasks give nothing."""
    world.post({"verdict": "granted", "tools": "deploy"})
    send(world.project, escalated_run("again", actor_id="other"))
    world.post({"verdict": "granted", "tools": "push_tag deploy"}, run_id="again")
    send(world.project, escalated_run("of-actor", task_id="", actor_id="builder"))
    world.post({"verdict": "granted", "tools": "sign"}, run_id="of-actor")
    send(world.project, escalated_run("no", task_id="release"))
    world.post({"verdict": "dismissed", "tools": "format_disk"}, run_id="no")
    assert granted_to({"task_id": "release", "actor_id": "anybody"}, "alpha") == ["deploy", "push_tag"]
    assert granted_to({"task_id": "other", "actor_id": "builder"}, "alpha") == []
    assert granted_to({"actor_id": "builder"}, "alpha") == ["sign"]
    assert granted_to({"task_id": ""}, "alpha") == []
    assert granted_to({"task_id": 7, "actor_id": None}, "alpha") == []
    assert granted_to({"task_id": "release"}, "gamma") == []


@pytest.mark.parametrize(
    ("spec", "grants"),
    [
        ({}, ["*", "deploy"]),
        ({"grants": ["shell"]}, ["shell", "deploy"]),
        ({"grants": ("deploy",)}, ("deploy",)),
        ({"grants": "deploy"}, "deploy"),
    ],
)
def test_grants_are_added_and_nothing_is_requested(spec: dict[str, object], grants: object) -> None:
    """The tools a run requests stay as its spec says: what it does not request is not offered by a grant."""
    before = {**spec, "tools": ["shell"]}
    assert with_grants(before, ["deploy"]) == {**before, "grants": grants}
    assert with_grants({"run_id": "r"}, []) == {"run_id": "r"}


def test_a_decision_goes_with_its_run_and_its_project(world: World) -> None:
    """Deleting the run takes the grant away; an escalation that follows under that id is open again."""
    world.post({"verdict": "granted", "tools": "deploy"})
    assert granted_to({"task_id": "release"}, "alpha") == ["deploy"]
    assert delete_run(world.project.pk, "asked") is not None
    assert decisions() == []
    assert granted_to({"task_id": "release"}, "alpha") == []
    send(world.project, escalated_run())
    assert n_open(world.project.pk) == 1
    world.post({"verdict": "dismissed"})
    delete_project(world.project)
    assert decisions() == []


def test_a_decision_of_a_run_that_is_gone_is_refused(world: World) -> None:
    """A run deleted between the page and the click leaves no row behind."""
    delete_run(world.project.pk, "asked")
    with pytest.raises(RunIsGone):
        decide(world.project, Ask("asked", "asked:4", "release", ""), Choice("dismissed"), "alice")
    assert decisions() == []


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_decides() -> None:
    """Both hold the page open and click: one decision is kept, and the other person learns whose."""
    project = make_project("alpha")
    send(project, escalated_run())
    both, told = threading.Barrier(2), list[str]()

    def click(name: str) -> None:
        both.wait(60)
        try:
            choice = Choice("granted", (f"tool_of_{name}",))
            told.append(decide(project, Ask("asked", "asked:4", "release", ""), choice, name).decided_by)
        except AlreadyDecided as error:
            told.append(str(error))
        finally:
            connections.close_all()

    people = [threading.Thread(target=click, args=(name,)) for name in ("alice", "bob")]
    for person in people:
        person.start()
    for person in people:
        person.join(60)
    [kept] = decisions()
    assert sorted(told) == sorted([kept[0], f"granted by {kept[0]}"])
    assert kept[2] == [f"tool_of_{kept[0]}"]
    assert Run.objects.count() == 1


def test_a_run_started_for_the_project_is_given_what_was_granted(
    world: World, temporal_address: str, settings: Settings, tmp_path: Path
) -> None:
    """`manage.py start_run` hands the grant on to the runtime; a run of another project goes without it."""
    settings.TEMPORAL_ADDRESS, settings.VAR_DIR = temporal_address, tmp_path
    settings.TEMPORAL_TASK_QUEUE = f"queue-{uuid.uuid4().hex}"
    world.post({"verdict": "granted", "tools": "deploy"})
    spec = tmp_path / "release.json"
    spec.write_text(json.dumps({"task": "Release it", "task_id": "release", "tools": ["shell"], "grants": ["shell"]}))
    given = {}
    for slug in ("alpha", "gamma"):
        out = io.StringIO()
        run_id = f"{slug}-{uuid.uuid4().hex}"
        call_command("start_run", "--spec", str(spec), "--project", slug, "--run-id", run_id, stdout=out, stderr=out)
        assert out.getvalue().startswith(run_id)
        sent = asyncio.run(input_of(temporal_address, run_id))
        assert sent["tools"] == ["shell"]
        given[slug] = sent["grants"]
    assert given == {"alpha": ["shell", "deploy"], "gamma": ["shell"]}


async def input_of(address: str, run_id: str) -> dict[str, Any]:
    """Return the spec that the runtime was given."""
    client = await Client.connect(address)
    history = await client.get_workflow_handle(run_id).fetch_history()
    begun = history.events[0].workflow_execution_started_event_attributes
    return dict(json.loads(begun.input.payloads[0].data)["spec"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--demo", "needs-a-grant", "--project", "nowhere"], "there is no project 'nowhere'"),
        (["--demo", "nothing", "--project", "alpha"], "there is no demo 'nothing'; there are: .*needs-a-grant"),
        (["--spec", "/no/such/file", "--project", "alpha"], "cannot be read as JSON"),
    ],
)
def test_what_cannot_be_started_is_named(world: World, arguments: list[str], said: str) -> None:
    """The project, the demo or the file, before the runtime is asked for anything."""
    with pytest.raises(CommandError, match=said):
        call_command("start_run", *arguments)
