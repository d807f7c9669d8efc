"""`manage.py delete_run`: delete one run with all that was derived from it, for good."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.deletion import delete_run
from ingest.models import Project
from ingest.unused_messages import sweep


class Command(BaseCommand):
    help = "Delete a run, what was derived from it, and the messages that only it used. Cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", required=True, help="slug")
        parser.add_argument("--run", required=True, help="run_id")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']!r}")
        deleted = delete_run(project.pk, options["run"])
        if deleted is None:
            raise CommandError(f"project {project.slug} has no run {options['run']!r}")
        swept = sweep(project.pk)
        self.stdout.write(f"{deleted.n_events} events and {swept.n_deleted} messages deleted")
        if swept.n_waiting:
            self.stdout.write(f"{swept.n_waiting} messages wait for a writer that goes on; beat deletes them later")
