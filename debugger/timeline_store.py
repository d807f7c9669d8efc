"""THE write path of stored timelines: marks which runs want one, makes it, and finds those left without.

A timeline is stored for a run that ended, was folded to its end and has many events; its pages then read it by
index. It is made beside the fold, under no lock, and written under the run's fold lock only when nothing changed
meanwhile.
"""

from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction

from debugger.access import GuardedRun
from debugger.models import StoredTimeline, TimelineRow
from debugger.queries.loading import Loaded, load
from debugger.queries.run_header import read_facts
from debugger.queries.stored_form import (
    VERSION,
    Head,
    ordinals_of,
    places_of,
    write_head,
    write_row,
    write_search,
)
from debugger.queries.strip import strip_of, window_starts
from ingest.models import Run
from knowledge.models import RunSummary

FAILED: Final = f"failed {VERSION}"  # tried and given up, until the run is folded again or the version is another
COPY_ROWS: Final = "COPY debugger_timelinerow (project_id, run_id, ordinal, activation_id, row, search) FROM STDIN"


def want(project_id: int, run_id: str) -> bool:
    """Mark that a run is to have a stored timeline; return whether it is one that has one."""
    long = RunSummary.objects.filter(
        project_id=project_id, run_id=run_id, folded_arrival__gte=settings.TIMELINE_STORED_FROM
    )
    if not long.exclude(status="running").exists():
        return False
    StoredTimeline.objects.update_or_create(project_id=project_id, run_id=run_id, defaults={"version": ""})
    return True


def wanted(limit: int) -> list[tuple[int, str]]:
    """Return (project_id, run_id) of up to `limit` runs whose timeline is still to be made, or made anew."""
    waiting = StoredTimeline.objects.exclude(version__in=(VERSION, FAILED)).order_by("project_id", "run_id")
    return list(waiting.values_list("project_id", "run_id")[:limit])


def store(project_id: int, run_id: str) -> bool:
    """Make the timeline of a run and store it; return whether it was stored.

    False when the run is gone, goes on, or changed meanwhile: its next fold marks it again.
    """
    run = _read_run(project_id, run_id)
    if run is None or run.summary is None or run.summary.status == "running":
        forget(project_id, run_id)
        return False
    loaded = load(run)
    with transaction.atomic():
        if not _claim(project_id, run_id) or _state(_read_run(project_id, run_id)) != _state(run):
            return False
        if loaded.cursor.arrival != run.registry.folded_arrival or loaded.timeline.is_running:
            return False
        _replace(loaded)
    return True


def give_up(project_id: int, run_id: str) -> None:
    """Mark that a timeline could not be made: its pages go on without."""
    StoredTimeline.objects.filter(project_id=project_id, run_id=run_id).update(version=FAILED)


def forget(project_id: int, run_id: str) -> None:
    """Delete what is stored of a run's timeline."""
    with transaction.atomic():
        for model in (TimelineRow, StoredTimeline):
            model._default_manager.filter(project_id=project_id, run_id=run_id).delete()


def _read_run(project_id: int, run_id: str) -> GuardedRun | None:
    registry = Run.objects.select_related("project").filter(project_id=project_id, run_id=run_id).first()
    summary = RunSummary.objects.filter(project_id=project_id, run_id=run_id).first()
    return GuardedRun(registry.project, registry, summary) if registry is not None else None


def _state(run: GuardedRun | None) -> tuple[Any, ...]:
    """Return what a stored timeline depends on: equal means the same timeline."""
    if run is None or run.summary is None:
        return ()
    return run.registry.last_arrival, run.registry.folded_arrival, run.summary.folded_at


def _claim(project_id: int, run_id: str) -> bool:
    """Take the lock that folding and deleting take, without waiting, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, %s))", [run_id, project_id])
        return bool(cursor.fetchone()[0])


def _replace(loaded: Loaded) -> None:
    """Put what is stored now in the place of what was, inside the caller's transaction."""
    run, timeline = loaded.run, loaded.timeline
    project_id, run_id = run.project.pk, run.registry.run_id
    forget(project_id, run_id)
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(COPY_ROWS) as copy:
        for ordinal, row in enumerate(timeline.rows):
            copy.write_row((project_id, run_id, ordinal, row.activation_id, write_row(row), write_search(row)))
    facts = read_facts(run, timeline, loaded.events, loaded.activations)
    StoredTimeline.objects.create(
        project_id=project_id,
        run_id=run_id,
        version=VERSION,
        arrival=loaded.cursor.arrival,
        folded_at=run.summary.folded_at if run.summary else None,
        n_rows=len(timeline.rows),
        head=write_head(Head(timeline, facts, strip_of(timeline.rows), window_starts(timeline.rows))),
        places=places_of(timeline.rows, loaded.events),
        **ordinals_of(timeline.rows),
    )
