"""THE write path of chains: claims a run, folds its events, replaces what was derived from them before.

The run registry is the queue: a run whose `folded_arrival` is behind its `last_arrival` waits to be folded. One
process at a time folds a run; another that comes meanwhile leaves, because the holder looks again after it has let
go. A fold reads its run from the beginning, so that it gives what it would give from scratch; a long run that goes on
is therefore folded when it has grown by a share or has waited, which keeps the work in proportion to its events.
(Seed 001 §13.)
"""

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from django.db import connection, models, transaction
from django.utils import timezone

from contract.events import TERMINAL_TYPES
from ingest.journal import read_events
from ingest.models import Event, Run
from knowledge import projection, rolling
from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts
from knowledge.fold import FOLD_VERSION, fold_run
from knowledge.models import Activation, Candidate, RunSummary
from knowledge.run_days import day_of
from knowledge.run_facets import run_facets
from knowledge.task_grams import task_grams
from knowledge.verdicts import verdicts_of

MAX_ROUNDS: Final = 20  # folds of one run in a row; after that the sweep goes on with it
BATCH: Final = 500  # rows of one INSERT
SHORT_RUN: Final = 2_000  # events up to which a run is folded whenever something came
GROWTH: Final = 16  # a longer one is when it has grown by one in so many
EVENTS_A_SECOND: Final = 1_000  # or when it has waited for one second per so many events
LONGEST_WAIT: Final = 60.0  # seconds


_BEHIND: Final = """
SELECT run.run_day, run.folded_arrival, run.last_arrival, extract(epoch FROM clock_timestamp() - summary.folded_at)
FROM ingest_run run LEFT JOIN knowledge_runsummary summary USING (project_id, run_id)
WHERE run.project_id = %s AND run.run_id = %s AND run.folded_arrival < run.last_arrival
"""
_STALE: Final = """
SELECT summary.project_id, summary.run_id
FROM knowledge_runsummary summary JOIN ingest_run run USING (project_id, run_id)
WHERE (summary.fold_version < %s OR summary.fold_version > %s) AND EXISTS (
    SELECT FROM ingest_event event WHERE event.project_id = run.project_id AND event.run_day = run.run_day
    AND event.run_id = run.run_id
) ORDER BY 1, 2 LIMIT %s
"""


class RunGone(Exception):
    """The run was deleted while it was being folded; what was written is rolled back."""


def refresh_run(project_id: int, run_id: str, *, force: bool = False) -> bool:
    """Fold a run until its chain shows every event that is due; return whether anything was folded.

    False when there is nothing to fold (caught up, unknown, deleted, not due yet) and when another process holds the
    run. What is not due is left to the sweep.
    With `force` it is folded once even when caught up, which is how a new fold version takes effect.
    """
    folded = False
    for _ in range(MAX_ROUNDS):
        if not (force or _lags(project_id, run_id)):
            break
        try:
            with transaction.atomic():
                if not _claim(project_id, run_id) or not _fold_once(project_id, run_id, force):
                    break
        except RunGone:
            break
        folded, force = True, False
    return folded


def _lags(project_id: int, run_id: str) -> bool:
    """Say whether the run has events that are to be folded now; one that has just ended always is."""
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, [project_id, run_id])
        row = cursor.fetchone()
    if row is None:
        return False
    run_day, n_folded, n_known, waited = row
    if is_due(n_folded, n_known, LONGEST_WAIT if waited is None else float(waited)):
        return True
    new = Event.objects.filter(project_id=project_id, run_day=run_day, run_id=run_id, arrival__gt=n_folded)
    return new.filter(type__in=tuple(TERMINAL_TYPES)).exists()


def is_due(n_folded: int, n_known: int, waited_s: float) -> bool:
    """Say whether a run is to be folded whose last fold, `waited_s` seconds ago, saw `n_folded` of `n_known` events."""
    if n_folded <= SHORT_RUN or (n_known - n_folded) * GROWTH >= n_folded:
        return n_folded < n_known
    return n_folded < n_known and waited_s >= min(n_folded / EVENTS_A_SECOND, LONGEST_WAIT)


