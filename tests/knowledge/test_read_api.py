"""What a run is read by beside its own address: events, model requests, the report; and ids of every shape."""

from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contract import stages
from ingest.models import Project, Run
from ingest.retention import apply_retention
from knowledge.chains import refresh_run
from knowledge.tasks import roll_up
from tests.factories import Recorder, typical_run
from tests.factories import send as send_run
from tests.ingest.aged import TODAY, age, days_ago
from tests.knowledge.streams import wire_of
from tests.knowledge.test_runs_api import Reader, send

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> Reader:
    return Reader(Project.objects.create(slug="alpha", name="Alpha"))


def event(number: int, run_id: str = "r-1", **fields: Any) -> dict[str, Any]:
    base = {"event_id": f"e{number}", "run_id": run_id, "type": "turn.started", "occurred_at": "2026-11-30T03:00:00Z"}
    return {**base, **fields}


def pages(reader: Reader, **params: Any) -> list[list[str]]:
    """Return the event ids of every page of r-1."""
    found, after = [], 0
    while after is not None:
        body = reader.get("runs/r-1/events", after=after, **params).json()
        found.append([row["event_id"] for row in body["results"]])
        after = body["next"]
    return found


# ---- events --------------------------------------------------------------------------------------------------------


def test_events_come_in_order_of_arrival_page_by_page(reader: Reader) -> None:
    """Pages join without gap or overlap, and the last one says so, also when it is full."""
    send(reader.project, [event(number) for number in range(1, 7)], fold=False)
    assert pages(reader, limit=4) == [["e1", "e2", "e3", "e4"], ["e5", "e6"]]
    assert pages(reader, limit=3) == [["e1", "e2", "e3"], ["e4", "e5", "e6"]]


def test_events_of_some_types(reader: Reader) -> None:
    """The filter takes one type or several; the pages of what fits join as well."""
    types = ["turn.started", "tool.failed", "thinking"] * 3
    events = [event(number, type=name, data={}) for number, name in enumerate(types)]
    send(reader.project, events, fold=False)
    assert pages(reader, type="tool.failed") == [["e1", "e4", "e7"]]
    assert pages(reader, type="tool.failed,thinking", limit=4) == [["e1", "e2", "e4", "e5"], ["e7", "e8"]]
    assert pages(reader, type="nothing.such") == [[]]


def test_case_31_list_without_content(reader: Reader) -> None:
    """`content=false` lists rows without their data, and reads none of it."""
    send(reader.project, [event(1, data={"v": "x" * 9_000})], fold=False)
    with CaptureQueriesContext(connection) as queries:
        response = reader.get("runs/r-1/events", content="false")
    (row,) = response.json()["results"]
    assert "data" not in row and row["type"] == "turn.started"
    assert len(response.content) < 2_000
    assert not any("data::text" in one["sql"] for one in queries)


def test_case_31_a_page_ends_where_its_data_grows_large(reader: Reader, settings: Any) -> None:
    """However large the events are, a page stays near its bound and holds one event at least."""
    settings.READ_MAX_PAGE_BYTES = 5_000
    send(reader.project, [event(number, data={"v": "x" * 3_000}) for number in range(1, 6)], fold=False)
    assert pages(reader) == [["e1", "e2"], ["e3", "e4"], ["e5"]]
    settings.READ_MAX_PAGE_BYTES = 1
    assert pages(reader) == [["e1"], ["e2"], ["e3"], ["e4"], ["e5"]]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"after": "-1"}, "after"),
        ({"after": str(2**63)}, "after"),
        ({"limit": "501"}, "limit"),
        ({"limit": "0"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"content": "no"}, "content"),
        ({"type": "a\x00"}, "type"),
        ({"type": ",".join(["a"] * 51)}, "type"),
        ({"types": "a"}, "types"),
    ],
)
def test_what_cannot_be_asked_is_400_naming_it(reader: Reader, params: dict[str, str], field: str) -> None:
    """A wrong or unknown parameter is named, and never ignored."""
    send(reader.project, [event(1)], fold=False)
    response = reader.get("runs/r-1/events", **params)
    assert (response.status_code, response.json()["field"]) == (400, field)


