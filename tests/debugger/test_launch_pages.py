"""Starting a run from its form, again with other settings, waiting for its first event; strangers, losses, refusals."""

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client as Browser
from django.urls import reverse

from debugger import run_settings
from debugger.demo import read_demo_tasks
from debugger.embedded.sockets import free_port
from debugger.kernel_client import RunAddress
from debugger.launching import Runtime, find_run, start_run
from debugger.models import EscalationDecision
from debugger.run_settings import BUDGETS, TOOLS, Base, name_of, run_id_of, settings_of, spec_of
from debugger.run_starts import started_spec
from debugger.views.run_form import RunForm
from debugger.views.run_new import PATIENCE_SECONDS, SOON_SECONDS
from ingest.models import Event, Project
from kernel.conversation.looking import READ, SEARCH
from kernel.core.codec import from_json, to_json
from kernel.edge.spec import ID_LIMIT, MOST, TEXT_LIMIT, spec_problem
from kernel.messages import Limits, RunSpec, Switches
from kernel.testing import MemoryEdges, ScriptedModel
from kernel.tools.answered import ANSWERED
from kernel.tools.magic_brush import BRUSH
from tests.factories import make_person, make_project, send, typical_run
from tests.kernel_worker import KernelWorker, kernel_worker

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
OUT_OF_LIMITS = {
    "name": ["", "-x", "a b", "имя", "n" * 101],
    "task": ["", "   ", "t" * 1_000_001],
    "agent": ["", "nobody"],
    "model": ["m" * 201],
    "tools": ["no_such_tool"],
    "triggers": ["agent.search"],
    "limit_max_turns": ["0", "-1", "1000000001", "many", "1.5"],
    "limit_max_tool_calls": ["-1"],
    "limit_tokens_per_run": ["1000000001"],
    "holdout_share": ["-0.1", "1.1", "nan", "half"],
    "holdout_salt": ["s" * 201],
    "holdout_experiment": ["e" * 201],
    "locale": ["", "fr"],
}


@dataclass(frozen=True)
class World:
    """Project alpha with alice, vera who may only look, and charlie of project gamma."""

    project: Project
    people: dict[str, User]
    runtime: Runtime

    def client(self, person: str = "alice") -> Browser:
        client = Browser()
        if person != "anonymous":
            client.force_login(self.people[person])
        return client

    def form(self, query: str = "", **changed: Any) -> dict[str, Any]:
        """Return what a browser would send of the form at that address, with fields changed."""
        html = self.client().get(address(query)).content.decode()
        return form_data(html) | changed


@pytest.fixture
def world(temporal_address: str, settings: Any) -> World:
    """The pages know a Temporal and a task queue that no worker serves: runs are started and stay waiting."""
    settings.TEMPORAL_ADDRESS = temporal_address
    settings.TEMPORAL_TASK_QUEUE = f"queue-{uuid.uuid4().hex}"
    settings.RUN_DRIVERS = []
    alpha, gamma = make_project("alpha"), make_project("gamma")
    people = {name: make_person(name, alpha) for name in ("alice", "vera")}
    people["vera"].groups.add(Group.objects.create(name="alpha viewers"))
    people["charlie"] = make_person("charlie", gamma)
    return World(alpha, people, Runtime(temporal_address, "default", settings.TEMPORAL_TASK_QUEUE))


@pytest.fixture
def kernel(world: World, settings: Any) -> Iterator[KernelWorker]:
    """A worker that executes what the pages start."""
    with kernel_worker(world.runtime.address, MemoryEdges(ScriptedModel("done"), {})) as worker:
        settings.TEMPORAL_TASK_QUEUE = worker.runtime.task_queue
        yield worker


def address(query: str = "") -> str:
    return reverse("run-new", args=["alpha"]) + query


def form_data(html: str) -> dict[str, Any]:
    """Return the fields of the page's form as a browser sends them."""
    form = html[html.index('<form class="sheet-form') :]
    data: dict[str, Any] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        named, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if named is None or named[1] == "csrfmiddlewaretoken" or "disabled" in tag:
            continue
        if 'type="checkbox"' in tag or 'type="radio"' in tag:
            if " checked" in tag:
                data.setdefault(named[1], []).append(value[1] if value else "on")
        else:
            data[named[1]] = value[1] if value else ""
    task = re.search(r'<textarea[^>]* name="task"[^>]*>\n(.*?)</textarea>', form, re.DOTALL)
    locale = re.search(r'<option value="(\w+)" selected>', form)
    assert task is not None
    assert locale is not None
    return {**data, "task": task[1], "locale": locale[1]}


