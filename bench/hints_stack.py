"""Owns the stack that a hints measurement runs against: the product's own, whose web server starts anew on demand.

PostgreSQL is durable, the web processes run with the product's options, the queue's worker folds what is reported.
"""

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django

from bench.ingest_stack import UNLIMITED, _pid
from bench.process_figures import PROC, TreeFigures, tree
from debugger.embedded.processes import stop_all
from debugger.embedded.sockets import listen_web
from debugger.embedded.stack import Stack

SLUGS = ("bench", "bench-2", "bench-3")
FOREIGN = ("DATABASE_URL", "CELERY_BROKER_URL", "TEMPORAL_ADDRESS", "VAR_DIR", "DEBUG", "HINTS_EMBEDDINGS")


class HintsStack:
    """A running stack with its projects; the first is the one that is asked."""

    def __init__(self, stack: Stack, listener: socket.socket, dsn: str, project_ids: Sequence[int], key: str) -> None:
        self.dsn = dsn
        self.project_ids = project_ids
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._stack = stack
        self._listener = listener
        self._serves = False

    def serve(self, *, embeddings: bool) -> str:
        """Start the web server (again), with meaning or by words alone; return the address of the hints."""
        if self._serves:
            stop_all([self._stack.child("web")])
        self._stack._environ["HINTS_EMBEDDINGS"] = str(int(embeddings))
        base_url = self._stack.start_web(self._listener)
        self._stack.await_web(base_url)
        self._serves = True
        return f"{base_url}/v1/observations/hints"

    def roots(self) -> dict[str, int]:
        """Return each part's process."""
        roots = {name: _pid(self._stack.child(name)) for name in ("web", "queue")}
        return roots | {child.name.lower(): _pid(child) for child in self._stack._services}

    def web_processes(self) -> list[TreeFigures]:
        """Return the figures of each process that answers, without their parent's."""
        root = self.roots()["web"]
        children = (PROC / str(root) / "task" / str(root) / "children").read_text().split()
        return [tree(int(child)) for child in children]


@contextmanager
def running_stack(folder: Path | None) -> Iterator[HintsStack]:
    """Run the stack with the queue's worker and clock. `folder` is kept, a made-up one removed."""
    os.umask(0o077)
    var_dir = folder or Path(tempfile.mkdtemp(prefix="temporality-hints-"))
    stack = Stack(
        var_dir,
        UNLIMITED | {name: value for name, value in os.environ.items() if name not in FOREIGN},
        tell=lambda line: None,
    )
    try:
        yield _started(stack)
    finally:
        from django.db import connections  # noqa: PLC0415 - Django is set up by then

        connections.close_all()
        stack.stop()
        if folder is None:
            shutil.rmtree(var_dir, ignore_errors=True)


def _started(stack: Stack) -> HintsStack:
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
    today = datetime.now(UTC).date()
    with transaction.atomic():
        ensure_partitions([today, today + timedelta(days=1)])
    projects = [Project.objects.get_or_create(slug=slug, defaults={"name": slug})[0] for slug in SLUGS]
    _, key = create_key(projects[0], "bench", ["observe"])
    for name in ("queue", "beat"):
        stack.start(name)
    return HintsStack(stack, listener, addresses.database_url, [project.pk for project in projects], key)
