"""`GET /v1/runs` and what hangs on it: filters, cursor, lag, isolation, refusals, and its price in queries."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from contract import stages
from ingest.accept import accept_events
from ingest.authentication import create_key
from ingest.models import Project, Run
from knowledge.chains import refresh_run
from knowledge.fold import FOLD_VERSION
from knowledge.models import RunSummary
from tests.knowledge.streams import wire_of

pytestmark = pytest.mark.django_db

NAMES = ("hint_helped", "hint_ignored", "shadow")


class Reader:
    """A customer's program with one key."""

    def __init__(self, project: Project, *scopes: str) -> None:
        self.project = project
        _, raw = create_key(project, "reader", scopes or ("read",))
        self.headers = {"Authorization": f"Bearer {raw}"}

    def get(self, path: str, **params: Any) -> Any:
        return Client(raise_request_exception=False).get(f"/v1/{path}", params, headers=self.headers)

    def runs(self, **params: Any) -> list[str]:
        """Return the ids of the runs that the list answers with."""
        response = self.get("runs", **params)
        assert response.status_code == 200, response.json()
        return [run["run_id"] for run in response.json()["results"]]


def send(project: Project, events: list[dict[str, Any]], fold: bool = True) -> None:
    result = accept_events(project.pk, events)
    assert not result.rejected
    if fold:
        for run_id in {event["run_id"] for event in events}:
            refresh_run(project.pk, run_id)


@pytest.fixture
def reader() -> Reader:
    return Reader(Project.objects.create(slug="alpha", name="Alpha"))


@pytest.fixture
def recorded_runs(reader: Reader) -> Reader:
    """A reader of a project with the recorded runs, received a minute apart, the first one longest ago."""
    for name in NAMES:
        send(reader.project, wire_of(name))
    start = datetime(2026, 11, 30, 3, tzinfo=UTC)
    for minute, name in enumerate(NAMES):
        for model in (Run, RunSummary):
            model.objects.filter(run_id=f"{name}-1").update(first_received_at=start + timedelta(minutes=minute))
    return reader


def start_of(run_id: str, **data: Any) -> dict[str, Any]:
    base = {"event_id": f"{run_id}:1", "run_id": run_id, "type": "run.started", "occurred_at": "2026-11-30T03:00:00Z"}
    return {**base, "data": data}


# ---- the list ------------------------------------------------------------------------------------------------------


