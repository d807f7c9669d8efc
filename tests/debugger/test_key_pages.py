"""The page of a key: what became of what it sent, its quota, and that it is its project's alone."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ingest.accept import accept_events
from ingest.authentication import create_key, revoke_key
from ingest.models import ApiKey, Batch, Project, Reject
from tests.factories import make_person, make_project

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class World:
    """Alice's project with a key, a signed-in client of hers, and one of Charlie, who is no member."""

    project: Project
    key: ApiKey
    alice: Client
    charlie: Client

    def page(self, key: ApiKey | None = None) -> str:
        return reverse("key-deliveries", args=["alpha", (key or self.key).pk])

    def html(self) -> str:
        response = self.alice.get(self.page())
        assert response.status_code == 200
        return response.content.decode()

    def send(self, *events: dict[str, object]) -> None:
        accept_events(self.project.pk, list(events), api_key_id=self.key.pk)


def event(number: int, **fields: object) -> dict[str, object]:
    base = {"event_id": f"r-1:{number}", "run_id": "r-1", "type": "turn.started", "occurred_at": "2026-11-30T03:00:00Z"}
    return {**base, **fields}


@pytest.fixture
def world() -> World:
    project, other = make_project("alpha"), make_project("gamma")
    key, _ = create_key(project, "the exporter", ["ingest"])
    clients = []
    for name, of in (("alice", project), ("charlie", other)):
        client = Client()
        client.force_login(make_person(name, of))
        clients.append(client)
    return World(project, key, *clients)


def test_a_key_that_sent_nothing_says_so(world: World) -> None:
    """The empty page explains what does not show up here."""
    html = world.html()
    assert "Nothing was stored with this key yet" in html
    assert "none yet" in html
    assert "<table" not in html


def test_page_tells_what_became_of_what_was_sent(world: World) -> None:
    """Counts by day, repairs in words with an example, rejects with reason and a link to their run."""
    world.send(event(1, data={"v": "a\x00"}), event(2), event(3, seq=-1), event(4, run_id="r-none", seq=-1))
    world.send(event(1, data={"v": "other"}), event(2))
    html = world.html()
    for text in (
        "a NUL character was replaced by U+FFFD",
        "another copy of this event with other content came first and was kept",
        "conflict 1",
        "0.4 events a minute",
        f"{timezone.now():%Y-%m-%d}",
    ):
        assert text in html, text
    run = reverse("run-detail", args=["alpha", "r-1"])
    assert f'href="{run}?event=r-1%3A1"' in html
    assert f'href="{run}"' in html
    assert "r-none" in html and reverse("run-detail", args=["alpha", "r-none"]) not in html


def test_another_keys_deliveries_are_not_shown(world: World) -> None:
    """The page is of one key."""
    other, _ = create_key(world.project, "another", ["ingest"])
    world.send(event(1, seq=-1))
    assert "Nothing was stored with this key yet" in world.alice.get(world.page(other)).content.decode()


def test_what_is_not_listed_is_told(world: World, settings: pytest.FixtureRequest) -> None:
    """Rejects beyond the bound are counted on the page."""
    settings.INGEST_REJECTS_PER_HOUR = 2
    world.send(*(event(number, seq=-1) for number in range(7)))
    assert "5 more were rejected and are not listed" in world.html()


def test_old_deliveries_leave_the_counts(world: World) -> None:
    """Only the last days are counted; when the key was last used stays."""
    world.send(event(1, seq=-1))
    old = timezone.now() - timedelta(days=40)
    Batch.objects.update(received_at=old)
    Reject.objects.update(received_at=old)
    html = world.html()
    assert f"{old:%Y-%m-%d}" in html
    assert "No event was rejected" in html and "Nothing in that time" in html


def test_quota_is_shown_set_and_taken_back(world: World, settings: pytest.FixtureRequest) -> None:
    """A number of its own, none at all, and the settings' again."""
    settings.INGEST_EVENTS_PER_MINUTE = 7_000
    assert "7,000 events a minute" in world.html()
    for raw, stored, shown in (("1200", 1_200, "1,200 events a minute"), ("0", 0, "none"), ("", None, "7,000 events")):
        response = world.alice.post(reverse("key-quota", args=["alpha", world.key.pk]), {"events_per_minute": raw})
        assert (response.status_code, response.headers["Location"]) == (302, world.page())
        assert ApiKey.objects.get(pk=world.key.pk).events_per_minute == stored
        assert shown in world.html()
    assert "7,000" in world.alice.get(reverse("keys", args=["alpha"])).content.decode()


