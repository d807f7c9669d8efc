"""THE write path of telemetry: checked events in, one transaction, the fold queued once it is committed.

Returning means committed in PostgreSQL; nothing waits in memory. Knowledge reports its own events through here
too. (Seed 001 §7.3, §12, §13.)
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import transaction

from ingest import journal, messages
from ingest.errors import IngestError
from ingest.models import Reject
from ingest.wire import WireEvent, WireLimits, decode, inflate, parse_event

logger = logging.getLogger(__name__)

queue_failures = 0  # folds that could not be queued since the process started; the sweep finds their runs


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the event at `index` of a request was not stored."""

    index: int
    event_id: str | None
    run_id: str | None
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """Counts of one request. `duplicates` were known already; `conflicts` are those of them that differ."""

    accepted: int
    duplicates: int
    conflicts: int
    rejected: tuple[Rejection, ...]


def limits() -> WireLimits:
    return WireLimits(
        max_body_bytes=settings.INGEST_MAX_BODY_BYTES,
        max_events=settings.INGEST_MAX_EVENTS,
        max_event_bytes=settings.INGEST_MAX_EVENT_BYTES,
        max_nesting=settings.INGEST_MAX_NESTING,
        max_key_bytes=settings.INGEST_MAX_KEY_BYTES,
    )


def accept_body(project_id: int, body: bytes, content_encoding: str, *, api_key_id: int | None = None) -> AcceptResult:
    """Accept a request body `{"events": […]}`. Raises IngestError when nothing of it can be decoded."""
    bounds = limits()
    return accept_events(
        project_id, decode(inflate(body, content_encoding, bounds.max_body_bytes), bounds), api_key_id=api_key_id
    )


def accept_events(project_id: int, events: Sequence[object], *, api_key_id: int | None = None) -> AcceptResult:
    """Store the events that are in order, list the others; the first copy of an event wins, everywhere.

    Raises django.db.OperationalError when the database does not answer: nothing was stored then.
    """
    parsed, bodies, rejected = _parse_all(events)
    unique, repeated, differing = _first_copies(parsed)
    run_ids = {event.run_id for event in unique}
    appended = journal.Appended(0, 0, ())
    with transaction.atomic():
        if unique:
            days = journal.lock_runs(project_id, sorted(run_ids), datetime.now(UTC).date())
            journal.ensure_partitions(list(days.values()))
            messages.store(project_id, max(days.values()), bodies)
            appended = journal.append(project_id, days, unique)
        conflicts = (*appended.conflicts, *differing)
        _list_rejects(project_id, api_key_id, rejected, conflicts)
        transaction.on_commit(partial(_queue_folds, project_id, sorted(run_ids)))
    return AcceptResult(appended.n_new, appended.n_known + repeated, len(conflicts), tuple(rejected))


def _parse_all(events: Sequence[object]) -> tuple[list[WireEvent], dict[str, dict[str, Any]], list[Rejection]]:
    bounds = limits()
    parsed: list[WireEvent] = []
    bodies: dict[str, dict[str, Any]] = {}
    rejected: list[Rejection] = []
    for index, raw in enumerate(events):
        try:
            event = parse_event(raw, bounds)
            bodies.update(messages.take_bodies(event))
        except IngestError as error:
            rejected.append(Rejection(index, _said(raw, "event_id"), _said(raw, "run_id"), error.code, error.detail))
        else:
            parsed.append(event)
    return parsed, bodies, rejected


def _said(raw: object, name: str) -> str | None:
    """Return an id of a rejected event when it is short plain text, so that its sender can find it."""
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, str) and len(value) <= 200 and value.isprintable() else None


def _first_copies(events: Sequence[WireEvent]) -> tuple[list[WireEvent], int, list[tuple[str, str]]]:
    """Return the first copy of each event, how many copies followed, and the ids of copies that differ."""
    first: dict[tuple[str, str], WireEvent] = {}
    differing = []
    for event in events:
        kept = first.setdefault((event.run_id, event.event_id), event)
        if kept.digest != event.digest:
            differing.append((event.run_id, event.event_id))
    return list(first.values()), len(events) - len(first), differing


def _list_rejects(
    project_id: int, api_key_id: int | None, rejected: Sequence[Rejection], conflicts: Sequence[tuple[str, str]]
) -> None:
    rows = [
        Reject(
            project_id=project_id,
            api_key_id=api_key_id,
            code=item.code,
            detail=item.detail[:500],
            run_id=item.run_id,
            event_id=item.event_id,
        )
        for item in rejected
    ]
    differs = "another copy of this event with other content came first and was kept"
    rows += [
        Reject(
            project_id=project_id,
            api_key_id=api_key_id,
            code="conflict",
            detail=differs,
            run_id=run_id,
            event_id=event_id,
        )
        for run_id, event_id in conflicts
    ]
    if rows:
        Reject.objects.bulk_create(rows)


def _queue_folds(project_id: int, run_ids: Sequence[str]) -> None:
    """Queue the fold of each run; a broker that does not answer costs delay only, so it is logged and counted."""
    global queue_failures
    for run_id in run_ids:
        try:
            current_app.send_task(settings.INGEST_FOLD_TASK, args=(project_id, run_id), retry=False)
        except Exception as error:  # noqa: BLE001 - a best-effort edge: the sweep stands behind it
            queue_failures += 1
            logger.warning("the fold could not be queued (%s); the sweep will find the run", type(error).__name__)
            return