def started_id(response: HttpResponse) -> str:
    assert response.status_code == 302, re.findall(r'role="alert">([^<]*)', response.content.decode())
    return re.search(r"/alpha/runs/([^/]+)/started/", response["Location"])[1]  # type: ignore[index]


def alerts(response: HttpResponse) -> str:
    return " ".join(re.findall(r'role="alert">([^<]*)', response.content.decode()))


def kept(world: World, run_id: str) -> dict[str, Any]:
    return started_spec(world.runtime, RunAddress("alpha", run_id))


# ---- what the debugger knows of the kernel, held against the kernel


def test_limits_and_words_are_the_kernels() -> None:
    """The debugger imports no kernel: what it says of it is compared here."""
    defaults = Limits()
    assert {name: budget.default for name, budget in BUDGETS.items()} == {
        name: getattr(defaults, name) for name in BUDGETS
    }
    assert (run_settings.MOST, run_settings.ID_LIMIT, run_settings.TASK_LIMIT) == (MOST, ID_LIMIT, TEXT_LIMIT)
    for name, budget in BUDGETS.items():
        for value in (budget.least - 1, MOST + 1):
            spec = RunSpec("r", "a task", limits=replace(defaults, **{name: value}))
            assert f"limits.{name}" in spec_problem(spec)
    assert set(TOOLS) == {"shell", "shell_background", BRUSH, *ANSWERED, SEARCH.name, READ.name}


@pytest.mark.parametrize("task", [task for task in read_demo_tasks() if not task.turns], ids=lambda task: task.name)
def test_a_scenario_comes_through_the_form_as_it_is(task: Any, settings: Any) -> None:
    """Its form, sent unchanged, makes the very spec of its file, and the kernel takes it."""
    settings.RUN_DRIVERS = []
    base = Base("scenario", task.name, task.name, task.spec)
    unbound = RunForm(base)
    data = {name: unbound[name].value() for name in unbound.fields}
    form = RunForm(base, {name: value for name, value in data.items() if value is not None})
    assert form.is_valid(), form.errors
    made = from_json(RunSpec, to_json({**spec_of(base, form.chosen()), "run_id": "r"}))
    assert spec_problem(made) == ""
    assert made == from_json(RunSpec, to_json({**task.spec, "run_id": "r"}))


def test_what_the_form_does_not_show_is_kept_and_a_place_in_a_team_is_not() -> None:
    """Limits, triggers and rules that have no field stay; parent, root and depth go."""
    spec = {
        "task": "t",
        "rules": "mine",
        "depth": 1,
        "parent_run_id": "p",
        "team_root": "p",
        "limits": {"run_ms": 5, "max_turns": 4},
        "switches": {"off": ["app.own", "tool.failed"]},
        "holdout": {"experiment": "e"},
    }
    base = Base("again", "old", "old", spec)
    chosen = replace(settings_of(base), limits={"max_turns": 9}, off=("task.priming",), tools=("shell", "escalate"))
    made = spec_of(base, chosen)
    assert (made["rules"], made["limits"]) == ("mine", {"run_ms": 5, "max_turns": 9})
    assert made["switches"]["off"] == ["app.own", "task.priming"]
    assert made["holdout"] == {"experiment": "e", "share": 0, "salt": ""}
    assert made["grants"] == ["*", "escalate"]
    assert not {"parent_run_id", "team_root", "depth"} & set(made)
    assert "grants" not in spec


def test_a_run_id_is_the_forms_own() -> None:
    """The same form has the same id; another key, project or setting has another; the name is found again in it."""
    key = "20261130-181500-0123abcd"
    made = run_id_of("try", key, "alpha", {"task": "t"})
    assert made == run_id_of("try", key, "alpha", {"task": "t"})
    others = {
        run_id_of("try", key, "beta", {"task": "t"}),
        run_id_of("try", key, "alpha", {"task": "u"}),
        run_id_of("try", key.replace("a", "b"), "alpha", {"task": "t"}),
    }
    assert len(others | {made}) == 4
    assert made.startswith("try-20261130-181500-")
    assert [name_of(one) for one in (made, "release-package-3", "ночь", "a/b")] == [
        "try",
        "release-package",
        "run",
        "a-b",
    ]


