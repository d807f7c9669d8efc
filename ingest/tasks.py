"""Background work of ingest: partitions made ahead of the day they are needed."""

from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.db import transaction

from ingest import journal


@shared_task(name="ingest.make_partitions")  # type: ignore[untyped-decorator]
def make_partitions() -> int:
    """Make the partitions of today and the next days; return how many were missing."""
    today = datetime.now(UTC).date()
    with transaction.atomic():
        return journal.ensure_partitions([today + timedelta(days=ahead) for ahead in range(journal.DAYS_AHEAD + 1)])
