"""Decides which days of a project are over, and forgets them: totals first, then runs, journal, messages, the rest.

A run belongs to the day it was first seen and is forgotten with that day, whole. A day is older than `retention_days`
when that many whole days lie between it and today (UTC). Where every project of a day has let go of it, the day's
partition is dropped; else the rows of those that have are deleted from it in batches. Each step can be repeated, so
that a pass that was cut off, or found something busy, is completed by the next one. (Seed 001 §13.)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Protocol

from celery import current_app
from django.conf import settings
from django.db import models, transaction
from django.utils.module_loading import import_string

from ingest import partitions, rejects
from ingest.forgetting import ROWS_AT_ONCE, RUNS_AT_ONCE, claim_idle, delete_some, erase_runs, prune_marks, run_models
from ingest.models import UNCLAIMED, Message, Project, Run
from ingest.partitions import Partition
from ingest.times import start_of

FEWEST_DAYS: Final = 1  # yesterday stays: a writer that began before midnight may still be at it
MOST_DAYS: Final = 36_500


class AddToTotals(Protocol):
    def __call__(self, project_id: int, run_ids: list[str]) -> None: ...


@dataclass(slots=True)
class Forgotten:
    """What one pass did. `left` names in words what it had to leave for the next one."""

    n_runs: int = 0
    n_rows: int = 0
    n_messages: int = 0
    n_listed: int = 0
    partitions: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def first_kept_day(retention_days: int, today: date) -> date:
    """Return the oldest day that is not over yet."""
    return today - timedelta(days=min(max(retention_days, FEWEST_DAYS), MOST_DAYS))


def apply_retention(today: date | None = None, *, dry_run: bool = False) -> Forgotten:
    """Forget what is over; with `dry_run` only count the runs and name the partitions that would go.

    Raises nothing for what is busy or cannot be folded: that is left and named.
    """
    today = today or datetime.now(UTC).date()
    limited = Project.objects.filter(deleted_at=None).exclude(retention_days=None).order_by("pk")
    kept_from = {project.pk: first_kept_day(project.retention_days or 0, today) for project in limited}
    done = Forgotten()
    for project_id, first_kept in kept_from.items():
        _forget_runs(project_id, first_kept, done, dry_run)
        if not dry_run:
            _forget_messages(project_id, first_kept, done)
            _forget_strays(project_id, first_kept)
            done.n_listed += rejects.prune(project_id, start_of(first_kept))
    for partition in partitions.list_partitions():
        if partition.day < first_kept_day(FEWEST_DAYS, today):
            _forget_day(partition, kept_from, done, dry_run)
    if not dry_run:
        prune_marks(today)
    return done


def n_runs_over(project: Project, retention_days: int) -> int:
    """Return how many of the project's runs would be forgotten at the next pass if it kept that many days."""
    return _over(project.pk, first_kept_day(retention_days, datetime.now(UTC).date())).count()


def _over(project_id: int, first_kept: date) -> "models.QuerySet[Run]":
    """Return the project's runs of days that are over; the second condition is there for its index."""
    latest = start_of(first_kept + timedelta(days=1))
    return Run.objects.filter(project_id=project_id, run_day__lt=first_kept, first_received_at__lt=latest)


def _forget_runs(project_id: int, first_kept: date, done: Forgotten, dry_run: bool) -> None:
    """Add the runs to the totals and take them away, batch by batch; each batch is one transaction."""
    if dry_run:
        done.n_runs += _over(project_id, first_kept).count()
        return
    add_to_totals: AddToTotals = import_string(settings.INGEST_TOTALS)
    for run_ids in _batches(project_id, first_kept):
        _fold_first(project_id, run_ids)
        with transaction.atomic():
            claimed = claim_idle(project_id, run_ids, first_kept)
            if claimed:
                add_to_totals(project_id, claimed)
                erase_runs(project_id, claimed, "retention")
        done.n_runs += len(claimed)
        if len(claimed) < len(run_ids):
            n_left = len(run_ids) - len(claimed)
            done.left.append(f"{n_left} runs of project {project_id} are being written or are not folded yet")