# ---- model requests ------------------------------------------------------------------------------------------------


def two_requests() -> list[dict[str, Any]]:
    to = Recorder("r-1")
    first = [{"role": "system", "text": "Be careful."}, {"role": "user", "text": "Go", "odd": {"kept": [1, None]}}]
    one = to.add("model.requested", {"n_messages": 2, "n_kept": 0, "new_messages": first})
    second = [{"role": "assistant", "text": "", "calls": [{"name": "shell", "call_id": "c1"}]}]
    to.add("model.requested", {"n_messages": 3, "n_kept": 2, "follows": one, "new_messages": second})
    return to.events


def test_a_model_request_is_rebuilt_message_for_message(reader: Reader) -> None:
    """The messages come in order, each as it was sent, and what this request added is marked."""
    events = two_requests()
    send(reader.project, events, fold=False)
    body = reader.get(f"runs/r-1/requests/{events[1]['event_id']}").json()
    assert [(one["position"], one["role"], one["text"], one["is_new"]) for one in body["messages"]] == [
        (0, "system", "Be careful.", False),
        (1, "user", "Go", False),
        (2, "assistant", "", True),
    ]
    assert body["messages"][1]["odd"] == {"kept": [1, None]}
    assert body["messages"][2]["calls"] == [{"name": "shell", "call_id": "c1"}]
    assert (body["n_messages"], body["missing"], body["is_complete"]) == (3, [], True)


def test_what_a_request_lacks_is_named(reader: Reader) -> None:
    """A request whose predecessor did not arrive shows what there is and names the gap."""
    first, second = two_requests()
    send(reader.project, [second], fold=False)
    body = reader.get(f"runs/r-1/requests/{second['event_id']}").json()
    assert (body["n_messages"], body["missing"], body["is_complete"]) == (1, [first["event_id"]], False)


def test_a_request_that_is_none_is_404(reader: Reader) -> None:
    """An unknown event, one that is no request, and another project's look the same."""
    send(reader.project, [*two_requests(), event(9)], fold=False)
    stranger = Reader(Project.objects.create(slug="beta", name="Beta"))
    assert reader.get("runs/r-1/requests/e9").json()["code"] == "event_unknown"
    assert reader.get("runs/r-1/requests/nothing").json()["code"] == "event_unknown"
    assert stranger.get("runs/r-1/requests/r-1:1").json()["code"] == "run_unknown"


# ---- ids -----------------------------------------------------------------------------------------------------------

IDS = [
    "a", "a/events", "a/activations", "a/requests/e1", "..", ".", "a%2Fb", "a%252Fb", "50%", "😀/🚀", "a b?c#d",
    "/", "//", "events", "a/../b", "\ufffd", "a\nb", "x" * 200,
]  # fmt: skip


def test_ids_of_any_shape_lead_to_their_own_run(reader: Reader) -> None:
    """No id is taken for another one, or for an address under one; each run names where it is read."""
    send(reader.project, [event(number, run_id) for number, run_id in enumerate(IDS)], fold=False)
    urls = {run["run_id"]: run["url"] for run in reader.get("runs", limit=200).json()["results"]}
    assert set(urls) == set(IDS)
    for number, run_id in enumerate(IDS):
        path = urls[run_id].removeprefix("/v1/")
        assert reader.get(path).json()["run_id"] == run_id
        (row,) = reader.get(f"{path}/events").json()["results"]
        assert (row["run_id"], row["event_id"]) == (run_id, f"e{number}")
        assert reader.get(f"{path}/activations").json()["results"] == []
        if run_id not in (".", ".."):  # what clients take out of a path whatever is done
            assert reader.get(f"runs/{quote(quote(run_id, safe=''), safe='')}").json()["run_id"] == run_id
        if "/" not in run_id and "%" not in run_id and run_id not in (".", ".."):
            assert reader.get(f"runs/{quote(run_id, safe='')}").json()["run_id"] == run_id


