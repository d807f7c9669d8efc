"""Imports knowledge items from JSON Lines files into a project; importing the same twice changes nothing."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.models import Project
from knowledge.drafts import ItemDraft, KnowledgeError, parse_draft
from knowledge.items import import_items


class Command(BaseCommand):
    help = "Import knowledge items from JSON Lines files (one item a line)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path)
        parser.add_argument("--project", required=True, help="slug of the project")
        parser.add_argument("--by", default="import", help="who is named as the author")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']}")
        drafts = [draft for file in options["files"] for draft in read_drafts(Path(file))]
        try:
            result = import_items(project, drafts, by=options["by"])
        except KnowledgeError as error:
            raise CommandError(str(error)) from None
        if options["verbosity"]:
            self.stdout.write(f"{result.created} created, {result.revised} revised, {result.unchanged} unchanged")


def read_drafts(file: Path) -> list[ItemDraft]:
    """Return the items of one file. Raises CommandError with file and line of the first that is not in order."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from None
    drafts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            drafts.append(parse_draft(json.loads(line)))
        except ValueError as error:
            raise CommandError(f"{file}:{number}: {error}") from None
    return drafts
