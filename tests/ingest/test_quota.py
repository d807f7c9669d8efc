"""The quota of a key: counted once for all processes, told with the time to wait, and never a reason to lose events."""

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from debugger.embedded.processes import stop_all
from debugger.embedded.redis import await_redis, start_redis
from debugger.embedded.sockets import make_socket_dir, remove_socket_dir
from ingest.errors import IngestError
from ingest.models import ApiKey, Batch, Event, Project, Reject, Run
from ingest.quota import WINDOW_US, Quota, redis_address, wait_or_take
from tests.ingest.test_events_api import Sender, event

SECOND = 1_000_000
key_ids = count(1_000)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Redis of this module's own."""
    folder = tmp_path_factory.mktemp("redis")
    sockets = make_socket_dir(folder)
    server = start_redis(folder, sockets, folder / "redis.log")
    try:
        yield redis_address(await_redis(server, sockets))
    finally:
        stop_all([server])
        remove_socket_dir(sockets, folder)


def make_key(per_minute: int | None) -> ApiKey:
    return ApiKey(pk=next(key_ids), events_per_minute=per_minute)


def wait_of(quota: Quota, key: ApiKey, n_events: int) -> int:
    """Return the seconds the key is told to wait, 0 when its events are taken."""
    try:
        quota.check(key, n_events)
    except IngestError as error:
        assert (error.code, error.status) == ("quota_exceeded", 429)
        return int(str(error.extra["retry_after"]))
    return 0


@given(
    st.integers(1, 100_000),
    st.lists(st.tuples(st.integers(0, 90 * SECOND), st.integers(1, 1_000)), max_size=60),
)
def test_no_more_than_the_quota_gets_through(per_minute: int, steps: list[tuple[int, int]]) -> None:
    """Over any time: one full bucket, what it was filled with meanwhile, and one request over it at the most."""
    now = full_at = 0.0
    taken = largest = 0
    for pause, n_events in steps:
        now += pause
        wait, full_at = wait_or_take(full_at, now, per_minute, n_events)
        assert wait >= 0
        if wait == 0:
            taken += n_events
            largest = max(largest, n_events)
    assert taken <= per_minute * (1 + now / WINDOW_US) + largest + 1e-6


@given(st.integers(1, 100_000), st.integers(1, 5_000), st.integers(1, 5_000))
def test_what_is_sent_again_after_the_wait_is_taken(per_minute: int, first: int, second: int) -> None:
    """However large a request is, it is taken at the time its sender was told; trying earlier moves nothing."""
    _, full_at = wait_or_take(0.0, 0.0, per_minute, first)
    _, full_at = wait_or_take(full_at, 0.0, per_minute, first)
    wait, after = wait_or_take(full_at, 1.0, per_minute, second)
    if wait:
        for early in (0.25, 0.5, 0.75):
            again, after = wait_or_take(after, 1.0 + wait * early, per_minute, second)
            assert again > 0
        assert wait_or_take(after, 1.0 + wait + 1, per_minute, second)[0] == 0


def test_a_quota_is_shared_by_processes(redis_url: str) -> None:
    """Two processes spend one bucket: what one took the other does not have."""
    one, two = Quota(redis_url), Quota(redis_url)
    key = make_key(6)
    assert [wait_of(one, key, 3), wait_of(two, key, 2), wait_of(one, key, 1)] == [0, 0, 0]
    assert 0 < wait_of(two, key, 1) <= 10  # the next of 6 a minute
    assert wait_of(one, make_key(6), 6) == 0


