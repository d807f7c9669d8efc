"""Every page in every state: nothing there, behind, not to be read, not for this person. (Seed 001 §14.)

The pages are those of `tests/browser/every_page.py`, where a new address has to be entered.
"""

import html
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from debugger.embedded.sockets import free_port
from ingest.accept import accept_events
from ingest.authentication import create_key
from ingest.models import Project, Run
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from tests.browser.every_page import VIEWS
from tests.debugger.test_conformance_page import document
from tests.debugger.test_escalations import escalated_run
from tests.factories import make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db

NO_LAG: Final = "shows what is stored, nothing that is derived from it"


@dataclass(frozen=True, slots=True)
class States:
    """A page as it is with content, and what it says when there is none and when the fold is behind.

    `empty` and `behind` are an address and the words there, or the reason why there is no such state.
    """

    page: str
    empty: tuple[str, str] | str
    behind: tuple[str, str] | str


ALWAYS: Final = "the thing it is about is always there"
FORM: Final = "a form"
STATES: Final[dict[str, States]] = {
    "conformance": States("/conformance/", ALWAYS, NO_LAG),
    "conformance-cell": States("/conformance/outside-catalogue/scripted/", ALWAYS, NO_LAG),
    "sign-in": States("/sign-in/", ALWAYS, NO_LAG),
    "sign-in-link": States("/sign-in/spent/", ALWAYS, NO_LAG),
    "run-list": States("/alpha/runs/", ("/beta/runs/", "No runs yet"), ("/alpha/runs/", "20 of 34 events not counted")),
    "run-compare": States(
        "/alpha/compare/?a=r-42&b=behind",
        ("/beta/compare/", "There is no run to compare with yet"),
        ("/alpha/compare/?a=r-42&b=behind", "20 events of B not folded yet"),
    ),
    "run-new": States("/alpha/runs/new/start/", FORM, NO_LAG),
    "run-detail": States(
        "/alpha/runs/r-42/",
        ("/alpha/runs/r-42/?q=nothing-has-this", "No row matches this filter"),
        ("/alpha/runs/behind/", "20 events not folded"),
    ),
    "run-started": States("/alpha/runs/soon/started/", ALWAYS, "waits for the first event, whether folded or not"),
    "run-chain": States(
        "/alpha/runs/r-42/chain/",
        ("/alpha/runs/asked/chain/", "No search was made in this run"),
        ("/alpha/runs/behind/chain/", "20 events of this run are not in the chain yet"),
    ),
    "run-waiting": States(
        "/alpha/runs/r-42/waiting/", ("/alpha/runs/r-42/waiting/", "The run has ended"), "asks Temporal, not the fold"
    ),
    "why": States(
        "/alpha/runs/r-42/activations/r-42:a1/",
        ("/alpha/runs/r-42/activations/r-42:a2/", "nothing known fits"),
        ("/alpha/runs/behind/activations/behind:a2/", "the chain is not derived from them yet"),
    ),
    "event-detail": States("/alpha/runs/r-42/events/r-42:5/", ALWAYS, NO_LAG),
    "request-detail": States("/alpha/runs/r-42/requests/r-42:14/", ALWAYS, NO_LAG),
    "keys": States("/alpha/keys/", ("/beta/keys/", "No keys yet"), NO_LAG),
    "key-deliveries": States("/alpha/keys/{key}/", ("/alpha/keys/{key}/", "Nothing was stored with this key"), NO_LAG),
    "knowledge-list": States(
        "/alpha/knowledge/",
        ("/beta/knowledge/", "No knowledge yet"),
        ("/alpha/knowledge/", "20 events of 1 run are not in the counts"),
    ),
    "knowledge-new": States("/alpha/knowledge/new/", FORM, NO_LAG),
    "knowledge-try": States(
        "/alpha/knowledge/try/?tool_result=permission+denied",
        ("/beta/knowledge/try/?tool_result=permission+denied", "This project has no knowledge yet"),
        NO_LAG,
    ),
    "knowledge-item": States(
        "/alpha/knowledge/items/k-17/",
        ("/alpha/knowledge/items/k-unmet/", "No run that is kept has met it"),
        ("/alpha/knowledge/items/k-17/", "20 events of 1 run are not in the counts"),
    ),
    "knowledge-revise": States("/alpha/knowledge/items/k-17/revise/", FORM, NO_LAG),
    "escalation-list": States(
        "/alpha/escalations/",
        ("/beta/escalations/", "Nothing waits for a decision"),
        "a run that is not folded has not ended here",
    ),
    "escalation": States("/alpha/escalations/asked/", ALWAYS, NO_LAG),
    "effects": States(
        "/alpha/effects/",
        ("/beta/effects/", "Nothing was searched for on these days"),
        ("/alpha/effects/", "not in these numbers yet"),
    ),
    "effect-items": States(
        "/alpha/effects/items/",
        ("/beta/effects/items/", "No item was met on these days"),
        ("/alpha/effects/items/", "not in these numbers yet"),
    ),
    "experiments": States("/alpha/experiments/", ("/alpha/experiments/", "No hint was withheld yet"), NO_LAG),
    "behaviour-report": States("/alpha/experiments/reports/behaviour-broken/", ALWAYS, NO_LAG),
    "operations": States(
        "/alpha/operations/", ("/beta/operations/", "Nothing came in"), ("/alpha/operations/", "behind")
    ),
    "project-settings": States("/alpha/settings/", ALWAYS, NO_LAG),
}
# What does not ask the database for a person or a project.
OPEN: Final = {"sign-in", "sign-in-link"}
# Pages that are forms through and through: who looks on is refused. (Test names say what each refusal leaves alone.)
ACTING: Final = {"run-new", "knowledge-new", "knowledge-revise"}
READING: Final = {"knowledge-try"}  # its form is posted, as queries are long, and writes nothing


