"""Owns what a benchmark runs against: the product's own stack, embedded and thrown away, or one that is running.

Either way runs ask and report over HTTP, with a key of the benchmark's two projects. Folds are made in this process.
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import django
import httpx

from bench.behaviour.arms import PLACEBO_PROJECT, PROJECT, Note, corpus, placebo_corpus
from bench.behaviour.task import Task
from debugger.embedded.sockets import listen_web
from debugger.embedded.stack import Stack

FOREIGN: Final = ("DATABASE_URL", "CELERY_BROKER_URL", "TEMPORAL_ADDRESS", "VAR_DIR", "DEBUG")
KEY_NAME: Final = "behaviour"
WARM_REQUESTS: Final = 8  # at the same time: each web process loads its model with the first
WARM_SECONDS: Final = 60.0


class BenchError(Exception):
    """The benchmark cannot be run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class World:
    """Where runs are made: the address, and of each project its key and primary key. `is_kept` says whether the runs
    can be looked at afterwards."""

    base_url: str
    keys: dict[str, str]
    project_pks: dict[str, int]
    is_kept: bool
    versions: dict[str, str]


@contextmanager
def embedded_world(tasks: Sequence[Task], *, any_moment: bool = False) -> Iterator[World]:
    """Start the stack without its workers, and stop and remove it in the end."""
    os.umask(0o077)
    var_dir = Path(tempfile.mkdtemp(prefix="temporality-behaviour-"))
    environ = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    stack = Stack(var_dir, environ, tell=lambda line: None, durable=False)
    try:
        listener = listen_web("127.0.0.1", 0, exact=False)
        stack.start_services()
        _set_up(stack.environment())
        from debugger.preparation import prepare_schema  # noqa: PLC0415 - needs the settings

        prepare_schema()
        base_url = stack.start_web(listener)
        stack.await_web(base_url)
        yield _furnished(base_url, tasks, any_moment, is_kept=False)
    finally:
        from django.db import connections  # noqa: PLC0415 - Django is set up by then

        connections.close_all()
        stack.stop()
        shutil.rmtree(var_dir, ignore_errors=True)


@contextmanager
def running_world(places: Path, tasks: Sequence[Task], *, any_moment: bool = False) -> Iterator[World]:
    """Use the stack whose `up.json` is given; the projects are made there and stay. Raises BenchError without one."""
    try:
        told: dict[str, Any] = json.loads(places.read_text())
        environ = {"DATABASE_URL": told["database_url"], "CELERY_BROKER_URL": told["broker_url"]}
        base_url = str(told["base_url"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{places} does not lead to a running stack ({error!r}): start it with `make up`") from None
    _set_up({"VAR_DIR": str(places.parent), "DJANGO_SETTINGS_MODULE": "debugger.settings", **environ})
    yield _furnished(base_url, tasks, any_moment, is_kept=True)


def _set_up(environ: dict[str, str]) -> None:
    os.environ |= {name: value for name, value in environ.items() if name != "PATH"}
    django.setup()
    logging.disable(logging.WARNING)


def _furnished(base_url: str, tasks: Sequence[Task], any_moment: bool, *, is_kept: bool) -> World:
    """Make the two projects with what is known in them, and wait until it can be found."""
    from django.conf import settings  # noqa: PLC0415 - needs the settings

    keys, pks = {}, {}
    for slug, title, notes in (
        (PROJECT, "Behaviour", corpus(tasks, any_moment=any_moment)),
        (PLACEBO_PROJECT, "Behaviour: placebo", placebo_corpus(tasks, any_moment=any_moment)),
    ):
        pks[slug], keys[slug] = _project(slug, title, notes)
    _warm(base_url, keys)
    versions = {"FindHints": settings.HINTS_ALGORITHM, "embeddings": "on" if settings.HINTS_EMBEDDINGS else "off"}
    return World(base_url, keys, pks, is_kept, versions)


def _project(slug: str, title: str, notes: Sequence[Note]) -> tuple[int, str]:
    from django.db import transaction  # noqa: PLC0415 - needs the settings

    from debugger.preparation import DEMO_SLUG  # noqa: PLC0415
    from ingest.authentication import create_key, revoke_key  # noqa: PLC0415
    from ingest.models import ApiKey, Membership, Project  # noqa: PLC0415
    from ingest.projects import create_project  # noqa: PLC0415
    from knowledge import embeddings, search_rows  # noqa: PLC0415
    from knowledge.drafts import ItemDraft  # noqa: PLC0415
    from knowledge.items import import_items  # noqa: PLC0415

    with transaction.atomic():
        project = Project.objects.filter(slug=slug).first() or create_project(slug, title)
        for user_id in Membership.objects.filter(project__slug=DEMO_SLUG).values_list("user_id", flat=True):
            Membership.objects.get_or_create(project=project, user_id=user_id)
        drafts = [
            ItemDraft(
                note.knowledge_id,
                note.rule,
                state="confirmed",
                entities=note.phrases,
                topics=note.topics,
                error_examples=note.errors,
                trigger=note.trigger,
            )
            for note in notes
        ]
        import_items(project, drafts, by="benchmark", reason="the tasks")
        for old in ApiKey.objects.filter(project=project, name=KEY_NAME, revoked_at=None):
            revoke_key(old)
        _, key = create_key(project, KEY_NAME, ["ingest", "observe"])
    while embeddings.enabled() and search_rows.n_pending(project.pk):
        search_rows.embed_items(project.pk)
    return project.pk, key


def _warm(base_url: str, keys: dict[str, str]) -> None:
    """Ask until every web process has loaded what a search needs; otherwise the first runs would measure that."""

    def ask(_: int) -> None:
        body = {"run": "warm", "trigger": "tool.failed", "query": "warm", "tool_result": "nothing fits"}
        headers = {"Authorization": f"Bearer {keys[PROJECT]}"}
        answer = httpx.post(f"{base_url}/v1/observations/hints", json=body, headers=headers, timeout=WARM_SECONDS)
        if answer.status_code != 200:
            raise BenchError(f"Observation answers {answer.status_code}: {answer.text[:300]}")

    with ThreadPoolExecutor(WARM_REQUESTS) as pool:
        for _ in range(2):
            list(pool.map(ask, range(WARM_REQUESTS)))