# ---- the form


def test_the_form_offers_scenarios_and_says_what_is_not_to_be_had(world: World) -> None:
    """Every scenario by its title; the driver that is not configured stands disabled with its reason."""
    page = world.client().get(address()).content.decode()
    for task in read_demo_tasks():
        assert (task.title in page) is not task.turns, task.name
    assert re.search(r'value="openai_chat"[^>]* disabled', page)
    assert "neither OPENAI_BASE_URL nor OPENAI_API_KEY" in page
    assert re.search(r'<button class="button main" disabled>', page)
    assert "No driver can be chosen" in page
    query = "?scenario=release-package"
    refused = world.client().post(address(query), world.form(query, agent="openai_chat", model="m-1"))
    assert (refused.status_code, "openai_chat cannot be chosen" in alerts(refused).lower()) == (400, True)


def test_a_configured_model_takes_a_free_task(world: World, settings: Any) -> None:
    """With the driver there, a free task is started as it was written, and a model must be named."""
    settings.RUN_DRIVERS = ["openai_chat"]
    data = world.form(task="Count the words.\r\nAll of them.")
    refused = world.client().post(address(), data)
    assert refused.status_code == 400
    assert "Name the model that is asked" in alerts(refused)
    run_id = started_id(world.client().post(address(), data | {"model": "m-1"}))
    spec = kept(world, run_id)
    assert (spec["task"], spec["agent"], spec["model"]) == ("Count the words.\nAll of them.", "openai_chat", "m-1")
    assert spec_problem(from_json(RunSpec, to_json(spec))) == ""


@pytest.mark.parametrize(
    ("name", "value"), [pytest.param(n, v, id=f"{n}-{v[:8]}") for n, values in OUT_OF_LIMITS.items() for v in values]
)
def test_what_is_out_of_limits_is_told_at_its_field(world: World, name: str, value: str) -> None:
    """Nothing is started, the field is marked, and what else was typed stays."""
    changed = {"name": "mine", "limit_run_tokens": "77"} | {name: value}
    form = RunForm(Base("scenario", "s", "s", {"task": "t", "script": "s"}), form_of_base() | changed)
    assert not form.is_valid()
    assert list(form.errors) == [name]
    assert form.shown("limit_run_tokens") == "77"
    assert len(value) < 10 or value not in str(form.errors)  # what was typed is not said again


def form_of_base() -> dict[str, Any]:
    unbound = RunForm(Base("scenario", "s", "s", {"task": "t", "script": "s"}))
    values = {name: unbound[name].value() for name in unbound.fields}
    return {name: value for name, value in values.items() if value is not None}


def test_values_survive_errors(world: World) -> None:
    """The page of a refused form has what was typed, checked and chosen, with the errors at their fields."""
    data = world.form("?scenario=release-package", holdout_share="0.5", limit_max_turns="0", name="mine", locale="ru")
    data |= {"tools": ["shell", "ask_human"], "shadow": "on"}
    data.pop("activation")
    response = world.client().post(address("?scenario=release-package"), data)
    assert response.status_code == 400
    assert "Tool rounds: Ensure this value is greater than or equal to 1." in alerts(response)
    assert "Salt: is empty: without one" in alerts(response)
    again = form_data(response.content.decode())
    assert again == data | {"shadow": ["on"]}


def test_a_secret_in_a_task_is_not_sent(world: World) -> None:
    """It is taken out, the form says so and has the task without; the next submit goes."""
    data = world.form("?scenario=release-package", task=f"Use {SECRET} to release")
    response = world.client().post(address("?scenario=release-package"), data)
    page = response.content.decode()
    assert response.status_code == 400
    assert SECRET not in page
    assert "1 secret was taken out of it" in page
    clean = form_data(page)
    assert clean["task"].startswith("Use [REDACTED:")
    run_id = started_id(world.client().post(address("?scenario=release-package"), clean))
    assert SECRET not in str(kept(world, run_id))


# ---- starting