@pytest.mark.parametrize("raw", ["-1", "many", "1.5", "99999999999999"])
def test_a_quota_that_is_none_is_refused(world: World, raw: str) -> None:
    """What was typed stays, with the reason; nothing changes."""
    response = world.alice.post(reverse("key-quota", args=["alpha", world.key.pk]), {"events_per_minute": raw})
    assert response.status_code == 400
    assert f'value="{raw}"' in response.content.decode() and 'role="alert"' in response.content.decode()
    assert ApiKey.objects.get(pk=world.key.pk).events_per_minute is None


def test_a_revoked_key_keeps_its_page(world: World) -> None:
    """What it sent can still be looked at; a quota makes no sense any more."""
    world.send(event(1, seq=-1))
    revoke_key(world.key)
    html = world.html()
    assert "revoked" in html and "seq" in html
    assert reverse("key-quota", args=["alpha", world.key.pk]) not in html


def test_strangers_and_wrong_ids_get_404_and_change_nothing(world: World) -> None:
    """A key of another project, one that is not there and one seen by a stranger look the same."""
    foreign, _ = create_key(make_project("gamma"), "theirs", ["ingest"])
    for client, pk in ((world.charlie, world.key.pk), (world.alice, foreign.pk), (world.alice, 10**30)):
        assert client.get(f"/alpha/keys/{pk}/").status_code == 404
        assert client.post(f"/alpha/keys/{pk}/quota/", {"events_per_minute": "1"}).status_code == 404
    assert not ApiKey.objects.exclude(events_per_minute=None).exists()
    assert Client().get(world.page()).status_code == 302
    assert world.alice.get(reverse("key-quota", args=["alpha", world.key.pk])).status_code == 405


def test_page_reads_only_and_in_as_many_queries_whatever_was_sent(world: World) -> None:
    """One request or many: the same queries, all of them reading."""
    counts = []
    for first in (0, 10):
        for number in range(first, first + 5):
            world.send(event(number, data={"v": "\x00"}), event(number + 100, seq=-1, run_id=f"r-{number}"))
        with CaptureQueriesContext(connection) as queries:
            world.html()
        counts.append(len(queries))
        assert [one["sql"] for one in queries if not one["sql"].lstrip().upper().startswith("SELECT")] == []
    assert counts[0] == counts[1] <= 17


def test_hostile_ids_are_text(world: World) -> None:
    """Ids of senders are shown escaped and linked whole."""
    hostile = "<img src=x>/../%2F\u202e"
    world.send(event(1, run_id=hostile, data={"v": "\x00"}), event(2, event_id="<b>", run_id=hostile, seq=-1))
    html = world.html()
    assert "<img" not in html and "<b>" not in html
    link = reverse("run-detail", args=["alpha", hostile])
    assert world.alice.get(link).status_code == 200
    assert link.replace("&", "&amp;") in html


def test_who_looks_on_changes_no_key(world: World) -> None:
    """A viewer of the project sees the pages; making, changing and revoking a key is refused with the reason."""
    viewer = make_person("vera", world.project)
    viewer.groups.add(Group.objects.create(name="alpha viewers"))
    client = Client()
    client.force_login(viewer)
    for address, offers in (
        (world.page(), ["Set</button>"]),
        ("/alpha/keys/", ["Make a key</button>", "Revoke</button>"]),
    ):
        assert not any(offer in client.get(address).content.decode() for offer in offers)
        assert all(offer in world.alice.get(address).content.decode() for offer in offers)
    for address, body in (
        ("/alpha/keys/", {"name": "mine", "scopes": ["read"]}),
        (reverse("key-quota", args=["alpha", world.key.pk]), {"events_per_minute": "1"}),
        (reverse("key-revoke", args=["alpha", world.key.pk]), {}),
    ):
        response = client.post(address, body)
        assert response.status_code == 403 and b"look on" in response.content
    key = ApiKey.objects.get()
    assert (key.pk, key.events_per_minute, key.revoked_at) == (world.key.pk, None, None)