def test_writers_beside_each_other_cannot_spend_the_same_event(redis_url: str) -> None:
    """Of many requests at once exactly as many get through as there are events."""
    quota, key = Quota(redis_url), make_key(10)
    waits: list[int] = []
    threads = [threading.Thread(target=lambda: waits.append(wait_of(quota, key, 1))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert waits.count(0) == 10
    assert all(0 <= wait <= 6 for wait in waits)


def test_a_request_over_the_whole_quota_is_taken_and_paid_off(redis_url: str) -> None:
    """It is not told to come back for ever: the next one waits for what was overdrawn."""
    for quota in (Quota(redis_url), Quota("")):
        key = make_key(60)
        assert wait_of(quota, key, 180) == 0
        assert 100 < wait_of(quota, key, 1) <= 121


def test_the_script_and_the_fallback_count_alike(redis_url: str) -> None:
    """Whichever counts, the same requests are told the same."""
    shared, alone = Quota(redis_url), Quota("")
    one, two = make_key(3), make_key(3)
    for n_events in (1, 1, 4, 1, 5):
        assert abs(wait_of(shared, one, n_events) - wait_of(alone, two, n_events)) <= 2


def test_no_quota_and_quota_of_the_settings(settings: Any) -> None:
    """0 is no quota; a key without its own has that of the settings."""
    quota = Quota("")
    settings.INGEST_EVENTS_PER_MINUTE = 5
    assert wait_of(quota, make_key(0), 10**9) == wait_of(quota, make_key(0), 1) == 0
    plain = make_key(None)
    assert wait_of(quota, plain, 5) == 0
    assert 0 < wait_of(quota, plain, 1) <= 12
    settings.INGEST_EVENTS_PER_MINUTE = 0
    assert wait_of(quota, plain, 10**9) == 0


def test_a_changed_quota_holds_at_once() -> None:
    """Whoever raises the quota of a key that waits lets it through."""
    quota, key = Quota(""), make_key(1)
    assert wait_of(quota, key, 1_000) == 0
    assert wait_of(quota, key, 1) > 50_000
    key.events_per_minute = 1_000
    assert wait_of(quota, key, 1) == 0


def test_a_refused_key_is_refused_without_asking_redis(redis_url: str) -> None:
    """A key that does not wait costs nothing until its time has come."""
    quota, key = Quota(redis_url), make_key(1)
    wait_of(quota, key, 5)
    wait_of(quota, key, 1)
    with redis.Redis.from_url(redis_url) as client:
        before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        assert wait_of(quota, key, 1) > 0 and wait_of(quota, key, 0) > 0
        assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == before


@pytest.mark.parametrize("address", ["unix:///nowhere/redis.sock", "redis://127.0.0.1:1/0"])
def test_without_redis_each_process_counts_for_itself(address: str) -> None:
    """A broker that is away costs accuracy and no request; it is tried again only after a pause."""
    quota, key = Quota(address), make_key(10)
    assert [wait_of(quota, key, 9), wait_of(quota, key, 1)] == [0, 0]
    assert 0 < wait_of(quota, key, 1) <= 6
    assert quota.failures == 1


@pytest.mark.parametrize(
    ("broker", "address"),
    [
        ("redis+socket:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis+socket:///run/redis.sock?virtual_host=2", "unix:///run/redis.sock?db=2"),
        ("redis://:pw@host:6379/1", "redis://:pw@host:6379/1"),
        ("amqp://guest@host//", ""),
        ("memory://", ""),
    ],
)
def test_address_of_redis(broker: str, address: str) -> None:
    """The broker's address as the client reads it; another broker than Redis has none."""
    assert redis_address(broker) == address


def stored() -> list[int]:
    return [model.objects.count() for model in (Event, Run, Batch, Reject)]


@pytest.mark.django_db
def test_over_quota_is_429_with_the_time_to_wait() -> None:
    """The header, the number and the sentence agree, nothing is stored, and the next minute's quota is not spent."""
    sender = Sender(Project.objects.create(slug="alpha", name="Alpha"), "ingest")
    ApiKey.objects.filter(pk=sender.key.pk).update(events_per_minute=2)
    assert sender.post({"events": [event(1), event(2)]}).status_code == 200
    rows = stored()
    response = sender.post({"events": [event(2), event(3, seq=-1), event(4)]})
    body = response.json()
    assert (response.status_code, body["code"], body["limit"]) == (429, "quota_exceeded", 2)
    assert response.headers["Retry-After"] == str(body["retry_after"])
    assert 20 < body["retry_after"] <= 30
    assert "2 events per minute" in body["detail"] and f"in {body['retry_after']} s" in body["detail"]
    assert stored() == rows
    ApiKey.objects.filter(pk=sender.key.pk).update(events_per_minute=None)
    again = sender.post({"events": [event(2), event(3)]}).json()
    assert (again["accepted"], again["duplicates"]) == (1, 1)


@pytest.mark.django_db
def test_one_key_over_quota_stops_no_other() -> None:
    """Each key has its own bucket, in one project as well."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    loud, quiet = Sender(project, "ingest"), Sender(project, "ingest")
    ApiKey.objects.filter(pk=loud.key.pk).update(events_per_minute=1)
    loud.post({"events": [event(1)]})
    assert loud.post({"events": [event(2)]}).status_code == 429
    assert quiet.post({"events": [event(3)]}).json()["accepted"] == 1
    assert Event.objects.count() == 2
