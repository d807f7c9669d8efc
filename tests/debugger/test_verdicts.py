"""What a person says of a hint counts over what was judged, stays through a rebuild, and can be taken back."""

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse

from ingest.deletion import delete_run
from ingest.models import Project
from knowledge.models import Candidate, HintVerdict, ItemCounts
from knowledge.rollups import read_cells
from knowledge.tasks import roll_up
from tests.factories import make_person, make_project, send, typical_run
from tests.ingest.aged import TODAY

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def project() -> Project:
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    return project


@pytest.fixture
def alice(project: Project) -> User:
    return make_person("alice", project)


def client_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def say(client: Client, outcome: str, *, htmx: bool = True, **fields: str) -> Any:
    address = reverse("hint-verdict", args=["alpha", "r-42", "r-42:a1"])
    given = {"knowledge_id": "k-17", "outcome": outcome, **fields}
    return client.post(address, given, headers=HTMX if htmx else {})


def hint() -> Candidate:
    return Candidate.objects.get(run_id="r-42", activation_id="r-42:a1", knowledge_id="k-17")


def test_a_verdict_counts_over_what_was_judged_and_can_be_taken_back(project: Project, alice: User) -> None:
    """The panel shows it with its source and reason; the sums follow; taken back, all is as it was before."""
    judged = (hint().outcome, hint().outcome_source)
    response = say(client_of(alice), "harmful", reason="it led astray, password=hunter2-hunter2")
    assert response.status_code == 200
    shown = response.content.decode()
    assert "<html" not in shown and "says alice" in shown and "led astray" in shown and "Take it back" in shown
    assert "hunter2" not in shown
    assert (hint().outcome, hint().outcome_source, hint().evidence["outcome"]["by"]) == ("harmful", "person", "alice")
    assert "hunter2" not in HintVerdict.objects.get().reason
    assert ItemCounts.objects.get(project=project, knowledge_id="k-17").n_harmful == 1
    roll_up()
    (cell,) = read_cells(project.pk, TODAY, TODAY, where={"knowledge_id": "k-17"})
    assert (cell.counts["n_harmful"], cell.words["judged_by"]["person"]) == (1, 1)
    say(client_of(alice), "")
    assert (hint().outcome, hint().outcome_source) == judged
    assert ItemCounts.objects.get(project=project, knowledge_id="k-17").n_harmful == 0
    assert HintVerdict.objects.count() == 2


def test_a_verdict_stays_through_late_events_and_a_rebuild_and_goes_with_its_run(project: Project, alice: User) -> None:
    """The last word counts, whatever is derived again; a row is never changed; with the run it is gone."""
    say(client_of(alice), "helpful")
    say(client_of(alice), "neutral", reason="no difference")
    late = typical_run("r-42")[-1] | {"event_id": "late", "type": "run.outcome", "data": {"success": True}}
    send(project, [late])
    call_command("rebuild", stdout=StringIO())
    assert (hint().outcome, hint().outcome_source) == ("neutral", "person")
    with pytest.raises(DatabaseError), transaction.atomic():
        HintVerdict.objects.update(outcome="harmful")
    delete_run(project.pk, "r-42")
    assert not HintVerdict.objects.exists()


def test_without_script_the_page_comes_again(project: Project, alice: User) -> None:
    """A browser without script is led back to the page of the search."""
    response = say(client_of(alice), "helpful", htmx=False)
    assert (response.status_code, response.url) == (302, reverse("why", args=["alpha", "r-42", "r-42:a1"]))
    page = client_of(alice).get(response.url).content.decode()
    assert "says alice" in page and "Change the verdict" in page


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"outcome": "splendid"}, 400, "Outcome must be one of helpful, harmful, neutral"),
        ({"outcome": "helpful", "reason": "x" * 1_001}, 400, "at most 1,000"),
        ({"outcome": "helpful", "knowledge_id": "k-20"}, 400, "Only a hint that was injected"),
        ({"outcome": "helpful", "knowledge_id": "k-404"}, 404, ""),
        ({"outcome": "helpful", "knowledge_id": "k\x00"}, 404, ""),
    ],
)
def test_what_cannot_be_kept_changes_nothing(
    project: Project, alice: User, fields: dict[str, str], status: int, told: str
) -> None:
    """An unknown word, a long reason, a hint that was not injected or is not there: told, and nothing is kept."""
    before = Candidate.objects.order_by("pk").values_list("pk", "outcome", "outcome_source")
    kept = list(before)
    response = say(client_of(alice), htmx=False, **{"knowledge_id": "k-17", **fields})
    assert response.status_code == status
    assert told in response.content.decode()
    assert (HintVerdict.objects.count(), list(before.all())) == (0, kept)


def test_only_members_who_act_may_judge(project: Project, alice: User) -> None:
    """A viewer sees no form and is refused with the reason; a stranger gets 404; nobody else is let in; GET is none."""
    vera = make_person("vera", project)
    vera.groups.add(Group.objects.create(name="alpha viewers"))
    panel = reverse("why", args=["alpha", "r-42", "r-42:a1"])
    assert "Was it helpful?" in client_of(alice).get(panel).content.decode()
    assert "Was it helpful?" not in client_of(vera).get(panel).content.decode()
    refused = say(client_of(vera), "harmful", htmx=False)
    assert (refused.status_code, "not judge their hints" in refused.content.decode()) == (403, True)
    assert say(client_of(make_person("charlie", make_project("gamma"))), "harmful").status_code == 404
    assert say(Client(), "harmful", htmx=False).status_code == 302
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(alice)
    assert say(strict, "harmful").status_code == 403
    assert client_of(alice).get(reverse("hint-verdict", args=["alpha", "r-42", "r-42:a1"])).status_code == 405
    assert not HintVerdict.objects.exists()
