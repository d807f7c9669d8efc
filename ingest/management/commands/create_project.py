"""`manage.py create_project`: make a project and, with --member, let people into it."""

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from ingest.models import Membership
from ingest.projects import ProjectError, create_project


class Command(BaseCommand):
    help = "Make a project. People named with --member may open its pages; they are made when absent."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="its first segment in addresses")
        parser.add_argument("--name", default="", help="as pages show it; the slug when left out")
        parser.add_argument("--member", action="append", default=[], metavar="USERNAME")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                project = create_project(options["slug"], options["name"])
                for username in options["member"]:
                    person, _ = get_user_model().objects.get_or_create(username=username)
                    Membership.objects.get_or_create(project=project, user=person)
        except ProjectError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"project {project.slug} is made")