def test_list_is_newest_first_with_the_counts_of_each_run(recorded_runs: Reader) -> None:
    """Each run carries what a list needs, counts told apart by stage."""
    body = recorded_runs.get("runs").json()
    assert [run["run_id"] for run in body["results"]] == ["shadow-1", "hint_ignored-1", "hint_helped-1"]
    assert body["next"] is None
    run = body["results"][2]
    assert (run["status"], run["task"], run["agent"]) == (
        "completed",
        "Make the first commit in this folder",
        "scripted",
    )
    assert (run["n_activations"], run["n_skipped"], run["n_offered"], run["n_injected"], run["n_dropped"]) == (
        1,
        0,
        2,
        1,
        1,
    )
    assert (run["n_turns"], run["n_tool_calls"], run["n_tools_failed"]) == (5, 4, 1)
    assert run["hint_tokens"] > 0
    assert run["started_at"].endswith("Z") and run["duration_ms"] > 0
    assert (run["n_unfolded"], run["as_of"] is not None, run["fold_version"]) == (0, True, FOLD_VERSION)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"status": "completed"}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
        ({"status": "running"}, set()),
        ({"trigger": "tool.failed"}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
        ({"trigger": "mcp.first_call"}, set()),
        ({"drop_reason": "hint_limit"}, {"hint_helped-1"}),
        ({"drop_reason": "shadow"}, {"shadow-1"}),
        ({"knowledge_id": "git-init-first"}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
        ({"knowledge_id": "git"}, set()),
        ({"tool": "shell"}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
        ({"tool": "shel"}, set()),
        ({"mcp_server": "git"}, set()),
        ({"agent": "scripted"}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
        ({"agent": "Scripted"}, set()),
        ({"has_injection": "true"}, {"hint_helped-1", "hint_ignored-1"}),
        ({"has_injection": "false"}, {"shadow-1"}),
        ({"text": "FIRST commit"}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
        ({"text": "100%"}, set()),
        ({"text": "_"}, set()),
        ({"since": "2026-11-30T03:01:00Z"}, {"hint_ignored-1", "shadow-1"}),
        ({"until": "2026-11-30T03:01:00Z"}, {"hint_helped-1"}),
        ({"since": "2026-11-30T04:01:00+01:00", "until": "2026-11-30T03:02:00Z"}, {"hint_ignored-1"}),
        ({"status": "completed", "has_injection": "true", "drop_reason": "hint_limit"}, {"hint_helped-1"}),
        ({"status": "", "trigger": ""}, {"hint_helped-1", "hint_ignored-1", "shadow-1"}),
    ],
)
def test_filters(recorded_runs: Reader, params: dict[str, str], expected: set[str]) -> None:
    """Every filter keeps exactly the runs it names; together all must hold."""
    assert set(recorded_runs.runs(**params)) == expected


def test_time_with_an_unescaped_plus(recorded_runs: Reader) -> None:
    """A zone whose plus became a space on the way is still understood."""
    assert recorded_runs.runs(since="2026-11-30T04:01:00 01:00") == ["shadow-1", "hint_ignored-1"]


@pytest.mark.parametrize(
    ("params", "code", "field"),
    [
        ({"sttaus": "running"}, "unknown_filter", "sttaus"),
        ({"status": "sleeping"}, "invalid_filter", "status"),
        ({"trigger": "tool"}, "invalid_filter", "trigger"),
        ({"drop_reason": "near_duplicate"}, "invalid_filter", "drop_reason"),
        ({"has_injection": "yes"}, "invalid_filter", "has_injection"),
        ({"since": "yesterday"}, "invalid_filter", "since"),
        ({"since": "2026-11-30T03:00:00"}, "invalid_filter", "since"),
        ({"until": "2026-13-30T03:00:00Z"}, "invalid_filter", "until"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "invalid_filter", "until"),
        ({"tool": "x" * 201}, "invalid_filter", "tool"),
        ({"text": "a\x00b"}, "invalid_filter", "text"),
        ({"limit": "0"}, "invalid_parameter", "limit"),
        ({"limit": "201"}, "invalid_parameter", "limit"),
        ({"limit": "ten"}, "invalid_parameter", "limit"),
        ({"cursor": "abc"}, "bad_cursor", "cursor"),
        ({"cursor": "é"}, "bad_cursor", "cursor"),
        ({"cursor": base64.b64encode(b"99999999999999999999:r").decode()}, "bad_cursor", "cursor"),
        ({"cursor": base64.b64encode(b"1:a\x00").decode()}, "bad_cursor", "cursor"),
        ({"cursor": base64.b64encode(b"1:").decode()}, "bad_cursor", "cursor"),
        ({"tool": ["a", "b"]}, "repeated_parameter", "tool"),
    ],
)
def test_what_cannot_be_asked_is_400_naming_it(recorded_runs: Reader, params: Any, code: str, field: str) -> None:
    """A filter that would silently do nothing is refused, with its name."""
    response = recorded_runs.get("runs", **params)
    assert response.status_code == 400
    assert (response.json()["code"], response.json()["field"]) == (code, field)


def test_refusal_names_what_is_known(reader: Reader) -> None:
    """The sentence lists the words that would do."""
    assert "completed" in reader.get("runs", status="x").json()["detail"]
    assert "has_injection" in reader.get("runs", colour="red").json()["detail"]


def test_pages_join_while_runs_arrive(reader: Reader) -> None:
    """Pages have no gap and no overlap, also among runs received at one moment and with new ones coming in."""
    send(reader.project, [start_of(f"r-{number:02}") for number in range(7)], fold=False)
    found, cursor = [], ""
    for page in range(4):
        body = reader.get("runs", limit=2, cursor=cursor).json()
        found += [run["run_id"] for run in body["results"]]
        cursor = body["next"] or ""
        send(reader.project, [start_of(f"late-{page}")], fold=False)
        # The clock stands still in a test's transaction.
        later = F("first_received_at") + timedelta(seconds=1)
        Run.objects.filter(run_id=f"late-{page}").update(first_received_at=later)
    assert found == [f"r-{number:02}" for number in reversed(range(7))]
    assert cursor == ""


def test_cursor_goes_with_filters(recorded_runs: Reader) -> None:
    """The next page is of the same selection."""
    body = recorded_runs.get("runs", has_injection="true", limit=1).json()
    assert recorded_runs.runs(has_injection="true", limit=1, cursor=body["next"]) == ["hint_helped-1"]


# ---- lag -------------------------------------------------------------------------------------------------------------


def test_a_run_is_listed_from_its_first_event(reader: Reader) -> None:
    """Before anything is folded a run is there, running, its counts unknown and its lag told."""
    send(reader.project, [start_of("r-1", task="Build")], fold=False)
    (run,) = reader.get("runs").json()["results"]
    assert (run["run_id"], run["status"], run["n_events"], run["n_unfolded"]) == ("r-1", "running", 1, 1)
    assert (run["n_offered"], run["task"], run["as_of"]) == (None, None, None)
    assert reader.runs(status="running") == ["r-1"]
    assert reader.runs(status="completed") == []
    assert reader.runs(has_injection="false") == ["r-1"]
    assert reader.get("runs/r-1").json()["limits"] is None
    assert reader.get("runs/r-1/activations").json() == {"results": [], "next": None, "as_of": None, "n_unfolded": 1}


def test_counts_tell_how_far_they_are_behind(reader: Reader) -> None:
    """Events that came after the last fold show as lag until they are folded."""
    send(reader.project, [start_of("r-1", task="Build")])
    end = {**start_of("r-1"), "event_id": "r-1:2", "type": "run.failed"}
    send(reader.project, [end], fold=False)
    run = reader.get("runs/r-1").json()
    assert (run["status"], run["n_events"], run["n_unfolded"]) == ("running", 2, 1)
    refresh_run(reader.project.pk, "r-1")
    run = reader.get("runs/r-1").json()
    assert (run["status"], run["n_unfolded"]) == ("failed", 0)


def test_end_before_start_has_no_duration(reader: Reader) -> None:
    """Both times are shown as sent, and no negative duration is made of them."""
    end = {**start_of("r-1"), "event_id": "r-1:2", "type": "run.completed", "occurred_at": "2026-11-30T02:59:59Z"}
    send(reader.project, [start_of("r-1"), end])
    run = reader.get("runs/r-1").json()
    assert (run["started_at"][:19], run["ended_at"][:19]) == ("2026-11-30T03:00:00", "2026-11-30T02:59:59")
    assert run["duration_ms"] is None


# ---- one run and its chain -----------------------------------------------------------------------------------------


def test_one_run_with_what_it_was_given(recorded_runs: Reader) -> None:
    """The detail adds limits, switches, the answer and what was called."""
    run = recorded_runs.get("runs/hint_helped-1").json()
    assert run["limits"]["hints_per_activation"] == 1
    assert run["switches"]["priming"] is False
    assert (run["answer"], run["tools"], run["mcp_servers"]) == ("The first commit is made.", ["shell"], [])


def test_the_chain_with_its_reasons(recorded_runs: Reader) -> None:
    """Trigger, search, every candidate with the stages it reached, why it went no further, use and outcome."""
    (activation,) = recorded_runs.get("runs/hint_helped-1/activations").json()["results"]
    assert (activation["trigger"], activation["source_event_id"]) == ("tool.failed", "hint_helped-1:6")
    assert (activation["n_retrieved"], activation["n_offered"], activation["n_injected"]) == (3, 2, 1)
    assert activation["later_calls"][0]["status"] == "ok"
    used, dropped, held = activation["candidates"]
    assert used["offered_at"] <= used["selected_at"] <= used["injected_at"] <= used["used_at"]
    assert (used["drop_reason_meaning"], used["outcome"]) == ("", "helpful")
    assert dropped["drop_reason_meaning"] == stages.DROP_REASONS["hint_limit"]
    assert (dropped["injected_at"], dropped["drop_detail"]["limit"]) == (None, 1)
    assert (held["offered_at"], held["hold_reason_meaning"]) == (None, stages.HOLD_REASONS["retired"])


def test_skipped_activations_say_why(recorded_runs: Reader) -> None:
    """A search that was not made stands in the chain with its reason; pages of activations join."""
    first = recorded_runs.get("runs/hint_ignored-1/activations", limit=1).json()
    (skipped,) = recorded_runs.get("runs/hint_ignored-1/activations", after=first["next"]).json()["results"]
    assert (first["results"][0]["result"], skipped["result"]) == ("success", "skipped")
    assert skipped["skip_reason_meaning"] == stages.SKIP_REASONS["duplicate_situation"]
    assert skipped["skip_detail"]["same_as"] == first["results"][0]["activation_id"]


@pytest.mark.parametrize("run_id", ["a b", "a/b", "ünï", "r?x=1", "r%2F", "..."])
def test_any_printable_run_id_can_be_read(reader: Reader, run_id: str) -> None:
    """Ids are the sender's: whatever they hold, they are found again."""
    send(reader.project, [start_of(run_id, task="x")])
    assert reader.get(reverse("api-run", args=[run_id])[4:].replace("%2F", "/")).json()["run_id"] == run_id
    assert reader.get(reverse("api-run-activations", args=[run_id])[4:]).json()["results"] == []


# ---- who may read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["runs/hint_helped-1", "runs/hint_helped-1/activations"])
def test_another_projects_run_is_404_like_an_unknown_one(recorded_runs: Reader, path: str) -> None:
    """What is another project's does not exist, in the list, by filter and by id."""
    stranger = Reader(Project.objects.create(slug="beta", name="Beta"))
    assert stranger.runs() == stranger.runs(knowledge_id="git-init-first", trigger="tool.failed") == []
    theirs, nowhere = stranger.get(path), stranger.get(path.replace("hint_helped-1", "nowhere"))
    assert theirs.status_code == nowhere.status_code == 404
    assert theirs.json() == nowhere.json()
    assert theirs.json()["code"] == "run_unknown"
    assert recorded_runs.get(path).status_code == 200


def test_the_same_run_id_in_two_projects(recorded_runs: Reader) -> None:
    """Each project reads its own run, and its filters look at its own chain only."""
    other = Reader(Project.objects.create(slug="beta", name="Beta"))
    send(other.project, [start_of("hint_helped-1", task="Mine")])
    assert other.get("runs/hint_helped-1").json()["task"] == "Mine"
    assert other.get("runs/hint_helped-1/activations").json()["results"] == []
    assert other.runs(drop_reason="hint_limit") == other.runs(trigger="tool.failed") == []


def test_cursor_of_another_project_shows_nothing_of_it(recorded_runs: Reader) -> None:
    """A cursor only says where to go on; the project is the key's."""
    cursor = recorded_runs.get("runs", limit=1).json()["next"]
    stranger = Reader(Project.objects.create(slug="beta", name="Beta"))
    assert stranger.runs(cursor=cursor) == []


@pytest.mark.parametrize("path", ["runs", "runs/r-1", "runs/r-1/activations"])
def test_reading_needs_a_key_with_the_scope(reader: Reader, path: str) -> None:
    """No key is 401, a key without `read` is 403 naming it; nothing is written by reading."""
    assert Client().get(f"/v1/{path}").status_code == 401
    sender = Reader(reader.project, "ingest", "observe")
    response = sender.get(path)
    assert (response.status_code, response.json()["code"]) == (403, "scope_missing")
    assert Client().post(f"/v1/{path}", {}, headers=reader.headers).status_code == 405
    assert not Run.objects.exists()


def test_nul_in_an_id_is_404(reader: Reader) -> None:
    """What cannot be stored cannot be found, and is no error of ours."""
    assert reader.get("runs/a%00b").status_code == 404


# ---- price and documents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "n_queries"),
    [
        ("runs", 2),
        ("runs?trigger=tool.failed&knowledge_id=git-init-first&text=commit&tool=shell", 3),
        ("runs/hint_helped-1", 2),
        ("runs/hint_helped-1/activations", 4),
    ],
)
def test_query_counts(recorded_runs: Reader, path: str, n_queries: int) -> None:
    """One query for the key; one for the list, two with filters; one each for run, activations and candidates."""
    with CaptureQueriesContext(connection) as queries:
        assert recorded_runs.get(path).status_code == 200
    assert len(queries) == n_queries, "\n".join(query["sql"] for query in queries)


def test_openapi_describes_the_endpoints(reader: Reader) -> None:
    """The published document names the filters and the fields of a run, all of which a run has."""
    response = Client().get("/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    document = json.loads(response.content)
    parameters = {parameter["name"] for parameter in document["paths"]["/v1/runs"]["get"]["parameters"]}
    assert {"status", "trigger", "cursor", "has_injection"} <= parameters
    assert "/v1/runs/{run_id}/activations" in document["paths"]
    send(reader.project, [start_of("r-1")])
    described = set(document["components"]["schemas"]["RunDetailBody"]["properties"])
    assert described == set(reader.get("runs/r-1").json())
    assert RunSummary.objects.count() == 1


def test_the_trigger_filter_is_a_form_and_no_list(reader: Reader) -> None:
    """OpenAPI tells of which form the name of a trigger is, and which the kernel has, without closing the list."""
    response = Client().get("/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    parameters = {one["name"]: one for one in json.loads(response.content)["paths"]["/v1/runs"]["get"]["parameters"]}
    trigger = parameters["trigger"]
    assert "enum" not in trigger["schema"]
    assert (trigger["schema"]["maxLength"], trigger["schema"]["type"]) == (64, "string")
    assert all(name in trigger["description"] for name in stages.TRIGGERS)