@dataclass(frozen=True)
class World:
    """A full project alpha, of which 20 events wait to be folded, an empty one beta, and a member of both."""

    client: Client
    key: int

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path.format(key=self.key), headers=headers)


@pytest.fixture
def world(settings: Settings, tmp_path: Path) -> World:
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    settings.CONFORMANCE_REPORT = tmp_path / "conformance.json"
    settings.CONFORMANCE_REPORT.write_text(json.dumps(document()))
    settings.EXPERIMENTS_DIR = tmp_path
    (tmp_path / "behaviour-broken.json").write_text("{}")
    alpha, beta = make_project("alpha"), make_project("beta")
    send(alpha, typical_run("r-42"))
    send(alpha, escalated_run())
    send(alpha, typical_run("behind", ended=False)[:14])
    accept_events(alpha.pk, typical_run("behind")[14:])
    Run.objects.filter(run_id="behind").update(last_received_at=timezone.now() - timedelta(minutes=5))
    for knowledge_id in ("k-17", "k-unmet"):
        create_item(alpha, ItemDraft(knowledge_id, "Run `git init`."), by="alice", reason="seen")
    return World(_client(make_person("alice", alpha, beta)), _key_of(alpha))


def _key_of(project: Project) -> int:
    create_key(project, "exporter", ["ingest"])
    return int(project.api_keys.get().pk)


def _client(person: Any) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(person)
    return client


