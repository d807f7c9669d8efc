"""The message store: each model message once per project, and rebuilding any request from it.

Only `accept.py` writes through here. (Seed 001 §16.3: what the next request holds.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from ingest.model_requests import MESSAGE_TYPES, REQUEST_TYPE, follow_requests
from ingest.models import Event, Message, Run

# Each hash is looked up in the primary key by itself, whatever the planner knows of the table.
KNOWN: Final = """
SELECT given.hash FROM unnest(%s::text[], %s::date[]) AS given(hash, day)
CROSS JOIN LATERAL (
    SELECT FROM ingest_message
    WHERE project_id = %s AND hash = given.hash AND last_run_day >= given.day
    LIMIT 1
) kept
"""
WRITE: Final = """
INSERT INTO ingest_message (project_id, hash, body, last_run_day)
SELECT %s, hash, body::json, day FROM unnest(%s::text[], %s::text[], %s::date[]) AS given(hash, body, day)
ON CONFLICT (project_id, hash) DO UPDATE SET last_run_day = excluded.last_run_day
WHERE ingest_message.last_run_day < excluded.last_run_day
"""
# Two statements that lock rows in their own order could block two writers for good; this takes all in one order before.
LOCK: Final = "SELECT FROM ingest_message WHERE project_id = %s AND hash = ANY(%s) ORDER BY hash FOR UPDATE"
KEEP_ON: Final = """
UPDATE ingest_message SET last_run_day = given.day
FROM unnest(%s::text[], %s::date[]) AS given(hash, day)
WHERE project_id = %s AND ingest_message.hash = given.hash AND last_run_day < given.day
"""


@dataclass(frozen=True, slots=True)
class RebuiltRequest:
    """A request as it was sent: its messages in order, and what is missing from it (event ids or hashes)."""

    messages: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]


def store(project_id: int, bodies: Mapping[str, tuple[date, str | None]]) -> None:
    """Write bodies, inside the caller's transaction: hash -> (day of the newest run that has it, JSON text or None).

    Known messages are left alone, so that writers who share a system prompt do not wait for each other; the rest
    is written in the order of hashes, so that no two writers can block each other for good. A message without a body
    is only named: if it is kept, it is kept for that day too.
    """
    if not bodies:
        return
    days = {name: bodies[name][0] for name in sorted(bodies)}
    known = _known(project_id, days)
    fresh = [name for name in days if name not in known]
    written = [name for name in fresh if bodies[name][1] is not None]
    named = [name for name in fresh if bodies[name][1] is None]
    with connection.cursor() as cursor:
        if named:
            cursor.execute(LOCK, [project_id, fresh])
        if written:
            texts = [bodies[name][1] for name in written]
            cursor.execute(WRITE, [project_id, written, texts, [days[name] for name in written]])
        if named:
            cursor.execute(KEEP_ON, [named, [days[name] for name in named], project_id])


def _known(project_id: int, days: Mapping[str, date]) -> set[str]:
    """Return those of the hashes that are kept for their day already."""
    with connection.cursor() as cursor:
        cursor.execute(KNOWN, [list(days), list(days.values()), project_id])
        return {row[0] for row in cursor.fetchall()}


def load_messages(project_id: int, hashes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return hash -> body (role, text, origin, calls, call_id) of those of the project's messages that are kept."""
    rows = Message.objects.filter(project_id=project_id, hash__in=list(hashes)).values_list("hash", "body")
    return dict(rows)


def rebuild_request(project_id: int, run_id: str, event_id: str) -> RebuiltRequest:
    """Return the request of one model event (see MESSAGE_TYPES), message for message.

    Each message is its stored body with `hash`, `tokens`, and `is_new` (added by this very request). A lost
    earlier event leaves a gap, named in `missing`. Raises KeyError when the run has no such event.
    """
    run_day = Run.objects.filter(project_id=project_id, run_id=run_id).values_list("run_day", flat=True).first()
    if run_day is None:
        raise KeyError(event_id)
    told = Q(type=REQUEST_TYPE) | Q(event_id=event_id, type__in=MESSAGE_TYPES)
    rows = Event.objects.filter(told, project_id=project_id, run_day=run_day, run_id=run_id)
    requests: dict[str, dict[str, Any]] = dict(rows.values_list("event_id", "data"))
    if event_id not in requests:
        raise KeyError(event_id)
    entries, missing = follow_requests(requests, event_id)
    bodies = load_messages(project_id, {entry["hash"] for entry in entries})
    lost = dict.fromkeys(entry["hash"] for entry in entries if entry["hash"] not in bodies)
    messages = tuple({**entry, **bodies.get(entry["hash"], {"text": ""})} for entry in entries)
    return RebuiltRequest(messages, (*missing, *lost))
