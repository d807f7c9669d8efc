"""Runs of other days than today: what the write path stored, moved to the partition of an earlier day."""

from datetime import UTC, date, datetime, time, timedelta

from django.db import connection, transaction

from ingest import journal
from ingest.models import Batch, Event, Message, Project, Reject, Run
from knowledge.models import RunContribution

TODAY = datetime.now(UTC).date()


def days_ago(number: int) -> date:
    return TODAY - timedelta(days=number)


def age(project: Project, run_id: str, day: date) -> None:
    """Move a stored run to `day`, as if it had been received then. Its bodies move along if they are of its day."""
    moment = datetime.combine(day, time(12), UTC)
    with transaction.atomic():
        journal.ensure_partitions([day])
        was = Run.objects.values_list("run_day", flat=True).get(project=project, run_id=run_id)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE ingest_event SET run_day = %s, received_at = %s"
                " WHERE project_id = %s AND run_day = %s AND run_id = %s",
                [day, moment, project.pk, was, run_id],
            )
            named = "SELECT m[1] FROM ingest_event, regexp_matches(data::text, '[0-9a-f]{64}', 'g') AS m"
            cursor.execute(
                f"UPDATE ingest_message SET last_run_day = %s WHERE project_id = %s AND last_run_day = %s"
                f" AND hash IN ({named} WHERE project_id = %s AND run_id = %s)",
                [day, project.pk, was, project.pk, run_id],
            )
        Run.objects.filter(project=project, run_id=run_id).update(
            run_day=day, first_received_at=moment, last_received_at=moment
        )
        RunContribution.objects.filter(project=project, run_id=run_id).update(day=day)


def age_lists(project: Project, day: date) -> None:
    """Move the project's rejects and accounts of requests to `day`."""
    for model in (Reject, Batch):
        model._default_manager.filter(project=project).update(received_at=datetime.combine(day, time(12), UTC))


def n_events(project: Project, run_id: str = "") -> int:
    return Event.objects.filter(project=project, **({"run_id": run_id} if run_id else {})).count()


def bodies(project: Project) -> set[str]:
    """The texts of the project's message bodies."""
    return {body.get("text", "") for body in Message.objects.filter(project=project).values_list("body", flat=True)}
