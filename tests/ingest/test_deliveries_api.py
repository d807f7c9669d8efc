"""`GET /v1/rejects` and `/v1/batches`: who sees what, filters, pages, and the bound of the list."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import Q

from ingest import rejects
from ingest.models import Batch, Event, Project, Reject
from tests.ingest.test_events_api import Sender, event

pytestmark = pytest.mark.django_db


@pytest.fixture
def sender() -> Sender:
    return Sender(Project.objects.create(slug="alpha", name="Alpha"), "ingest", "read")


def ids(body: dict[str, Any]) -> list[str]:
    return [row["event_id"] for row in body["results"]]


def test_rejects_by_scope_and_cursor(sender: Sender) -> None:
    """A key that only sends sees its own rejects, a reading key the project's, page by page, newest first."""
    only = Sender(sender.project, "ingest")
    stranger = Sender(Project.objects.create(slug="beta", name="Beta"), "ingest", "read")
    for who, number in ((sender, 1), (only, 2), (sender, 3), (stranger, 4)):
        who.post({"events": [event(number, seq=-1)]})
    own = only.get("/v1/rejects").json()
    assert (ids(own), sum(own["counts"].values())) == (["r-1:2"], 1)
    first = sender.get("/v1/rejects?limit=2").json()
    rest = sender.get(f"/v1/rejects?limit=2&cursor={first['next']}").json()
    assert ids(first) + ids(rest) == ["r-1:3", "r-1:2", "r-1:1"]
    assert rest["next"] is None
    assert first["results"][1]["key"] == only.key.prefix
    assert Sender(sender.project, "observe").get("/v1/rejects").status_code == 403


def test_pages_part_the_rejects_of_one_request(sender: Sender) -> None:
    """They came at one moment, so the cursor goes on by number: none is left out and none comes twice."""
    sender.post({"events": [event(number, seq=-1) for number in range(1, 6)]})
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = sender.get(f"/v1/rejects?limit=2&cursor={cursor}").json()
        found += ids(page)
        cursor = page["next"]
    assert found == ["r-1:5", "r-1:4", "r-1:3", "r-1:2", "r-1:1"]


def test_rejects_by_code_run_and_time(sender: Sender) -> None:
    """Each filter narrows the rows and the counts alike; what is newer than now is empty."""
    sender.post({"events": [event(1, seq=-1), event(2, occurred_at="x"), event(3, run_id="r-2", seq=-1), event(4)]})
    sender.post({"events": [event(4, data={"other": 1})]})
    counts = sender.get("/v1/rejects").json()["counts"]
    assert (counts["conflict"], counts["invalid_time"], sum(counts.values())) == (1, 1, 4)
    by_time = sender.get("/v1/rejects?code=invalid_time").json()
    assert (ids(by_time), by_time["counts"]) == (["r-1:2"], {"invalid_time": 1})
    assert ids(sender.get("/v1/rejects?run_id=r-2").json()) == ["r-1:3"]
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert sender.get(f"/v1/rejects?since={later}").json() == {
        "results": [],
        "next": None,
        "counts": {},
        "not_listed": 0,
    }


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=x", "sort"),
        ("since=yesterday", "since"),
        ("limit=0", "limit"),
        ("limit=5000", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=MTp4", "cursor"),
        ("code=%00", "code"),
        ("run_id=a&run_id=b", "run_id"),
    ],
)
def test_what_cannot_be_asked_is_400_naming_it(sender: Sender, query: str, field: str) -> None:
    """A wrong parameter is named, and never ignored."""
    response = sender.get(f"/v1/rejects?{query}")
    assert (response.status_code, response.json()["field"]) == (400, field)


def test_rubbish_does_not_fill_the_disk(sender: Sender, settings: Any) -> None:
    """Beyond the bound of a key and hour rejects are counted and not listed; another key has its own room."""
    settings.INGEST_REJECTS_PER_HOUR = 5
    rubbish = {"events": [event(number, seq=-1) for number in range(4)]}
    for _ in range(3):
        assert len(sender.post(rubbish).json()["rejected"]) == 4
    body = sender.get("/v1/rejects").json()
    assert (len(body["results"]), body["not_listed"]) == (5, 7)
    Sender(sender.project, "ingest").post(rubbish)
    assert Reject.objects.count() == 9
    assert not Event.objects.exists()


def test_a_batch_tells_what_became_of_a_request(sender: Sender) -> None:
    """Counts, and the repairs in words with the first event that needed each."""
    sender.post({"events": [event(1, data={"v": "a\x00"}), event(2, data={"v": "b\x00"}), event(3, seq=-1)]})
    sender.post({"events": [event(1, data={"v": "other"}), event(2, data={"v": "b\x00"})]})
    second, first = sender.get("/v1/batches").json()["results"]
    assert [first[f"n_{name}"] for name in ("accepted", "duplicates", "conflicts", "rejected")] == [2, 0, 0, 1]
    assert [second[f"n_{name}"] for name in ("accepted", "duplicates", "conflicts", "rejected")] == [0, 2, 1, 0]
    assert first["repairs"] == {
        "nul": {
            "n": 2,
            "run_id": "r-1",
            "event_id": "r-1:1",
            "meaning": "a NUL character was replaced by U+FFFD",
        }
    }
    assert (first["source"], first["key"]) == ("events", sender.key.prefix)
    assert "b\\u0000" not in json.dumps(first)


def test_batches_by_scope_and_cursor(sender: Sender) -> None:
    """A key that only sends sees its own requests; pages join; another project's are never there."""
    only = Sender(sender.project, "ingest")
    stranger = Sender(Project.objects.create(slug="beta", name="Beta"), "ingest", "read")
    for who, number in ((sender, 1), (only, 2), (sender, 3), (stranger, 4)):
        who.post({"events": [event(number)]})
    assert len(only.get("/v1/batches").json()["results"]) == 1
    first = sender.get("/v1/batches?limit=2").json()
    rest = sender.get(f"/v1/batches?limit=2&cursor={first['next']}").json()
    keys = [row["key"] for row in first["results"] + rest["results"]]
    assert keys == [sender.key.prefix, only.key.prefix, sender.key.prefix]
    assert rest["next"] is None


def test_prune_forgets_by_age_and_project(sender: Sender) -> None:
    """What is older goes, of this project only."""
    other = Sender(Project.objects.create(slug="beta", name="Beta"), "ingest")
    for who in (sender, other):
        who.post({"events": [event(1, seq=-1)]})
    now = datetime.now(UTC)
    assert rejects.prune(sender.project.pk, now - timedelta(days=1)) == 0
    assert rejects.prune(sender.project.pk, now + timedelta(seconds=1)) == 2
    of_project = Q(project=sender.project)
    assert not Reject.objects.filter(of_project).exists() and not Batch.objects.filter(of_project).exists()
    assert Reject.objects.count() == Batch.objects.count() == 1
