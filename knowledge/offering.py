"""THE answering of activations: search, keep the answer for retries, report the query and each offer to the journal.

An activation is its run and its id, within a project, and its first answer is its only one: whoever asks again gets the
same bytes, and nothing is written twice. So it is also when the same id comes with another body. A refusal (409) was
the other choice: it would take hints from every retry that differs in something small (a sender that was updated in
between, a budget that went down), and it could not give another answer either, since the journal already tells what was
offered under this id. As with events, the first copy wins and the difference is counted and told (`how`).

The answers of a boundary are searched first and then kept and reported in one transaction: all of them or none. An
answer or telemetry that cannot be written withholds no hint that was found. (Seed 001 §7.2, §9.1, §12, §13.)
"""

import hashlib
import json
import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from django.db import IntegrityError, connection, transaction

from contract.redaction import redact
from ingest import metrics
from ingest.accept import accept_events, rules_of
from ingest.error_answers import is_database_away
from ingest.errors import RETRY_SECONDS, IngestError
from ingest.models import Project
from knowledge import shared_dedup
from knowledge.find_hints.findings import Findings, HintQuery
from knowledge.hint_answers import render_answer
from knowledge.hint_events import events_of
from knowledge.models import HintAnswer

logger = logging.getLogger(__name__)

TRIES: Final = 3  # of keeping answers while others answer the same activations
KEEP_LOCK_MS: Final = 3_000  # keeping waits this long, mostly for a racing retry that keeps and reports the same
REPORT_LOCK_MS: Final = 1_000  # telemetry waits this long for whoever holds the run; the asking run waits with it
NEW, KEPT, OTHER_REQUEST = "new", "kept", "kept-of-another-request"  # how an answer came about

Place = tuple[str, str]  # run id and activation id


class _RacedError(Exception):
    """Somebody else has kept an answer to one of the activations meanwhile."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer, and how it came about: NEW, KEPT or OTHER_REQUEST."""

    body: dict[str, Any]
    how: str


@dataclass(frozen=True, slots=True)
class _Fresh:
    """An answer that is not kept yet, and what is reported with it."""

    query: HintQuery
    findings: Findings
    body: dict[str, Any]
    took_ms: float


def answer_all(project: Project, queries: Sequence[HintQuery]) -> list[dict[str, Any]]:
    """Return the answers to the activations of one boundary in order, see `answer_each`."""
    return [answered.body for answered in answer_each(project, queries)]


def answer_each(project: Project, queries: Sequence[HintQuery]) -> list[Answered]:
    """Answer the activations of one boundary in order; none is offered what another one of them is offered.

    Raises IngestError 503 when the search fails: nothing was written then.
    """
    for _ in range(TRIES):
        kept = _kept(project, queries)
        fresh = _search(project, queries, kept)
        try:
            _write(project, list(fresh.values()))
        except _RacedError:
            continue
        break
    else:
        _failed("keeping", "others answered the same activations all the time")
    return [_answered(query, kept, fresh) for query in queries]


def _place(query: HintQuery) -> Place:
    return query.run_id, query.activation_id


def _kept(project: Project, queries: Sequence[HintQuery]) -> dict[Place, HintAnswer]:
    """Return the answers that were kept, of any of the activations."""
    runs, activations = {query.run_id for query in queries}, {query.activation_id for query in queries}
    rows = HintAnswer.objects.filter(project=project, run_id__in=runs, activation_id__in=activations)
    wanted = {_place(query) for query in queries}
    return {place: row for row in rows if (place := (row.run_id, row.activation_id)) in wanted}


def _search(project: Project, queries: Sequence[HintQuery], kept: Mapping[Place, HintAnswer]) -> dict[Place, _Fresh]:
    """Search for the activations without a kept answer; what was offered with the kept ones counts from the start."""
    offered = shared_dedup.Offered()
    for row in kept.values():
        offered = offered.with_hints(json.loads(row.answer)["hints"])
    fresh: dict[Place, _Fresh] = {}
    for query in queries:
        if _place(query) in kept:
            continue
        started = time.monotonic_ns()
        findings = _find(project, query, offered)
        body = render_answer(query, findings)
        fresh[_place(query)] = _Fresh(query, findings, body, (time.monotonic_ns() - started) / 1e6)
        offered = offered.with_hints(body["hints"])
    return fresh


