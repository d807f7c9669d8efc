"""The settings page: retention, patterns of secrets, members, deletion of runs and projects; who may do what."""

import html
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import override_settings
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from debugger.checks import check_tasks
from debugger.connection_bounds import bound_statements
from ingest import journal
from ingest.accept import accept_events
from ingest.authentication import create_key
from ingest.models import RESERVED_SLUGS, ApiKey, Membership, Project, Run
from ingest.projects import ProjectError, create_project
from ingest.tasks import finish_deletions
from tests.factories import make_person, make_project, send, typical_run
from tests.ingest.aged import age, days_ago
from tests.ingest.test_accept import event

pytestmark = pytest.mark.django_db

ACTIONS = {
    "project-retention": {"days": "30"},
    "project-redaction": {"kind": ["order"], "pattern": ["ORD-[0-9]{8}"]},
    "project-delete": {"slug": "alpha"},
    "run-delete": {"slug": "alpha"},
}


@dataclass(frozen=True)
class World:
    """Alice acts, Vera looks on, Charlie is a stranger; one project with one run."""

    project: Project
    people: dict[str, User]

    def client(self, person: str = "alice", *, csrf: bool = False) -> Client:
        client = Client(enforce_csrf_checks=csrf)
        if person != "anonymous":
            client.force_login(self.people[person])
        return client

    def post(self, name: str, data: dict[str, Any], person: str = "alice") -> Any:
        return self.client(person).post(address(name), data)

    def state(self) -> tuple[Any, ...]:
        now = Project.objects.get(pk=self.project.pk)
        return (
            now.retention_days,
            now.redaction_patterns,
            now.deleted_at,
            Run.objects.count(),
            Membership.objects.count(),
        )


def address(name: str) -> str:
    return reverse(name, args=["alpha", "r-42"] if name.startswith("run-") else ["alpha"])


def shown(response: Any) -> str:
    return html.unescape(response.content.decode())


@pytest.fixture
def world() -> World:
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    people = {name: make_person(name, project) for name in ("alice", "vera")}
    people["vera"].groups.add(Group.objects.create(name="alpha viewers"))
    people["charlie"] = make_person("charlie", make_project("gamma"))
    return World(project, people)


def test_the_page_shows_what_is_set_and_who_is_in(world: World) -> None:
    """Days, patterns, members with what they may; linked from every page of the project."""
    patterns = [{"kind": "order", "pattern": "ORD-[0-9]{8}<b>"}]
    Project.objects.update(retention_days=30, redaction_patterns=patterns)
    page = world.client().get("/alpha/settings/").content.decode()
    oldest = datetime.now(UTC).date() - timedelta(days=30)
    assert f"Kept now: {oldest} and later." in page
    assert "ORD-[0-9]{8}&lt;b&gt;" in page
    assert re.search(r"alice <span class=\"soft\">\(you\)</span></td><td>look and act", page)
    assert re.search(r"vera</td><td>look</td>", page)
    assert "charlie" not in page
    assert 'href="/alpha/settings/"' in world.client().get("/alpha/runs/").content.decode()


@pytest.mark.parametrize("name", ACTIONS)
def test_only_a_post_of_a_member_who_may_act_changes_anything(world: World, name: str) -> None:
    """GET, a viewer, a stranger, nobody, and a form without its token: refused, and nothing has changed."""
    before = world.state()
    assert world.client().get(address(name)).status_code == 405
    viewer = world.post(name, ACTIONS[name], "vera")
    assert viewer.status_code == 403
    assert "You look on in Alpha; members who act change its settings and delete what is in it." in shown(viewer)
    assert world.post(name, ACTIONS[name], "charlie").status_code == 404
    assert world.post(name, ACTIONS[name], "anonymous").headers["Location"].startswith("/sign-in/")
    assert world.client(csrf=True).post(address(name), ACTIONS[name]).status_code == 403
    assert world.state() == before


@pytest.mark.parametrize("name", ACTIONS)
def test_a_member_who_may_act_does_it(world: World, name: str) -> None:
    """The same form from a member changes what it says."""
    before = world.state()
    assert world.post(name, ACTIONS[name]).status_code in (200, 302)
    assert world.state() != before


def test_a_viewer_is_offered_nothing(world: World) -> None:
    """Who may only look sees the settings and no form to send."""
    page = shown(world.client("vera").get("/alpha/settings/"))
    assert "You may look at these settings, not change them." in page
    assert ">Save<" not in page
    assert "Delete the project" not in page
    assert "Delete the run" not in shown(world.client("vera").get("/alpha/runs/r-42/"))
    assert "Delete the run" in shown(world.client().get("/alpha/runs/r-42/"))