def test_ids_of_any_shape_lead_to_their_request(reader: Reader) -> None:
    """The id of an event stands in an address as that of a run does."""
    for event_id in ("e/1", "..", "50%", "😀"):
        data = {"n_messages": 1, "n_kept": 0, "new_messages": [{"role": "user", "text": event_id}]}
        send(reader.project, [event(1, "r/1", event_id=event_id, type="model.requested", data=data)], fold=False)
        quoted = "%252E%252E" if event_id == ".." else quote(quote(event_id, safe=""), safe="")
        body = reader.get(f"runs/r%252F1/requests/{quoted}").json()
        assert (body["event_id"], body["messages"][0]["text"]) == (event_id, event_id)


# ---- the report ----------------------------------------------------------------------------------------------------


def test_report_counts_by_trigger_and_stage(reader: Reader) -> None:
    """The sums of the report are those of the chains it is made from."""
    for name in ("hint_helped", "hint_ignored", "shadow"):
        send(reader.project, wire_of(name))
    send_run(reader.project, typical_run("r-42"))
    roll_up()
    body = reader.get("reports/effectiveness").json()
    assert (body["n_runs"], body["n_runs_behind"], body["n_unfolded"]) == (4, 0, 0)
    assert body["as_of"] is not None
    by_trigger = {line["trigger"]: line for line in body["triggers"]}
    listed = reader.get("runs").json()["results"]
    for total in ("n_activations", "n_skipped", "n_offered", "n_injected", "n_dropped"):
        assert sum(line[total] for line in by_trigger.values()) == sum(run[total] for run in listed), total
    failed = by_trigger["tool.failed"]
    assert failed["meaning"] == stages.TRIGGERS["tool.failed"]
    assert failed["n_retrieved"] >= failed["n_offered"] >= failed["n_selected"] >= failed["n_injected"] > 0
    assert failed["drop_reasons"]["shadow"] >= 1 and sum(failed["drop_reasons"].values()) == failed["n_dropped"]
    assert sum(failed["followed_by"].values()) == failed["n_activations"]
    assert sum(failed["skip_reasons"].values()) == failed["n_skipped"]


def test_report_of_a_time_and_of_nothing(reader: Reader) -> None:
    """Only runs first received in the time asked for count; a project without any has an empty report."""
    empty = reader.get("reports/effectiveness").json()
    assert (empty["n_runs"], empty["triggers"], empty["as_of"]) == (0, [], None)
    send(reader.project, wire_of("hint_helped"))
    age(reader.project, "hint_helped-1", date(2026, 1, 2))
    roll_up()
    assert reader.get("reports/effectiveness").json()["n_runs"] == 0
    some = reader.get("reports/effectiveness", since="2026-01-01T00:00:00Z", until="2026-01-03T00:00:00Z").json()
    assert some["n_runs"] == 1 and some["triggers"]
    assert (some["first_day"], some["last_day"]) == ("2026-01-01", "2026-01-02")
    part = reader.get("reports/effectiveness", since="2026-01-02T23:00:00Z", until="2026-01-02T23:00:00Z").json()
    assert (part["n_runs"], part["triggers"]) == (1, some["triggers"])
    early = reader.get("reports/effectiveness", since="2026-01-01T00:00:00Z", until="2026-01-02T00:00:00Z").json()
    assert early["n_runs"] == 0
    turned = reader.get("reports/effectiveness", since="2026-01-03T00:00:00Z", until="2026-01-01T00:00:00Z")
    assert (turned.status_code, turned.json()["field"]) == (400, "since")