def _find(project: Project, query: HintQuery, offered: shared_dedup.Offered) -> Findings:
    """Return what is found. A fault of a version is counted, and told as one that passes; its text is not logged."""
    try:
        return shared_dedup.search(project.pk, query, offered)
    except Exception as error:
        if is_database_away(error):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        _failed("search", f"{type(error).__name__} in {place.name}, {place.filename}:{place.lineno}")
        told = f"the search met a fault of ours; nothing was stored, ask again in {RETRY_SECONDS} s"
        raise IngestError("search_failed", 503, told, retry_after=RETRY_SECONDS) from None


def _write(project: Project, fresh: Sequence[_Fresh]) -> None:
    """Keep the answers and report them, in one transaction. Raises _RacedError when one of them is kept already."""
    if not fresh:
        return
    try:
        rows = [_row(project, one) for one in fresh if not _names_secret(project, one.query)]
        with transaction.atomic():
            _wait_at_most(KEEP_LOCK_MS)
            # A racing retry waits here until the first has committed; only the writer of the rows reports. In one
            # order everywhere, so that two batches never wait for each other.
            HintAnswer.objects.bulk_create(sorted(rows, key=lambda row: (row.run_id, row.activation_id)))
            _report(project, fresh)
    except IntegrityError:
        raise _RacedError from None
    except Exception as error:  # noqa: BLE001 - hints already found are given whatever becomes of their keeping
        _failed("keeping", type(error).__name__)


def _wait_at_most(milliseconds: int) -> None:
    """Wait for locks no longer than that in the rest of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = %s", [f"{milliseconds}ms"])


def _row(project: Project, fresh: _Fresh) -> HintAnswer:
    return HintAnswer(
        project=project,
        run_id=fresh.query.run_id,
        activation_id=fresh.query.activation_id,
        answer=json.dumps(fresh.body, ensure_ascii=False),
        asked=digest_of(fresh.query),
    )


def _names_secret(project: Project, query: HintQuery) -> bool:
    """Tell whether an id that an answer is kept under holds a secret: such an answer is given and not kept."""
    rules = rules_of(project.pk) if project.redaction_patterns else None
    return any(redact(one, rules)[1] for one in (query.run_id, query.activation_id))


def _report(project: Project, fresh: Sequence[_Fresh]) -> None:
    """Write hint.query and hint.offered through the common write path; a failure is counted, never raised."""
    try:
        events = [event for one in fresh for event in events_of(one.query, one.findings, one.body, one.took_ms)]
        # A savepoint of its own: what fails in here must not take the kept answers along.
        with transaction.atomic():
            _wait_at_most(REPORT_LOCK_MS)
            result = accept_events(project.pk, events, source="observation")
    except Exception as error:  # noqa: BLE001 - hints already found are given whatever becomes of their telemetry
        _failed("telemetry", type(error).__name__)
        return
    if result.rejected or result.conflicts:
        codes = [item.code for item in result.rejected] + ["conflict"] * result.conflicts
        _failed("telemetry", ", ".join(sorted(set(codes))))


def _answered(query: HintQuery, kept: Mapping[Place, HintAnswer], fresh: Mapping[Place, _Fresh]) -> Answered:
    row = kept.get(_place(query))
    if row is None:
        return Answered(fresh[_place(query)].body, NEW)
    is_same = bytes(row.asked) == digest_of(query)
    if not is_same:
        metrics.note_hint_failure("other_request")
    return Answered(json.loads(row.answer), KEPT if is_same else OTHER_REQUEST)


def digest_of(query: HintQuery) -> bytes:
    """Return the digest of what was asked. A field at its default counts as not sent, as from an older sender."""
    told = {
        field.name: value
        for field in fields(query)
        if (value := getattr(query, field.name)) and value != field.default and field.name != "offered_before"
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()


def _failed(what: str, why: str) -> None:
    """Count and log what went wrong; `why` holds words of ours only."""
    metrics.note_hint_failure(what)
    logger.error("hints: %s failed: %s", what, why)