@pytest.mark.parametrize("days", ["0", "-1", "1.5", "week", "99999999999999999999", "36501"])
def test_days_that_cannot_be_are_refused(world: World, days: str) -> None:
    """A limit is a whole number of days, one at least; the page says so and keeps what was set."""
    Project.objects.update(retention_days=30)
    refused = world.post("project-retention", {"days": days})
    assert refused.status_code == 400
    assert "Days kept: " in shown(refused)
    assert Project.objects.get(slug="alpha").retention_days == 30


def test_an_empty_limit_keeps_everything(world: World) -> None:
    """Emptying the field takes the limit away."""
    Project.objects.update(retention_days=30)
    assert world.post("project-retention", {"days": ""}).status_code == 302
    assert Project.objects.get(slug="alpha").retention_days is None


def test_a_limit_that_forgets_runs_at_once_is_asked_about(world: World) -> None:
    """The page counts the runs and names the day; only the ticked box saves it."""
    journal.ensure_partitions([days_ago(10)])
    age(world.project, "r-42", days_ago(10))
    asked = world.post("project-retention", {"days": "7"})
    assert asked.status_code == 400
    assert f"1 run</b> first seen before {days_ago(7)} would be forgotten" in shown(asked)
    assert Project.objects.get(slug="alpha").retention_days is None
    assert world.post("project-retention", {"days": "7", "confirm": "on"}).status_code == 302
    assert Project.objects.get(slug="alpha").retention_days == 7
    assert Run.objects.filter(run_id="r-42").exists()


def test_a_pattern_is_used_for_what_is_sent_from_then_on(world: World) -> None:
    """What was saved on the page takes its kind of secret out of the next event."""
    world.post("project-redaction", {"kind": ["order", "", ""], "pattern": ["ORD-[0-9]{8}", "", ""]})
    assert Project.objects.get(slug="alpha").redaction_patterns == [{"kind": "order", "pattern": "ORD-[0-9]{8}"}]
    accept_events(world.project.pk, [event(1, "r-2", data={"text": "of ORD-12345678 today"})])
    assert journal.read_events(world.project.pk, "r-2")[0].data["text"] == "of [REDACTED:order] today"
    world.post("project-redaction", {"kind": [""], "pattern": [""]})
    assert Project.objects.get(slug="alpha").redaction_patterns == []


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("order", "("), ("Order 1", "x+"), ("order", ""), ("", "x+"), ("order", "x" * 5_000), ("order", "\x00(")],
)
def test_a_pattern_that_cannot_be_is_refused_whole(world: World, kind: str, pattern: str) -> None:
    """The page says which pattern and why, shows what was written, and keeps all that was set."""
    Project.objects.update(redaction_patterns=[{"kind": "kept", "pattern": "k+"}])
    refused = world.post("project-redaction", {"kind": ["good", kind], "pattern": ["g+", pattern]})
    assert refused.status_code == 400
    assert "Redaction pattern 2" in shown(refused)
    assert "Nothing was saved." in shown(refused)
    assert 'value="g+"' in shown(refused)
    assert Project.objects.get(slug="alpha").redaction_patterns == [{"kind": "kept", "pattern": "k+"}]


def test_a_project_is_deleted_when_its_slug_is_typed(world: World) -> None:
    """Then it is gone for everybody at once, and beat takes its rows; a wrong slug deletes nothing."""
    _, raw = create_key(world.project, "agent", ["read"])
    before = world.state()
    wrong = world.post("project-delete", {"slug": "gamma"})
    assert wrong.status_code == 400
    assert "Nothing was deleted: type alpha to confirm." in shown(wrong)
    assert world.state() == before
    done = world.post("project-delete", {"slug": "alpha"})
    assert "refused and hidden from now on" in shown(done)
    assert world.client().get("/alpha/settings/").status_code == 404
    assert Client().get("/v1/runs", headers={"Authorization": f"Bearer {raw}"}).status_code == 401
    assert not Group.objects.filter(name="alpha viewers").exists()
    assert finish_deletions() == 1
    assert list(Project.objects.values_list("slug", flat=True)) == ["gamma"]


def test_a_project_that_is_being_deleted_has_no_pages(world: World) -> None:
    """Not even for somebody who becomes a member of it meanwhile."""
    world.post("project-delete", {"slug": "alpha"})
    client = Client()
    client.force_login(make_person("late", Project.objects.get(slug="alpha")))
    assert client.get(reverse("run-list", args=["alpha"])).status_code == 404


