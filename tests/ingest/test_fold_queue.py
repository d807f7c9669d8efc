"""Queueing the fold: it reaches a real broker, and a broker that is away costs the sender neither time nor events."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from celery import current_app
from kombu.connection import Connection

from debugger.embedded.processes import stop_all
from debugger.embedded.redis import await_redis, start_redis
from debugger.embedded.sockets import make_socket_dir, remove_socket_dir
from ingest import accept
from ingest import fold_queue as queue_module
from ingest.accept import accept_events
from ingest.fold_queue import FoldQueue
from ingest.models import Event, Project
from tests.ingest.test_accept import event

HANGS_SECONDS = 60  # far past the one second that a broker is waited for


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker of this module's own."""
    folder = tmp_path_factory.mktemp("broker")
    sockets = make_socket_dir(folder)
    server = start_redis(folder, sockets, folder / "redis.log")
    try:
        yield await_redis(server, sockets)
    finally:
        stop_all([server])
        remove_socket_dir(sockets, folder)


@pytest.fixture
def use_broker(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(url: str) -> None:
        monkeypatch.setattr(current_app.conf, "broker_url", url)
        monkeypatch.setattr(current_app.conf, "broker_write_url", url)

    return use


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that nobody listens on: bound, so that nobody else can take it meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def queued(broker: str) -> list[list[Any]]:
    """Take the arguments of the queued tasks out of the broker."""
    found = []
    with Connection(broker) as connection, connection.SimpleQueue("celery") as waiting, suppress(Empty):
        while message := waiting.get(block=False):
            message.ack()
            found.append(json.loads(message.body)[0])
    return found


@pytest.fixture
def own_queue(monkeypatch: pytest.MonkeyPatch) -> FoldQueue:
    """The write path's queue, new: what other tests did to the process's own one does not matter."""
    queue = FoldQueue()
    monkeypatch.setattr(accept, "fold_queue", queue)
    return queue


def test_runs_are_queued_as_one_task(broker: str, use_broker: Any) -> None:
    """The task carries the project and its runs; beyond the most at once the sweep is left its part."""
    use_broker(broker)
    queue = FoldQueue()
    queue.put(7, ["r-1", "r-2"])
    assert queued(broker) == [[7, ["r-1", "r-2"]]]
    queue.put(7, [f"r-{n}" for n in range(queue_module.MOST_AT_ONCE + 5)])
    ((_, run_ids),) = queued(broker)
    assert len(run_ids) == queue_module.MOST_AT_ONCE
    assert queue.failures == 0


@pytest.mark.parametrize("where", ["closed port", "silent port", "no socket"])
def test_broker_that_is_away_costs_no_time(
    where: str, use_broker: Any, closed_port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each way of being away is given up on, counted and logged; the next request tries nothing and logs nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = closed_port if where == "closed port" else silent.getsockname()[1]
        use_broker(f"redis+socket://{tmp_path}/none" if where == "no socket" else f"redis://127.0.0.1:{port}/0")
        queue = FoldQueue()
        started = time.monotonic()
        with caplog.at_level(logging.WARNING, "ingest.fold_queue"):
            queue.put(7, ["r-1", "r-2"])
            queue.put(7, ["r-3"])
    assert time.monotonic() - started < HANGS_SECONDS
    assert queue.failures == 3
    assert [record.name for record in caplog.records] == ["ingest.fold_queue"]
    assert "r-1" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_fold_is_queued_for_runs_with_new_events_only(broker: str, use_broker: Any, own_queue: FoldQueue) -> None:
    """Known events queue nothing, and an event is there before its task is."""
    use_broker(broker)
    project = Project.objects.create(slug="alpha", name="Alpha")
    accept_events(project.pk, [event(1), event(1, "r-2"), {"not": "an event"}])
    assert queued(broker) == [[project.pk, ["r-1", "r-2"]]]
    accept_events(project.pk, [event(1), event(2, "r-2")])
    assert queued(broker) == [[project.pk, ["r-2"]]]
    accept_events(project.pk, [event(1), event(1, data={"other": 1})])
    assert queued(broker) == []


@pytest.mark.django_db(transaction=True)
def test_events_are_kept_without_a_broker(use_broker: Any, closed_port: int, own_queue: FoldQueue) -> None:
    """What is acknowledged is stored, whether or not its fold could be queued."""
    use_broker(f"redis://127.0.0.1:{closed_port}/0")
    project = Project.objects.create(slug="alpha", name="Alpha")
    assert accept_events(project.pk, [event(1)]).accepted == 1
    assert Event.objects.count() == 1
    assert own_queue.failures == 1
