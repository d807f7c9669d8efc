"""Writes a project's knowledge items as JSON Lines, in the form `import_knowledge` reads."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import F

from ingest.models import Project
from knowledge.items import draft_of
from knowledge.models import KnowledgeRevision


class Command(BaseCommand):
    help = "Print a project's knowledge items as JSON Lines."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", required=True, help="slug of the project")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']}")
        current = KnowledgeRevision.objects.filter(item__project=project, number=F("item__revision"))
        for revision in current.select_related("item").order_by("item__knowledge_id").iterator():
            given = {name: value for name, value in asdict(draft_of(revision)).items() if value}
            self.stdout.write(json.dumps(given, ensure_ascii=False))
