"""`manage.py apply_retention`: forget the days that are over, at once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ingest.retention import apply_retention


class Command(BaseCommand):
    help = "Forget the days that are older than their projects keep them. Beat does the same by itself."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")

    def handle(self, *args: Any, **options: Any) -> None:
        done = apply_retention(dry_run=options["dry_run"])
        would = "would be " if options["dry_run"] else ""
        self.stdout.write(f"{done.n_runs} runs {would}forgotten")
        self.stdout.write(f"{len(done.partitions)} partitions {would}dropped{_listed(done.partitions)}")
        if not options["dry_run"]:
            self.stdout.write(
                f"{done.n_rows} events deleted from partitions that others keep, {done.n_messages} messages, "
                f"{done.n_listed} rejects and requests"
            )
        for left in done.left:
            self.stdout.write(f"left for the next time: {left}")


def _listed(names: list[str]) -> str:
    return f": {', '.join(names)}" if names else ""
