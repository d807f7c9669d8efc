"""Tells the workers that items of a project wait for their vectors; a sweep finds them as well."""

from typing import Final

from ingest.task_queue import TaskQueue
from knowledge import embeddings

TASK: Final = "knowledge.embed_items"

_tasks: Final = TaskQueue()


def put(project_id: int | None) -> None:
    """Queue the making of a project's vectors, or of all. Where it cannot be queued, they wait for the sweep."""
    if embeddings.enabled() and not _tasks.is_closed:
        _tasks.put(TASK, (project_id,))
