"""THE deletion of a run or of a project: one action, complete, also for what was derived and for shared messages.

A run goes in one transaction; message bodies that only it used follow in the sweep of `unused_messages.py`. Events of
it that come later are a new run of the day they come. A project is refused and hidden at once and then goes in bounded
batches, which can be cut off and taken up again; its own row goes last, under a lock that no writer passes, because
every accepted request leaves a row that refers to it. What the runtime of an agent keeps for itself (transcripts,
workflow histories) is not ours to delete. (Seed 001 §13.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from ingest import partitions, unused_messages
from ingest.forgetting import ROWS_AT_ONCE, RUNS_AT_ONCE, claim, delete_some, erase_runs, project_models, run_models
from ingest.models import ApiKey, Batch, Event, Membership, Project, Run

CLOCKS_APART: Final = timedelta(hours=1)  # between the clocks of the web processes and of the database


@dataclass(frozen=True, slots=True)
class DeletedRun:
    """How many journal rows went, and how many bodies the sweep has to look at."""

    n_events: int
    n_messages: int


def delete_run(project_id: int, run_id: str) -> DeletedRun | None:
    """Delete a run with everything derived from it; None when nothing of it is there. Sweep the messages after."""
    with transaction.atomic():
        known = claim(project_id, [run_id])
        n_messages = 0
        if known:
            run = Run.objects.get(project_id=project_id, run_id=run_id)
            n_messages = unused_messages.mark_unused(project_id, run_id, run.run_day)
            _unname_in_batches(run)
        n_rows = sum(
            model._default_manager.filter(project_id=project_id, run_id=run_id).count() for model in run_models()
        )
        n_events = _delete_events(project_id, run_id)
        take_away: Callable[[int, list[str]], None] = import_string(settings.INGEST_UNCOUNT)
        take_away(project_id, [run_id])
        erase_runs(project_id, [run_id], "deleted")
    return DeletedRun(n_events, n_messages) if known or n_rows or n_events else None


def _delete_events(project_id: int, run_id: str) -> int:
    """Delete the run's journal rows of every day: an earlier run of this id may have left some for a drop to come."""
    n_deleted = 0
    for partition in partitions.list_partitions():
        rows = Event.objects.filter(project_id=project_id, run_day=partition.day, run_id=run_id)
        n_deleted += rows.delete()[0]
    return n_deleted


def _unname_in_batches(run: Run) -> None:
    """Take the run's id, and its event's, out of the accounts of requests that name it as the first repaired."""
    around = (run.first_received_at - CLOCKS_APART, run.last_received_at + CLOCKS_APART)
    named = Batch.objects.filter(project_id=run.project_id, received_at__range=around).extra(
        where=["jsonb_path_exists(repairs, '$.*.run_id ? (@ == $run)', jsonb_build_object('run', %s::text))"],
        params=[run.run_id],
    )
    for batch in named:
        batch.repairs = {
            word: {**about, "run_id": None, "event_id": None} if about.get("run_id") == run.run_id else about
            for word, about in batch.repairs.items()
        }
        batch.save(update_fields=["repairs"])


def begin_deletion(project: Project) -> None:
    """Refuse and hide the project from now on: its keys end, its pages are gone. Cannot be taken back."""
    now = timezone.now()
    with transaction.atomic():
        Project.objects.filter(pk=project.pk, deleted_at=None).update(deleted_at=now, hints_paused=True)
        ApiKey.objects.filter(project=project, revoked_at=None).update(revoked_at=now)
        Membership.objects.filter(project=project).delete()


def projects_to_delete() -> list[int]:
    """Return the projects whose deletion has begun."""
    return list(Project.objects.exclude(deleted_at=None).order_by("pk").values_list("pk", flat=True))


def finish_deletion(project_id: int) -> None:
    """Delete everything of a project whose deletion has begun, and at last the project. Outside of any transaction.

    Does nothing for a project that is gone or was not marked.
    """
    if not Project.objects.filter(pk=project_id).exclude(deleted_at=None).exists():
        return
    _delete_rows(project_id)
    with transaction.atomic():
        # Whoever wrote before this lock is seen below; whoever writes after it fails on the missing project.
        if Project.objects.select_for_update().filter(pk=project_id).first() is None:
            return  # somebody else has finished
        _delete_rows(project_id)
        Project.objects.filter(pk=project_id).delete()


def _delete_rows(project_id: int) -> None:
    while run_ids := list(Run.objects.filter(project_id=project_id).values_list("run_id", flat=True)[:RUNS_AT_ONCE]):
        with transaction.atomic():
            claim(project_id, run_ids)
            erase_runs(project_id, run_ids, "deleted")
    for partition in partitions.list_partitions():
        while partitions.delete_rows(partition, project_id, ROWS_AT_ONCE):
            pass
    models = project_models()
    for model in sorted(models, key=lambda model: model is ApiKey):  # keys last: rows refer to them
        while delete_some(model._default_manager.filter(project_id=project_id)):
            pass


def delete_project(project: Project) -> None:
    """Delete a project from beginning to end."""
    begin_deletion(project)
    finish_deletion(project.pk)