def test_a_run_is_deleted_from_its_page(world: World) -> None:
    """The page after it says how many events went; the run and its rows are not there any more."""
    wrong = world.post("run-delete", {"slug": "alph"})
    assert wrong.status_code == 400
    assert "Nothing was deleted: type alpha to confirm." in shown(wrong)
    assert Run.objects.filter(run_id="r-42").exists()
    done = world.post("run-delete", {"slug": "alpha"})
    assert f"{len(typical_run('r-42'))} events and all that was derived" in shown(done)
    assert world.client().get("/alpha/runs/r-42/").status_code == 404
    assert world.post("run-delete", {"slug": "alpha"}).status_code == 404
    assert "r-42" not in shown(world.client().get("/alpha/runs/"))


def first_segments(patterns: list[URLPattern | URLResolver], prefix: str = "") -> set[str]:
    """The first segment of every address that begins with a fixed one."""
    found: set[str] = set()
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver) and "/" not in route:
            found |= first_segments(pattern.url_patterns, route)
        elif not route.startswith("<") and route:
            found.add(route.split("/", 1)[0])
    return found


def test_every_fixed_address_is_a_reserved_slug(world: World) -> None:
    """No project can be made whose pages another address would hide; none that exists is hidden."""
    fixed = first_segments(get_resolver().url_patterns) | {"static"}
    assert {"v1", "sign-in", "sign-out"} <= fixed
    assert {segment for segment in fixed if re.fullmatch(r"[-a-zA-Z0-9_]+", segment)} <= set(RESERVED_SLUGS)


@pytest.mark.parametrize("slug", ["v1", "sign-in", "static", "V1", "a b", "", "x" * 61, "a/b", "alpha"])
def test_a_slug_that_could_not_be_opened_is_refused(world: World, slug: str) -> None:
    """The sentence says what is wrong, from the command too, and no project is made."""
    with pytest.raises(ProjectError):
        create_project(slug, "Name")
    with pytest.raises(CommandError):
        call_command("create_project", slug, member=["dave"])
    assert set(Project.objects.values_list("slug", flat=True)) == {"alpha", "gamma"}
    assert not User.objects.filter(username="dave").exists()


def test_the_database_itself_refuses_a_reserved_slug() -> None:
    """Whatever makes a project, it cannot be one of these."""
    with pytest.raises(IntegrityError, match="project_slug_not_reserved"), transaction.atomic():
        Project.objects.create(slug="v1", name="Hidden")
    with pytest.raises(ProjectError, match="the slug 'v1' is an address of this installation"):
        create_project("v1", "Hidden")


def test_a_project_is_made_with_its_members(capsys: pytest.CaptureFixture[str]) -> None:
    """The command makes project and people; their pages open."""
    call_command("create_project", "my-agent", name="My agent", member=["dave"])
    assert "project my-agent is made" in capsys.readouterr().out
    client = Client()
    client.force_login(User.objects.get(username="dave"))
    assert client.get("/my-agent/runs/").status_code == 200
    assert not ApiKey.objects.exists()


def test_statements_of_web_requests_are_bounded() -> None:
    """A connection of a web process gives up: statements, waits for locks, transactions left open."""
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    with connection.cursor() as cursor:
        assert [_setting(cursor, name) for name in names] == ["0", "0", "0"]
        try:
            bound_statements(connection)
            assert [_setting(cursor, name) for name in names] == ["30s", "10s", "1min"]
        finally:
            for name in names:
                cursor.execute(f"RESET {name}")


def test_web_processes_bound_every_connection(tmp_path: Path) -> None:
    """What gunicorn loads has the bounds in place, and every process a bound on connecting."""
    code = (
        "import debugger.wsgi; from django.db import connection; from django.db.backends.signals import "
        "connection_created as made; from debugger.connection_bounds import bound_statements as bound; "
        "print(bound in made._live_receivers(None)[0], connection.settings_dict['OPTIONS']['connect_timeout'])"
    )
    env = {"PATH": os.environ["PATH"], "VAR_DIR": str(tmp_path), "DATABASE_CONNECT_SECONDS": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "7"], done.stderr


def test_totals_that_are_not_there_are_an_error_at_the_start() -> None:
    """A setting that names nothing would let no day be forgotten: a system check says so."""
    assert "temporality.E005" not in {problem.id for problem in check_tasks(None)}
    with override_settings(INGEST_TOTALS="knowledge.totals.nothing"):
        assert "temporality.E005" in {problem.id for problem in check_tasks(None)}


def _setting(cursor: Any, name: str) -> str:
    cursor.execute(f"SHOW {name}")
    return str(cursor.fetchone()[0])
