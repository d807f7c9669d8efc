"""THE write path of chains: claims a run, folds its events, replaces what was derived from them before.

The run registry is the queue: a run whose `folded_arrival` is behind its `last_arrival` waits to be folded. One
process at a time folds a run; another that comes meanwhile leaves, because the holder looks again after it has let
go. A fold reads its run from the beginning, so that it gives what it would give from scratch; a long run that goes on
is therefore folded when it has grown by a share or has waited, which keeps the work in proportion to its events.
(Seed 001 §13.)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

from django.db import connection, models, transaction
from django.utils import timezone

from contract.events import TERMINAL_TYPES
from ingest.journal import read_events, read_runs
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
RUNS_TOGETHER: Final = 50  # of one transaction
EVENTS_TOGETHER: Final = 10_000  # of short runs that are folded in one transaction

# Each lock is asked for once: a condition might be tried more often.
_CLAIM: Final = """
SELECT run_id, pg_try_advisory_xact_lock(hashtextextended(run_id, %s)) FROM unnest(%s::text[]) AS given(run_id)
"""
_MARK: Final = """
UPDATE ingest_run kept SET folded_arrival = due.arrival
FROM (
    SELECT run.run_id, given.arrival
    FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS given(run_id, arrival, place)
    JOIN ingest_run run ON run.project_id = %s AND run.run_id = given.run_id
    WHERE run.folded_arrival <= given.arrival ORDER BY given.place FOR NO KEY UPDATE OF run
) due
WHERE kept.project_id = %s AND kept.run_id = due.run_id RETURNING kept.run_id
"""

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
                if not _fold_once(project_id, _claim(project_id, [run_id]), force):
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


def refresh_together(project_id: int, run_ids: Sequence[str], *, force: bool = False) -> list[str]:
    """Fold short runs that lag, in one transaction; return those that were folded and have caught up.

    None of them is when one cannot be, and long ones are not: whoever asks refreshes the others one by one. With
    `force` runs that have caught up are folded as well.
    """
    try:
        with transaction.atomic():
            folded = _fold_once(project_id, _claim(project_id, run_ids), force, most=EVENTS_TOGETHER)
    except Exception:  # noqa: BLE001 - whichever it was fails again by itself, and is told of there
        return []
    behind = Run.objects.filter(project_id=project_id, run_id__in=folded, folded_arrival__lt=models.F("last_arrival"))
    lagging = set(behind.values_list("run_id", flat=True))
    return [run_id for run_id in folded if run_id not in lagging]


def _claim(project_id: int, run_ids: Sequence[str]) -> list[str]:
    """Take the locks of runs until the transaction ends, without waiting; return those that were free, sorted."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [project_id, sorted(set(run_ids))])
        return sorted(run_id for run_id, is_free in cursor.fetchall() if is_free)


def _fold_once(project_id: int, run_ids: Sequence[str], force: bool, most: int | None = None) -> list[str]:
    """Fold runs whose locks are held; return them. With `most` no more than so many events, and no long run.

    Rows that others write as well are locked in the order of the runs, here as in `ingest`.
    """
    runs = _due(project_id, run_ids, force, most)
    if not runs:
        return []
    said = verdicts_of(project_id, list(runs))
    if len(runs) > 1:
        events = read_runs(project_id, {run_id: run["run_day"] for run_id, run in runs.items()})
    else:
        events = {run_id: read_events(project_id, run_id) for run_id in runs}
    # Only these can have been counted before, and only these can count now.
    counting = [
        run_id
        for run_id, of_run in events.items()
        if run_id in said or any(projection.affects_knowledge(event.type) for event in of_run)
    ]
    before = projection.reported(project_id, counting) if counting else {}
    # Without events the day was forgotten: what was derived from them stays, and is all there is.
    arrivals = {
        run_id: max((event.arrival for event in of_run), default=runs[run_id]["last_arrival"])
        for run_id, of_run in events.items()
    }
    found = {run_id: fold_run(of_run, said.get(run_id, ())) for run_id, of_run in events.items() if of_run}
    if found:
        received = {run_id: runs[run_id]["first_received_at"] for run_id in found}
        _replace(project_id, found, arrivals, received)
        rolling.keep_contributions(project_id, [(name, runs[name]["run_day"], chain) for name, chain in found.items()])
    _mark_folded(project_id, arrivals)
    if counting:  # last, because it locks what other runs count as well
        projection.apply(project_id, before, projection.reported(project_id, counting))
    return list(runs)


