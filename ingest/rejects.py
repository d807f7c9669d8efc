"""Owns the list of what was not stored: how much of it is kept, and what is forgotten.

A sender that sends nothing but rubbish must not fill the disk: of one key, INGEST_REJECTS_PER_HOUR rows of a clock
hour are listed. The batches go on counting, so that how many are not listed can be told. (Seed 001 §13.)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import connection
from django.db.models import F, Q, Sum

from ingest.models import Batch, Reject

DETAIL_LIMIT: Final = 500  # characters, as the column
PRUNE_STEP: Final = 10_000  # rows of one DELETE
PRUNED: Final = ("ingest_reject", "ingest_batch")


@dataclass(frozen=True, slots=True)
class ListedReject:
    """One row to be listed. It says which event and why, never what was in it."""

    code: str
    detail: str
    run_id: str | None
    event_id: str | None


def keep(project_id: int, api_key_id: int | None, rows: Iterable[ListedReject], received: datetime) -> int:
    """List what still has room in this hour of the key, inside the caller's transaction; return how many it was.

    Writers beside each other do not wait: together they may pass the bound by one request each.
    """
    wanted = list(rows)
    if not wanted:
        return 0
    room = _room(project_id, api_key_id, received)
    kept = wanted[:room]
    Reject.objects.bulk_create(
        Reject(
            project_id=project_id,
            api_key_id=api_key_id,
            received_at=received,
            code=row.code,
            detail=row.detail[:DETAIL_LIMIT],
            run_id=row.run_id,
            event_id=row.event_id,
        )
        for row in kept
    )
    return len(kept)


def _room(project_id: int, api_key_id: int | None, received: datetime) -> int:
    most = settings.INGEST_REJECTS_PER_HOUR
    hour = received.replace(minute=0, second=0, microsecond=0)
    listed = Reject.objects.filter(project_id=project_id, api_key_id=api_key_id, received_at__gte=hour)
    return max(0, most - listed.order_by()[:most].count())


def count_not_listed(wanted: Q) -> int:
    """Return how many rejects and conflicts of the batches that `wanted` asks for are in no row.

    `wanted` names fields that both tables have: project, api_key, received_at.
    """
    counted = Batch.objects.filter(wanted).aggregate(n=Sum(F("n_rejected") + F("n_conflicts")))["n"] or 0
    return max(0, counted - Reject.objects.filter(wanted).count())


def prune(project_id: int, before: datetime) -> int:
    """Forget the project's rejects and batches of before that time, step by step; return how many rows it was."""
    n_gone = 0
    for table in PRUNED:
        n_step = PRUNE_STEP
        while n_step == PRUNE_STEP:
            with connection.cursor() as cursor:
                cursor.execute(
                    f"DELETE FROM {table} WHERE id IN ("
                    f"SELECT id FROM {table} WHERE project_id = %s AND received_at < %s LIMIT %s)",
                    [project_id, before, PRUNE_STEP],
                )
                n_step = cursor.rowcount
            n_gone += n_step
    return n_gone
