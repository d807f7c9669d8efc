"""Starts one run for a project, with the tools that its people have granted to such runs, and may wait for its end."""

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from debugger.demo import read_demo_tasks
from debugger.embedded.var_dir import PLACES_NAME
from debugger.grants import granted_to
from debugger.launching import LaunchError, NotEnded, Runtime, start_run, wait_for_run, with_grants
from debugger.preparation import DEMO_SLUG
from debugger.run_overrides import SETTABLE, SettingError, with_settings
from ingest.models import Project

WAIT_SECONDS: Final = 3_600.0
# How a run ended -> what `--wait` exits with. 1 is a command that could not do what it was asked, 2 a wrong argument.
EXIT_CODES: Final[Mapping[str, int]] = {"completed": 0, "failed": 3, "cancelled": 4, "escalated": 5, "limit_reached": 6}
OTHER_END: Final = 3
GOES_ON: Final = 7  # the run did not end in the time that was waited


class Command(BaseCommand):
    help = "Start a run; people of the project can answer and cancel it, and what they granted such runs it may use."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--demo", help="name of a demo task")
        what.add_argument("--spec", type=Path, help="file with the fields of the kernel's RunSpec as JSON")
        parser.add_argument("--project", default=DEMO_SLUG, help="slug of its project, %(default)s by default")
        parser.add_argument("--run-id", default="", help="id of the run; made from the name and the time when absent")
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings_given",
            help=f"a setting of the run instead of the spec's own, any number of times: {', '.join(SETTABLE)}",
        )  # fmt: skip
        parser.add_argument(
            "--wait", nargs="?", type=float, const=WAIT_SECONDS, metavar="SECONDS",
            help="wait for the end, at most so long (%(const).0f s when not said), print how it ended and exit with "
            f"{', '.join(f'{code} {word}' for word, code in EXIT_CODES.items())}, {GOES_ON} when it goes on",
        )  # fmt: skip

    def handle(self, *args: object, **options: object) -> None:
        project = str(options["project"])
        if not Project.objects.filter(slug=project, deleted_at=None).exists():
            raise CommandError(f"there is no project {project!r}")
        demo, path = options["demo"], options["spec"]
        name, spec = (str(demo), _demo_spec(str(demo))) if demo else _read_spec(Path(str(path)))
        try:
            spec = with_settings(spec, _pairs(options["settings_given"]))
        except SettingError as error:
            raise CommandError(str(error)) from error
        run_id = str(options["run_id"] or spec.get("run_id") or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
        granted = granted_to(spec, project)
        runtime = Runtime(_temporal_address(), settings.TEMPORAL_NAMESPACE, settings.TEMPORAL_TASK_QUEUE)
        try:
            start_run(runtime, {**spec, "run_id": run_id}, project, granted=granted)
        except LaunchError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(run_id)
        if granted:
            self.stderr.write(f"granted by people: {', '.join(granted)}")
        named = with_grants(spec, granted).get("grants")
        if isinstance(named, list | tuple) and (left := [name for name in granted if name not in named]):
            self.stderr.write(f"no room in a run's spec for {len(left)} of them: {', '.join(left)}")
        seconds = options["wait"]
        if isinstance(seconds, float):
            self._wait(runtime, run_id, seconds)

    def _wait(self, runtime: Runtime, run_id: str, seconds: float) -> None:
        """Wait for the run, say how it ended, and leave with the code that means this."""
        try:
            status = wait_for_run(runtime, run_id, seconds)
        except NotEnded as error:
            raise CommandError(f"{error}; it goes on", returncode=GOES_ON) from error
        except LaunchError as error:
            raise CommandError(str(error), returncode=EXIT_CODES["failed"]) from error
        self.stdout.write(status)
        if code := EXIT_CODES.get(status, OTHER_END):
            sys.exit(code)


def _pairs(given: object) -> list[str]:
    return [str(pair) for pair in given] if isinstance(given, list) else []


def _demo_spec(name: str) -> dict[str, object]:
    try:
        tasks = {task.name: task for task in read_demo_tasks()}
    except LaunchError as error:
        raise CommandError(str(error)) from error
    if name not in tasks:
        raise CommandError(f"there is no demo {name!r}; there are: {', '.join(tasks)}")
    return dict(tasks[name].spec)


def _read_spec(path: Path) -> tuple[str, dict[str, object]]:
    try:
        spec = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(spec, dict):
        raise CommandError(f"{path} holds no JSON object with the fields of a RunSpec")
    return path.stem, spec


def _temporal_address() -> str:
    """Return the address of the `up` that runs on VAR_DIR, that of the settings when none does."""
    try:
        return str(json.loads((settings.VAR_DIR / PLACES_NAME).read_text())["temporal_address"])
    except (FileNotFoundError, KeyError):
        return str(settings.TEMPORAL_ADDRESS)