def test_a_scenario_is_started_with_what_was_chosen(world: World) -> None:
    """The workflow's input has the scenario and the settings; the run's page waits for its first event."""
    data = world.form("?scenario=release-package", limit_tokens_per_run="900", holdout_share="0.25", holdout_salt="s1")
    data |= {"triggers": ["tool.failed"], "tools": ["shell", "update_plan"], "holdout_experiment": "spring"}
    response = world.client().post(address("?scenario=release-package"), data)
    run_id = started_id(response)
    assert re.fullmatch(r"release-package-\d{8}-\d{6}-[0-9a-f]{8}", run_id)
    spec = kept(world, run_id)
    assert spec["script"] == "release-package"
    assert spec["limits"] == {"tokens_per_run": 900}
    assert spec["holdout"] == {"share": 0.25, "salt": "s1", "experiment": "spring"}
    assert spec["switches"] == {"activation": True, "shadow": False, "off": ["task.priming", "mcp.first_call"]}
    page = world.client().get(response["Location"])
    assert page.status_code == 200
    assert "It has reported no event yet" in page.content.decode()


def test_a_form_that_is_sent_twice_starts_one_run(world: World) -> None:
    """The same form leads to the same run; with another setting it is another run."""
    data = world.form("?scenario=release-package")
    first = started_id(world.client().post(address("?scenario=release-package"), data))
    at = find_run(world.runtime, first)
    assert started_id(world.client().post(address("?scenario=release-package"), data)) == first
    assert find_run(world.runtime, first) == at
    other = started_id(world.client().post(address("?scenario=release-package"), data | {"limit_max_turns": "3"}))
    assert other != first
    reopened = world.form("?scenario=release-package")
    assert started_id(world.client().post(address("?scenario=release-package"), reopened)) not in (first, other)


def test_grants_of_people_are_said_and_apply(world: World) -> None:
    """What was granted to runs of the task stands on the page and in the spec."""
    EscalationDecision.objects.create(
        project=world.project, run_id="r-0", event_id="e", task_id="needs-a-grant", actor_id="agent",
        decided_by="alice", verdict="granted", tools=["shell"], note="",
    )  # fmt: skip
    query = "?scenario=needs-a-grant"
    assert "People granted such runs: <code>shell</code>" in world.client().get(address(query)).content.decode()
    assert "Nothing was granted" in world.client().get(address("?scenario=team")).content.decode()
    run_id = started_id(world.client().post(address(query), world.form(query)))
    assert "shell" in kept(world, run_id)["grants"]


def test_without_temporal_the_form_stays(world: World, settings: Any) -> None:
    """The page says that Temporal does not answer; what was typed is there; the same form then starts the run."""
    there = settings.TEMPORAL_ADDRESS
    data = world.form("?scenario=release-package", name="mine")
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    response = world.client().post(address("?scenario=release-package"), data)
    assert response.status_code == 503
    assert f"Temporal at {settings.TEMPORAL_ADDRESS} does not answer" in alerts(response)
    assert form_data(response.content.decode()) == data
    settings.TEMPORAL_ADDRESS = there
    assert started_id(world.client().post(address("?scenario=release-package"), data)).startswith("mine-")


def test_who_may_not_act_starts_nothing(world: World, settings: Any) -> None:
    """A member who looks on is told so, a stranger gets 404, nobody without a token; none of them starts a run."""
    data = world.form("?scenario=release-package")
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"  # asking it would be told on the page
    for method in ("get", "post"):
        assert getattr(world.client("vera"), method)(address(), data).status_code == 403
        assert getattr(world.client("charlie"), method)(address(), data).status_code == 404
        assert getattr(world.client("anonymous"), method)(address(), data).status_code == 302
    unsigned = Browser(enforce_csrf_checks=True)
    unsigned.force_login(world.people["alice"])
    assert unsigned.post(address("?scenario=release-package"), data).status_code == 403
    assert world.client().get(address("?scenario=nothing")).status_code == 404
    assert world.client().get(address("?again=nothing")).status_code == 404
    assert world.client().get(address("?again=a%00b")).status_code == 404
    assert world.client().put(address()).status_code == 405


def test_the_button_is_for_those_who_may(world: World) -> None:
    """The run list and a run's page lead to the form, for people who act."""
    send(world.project, typical_run("r-1"))
    for name, args, link in (("run-list", [], address()), ("run-detail", ["r-1"], address("?again=r-1"))):
        page = reverse(name, args=["alpha", *args])
        assert f'href="{link}"' in world.client().get(page).content.decode()
        assert address() not in world.client("vera").get(page).content.decode()