def words_of(response: Any) -> str:
    """The text of a page as a person reads it."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def test_every_page_has_its_states() -> None:
    """A new page says here what it shows while it has nothing, and while the fold is behind."""
    assert STATES.keys() == VIEWS.keys()


def wrong_words(world: World, states: dict[str, tuple[str, str] | str]) -> list[str]:
    """The pages that do not say what they should in a state; those with a reason instead have no such state."""
    wrong = []
    for name, state in states.items():
        if isinstance(state, str):
            continue
        path, words = state
        response = world.get(path)
        if response.status_code != 200 or words not in words_of(response) + response.content.decode():
            wrong.append(f"{name} ({response.status_code}): {words_of(response)[-600:]}")
    return wrong


def test_a_page_without_content_says_so(world: World) -> None:
    """An empty page is told from one that failed, and is no empty table."""
    assert wrong_words(world, {name: states.empty for name, states in STATES.items()}) == []


def test_a_page_that_is_behind_says_so(world: World) -> None:
    """Counts that lack events which are stored already are not passed off as all."""
    assert wrong_words(world, {name: states.behind for name, states in STATES.items()}) == []


def away_from(number: int, refused: list[str]) -> Any:
    """A database that answers `number` statements of a request and is away from then on; `refused` gets the others."""
    asked = iter(range(10_000))

    def refuse(execute: Any, *statement: Any) -> Any:
        is_frame = statement[0].startswith(("SAVEPOINT", "RELEASE", "ROLLBACK"))  # of the test's own transaction
        if not is_frame and next(asked) >= number:
            refused.append(statement[0])
            raise OperationalError("the server closed the connection unexpectedly")
        return execute(*statement)

    return connection.execute_wrapper(refuse)


def test_a_page_whose_database_goes_away_says_so(world: World) -> None:
    """At the first statement or at any later one: 503 with the cause and when to ask again, or a banner."""
    wrong = []
    for name, states in STATES.items():
        with CaptureQueriesContext(connection) as made:
            whole = world.get(states.page)
        if name not in OPEN:
            assert whole.status_code == 200, name
        for number in {0, 2, len(made) // 2, len(made) - 1} - {-1}:
            refused: list[str] = []
            with away_from(number, refused):
                response = world.get(states.page)
            transaction.set_rollback(False)  # a refused write marks the test's own transaction
            told = words_of(response)
            is_away = response.status_code == 503 and "The database does not answer" in told
            is_part = response.status_code == 200 and ("could not be" in told or name in OPEN)
            if refused and not is_part and not (is_away and response.headers["Retry-After"]):
                wrong.append(f"{name} without {refused[0][:80]}: {response.status_code} {told[-200:]}")
    assert wrong == []


def test_who_looks_on_is_offered_nothing_to_do(world: World) -> None:
    """A viewer reads every page and finds no form that changes anything; a page that is one refuses, with a reason."""
    viewer = make_person("vera", Project.objects.get(slug="alpha"))
    viewer.groups.add(Group.objects.create(name="alpha viewers"))
    client = _client(viewer)
    wrong = []
    for name, states in STATES.items():
        response = client.get(states.page.format(key=world.key))
        main = response.content.decode().split("<main", 1)[1]
        if name in ACTING:
            if response.status_code != 403 or "Not for you to change" not in words_of(response):
                wrong.append(f"{name}: {response.status_code} {words_of(response)[-200:]}")
        elif name not in OPEN | READING:
            forms = [form for form in re.findall(r"<form.*?</form>", main, re.S) if 'method="post"' in form]
            if response.status_code != 200 or any("<button" in form for form in forms):
                wrong.append(f"{name}: {response.status_code} {forms}")
    assert wrong == []


def test_what_is_not_there_is_a_page_that_leads_on(world: World) -> None:
    """Another's project, an unknown thing and a typing error look the same, have a heading and a way back."""
    stranger = _client(make_person("charlie", make_project("gamma")))
    of_a_project = {name: states.page for name, states in STATES.items() if states.page.startswith("/alpha/")}
    for path in [*of_a_project.values(), "/alpha/runs/", "/alpha/no-such-page/"]:
        response = stranger.get(path.format(key=world.key))
        assert response.status_code == 404, path
        told = words_of(response)
        assert "Not found" in told and "To the runs" in told, path
        assert "r-42" not in told and "k-17" not in told, path
