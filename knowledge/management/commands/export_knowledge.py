"""Writes a project's knowledge items in the forms `import_knowledge` reads: JSON Lines, or a Markdown file an item."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from ingest.models import Project
from knowledge.exchange.json_lines import write_line
from knowledge.exchange.markdown import file_name, write_markdown
from knowledge.item_queries import all_drafts

LINES_FILE: Final = "items.jsonl"


class Command(BaseCommand):
    help = "Write a project's knowledge items to a folder, or as JSON Lines to the output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", required=True, help="slug of the project")
        parser.add_argument("--format", default="jsonl", choices=["jsonl", "markdown"])
        parser.add_argument("--to", type=Path, help=f"folder, made when absent; of JSON Lines the file is {LINES_FILE}")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']}")
        if options["to"] is None:
            if options["format"] == "markdown":
                raise CommandError("Markdown is a file an item: name a folder with --to")
            for draft in all_drafts(project.pk):
                self.stdout.write(write_line(draft))
            return
        try:
            _write(project.pk, options["format"], Path(options["to"]))
        except OSError as error:
            raise CommandError(f"{options['to']} cannot be written: {error.strerror}") from None


def _write(project_id: int, form: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if form == "jsonl":
        with (folder / LINES_FILE).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{write_line(draft)}\n" for draft in all_drafts(project_id))
        return
    for draft in all_drafts(project_id):
        (folder / file_name(draft.knowledge_id)).write_bytes(write_markdown(draft).encode())
