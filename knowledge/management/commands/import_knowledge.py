"""Imports knowledge items from files and folders into a project; importing the same twice changes nothing."""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from ingest.models import Project
from knowledge.drafts import KnowledgeError
from knowledge.exchange.json_lines import read_lines
from knowledge.exchange.markdown import read_markdown
from knowledge.exchange.places import Placed, drafts_of
from knowledge.items import import_items

FORMS: Final = (".jsonl", ".md")


class Command(BaseCommand):
    help = (
        "Import knowledge items: JSON Lines (.jsonl, an item a line), Markdown (.md, an item a file), folders of both."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path)
        parser.add_argument("--project", required=True, help="slug of the project")
        parser.add_argument("--by", default="import", help="who is named as the author")
        parser.add_argument("--reason", default="import", help="why, as the history of each item says it")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']}")
        try:
            drafts = drafts_of(placed for path in options["files"] for placed in read_path(Path(path)))
            result = import_items(project, drafts, by=options["by"], reason=options["reason"])
        except KnowledgeError as error:
            raise CommandError(str(error)) from None
        if options["verbosity"]:
            self.stdout.write(f"{result.created} created, {result.revised} revised, {result.unchanged} unchanged")


def read_path(path: Path) -> Iterator[Placed]:
    """Yield the items of a file, or of every file of a folder that is of a known form, in order of their names.

    Raises CommandError for what cannot be read, ImportFault for what is not in order.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in FORMS and file.is_file())
        if not files:
            raise CommandError(f"{path} holds no items: no file ends with {' or '.join(FORMS)}")
        for file in files:
            yield from read_path(file)
        return
    if not path.exists():
        raise CommandError(f"{path} cannot be read: it does not exist")
    if path.suffix not in FORMS:
        raise CommandError(f"{path} is neither of JSON Lines (.jsonl) nor of Markdown (.md)")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    if path.suffix == ".jsonl":
        yield from read_lines(data, str(path))
    else:
        yield read_markdown(data, str(path))
