"""Background work of the pages: storing timelines of long runs once they are folded, and a benchmark asked for."""

import logging
from typing import Any, Final

from celery import shared_task

from debugger import benchmark, timeline_store
from ingest.task_queue import TaskQueue

logger = logging.getLogger(__name__)

TASK: Final = "debugger.store_timeline"
SWEEP_LIMIT: Final = 20  # timelines of one sweep; the next one goes on

_tasks: Final = TaskQueue()


def on_folded(*, project_id: int, run_id: str, **_: Any) -> None:
    """Mark a run that was folded, if it is one whose timeline is stored, and queue the making of it."""
    if timeline_store.want(project_id, run_id) and not _tasks.is_closed:
        _tasks.put(TASK, (project_id, run_id))


@shared_task(name=TASK)  # type: ignore[untyped-decorator]
def store_timeline(project_id: int, run_id: str) -> bool:
    """Store one run's timeline; return whether it was stored. A lost or failed task costs slower pages only."""
    try:
        return timeline_store.store(project_id, run_id)
    except Exception as error:  # noqa: BLE001 - pages do without, and other timelines must not wait
        timeline_store.give_up(project_id, run_id)
        logger.error("a timeline of project %s could not be stored: %s", project_id, type(error).__name__)
        return False


@shared_task(name="debugger.sweep_timelines")  # type: ignore[untyped-decorator]
def sweep_timelines() -> int:
    """Store timelines that wait, and those of an earlier version anew; return how many were stored."""
    return sum(store_timeline(project_id, run_id) for project_id, run_id in timeline_store.wanted(SWEEP_LIMIT))


@shared_task(name=benchmark.TASK, acks_late=False)  # type: ignore[untyped-decorator]
def run_benchmark() -> int:
    """Run the benchmark once; a worker that dies leaves no report, and nobody runs it again by itself."""
    return benchmark.run()


def queue_benchmark() -> bool:
    """Queue it; return whether the broker took it."""
    return not _tasks.put(benchmark.TASK, ())
