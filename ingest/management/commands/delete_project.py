"""`manage.py delete_project`: delete a project with everything in it, for good."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.deletion import delete_project
from ingest.models import Project


class Command(BaseCommand):
    help = "Delete a project: its runs, knowledge, keys and members. Cannot be undone; can be called again if cut off."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--confirm", required=True, help="the slug once more")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["confirm"] != options["slug"]:
            raise CommandError("--confirm must be the slug once more; nothing was deleted")
        project = Project.objects.filter(slug=options["slug"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['slug']!r}")
        delete_project(project)
        self.stdout.write(f"project {options['slug']} is deleted")
