"""THE write path of telemetry: checked events in, one transaction, the fold queued once it is committed.

Returning means committed in PostgreSQL; nothing waits in memory. Knowledge reports its own events through here
too. (Seed 001 §7.3, §12, §13.)
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import Any

import orjson
from django.conf import settings
from django.db import transaction

from contract.redaction_rules import ExtraRules, compile_rules
from ingest import journal, messages, metrics, rejects
from ingest.envelope import EventDraft, parse_event, shown_id
from ingest.errors import IngestError, refusal_of
from ingest.fold_queue import fold_queue
from ingest.models import Batch, Project
from ingest.times import to_nanoseconds
from ingest.wire import WireLimits


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


@dataclass(frozen=True, slots=True)
class _Sorted:
    """A batch compared with what is stored: the first copies that are new, and later copies that differ."""

    fresh: list[EventDraft]
    differing: list[EventDraft]


def limits() -> WireLimits:
    """Return the bounds of one request from the settings."""
    return WireLimits(
        max_body_bytes=settings.INGEST_MAX_BODY_BYTES,
        max_events=settings.INGEST_MAX_EVENTS,
        max_event_bytes=settings.INGEST_MAX_EVENT_BYTES,
        max_nesting=settings.INGEST_MAX_NESTING,
        max_key_bytes=settings.INGEST_MAX_KEY_BYTES,
    )


@dataclass(frozen=True, slots=True)
class Sender:
    """Whose events these are and by which door they came: "events", "otlp_traces", "otlp_logs" or "observation"."""

    project_id: int
    source: str
    api_key_id: int | None = None


def accept_events(
    project_id: int, events: Sequence[object], *, api_key_id: int | None = None, source: str = "events"
) -> AcceptResult:
    """Store the events that are in order, list the others. Raises as `accept_drafts` does."""
    received = datetime.now(UTC)
    drafts, rejected = _parse_all(events, to_nanoseconds(received), rules_of(project_id))
    return accept_drafts(Sender(project_id, source, api_key_id), drafts, rejected, received)


def accept_drafts(
    sender: Sender, drafts: Sequence[EventDraft], rejected: Sequence[Rejection], received: datetime
) -> AcceptResult:
    """Store the drafts of one request; the first copy of an event wins, everywhere.

    Its answer means committed; inside a caller's transaction, committed with that one. Raises
    django.db.OperationalError or InterfaceError when the database does not answer: all or nothing was stored then, and
    sending again is right in both cases.
    """
    if not drafts and not rejected:
        return AcceptResult(0, 0, 0, ())
    outcome = _Sorted([], [])
    with transaction.atomic():
        if drafts:
            outcome = _write(sender.project_id, drafts, received)
        result = AcceptResult(
            len(outcome.fresh), len(drafts) - len(outcome.fresh), len(outcome.differing), tuple(rejected)
        )
        _list_rejects(sender, rejected, outcome.differing, received)
        repairs = _repairs_of(outcome.fresh)
        _list_batch(sender, result, repairs, received)
        transaction.on_commit(
            partial(_after_commit, sender, result, repairs, {draft.run_id for draft in outcome.fresh})
        )
    return result


def _after_commit(
    sender: Sender, result: AcceptResult, repairs: Mapping[str, dict[str, Any]], run_ids: Collection[str]
) -> None:
    metrics.note(
        sender.source,
        n_accepted=result.accepted,
        n_duplicates=result.duplicates,
        n_conflicts=result.conflicts,
        rejected=Counter(item.code for item in result.rejected),
        repaired={word: about["n"] for word, about in repairs.items()},
    )
    if run_ids:
        fold_queue.put(sender.project_id, sorted(run_ids))


def _repairs_of(drafts: Sequence[EventDraft]) -> dict[str, dict[str, Any]]:
    """Return repair word -> how many of the stored events needed it, and which was the first."""
    found: dict[str, dict[str, Any]] = {}
    for draft in drafts:
        for word in draft.repairs:
            about = found.setdefault(word, {"n": 0, "run_id": draft.run_id, "event_id": draft.event_id})
            about["n"] += 1
    return found


def rules_of(project_id: int) -> ExtraRules | None:
    """Return the project's own patterns of secrets, compiled; None when it has none.

    Raises IngestError 503 when they cannot be used here: nothing is stored with what they would have taken out.
    """
    patterns = Project.objects.filter(pk=project_id).values_list("redaction_patterns", flat=True).first()
    if not patterns:
        return None
    try:
        return _compiled(orjson.dumps(patterns))
    except ValueError as error:
        raise IngestError("redaction_unavailable", 503, f"the project's {error}") from None


@lru_cache(maxsize=64)
def _compiled(patterns: bytes) -> ExtraRules:
    return compile_rules(orjson.loads(patterns))


def _parse_all(
    events: Sequence[object], received_ns: int, extra: ExtraRules | None
) -> tuple[list[EventDraft], list[Rejection]]:
    bounds = limits()
    drafts: list[EventDraft] = []
    rejected: list[Rejection] = []
    for index, value in enumerate(events):
        try:
            drafts.append(parse_event(value, index, received_ns, bounds, extra))
        except Exception as error:  # noqa: BLE001 - one event that meets a fault of ours costs no other
            refusal = refusal_of(error)
            event_id, run_id = shown_id(value, "event_id", extra), shown_id(value, "run_id", extra)
            rejected.append(Rejection(index, event_id, run_id, refusal.code, refusal.detail))
    return drafts, rejected


def _write(project_id: int, drafts: Sequence[EventDraft], received: datetime) -> _Sorted:
    """Write what is new under the locks of its runs and count it there."""
    places = journal.lock_runs(project_id, {draft.run_id for draft in drafts}, received.date())
    journal.ensure_partitions(place.run_day for place in places.values())
    stored = journal.stored_digests(project_id, places, ((draft.run_id, draft.event_id) for draft in drafts))
    outcome = _sort(drafts, stored)
    messages.store(project_id, _bodies(outcome.fresh, places))
    journal.append(project_id, places, outcome.fresh, received)
    added = Counter(draft.run_id for draft in outcome.fresh)
    journal.count_runs(project_id, added, Counter(draft.run_id for draft in outcome.differing))
    return outcome


def _sort(drafts: Sequence[EventDraft], stored: dict[tuple[str, str], bytes]) -> _Sorted:
    first = dict(stored)
    outcome = _Sorted([], [])
    for draft in drafts:
        identity = (draft.run_id, draft.event_id)
        if identity not in first:
            first[identity] = draft.digest
            outcome.fresh.append(draft)
        elif first[identity] != draft.digest:
            outcome.differing.append(draft)
    return outcome


def _bodies(drafts: Sequence[EventDraft], places: dict[str, journal.RunPlace]) -> dict[str, tuple[date, str | None]]:
    """Return the messages of the drafts, each with the day of the newest run that has it, and its body if one has."""
    bodies: dict[str, tuple[date, str | None]] = {}
    for draft in drafts:
        run_day = places[draft.run_id].run_day
        for message in draft.messages:
            day, body = bodies.get(message.hash, (run_day, None))
            bodies[message.hash] = (max(day, run_day), body or message.body)
    return bodies


def _list_batch(sender: Sender, result: AcceptResult, repairs: dict[str, dict[str, Any]], received: datetime) -> None:
    Batch.objects.create(
        project_id=sender.project_id,
        api_key_id=sender.api_key_id,
        received_at=received,
        source=sender.source,
        n_accepted=result.accepted,
        n_duplicates=result.duplicates,
        n_conflicts=result.conflicts,
        n_rejected=len(result.rejected),
        repairs=repairs,
    )


def _list_rejects(
    sender: Sender, rejected: Sequence[Rejection], differing: Sequence[EventDraft], received: datetime
) -> None:
    differs = "another copy of this event with other content came first and was kept"
    rows = [rejects.ListedReject(item.code, item.detail, item.run_id, item.event_id) for item in rejected]
    rows += [rejects.ListedReject("conflict", differs, draft.run_id, draft.event_id) for draft in differing]
    rejects.keep(sender.project_id, sender.api_key_id, rows, received)
