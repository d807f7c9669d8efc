"""`manage.py rebuild`: derive chains and sums from the journal again, and count anew what runs reported of items."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Exists, OuterRef

from ingest.models import Project, Run
from knowledge.chains import batches, refresh_run, refresh_together
from knowledge.fold import FOLD_VERSION
from knowledge.models import RunSummary
from knowledge.projection import recount
from knowledge.rolling import rebuild, roll_up
from knowledge.signals import tell_folded


class Command(BaseCommand):
    help = "Fold runs again from the journal and sum up what they add. What is left of forgotten days stays as it is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", help="slug; all projects without it")
        parser.add_argument("--run", help="one run_id; all runs without it")
        parser.add_argument(
            "--since", type=date.fromisoformat, help="only runs of this day (YYYY-MM-DD, UTC) and later"
        )
        parser.add_argument("--stale", action="store_true", help=f"only runs not derived by {FOLD_VERSION}")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.order_by("project_id", "run_id")
        if options["project"]:
            project = Project.objects.filter(slug=options["project"]).first()
            if project is None:
                raise CommandError(f"there is no project {options['project']!r}")
            runs = runs.filter(project=project)
        if options["run"]:
            runs = runs.filter(run_id=options["run"])
        if options["since"]:
            runs = runs.filter(run_day__gte=options["since"])
        if options["stale"]:
            same_run = {"project_id": OuterRef("project_id"), "run_id": OuterRef("run_id")}
            runs = runs.exclude(Exists(RunSummary.objects.filter(**same_run, fold_version=FOLD_VERSION)))
        n_folded, projects = 0, set(runs.order_by("project_id").values_list("project_id", flat=True).distinct())
        for project_id, run_ids in batches(runs.values_list("project_id", "run_id").iterator()):
            done = set(refresh_together(project_id, run_ids, force=True))
            done |= {run for run in run_ids if run not in done and refresh_run(project_id, run, force=True)}
            n_folded += len(done)
            for run_id in sorted(done):
                tell_folded(project_id, run_id)
        for project_id in sorted(projects):
            if options["run"]:
                roll_up(project_id)
            else:
                recount(project_id)
                rebuild(project_id, since=options["since"])
        self.stdout.write(f"{n_folded} runs folded with {FOLD_VERSION}")