def test_report_says_how_far_it_is_behind(reader: Reader) -> None:
    """Events that are not derived yet are told, not guessed."""
    send(reader.project, wire_of("hint_helped"), fold=False)
    body = reader.get("reports/effectiveness").json()
    assert (body["n_runs"], body["n_runs_behind"], body["triggers"]) == (1, 1, [])
    assert body["n_unfolded"] == Run.objects.get().last_arrival
    refresh_run(reader.project.pk, "hint_helped-1")
    folded = reader.get("reports/effectiveness").json()
    assert (folded["n_runs_behind"], folded["n_runs_waiting"], folded["triggers"]) == (0, 1, [])
    roll_up()
    rolled = reader.get("reports/effectiveness").json()
    assert (rolled["n_runs_waiting"], rolled["triggers"][0]["n_injected"]) == (0, 1)


def test_report_counts_forgotten_runs_too(reader: Reader) -> None:
    """What retention took away stands in the report as it did before."""
    Project.objects.update(retention_days=7)
    send(reader.project, wire_of("hint_helped"))
    age(reader.project, "hint_helped-1", days_ago(9))
    roll_up()
    before = reader.get("reports/effectiveness").json()
    assert apply_retention(TODAY).n_runs == 1
    after = reader.get("reports/effectiveness").json()
    assert (after["n_runs"], after["triggers"]) == (before["n_runs"], before["triggers"])
    assert after["n_runs"] == 1 and after["triggers"]


def test_report_is_of_the_own_project(reader: Reader) -> None:
    """Another project's chains are not in it, and a key needs the scope."""
    send(reader.project, wire_of("hint_helped"))
    stranger = Reader(Project.objects.create(slug="beta", name="Beta"))
    assert stranger.get("reports/effectiveness").json()["n_runs"] == 0
    assert Reader(reader.project, "ingest").get("reports/effectiveness").status_code == 403


def test_report_takes_as_many_queries_whatever_there_is(reader: Reader) -> None:
    """One run or several: the same statements."""
    counts = []
    for name in ("hint_helped", "hint_ignored"):
        send(reader.project, wire_of(name))
        roll_up()
        with CaptureQueriesContext(connection) as queries:
            reader.get("reports/effectiveness")
        counts.append(len(queries))
    assert counts[0] == counts[1] == 4


def test_old_runs_are_outside_of_the_default_time(reader: Reader) -> None:
    """Without a time asked for the report covers thirty days, and says which."""
    send(reader.project, wire_of("hint_helped"))
    age(reader.project, "hint_helped-1", days_ago(32))
    roll_up()
    body = reader.get("reports/effectiveness").json()
    assert (body["n_runs"], body["triggers"]) == (0, [])
    covered = datetime.fromisoformat(body["until"]) - datetime.fromisoformat(body["since"])
    assert covered == timedelta(days=30)


# ---- ids quoted once, as a server passes them on -----------------------------------------------------------------


@pytest.mark.parametrize("run_id", ["a/events", "a/b", "/", "é/🚀", "50%/x", "a?/b#"])
def test_an_id_quoted_once_is_understood_where_the_path_is_told_as_sent(reader: Reader, run_id: str) -> None:
    """Most clients quote once: with the raw path at hand a quoted slash parts nothing."""
    send(reader.project, [event(1, run_id), event(2, "a"), event(3, "b")], fold=False)
    path = f"/v1/runs/{quote(run_id, safe='')}/events"
    headers = {"HTTP_AUTHORIZATION": reader.headers["Authorization"]}
    client = Client(raise_request_exception=False)
    response = client.get(path, {"limit": 5}, RAW_URI=f"{path}?limit=5", **headers)
    assert [row["run_id"] for row in response.json()["results"]] == [run_id]
    lower = client.get(path, RAW_URI=path.replace("%2F", "%2f"), **headers)
    assert [row["event_id"] for row in lower.json()["results"]] == ["e1"]
    plain = client.get("/v1/runs/a/events", RAW_URI="/v1/runs/a/events", **headers)
    assert [row["event_id"] for row in plain.json()["results"]] == ["e2"]