def _claim(project_id: int, run_id: str) -> bool:
    """Take the run's lock until the transaction ends, without waiting."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, %s))", [run_id, project_id])
        return bool(cursor.fetchone()[0])


def _fold_once(project_id: int, run_id: str, force: bool) -> bool:
    read = ("last_arrival", "folded_arrival", "first_received_at", "run_day")
    run = Run.objects.filter(project_id=project_id, run_id=run_id).values(*read).first()
    if run is None or not (force or run["folded_arrival"] < run["last_arrival"]):
        return False
    events, verdicts = read_events(project_id, run_id), verdicts_of(project_id, run_id)
    # Without events the day was forgotten: what was derived from them stays, and is all there is.
    arrival = max((event.arrival for event in events), default=run["last_arrival"])
    # Only these can have been counted before, and only these can count now.
    counts = bool(verdicts) or any(projection.affects_knowledge(event.type) for event in events)
    before = projection.reported(project_id, [run_id]) if counts else {}
    if events:
        chain = fold_run(events, verdicts)
        _replace(project_id, run_id, chain, arrival, run["first_received_at"])
        rolling.keep_contribution(project_id, run_id, run["run_day"], chain)
    marked = Run.objects.filter(project_id=project_id, run_id=run_id, folded_arrival__lte=arrival)
    if not marked.update(folded_arrival=arrival):
        raise RunGone(run_id)
    if counts:  # last, because it locks what other runs count as well
        projection.apply(project_id, before, projection.reported(project_id, [run_id]))
    return True


def _replace(project_id: int, run_id: str, chain: RunChain, arrival: int, first_received_at: datetime) -> None:
    """Put the rows of `chain` in the place of the run's old ones, inside the caller's transaction.

    Of activations and candidates only those that changed are written: a long run has thousands that no longer do.
    """
    key: dict[str, Any] = {"project_id": project_id, "run_id": run_id}
    derived: dict[str, Any] = {**key, "fold_version": FOLD_VERSION}
    RunSummary.objects.filter(**key).delete()
    listed: dict[str, Any] = {
        "facets": run_facets(project_id, day_of(first_received_at), chain),
        "task_grams": task_grams(project_id, day_of(first_received_at), chain.run.task),
        "first_received_at": first_received_at,
    }
    RunSummary.objects.create(
        **derived, **_values(chain.run), **listed, folded_arrival=arrival, folded_at=timezone.now()
    )
    _replace_changed(Activation.objects.filter(**key), [{**derived, **_values(one)} for one in chain.activations])
    _replace_changed(Candidate.objects.filter(**key), [{**derived, **_values(one)} for one in chain.candidates])


def _replace_changed(stored: "models.QuerySet[Any]", rows: list[dict[str, Any]]) -> None:
    """Put `rows` in the place of those stored; all of one activation are written when one of them changed."""
    names = tuple(rows[0]) if rows else ("activation_id",)
    before, after = _by_activation(stored.values(*names)), _by_activation(rows)
    stale = [name for name, found in before.items() if after.get(name) != found]
    for start in range(0, len(stale), BATCH):
        stored.filter(activation_id__in=stale[start : start + BATCH]).delete()
    written = [row for row in rows if before.get(row["activation_id"]) != after[row["activation_id"]]]
    stored.bulk_create((stored.model(**row) for row in written), batch_size=BATCH)


def _by_activation(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["activation_id"], {})[row.get("knowledge_id", "")] = row
    return found


def _values(facts: RunFacts | ActivationFacts | CandidateFacts) -> dict[str, Any]:
    values = {field.name: getattr(facts, field.name) for field in fields(facts)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def fold_again(project_id: int, run_id: str) -> None:
    """Queue a run as if its last event had just come: what it is folded with beside its events has changed."""
    caught_up = Run.objects.filter(project_id=project_id, run_id=run_id, folded_arrival__gte=models.F("last_arrival"))
    caught_up.filter(last_arrival__gt=0).update(folded_arrival=models.F("last_arrival") - 1)


def stale_runs(limit: int) -> list[tuple[int, str]]:
    """Return up to `limit` runs that another version of the fold derived, and that this one can still read.

    What is left of a forgotten day is not among them: its events are gone, and its chain stays as it is.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STALE, [FOLD_VERSION, FOLD_VERSION, limit])
        return list(cursor.fetchall())


def unfolded_runs(limit: int) -> list[tuple[int, str]]:
    """Return (project_id, run_id) of up to `limit` runs that wait to be folded, those that wait longest first."""
    waiting = Run.objects.filter(folded_arrival__lt=models.F("last_arrival")).order_by("last_received_at")
    return list(waiting.values_list("project_id", "run_id")[:limit])
