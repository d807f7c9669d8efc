"""Takes whole runs out of every table that holds rows of them; retention and deletion decide which.

The tables are read from the models, so that one added later cannot be left behind. A run is taken under the lock that
folding takes (`knowledge/chains.py`) and then under that of its registry row, which writers take; nothing can be
derived from it or added to it meanwhile. (Seed 001 §13.)
"""

import hashlib
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from django.apps import apps
from django.db import connection, models

from ingest.models import Event, GoneRun, Project, Reject, Run
from ingest.times import start_of

ROWS_AT_ONCE: Final = 5_000  # rows of one DELETE
RUNS_AT_ONCE: Final = 200  # runs of one transaction
MARK_DAYS: Final = 90  # days a mark of a run that is gone is kept
_FOLD_LOCK: Final = "hashtextextended(run_id, project_id)"


def project_models() -> list[type[models.Model]]:
    """Return the models whose rows name their project, but the journal's."""
    return [model for model in apps.get_models() if _names_project(model) and model is not Event]


def run_models() -> list[type[models.Model]]:
    """Return the models whose rows belong to one run, but the journal's and its registry. Rejects are among them."""
    return [model for model in project_models() if model is not Run and _has_field(model, "run_id")]


def _has_field(model: type[models.Model], name: str) -> bool:
    return any(field.name == name for field in model._meta.concrete_fields)


def _names_project(model: type[models.Model]) -> bool:
    return any(field.related_model is Project for field in model._meta.concrete_fields)


def claim_idle(project_id: int, run_ids: Sequence[str], first_kept: date) -> list[str]:
    """Lock those of the runs that are older than `first_kept`, folded to their end and in nobody's hands.

    Waits for nothing: a run that is being written or folded stays for the next time.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT run_id FROM ingest_run
            WHERE project_id = %s AND run_id = ANY(%s) AND run_day < %s AND folded_arrival >= last_arrival
            AND pg_try_advisory_xact_lock({_FOLD_LOCK})
            ORDER BY run_id FOR UPDATE SKIP LOCKED
            """,
            [project_id, list(run_ids), first_kept],
        )
        return [row[0] for row in cursor.fetchall()]


def claim(project_id: int, run_ids: Sequence[str]) -> list[str]:
    """Lock the runs, waiting for whoever holds them; return those that are there, in order."""
    with connection.cursor() as cursor:
        for run_id in sorted(run_ids):
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", [run_id, project_id])
        cursor.execute(
            "SELECT run_id FROM ingest_run WHERE project_id = %s AND run_id = ANY(%s) ORDER BY run_id FOR UPDATE",
            [project_id, list(run_ids)],
        )
        return [row[0] for row in cursor.fetchall()]


def erase_runs(project_id: int, run_ids: Sequence[str], reason: str) -> None:
    """Delete everything that is kept of the runs but their journal rows, and leave the marks that they are gone.

    The caller has claimed them. `reason` is "retention", which leaves rejects to go by their own day, or "deleted".
    """
    for model in run_models():
        if reason != "retention" or model is not Reject:
            _rows(model).filter(project_id=project_id, run_id__in=run_ids).delete()
    Run.objects.filter(project_id=project_id, run_id__in=run_ids).delete()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ingest_gonerun (project_id, digest, gone_at, reason)
            SELECT %s, digest, now(), %s FROM unnest(%s::bytea[]) AS given(digest) ORDER BY digest
            ON CONFLICT (project_id, digest) DO UPDATE SET gone_at = excluded.gone_at, reason = excluded.reason
            """,
            [project_id, reason, [mark_of(run_id) for run_id in run_ids]],
        )


def mark_of(run_id: str) -> bytes:
    """Return what `GoneRun.digest` holds of a run id."""
    return hashlib.sha256(run_id.encode(errors="replace")).digest()


def prune_marks(today: date) -> None:
    """Delete the marks of runs that are gone for long: nobody sends for so late."""
    oldest = start_of(today - timedelta(days=MARK_DAYS))
    while delete_some(GoneRun.objects.filter(gone_at__lt=oldest)):
        pass


def delete_some(rows: "models.QuerySet[Any]", limit: int = ROWS_AT_ONCE) -> int:
    """Delete up to `limit` of the rows, with what hangs on them; return how many of them there were."""
    keys = list(rows.values_list("pk", flat=True)[:limit])
    if keys:
        _rows(rows.model).filter(pk__in=keys).delete()
    return len(keys)


def _rows(model: type[models.Model]) -> "models.QuerySet[Any]":
    return model._default_manager.all()