def _due(project_id: int, run_ids: Sequence[str], force: bool, most: int | None) -> dict[str, dict[str, Any]]:
    """Return the registry's rows of those of the runs that are to be folded, sorted."""
    read = ("last_arrival", "folded_arrival", "first_received_at", "run_day")
    rows = Run.objects.filter(project_id=project_id, run_id__in=list(run_ids)).values("run_id", *read)
    due: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["run_id"]):
        n_events = row["last_arrival"]
        if most is not None:
            if n_events > min(most, SHORT_RUN):
                continue
            most -= n_events
        if force or row["folded_arrival"] < n_events:
            due[row["run_id"]] = row
    return due


def _mark_folded(project_id: int, arrivals: Mapping[str, int]) -> None:
    """Note how far runs are folded. Raises RunGone when one is no longer there."""
    with connection.cursor() as cursor:
        cursor.execute(_MARK, [list(arrivals), list(arrivals.values()), project_id, project_id])
        marked = {row[0] for row in cursor.fetchall()}
    for run_id in arrivals:
        if run_id not in marked:
            raise RunGone(run_id)


def _replace(
    project_id: int, chains: Mapping[str, RunChain], arrivals: Mapping[str, int], received: Mapping[str, datetime]
) -> None:
    """Put the rows of chains in the place of the runs' old ones, inside the caller's transaction.

    Of activations and candidates only those that changed are written: a long run has thousands that no longer do.
    """
    of_runs: dict[str, Any] = {"project_id": project_id, "run_id__in": list(chains)}
    summaries, activations, candidates = [], [], []
    for run_id, chain in chains.items():
        derived: dict[str, Any] = {"project_id": project_id, "run_id": run_id, "fold_version": FOLD_VERSION}
        day = day_of(received[run_id])
        listed: dict[str, Any] = {
            "facets": run_facets(project_id, day, chain),
            "task_grams": task_grams(project_id, day, chain.run.task),
            "first_received_at": received[run_id],
            "folded_arrival": arrivals[run_id],
            "folded_at": timezone.now(),
        }
        summaries.append(RunSummary(**derived, **_values(chain.run), **listed))
        activations += [{**derived, **_values(one)} for one in chain.activations]
        candidates += [{**derived, **_values(one)} for one in chain.candidates]
    RunSummary.objects.filter(**of_runs).delete()
    RunSummary.objects.bulk_create(summaries, batch_size=BATCH)
    _replace_changed(Activation.objects.filter(**of_runs), activations)
    _replace_changed(Candidate.objects.filter(**of_runs), candidates)


def _replace_changed(stored: "models.QuerySet[Any]", rows: list[dict[str, Any]]) -> None:
    """Put `rows` in the place of those stored; all of one activation are written when one of them changed."""
    names = tuple(rows[0]) if rows else ("run_id", "activation_id")
    before, after = _by_activation(stored.values(*names)), _by_activation(rows)
    stale: dict[str, list[str]] = {}
    for (run_id, activation_id), found in before.items():
        if after.get((run_id, activation_id)) != found:
            stale.setdefault(run_id, []).append(activation_id)
    for run_id, names_of_run in stale.items():
        for start in range(0, len(names_of_run), BATCH):
            stored.filter(run_id=run_id, activation_id__in=names_of_run[start : start + BATCH]).delete()
    written = [row for row in rows if before.get(_activation_of(row)) != after[_activation_of(row)]]
    stored.bulk_create((stored.model(**row) for row in written), batch_size=BATCH)


def _activation_of(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["run_id"], row["activation_id"]


def _by_activation(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(_activation_of(row), {})[row.get("knowledge_id", "")] = row
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


def batches(runs: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield (project_id, run_ids) of runs that may be folded together, in the order in which they come."""
    for project_id, of_project in groupby(runs, key=itemgetter(0)):
        run_ids = (run_id for _, run_id in of_project)
        while batch := list(islice(run_ids, RUNS_TOGETHER)):
            yield project_id, batch
