"""`manage.py index_knowledge`: derive what items are found by again, for databases whose rows were made otherwise."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.models import Project
from knowledge import embeddings, search_rows
from knowledge.embeddings import EmbeddingError


class Command(BaseCommand):
    help = "Derive search rows and term counts of items again; vectors follow in the background, or now with --embed."

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--project", metavar="SLUG", help="one project")
        which.add_argument("--all", action="store_true", help="every project")
        parser.add_argument("--embed", action="store_true", help="make the vectors now, telling how far it is")

    def handle(self, *args: Any, **options: Any) -> None:
        projects = Project.objects.filter(deleted_at=None).order_by("slug")
        if options["project"]:
            projects = projects.filter(slug=options["project"])
            if not projects:
                raise CommandError(f"there is no project {options['project']!r}")
        if options["embed"] and not embeddings.enabled():
            raise CommandError("embeddings are switched off: set HINTS_EMBEDDINGS=1, or leave --embed out")
        for project in projects:
            self.stdout.write(f"{project.slug}: {search_rows.rebuild(project)} items indexed")
            if options["embed"]:
                self._embed(project)

    def _embed(self, project: Project) -> None:
        n_items, n_done = search_rows.n_pending(project.pk), 0
        try:
            while done := search_rows.embed_items(project.pk):
                n_done += done
                self.stdout.write(f"{project.slug}: {n_done} of {n_items} vectors made")
        except EmbeddingError as error:
            raise CommandError(f"{project.slug}: {n_done} of {n_items} vectors made; {error}") from None
