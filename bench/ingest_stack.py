"""Owns the stack that an ingest measurement runs against: the product's own, in a folder thrown away afterwards.

PostgreSQL is durable, the web processes run with the product's options, the queue's worker and clock on demand.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import django
import psycopg

from debugger.embedded.processes import Child, wait_ready
from debugger.embedded.sockets import listen_web
from debugger.embedded.stack import Stack

UNLIMITED = {"INGEST_EVENTS_PER_MINUTE": str(10**9)}  # a measurement of speed is not one of the quota
START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class BenchStack:
    """A running stack with one project: where it answers, its database, the key's header, each part's process."""

    base_url: str
    dsn: str
    headers: Mapping[str, str]
    project_id: int
    roots: Mapping[str, int]

    def events_url(self) -> str:
        return f"{self.base_url}/v1/events"

    def traces_url(self) -> str:
        return f"{self.base_url}/v1/traces"

    def count(self) -> int:
        """Return how many events the journal of the project holds, as another connection sees it."""
        with psycopg.connect(self.dsn) as connection:
            found = connection.execute("SELECT coalesce(sum(last_arrival), 0) FROM ingest_run").fetchone()
            rows = connection.execute("SELECT count(*) FROM ingest_event").fetchone()
        if not found or not rows or found[0] != rows[0]:
            raise RuntimeError(f"the journal holds {rows} rows and its runs count {found}")
        return int(rows[0])


@contextmanager
def running_stack(*, workers: bool = False, folder: Path | None = None) -> Iterator[BenchStack]:
    """Run the stack; with `workers` also the queue's worker and clock. `folder` is kept, a made-up one removed."""
    os.umask(0o077)
    var_dir = folder or Path(tempfile.mkdtemp(prefix="temporality-bench-"))
    # Neither a running stack's services nor its settings are those that are measured.
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "CELERY_BROKER_URL")}
    kept = {name: value for name, value in kept.items() if name not in ("TEMPORAL_ADDRESS", "VAR_DIR", "DEBUG")}
    stack = Stack(var_dir, UNLIMITED | kept, tell=lambda line: None)
    try:
        yield _started(stack, workers=workers)
    except Exception as error:
        error.add_note(_last_lines(var_dir / "log" / "web.log"))
        raise
    finally:
        from django.db import connections  # noqa: PLC0415 - Django is set up by then

        connections.close_all()
        stack.stop()
        if folder is None:
            shutil.rmtree(var_dir, ignore_errors=True)


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-40:] if log.exists() else []
    return "\n".join([f"the end of {log.name}:", *lines])


def _started(stack: Stack, *, workers: bool) -> BenchStack:
    listener = listen_web("127.0.0.1", 0, exact=False)
    addresses = stack.start_services()
    os.environ |= {name: value for name, value in stack.environment().items() if name != "PATH"}
    django.setup()
    logging.disable(logging.WARNING)
    from django.core.management import call_command  # noqa: PLC0415 - needs the settings
    from django.db import transaction  # noqa: PLC0415

    from ingest.authentication import create_key  # noqa: PLC0415
    from ingest.journal import ensure_partitions  # noqa: PLC0415
    from ingest.models import Project  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    with transaction.atomic():
        ensure_partitions([datetime.now(UTC).date()])
    project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
    _, raw = create_key(project, "bench", ["ingest"])
    base_url = stack.start_web(listener)
    stack.await_web(base_url)
    names = ["web"]
    if workers:
        names += ["queue", "beat"]
        for name in names[1:]:
            stack.start(name)
    roots = {name: _pid(stack.child(name)) for name in names}
    roots |= {child.name.lower(): _pid(child) for child in stack._services}
    return BenchStack(base_url, addresses.database_url, {"Authorization": f"Bearer {raw}"}, project.pk, roots)


def _pid(child: Child) -> int:
    """Return the program's process id, which its keeper has a moment after the start."""
    wait_ready(child, lambda: "" if child.pid else "it has no process yet", START_SECONDS)
    return child.pid or 0
