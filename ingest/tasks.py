"""Background work of ingest: partitions ahead of their day, days that are over, what deletions left to do."""

import logging
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.db import transaction

from ingest import deletion, journal, retention, unused_messages

logger = logging.getLogger(__name__)

deletion_failures = 0  # deletions that failed since the process started; each look tries them again


@shared_task(name="ingest.make_partitions")  # type: ignore[untyped-decorator]
def make_partitions() -> int:
    """Make the partitions of today and the next days; return how many were missing."""
    today = datetime.now(UTC).date()
    with transaction.atomic():
        return journal.ensure_partitions([today + timedelta(days=ahead) for ahead in range(journal.DAYS_AHEAD + 1)])


@shared_task(name="ingest.apply_retention")  # type: ignore[untyped-decorator]
def apply_retention() -> int:
    """Forget the days that are over; return how many runs went. What is left is named in the log."""
    done = retention.apply_retention()
    for left in done.left:
        logger.warning("retention left something for its next pass: %s", left)
    return done.n_runs


@shared_task(name="ingest.finish_deletions")  # type: ignore[untyped-decorator]
def finish_deletions() -> int:
    """Go on with deletions: projects that are marked, bodies that deleted runs left; return how many projects went."""
    global deletion_failures
    n_gone = 0
    for finish, project_ids in (
        (deletion.finish_deletion, deletion.projects_to_delete()),
        (unused_messages.sweep, unused_messages.projects_to_sweep()),
    ):
        for project_id in project_ids:
            try:
                finish(project_id)
                n_gone += finish is deletion.finish_deletion
            except Exception as error:  # noqa: BLE001 - one that cannot be finished must not keep the others waiting
                deletion_failures += 1
                logger.error("a deletion in project %s could not be finished: %s", project_id, type(error).__name__)
    return n_gone