def test_a_project_that_the_kernel_does_not_report_to_is_told(world: World, settings: Any) -> None:
    """The form says where the run would appear, and starts nothing."""
    settings.RUN_PROJECT = "demo"
    data = world.form("?scenario=release-package")
    assert "reports to the project" in world.client().get(address("?scenario=release-package")).content.decode()
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"  # asking it would make a 503
    assert world.client().post(address("?scenario=release-package"), data).status_code == 400


# ---- again


def test_a_run_is_started_again_from_the_spec_it_was_started_with(world: World) -> None:
    """Temporal keeps the spec: all of it is kept but what was changed, and the comparison is offered."""
    spec = {"task": f"Release, with {SECRET}", "script": "release-package", "setup": "true", "task_id": "t-1"}
    old = f"try-{uuid.uuid4().hex[:8]}"
    start_run(world.runtime, {**spec, "run_id": old, "limits": {"max_turns": 5, "run_ms": 9_000}}, "alpha")
    send(world.project, typical_run(old))
    page = world.client().get(address(f"?again={old}")).content.decode()
    assert SECRET not in page
    assert "its command makes the work folder ready" in page
    data = form_data(page)
    assert data["limit_max_turns"] == "5"
    data.pop("activation")
    response = world.client().post(address(f"?again={old}"), data)
    run_id = started_id(response)
    made = kept(world, run_id)
    assert (made["setup"], made["task_id"], made["limits"]) == ("true", "t-1", {"run_ms": 9_000, "max_turns": 5})
    assert made["switches"]["activation"] is False
    assert SECRET not in str(made)
    waiting = world.client().get(response["Location"]).content.decode()
    compared = f'href="{reverse("run-compare", args=["alpha"])}?a={old}&amp;b={run_id}"'
    assert "its timeline offers the comparison" in waiting
    send(world.project, typical_run(run_id))
    arrived = world.client().get(response["Location"])
    assert arrived["Location"] == f"{reverse('run-detail', args=['alpha', run_id])}?again={old}"
    assert compared in world.client().get(arrived["Location"]).content.decode()


def test_a_run_temporal_does_not_know_is_started_from_what_it_reported(world: World) -> None:
    """The form has what run.started tells, and the page says what is not known."""
    events = typical_run("r-1")
    events[0]["data"] |= {"limits": {"max_turns": 6}, "switches": {"activation": False}, "tools": ["shell", "git__log"]}
    send(world.project, events)
    page = world.client().get(address("?again=r-1")).content.decode()
    data = form_data(page)
    assert (data["limit_max_turns"], data["tools"]) == ("6", ["shell"])
    assert "activation" not in data
    assert "Its rules, setup command, MCP servers" in page


def test_a_run_of_another_project_of_the_same_id_is_not_read(world: World) -> None:
    """Its spec is Temporal's, and another project's: the page shows what this project's own run reported."""
    start_run(world.runtime, {"run_id": "same-id", "task": "of gamma alone"}, "gamma")
    send(world.project, typical_run("same-id"))
    assert "of gamma alone" not in world.client().get(address("?again=same-id")).content.decode()


def test_again_without_temporal_shows_what_was_reported_and_starts_nothing(world: World, settings: Any) -> None:
    """It is not known how the run was started, so nothing is started on less; the form stays."""
    send(world.project, typical_run("r-1"))
    data = world.form("?again=r-1", name="mine")
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    page = world.client().get(address("?again=r-1"))
    assert page.status_code == 200
    assert "so it is not known how r-1 was started" in alerts(page)
    refused = world.client().post(address("?again=r-1"), data)
    assert refused.status_code == 503
    assert 'value="mine"' in refused.content.decode()


# ---- waiting for the first event


def test_the_page_waits_and_does_not_ask_for_ever(world: World) -> None:
    """Nothing new is 204; after half a minute it says why it may be; after five it stops; an event leads on."""
    run_id = started_id(world.client().post(address("?scenario=team"), world.form("?scenario=team")))
    page = reverse("run-started", args=["alpha", run_id])
    now = int(time.time())

    def asked(waited: int, state: str) -> HttpResponse:
        return world.client().get(page, {"since": now - waited, "state": state, "again": "r/0"}, headers=HTMX)

    assert asked(1, "soon").status_code == 204
    late = asked(SOON_SECONDS + 1, "soon")
    assert (late.status_code, "every 5s" in late.content.decode()) == (200, True)
    assert asked(SOON_SECONDS + 1, "late").status_code == 204
    over = asked(PATIENCE_SECONDS + 1, "late")
    assert (over.status_code, "hx-get" in over.content.decode()) == (286, False)
    send(world.project, typical_run(run_id))
    assert asked(1, "soon")["HX-Redirect"] == f"{reverse('run-detail', args=['alpha', run_id])}?again=r%2F0"


