"""Measures how many events one process accepts a second, on an embedded durable PostgreSQL and a broker of its own.

`python -m tests.ingest.throughput [batches]` prints one line a case; batches hold 1,000 events.
"""

import gzip
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
from django.conf import settings

BATCH = 1_000


@contextmanager
def services(folder: Path) -> Iterator[None]:
    """Run PostgreSQL and the broker in `folder`, with Django set up on them and the tables made."""
    from debugger.embedded.postgres import await_postgres, start_postgres  # noqa: PLC0415 - after the environment
    from debugger.embedded.processes import stop_all  # noqa: PLC0415
    from debugger.embedded.redis import await_redis, start_redis  # noqa: PLC0415
    from debugger.embedded.sockets import make_socket_dir, remove_socket_dir  # noqa: PLC0415

    sockets = make_socket_dir(folder)
    running = [start_postgres(folder, sockets, folder / "postgres.log", durable=True)]
    try:
        os.environ["DATABASE_URL"] = await_postgres(running[0], sockets)
        running.append(start_redis(folder, sockets, folder / "redis.log"))
        os.environ["CELERY_BROKER_URL"] = await_redis(running[1], sockets)
        django.setup()
        from django.core.management import call_command  # noqa: PLC0415 - needs the apps

        call_command("migrate", verbosity=0)
        settings.ALLOWED_HOSTS = ["*"]
        logging.disable(logging.CRITICAL)
        yield
    finally:
        stop_all(running)
        remove_socket_dir(sockets, folder)


def event(run_id: str, number: int) -> dict[str, Any]:
    """One event as a kernel sends it: every second one a failed tool with its diagnostic."""
    detail = "fatal: not a git repository (or any of the parent directories): .git\nStopping at filesystem boundary"
    failed = {"error_class": "exit_nonzero", "effect": "uncertain", "detail": detail, "duration_ms": 41}
    return {
        "event_id": f"{run_id}:{number}",
        "run_id": run_id,
        "type": "tool.failed" if number % 2 else "turn.completed",
        "occurred_at": "2026-11-30T03:00:00.123456789Z",
        "seq": number,
        "turn": number // 10,
        "task_id": "task-1",
        "actor_id": "agent",
        "caused_by": f"{run_id}:{number - 1}",
        "call_id": f"call-{number}",
        "tool": "shell",
        "data": failed if number % 2 else {"n_calls": 2, "note": "x" * 100},
    }


def one_run(run_id: str, n_batches: int) -> list[list[dict[str, Any]]]:
    return [[event(run_id, start + n) for n in range(BATCH)] for start in range(0, n_batches * BATCH, BATCH)]


def many_runs(prefix: str, n_batches: int) -> list[list[dict[str, Any]]]:
    return [[event(f"{prefix}-{k}-{n}", n) for n in range(BATCH)] for k in range(n_batches)]


def measure(label: str, call: Callable[[Any], object], batches: list[Any]) -> None:
    call(batches[0])
    started = time.perf_counter()
    for batch in batches[1:]:
        call(batch)
    seconds = time.perf_counter() - started
    print(f"{label}: {BATCH * (len(batches) - 1) / seconds:,.0f} events/s", flush=True)


def main(n_batches: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")
    with tempfile.TemporaryDirectory() as folder, services(Path(folder)):
        from django.db import connections  # noqa: PLC0415 - needs the settings
        from django.test import Client  # noqa: PLC0415

        from ingest.accept import accept_events  # noqa: PLC0415
        from ingest.authentication import create_key  # noqa: PLC0415
        from ingest.models import Project  # noqa: PLC0415

        project = Project.objects.create(slug="throughput", name="Throughput")
        _, raw = create_key(project, "throughput", ["ingest"])
        client = Client(headers={"Authorization": f"Bearer {raw}"})

        def accept(batch: list[dict[str, Any]]) -> None:
            accept_events(project.pk, batch)

        def post(body: bytes) -> None:
            encoding = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
            answer = client.post("/v1/events", body, content_type="application/json", headers=encoding)
            assert answer.status_code == 200, answer.content

        def bodies(run_id: str) -> list[bytes]:
            return [json.dumps({"events": batch}).encode() for batch in one_run(run_id, n_batches)]

        measure("accept_events, one run", accept, one_run("a", n_batches))
        measure("accept_events, the same again", accept, one_run("a", n_batches))
        measure("accept_events, a run an event", accept, many_runs("b", n_batches))
        measure("endpoint, JSON", post, bodies("c"))
        measure("endpoint, gzip", post, [gzip.compress(body) for body in bodies("d")])
        connections.close_all()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
