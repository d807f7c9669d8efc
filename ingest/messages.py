"""The message store: each model message once per project, and rebuilding any request from it.

A request is reported as what it adds to the one before it, so the journal grows with the messages and not with
the square of the turns. `accept.py` is the only writer. (Seed 001 §16.3: what the next request holds.)
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection

from ingest.errors import IngestError
from ingest.models import Event, Message, Run
from ingest.wire import WireEvent

REQUEST_TYPE: Final = "model.requested"
BODY_KEYS: Final = ("role", "text", "origin", "calls", "call_id")
KEPT_KEYS: Final = ("role", "origin", "tokens", "call_id", "position")
LONGEST_CHAIN: Final = 100_000  # requests followed back before the chain is called broken


@dataclass(frozen=True, slots=True)
class RebuiltRequest:
    """A request as it was sent: its messages in order, and what is missing from it (event ids or hashes)."""

    messages: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]


def message_hash(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of a message's canonical JSON: keys sorted, no spaces, UTF-8."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def take_bodies(event: WireEvent) -> dict[str, dict[str, Any]]:
    """Take the message bodies out of a model.requested event, leaving their hashes; return hash -> body.

    Changes `event.data["new_messages"]` in place. Raises IngestError when a message is not an object with a text.
    """
    if event.ids["type"] != REQUEST_TYPE or not event.data.get("new_messages"):
        return {}
    bodies: dict[str, dict[str, Any]] = {}
    kept = []
    for index, message in enumerate(event.data["new_messages"]):
        if not isinstance(message, dict) or not isinstance(message.get("text"), str):
            raise IngestError("invalid_data", 400, f"data.new_messages[{index}] must be an object with a text")
        body = {key: message[key] for key in BODY_KEYS if message.get(key) is not None}
        digest = message_hash(body)
        bodies[digest] = body
        entry = {key: message[key] for key in KEPT_KEYS if message.get(key) is not None}
        kept.append({"hash": digest, **entry, **({"sent_hash": message["hash"]} if message.get("hash") else {})})
    event.data["new_messages"] = kept
    return bodies


def store(project_id: int, day: date, bodies: Mapping[str, dict[str, Any]]) -> None:
    """Write the bodies not there yet, inside the caller's transaction; `day` keeps a message as long as its run."""
    if not bodies:
        return
    hashes = sorted(bodies)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ingest_message (project_id, hash, body, last_run_day)
            SELECT %s, hash, body::jsonb, %s FROM unnest(%s::text[], %s::text[]) AS given(hash, body)
            ON CONFLICT (project_id, hash) DO UPDATE SET last_run_day = excluded.last_run_day
            WHERE ingest_message.last_run_day < excluded.last_run_day
            """,
            [project_id, day, hashes, [json.dumps(bodies[digest], ensure_ascii=False) for digest in hashes]],
        )


def load_messages(project_id: int, hashes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return hash -> body (role, text, origin, calls, call_id) of those of the project's messages that are kept."""
    rows = Message.objects.filter(project_id=project_id, hash__in=list(hashes)).values_list("hash", "body")
    return dict(rows)


def rebuild_request(project_id: int, run_id: str, event_id: str) -> RebuiltRequest:
    """Return the request of one model.requested event, message for message.

    Each message is its stored body with `hash`, `tokens`, and `is_new` (added by this very request). A lost
    earlier event leaves a gap, named in `missing`. Raises KeyError when the event is not there.
    """
    run_day = Run.objects.filter(project_id=project_id, run_id=run_id).values_list("run_day", flat=True).first()
    if run_day is None:
        raise KeyError(event_id)
    rows = Event.objects.filter(project_id=project_id, run_day=run_day, run_id=run_id, type=REQUEST_TYPE)
    requests: dict[str, dict[str, Any]] = dict(rows.values_list("event_id", "data"))
    if event_id not in requests:
        raise KeyError(event_id)
    entries, missing = _entries(requests, event_id)
    bodies = load_messages(project_id, {entry["hash"] for entry in entries})
    missing += [entry["hash"] for entry in entries if entry["hash"] not in bodies]
    messages = tuple({**entry, **bodies.get(entry["hash"], {"text": ""})} for entry in entries)
    return RebuiltRequest(messages, tuple(missing))


def _entries(requests: Mapping[str, dict[str, Any]], event_id: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Walk back from a request to the first one; return its message entries in order, and the lost requests."""
    pieces: list[list[dict[str, Any]]] = []
    missing: list[str] = []
    seen: set[str] = set()
    current: str | None = event_id
    wanted: int | None = None  # how many messages of `current` are kept by the request after it
    while current is not None and len(seen) < LONGEST_CHAIN:
        data = requests.get(current)
        if data is None or current in seen:
            missing.append(current)
            break
        seen.add(current)
        added = [entry for entry in data.get("new_messages") or [] if isinstance(entry, dict) and "hash" in entry]
        n_kept = int(data.get("n_kept") or 0)
        if wanted is not None:
            added = added[: max(0, wanted - n_kept)]
        pieces.append([{**entry, "is_new": current == event_id} for entry in added])
        wanted = n_kept if wanted is None else min(n_kept, wanted)
        current = data.get("follows") if wanted > 0 else None
    return [entry for piece in reversed(pieces) for entry in piece], missing