def _batches(project_id: int, first_kept: date) -> Iterator[list[str]]:
    """Yield the ids of the runs that are over, oldest first, each once whether or not it goes."""
    over = _over(project_id, first_kept).order_by("first_received_at", "run_id")
    last: tuple[datetime, str] | None = None
    while True:
        rows = over
        if last is not None:
            after = models.Q(first_received_at=last[0], run_id__gt=last[1])
            rows = over.filter(models.Q(first_received_at__gt=last[0]) | after)
        page = list(rows.values_list("first_received_at", "run_id")[:RUNS_AT_ONCE])
        if not page:
            return
        last = page[-1]
        yield [run_id for _, run_id in page]


def _fold_first(project_id: int, run_ids: list[str]) -> None:
    """Derive what was not derived yet: counts of a run that goes unfolded would be lost."""
    behind = Run.objects.filter(project_id=project_id, run_id__in=run_ids, folded_arrival__lt=models.F("last_arrival"))
    lagging = list(behind.values_list("run_id", flat=True))
    if lagging:
        fold: Callable[[int, list[str]], Any] = current_app.tasks[settings.INGEST_FOLD_TASK]
        fold(project_id, lagging)


def _forget_messages(project_id: int, first_kept: date, done: Forgotten) -> None:
    """Delete the bodies that no run carries which is still there."""
    oldest = Run.objects.filter(project_id=project_id, run_day__lt=first_kept).aggregate(day=models.Min("run_day"))
    bound = min(first_kept, oldest["day"] or first_kept)
    rows = Message.objects.filter(project_id=project_id, last_run_day__lt=bound, last_run_day__gt=UNCLAIMED)
    while n_deleted := delete_some(rows):
        done.n_messages += n_deleted


def _forget_strays(project_id: int, first_kept: date) -> None:
    """Delete what was kept for a run that never reached the journal, such as an answer whose report was lost."""
    registered = Run.objects.filter(project_id=project_id, run_id=models.OuterRef("run_id"))
    for model in run_models():
        if any(field.name == "created_at" for field in model._meta.concrete_fields):
            rows = model._default_manager.filter(project_id=project_id, created_at__lt=start_of(first_kept))
            while delete_some(rows.exclude(models.Exists(registered))):
                pass


def _forget_day(partition: Partition, kept_from: Mapping[int, date], done: Forgotten, dry_run: bool) -> None:
    owners = partitions.projects_in(partition)
    over = [owner for owner in owners if _is_over(owner, partition.day, kept_from)]
    if dry_run:
        if len(over) == len(owners):
            done.partitions.append(partition.name)
        return
    free = [owner for owner in over if not _has_runs(owner, partition.day)]
    if len(free) == len(owners):
        if partitions.drop_partition(partition, lambda: _may_drop(partition, kept_from)):
            done.partitions.append(partition.name)
        else:
            done.left.append(f"{partition.name} is in use; it is dropped at the next pass")
        return
    for owner in free:
        while n_deleted := partitions.delete_rows(partition, owner, ROWS_AT_ONCE):
            done.n_rows += n_deleted


def _may_drop(partition: Partition, kept_from: Mapping[int, date]) -> bool:
    owners = partitions.projects_in(partition)
    return all(_is_over(owner, partition.day, kept_from) and not _has_runs(owner, partition.day) for owner in owners)


def _is_over(project_id: int, day: date, kept_from: Mapping[int, date]) -> bool:
    """Tell whether the project has let go of the day; a project that is no longer there has let go of everything."""
    if project_id in kept_from:
        return day < kept_from[project_id]
    return not Project.objects.filter(pk=project_id).exists()


def _has_runs(project_id: int, day: date) -> bool:
    """Tell whether a run of the day is still registered: one that was busy or could not be folded."""
    return _over(project_id, day + timedelta(days=1)).filter(run_day=day).exists()