def test_waiting_for_a_run_that_is_not_there_is_a_404(world: World, settings: Any) -> None:
    """Unknown ids, other projects' runs and strangers: 404. While Temporal is away it cannot be told: it waits."""
    foreign = f"foreign-{uuid.uuid4().hex[:8]}"
    start_run(world.runtime, {"run_id": foreign, "task": "t"}, "gamma")
    for run_id in ("no-such-run", foreign):
        assert world.client().get(reverse("run-started", args=["alpha", run_id])).status_code == 404
    assert world.client("charlie").get(reverse("run-started", args=["alpha", foreign])).status_code == 404
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    away = world.client().get(reverse("run-started", args=["alpha", "perhaps"]))
    assert (away.status_code, "does not answer" in away.content.decode()) == (200, True)


def test_what_the_kernel_refuses_is_on_the_runs_page(world: World, kernel: KernelWorker) -> None:
    """A spec that passed the form and not the kernel ends in its own words, with the field and the fix."""
    old = f"old-{uuid.uuid4().hex[:8]}"
    start_run(world.runtime, {"run_id": old, "task": "t", "script": "s", "limits": {"run_ms": -5}}, "alpha")
    send(world.project, typical_run(old))
    response = world.client().post(address(f"?again={old}"), world.form(f"?again={old}"))
    run_id = started_id(response)
    assert kernel.await_end(run_id) == "failed"
    assert "is over already" in world.client().get(response["Location"]).content.decode()
    kernel.report(world.project, run_id, "run.failed")
    page = world.client().get(reverse("run-detail", args=["alpha", run_id])).content.decode()
    assert "limits.run_ms is -5; it must be from 0 to 1000000000" in page
    assert Event.objects.filter(run_id=run_id, type="run.failed").count() == 1


def test_a_run_executes_as_the_form_says(world: World, kernel: KernelWorker) -> None:
    """From the form to its end: the switches of the form are those the run reports."""
    data = world.form("?scenario=release-package")
    data.pop("activation")
    run_id = started_id(world.client().post(address("?scenario=release-package"), data))
    kernel.report(world.project, run_id, "run.completed")
    started = Event.objects.get(run_id=run_id, type="run.started")
    assert started.data["switches"]["activation"] is False
    assert {field.name for field in fields(Switches)} == set(started.data["switches"])


@pytest.mark.parametrize("run_id", ["a/b", ".", "50%", "ночь 1", "new", "a?b#c&d"])
def test_a_run_of_any_id_is_started_again(world: World, run_id: str) -> None:
    """The link of its page leads to its form, whose run has an id that the kernel takes."""
    events = typical_run(run_id)
    events[0]["data"]["task"] = "</textarea><script>alert(1)</script>"
    send(world.project, events)
    page = world.client().get(reverse("run-detail", args=["alpha", run_id])).content.decode()
    link = re.search(rf'href="({re.escape(address())}\?again=[^"]*)"', page)
    assert link is not None
    form = world.client().get(link[1]).content.decode()
    assert "<script>alert" not in form
    assert "&lt;/textarea&gt;&lt;script&gt;" in form
    assert spec_problem(RunSpec(run_id_of(form_data(form)["name"], form_data(form)["key"], "alpha", {}), "t")) == ""


def test_what_an_address_says_of_an_earlier_run_is_text(world: World) -> None:
    """`again` is anybody's words on a run's page and on the waiting page: escaped, and no error."""
    send(world.project, typical_run("r-1"))
    hostile = '"><script>alert(1)</script>\x00/..'
    page = world.client().get(reverse("run-detail", args=["alpha", "r-1"]), {"again": hostile})
    assert page.status_code == 200
    assert "<script>alert" not in page.content.decode()
    leads = world.client().get(reverse("run-started", args=["alpha", "r-1"]), {"again": hostile})
    assert leads["Location"].startswith(reverse("run-detail", args=["alpha", "r-1"]) + "?again=%22%3E")
