"""Runs the demo: the kernel's demo tasks as real runs, one with Observation switched off on the way.

A task that waits for a person is started and told, not waited for, and not started again while it waits. A conversation
is a run a turn, one after the other, in the kernel's own records.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

from debugger.demo_conversation import DemoTurn, add_records, read_turns, turn_spec
from debugger.grants import granted_to
from debugger.kernel_client import NoAnswer, NotDrivenHere, RunAddress, RunEnded, look
from debugger.launching import LaunchError, Runtime, find_run, start_run, wait_for_run
from ingest.models import Event, Project, Run

DEMO_FILES = Path(settings.BASE_DIR) / "kernel" / "demos"
RUN_SECONDS = 120.0
JOURNAL_SECONDS = 60.0
ASK_SECONDS = 60.0
ASK_POLL_SECONDS = 0.5
POLL_SECONDS = 0.1
PAUSED_MARK = "hints_paused_by_demo"

RUNS_NOW = "the demo runs now"  # begins the line that says so


@dataclass(frozen=True, slots=True)
class DemoTask:
    """One demo file: `spec` has the fields of the kernel's RunSpec without a run id.

    `pause_hints` switches Observation off after the first activation; a run that `waits` needs a person to end. A task
    with `turns` is a conversation.
    """

    name: str
    title: str
    spec: Mapping[str, object]
    pause_hints: bool
    waits: bool
    turns: tuple[DemoTurn, ...] = ()


def read_demo_tasks(folder: Path = DEMO_FILES) -> list[DemoTask]:
    """Read the demo files in the order of their names. Raises LaunchError naming the file that cannot be used."""
    tasks = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
            spec = document["spec"]
            tasks.append(
                DemoTask(
                    name=path.stem.replace("_", "-"),
                    title=str(document.get("title", path.stem)),
                    spec={**spec, "script": spec.get("script") or path.stem},
                    pause_hints=bool(document.get("pause_hints", False)),
                    waits=bool(document.get("waits", False)),
                    turns=read_turns(document),
                )
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LaunchError(f"{path} is no demo file: {error!r}") from error
    return tasks


class Demo:
    """The demo of one project. `run` is for a thread of its own; `restore_hints` may be called from any."""

    def __init__(
        self,
        runtime: Runtime,
        project: str,
        base_url: str,
        tell: Callable[[str], None],
        var_dir: Path,
        files: Path = DEMO_FILES,
        kernel_database: str = "",
    ) -> None:
        """`kernel_database` is the address of the database with the kernel's records; without it a conversation is
        left out."""
        self._runtime = runtime
        self._project = project
        self._base_url = base_url
        self._tell = tell
        self._mark = var_dir / PAUSED_MARK
        self._files = files
        self._kernel_database = kernel_database

    def run(self, again: bool = False) -> None:
        """Run each demo task that has no run yet, or all of them `again`; say how each ended.

        Best effort: a failing demo is told and leaves the stack up.
        """
        try:
            tasks = read_demo_tasks(self._files)
            due = [task for task in tasks if not self._still_waits(task) and (again or not self._numbers(task))]
            if due:
                self._tell(f"{RUNS_NOW} ({len(due)} to go, about a minute): its runs appear on the page")
            started = [(task, self._start(task)) for task in due if not task.pause_hints and not task.turns]
            for task, run_id in sorted(started, key=lambda pair: not pair[0].waits):
                if not (task.waits and self._tell_waiting(run_id)):
                    self._follow(run_id)
            for task in due:
                if task.pause_hints:
                    self._run_paused(task)
                elif task.turns and self._kernel_database:
                    self._run_turns(task)
            if due:
                self._tell(f"demo finished: {self._base_url}/{self._project}/runs/")
        except (LaunchError, DatabaseError) as error:
            self._tell(f"the demo stopped: {' '.join(str(error).split())}")
        finally:
            connection.close()

    def restore_hints(self) -> None:
        """Switch Observation on again where a demo run, perhaps of an earlier and killed start, left it off."""
        if self._mark.exists():
            Project.objects.filter(slug=self._project).update(hints_paused=False)
            self._mark.unlink(missing_ok=True)

    def _run_paused(self, task: DemoTask) -> None:
        run_id = self._start(task)
        try:
            self._await_activation(run_id)
            self._mark.touch()
            Project.objects.filter(slug=self._project).update(hints_paused=True)
            self._tell(f"Observation switched off during {run_id}")
            self._follow(run_id)
        finally:
            self.restore_hints()

    def _run_turns(self, task: DemoTask) -> None:
        """Let the turns of a conversation run, each when the one before is over."""
        conversation = f"{self._project}/{self._free_id(task)}"
        previous = ""
        for turn in task.turns:
            add_records(self._kernel_database, conversation, turn.before, previous)
            spec = {**turn_spec(task.spec, turn, conversation), "run_id": self._free_id(task)}
            previous = start_run(self._runtime, spec, self._project)
            self._follow(previous)

    def _await_activation(self, run_id: str) -> None:
        """Wait until the journal has the run's first activation. Raises LaunchError after JOURNAL_SECONDS."""
        deadline = time.monotonic() + JOURNAL_SECONDS
        events = Event.objects.filter(project__slug=self._project, run_id=run_id, type="activation.completed")
        while not events.exists():
            if time.monotonic() > deadline:
                raise LaunchError(f"run {run_id} reported no activation within {JOURNAL_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _still_waits(self, task: DemoTask) -> bool:
        """Whether the task's newest run waits for a person; it is told again when it does."""
        numbers = self._numbers(task) if task.waits else []
        return bool(numbers) and self._tell_waiting(f"{task.name}-{max(numbers)}")

    def _tell_waiting(self, run_id: str) -> bool:
        """Say where the run waits for a person, once it does; False when it is over.

        Raises LaunchError when neither is to be learnt within ASK_SECONDS.
        """
        deadline = time.monotonic() + ASK_SECONDS
        while (waits := self._waits(run_id)) is False:
            if time.monotonic() > deadline:
                raise LaunchError(f"run {run_id} asked nobody anything within {ASK_SECONDS:.0f} s")
            time.sleep(ASK_POLL_SECONDS)
        if waits:
            self._tell(f"{run_id} waits for you: {self._address(run_id)}")
        return bool(waits)

    def _waits(self, run_id: str) -> bool | None:
        """Whether the run waits for a person by now; None when it is over."""
        try:
            return bool(look(self._runtime, RunAddress(self._project, run_id)).asks)
        except NoAnswer:
            return False
        except (RunEnded, NotDrivenHere):
            return None

    def _follow(self, run_id: str) -> None:
        status = wait_for_run(self._runtime, run_id, RUN_SECONDS)
        self._tell(f"{run_id} {status}: {self._address(run_id)}")

    def _address(self, run_id: str) -> str:
        return f"{self._base_url}/{self._project}/runs/{run_id}/"

    def _start(self, task: DemoTask) -> str:
        spec = {**task.spec, "run_id": self._free_id(task)}
        return start_run(self._runtime, spec, self._project, granted=granted_to(spec, self._project))

    def _free_id(self, task: DemoTask) -> str:
        """Return the task's next run id that stands for no other run.

        Temporal remembers runs that the project does not have any more: those that were deleted, and all of an earlier
        project of this name. One under way that has not reported yet is the one to follow.
        """
        made = Project.objects.values_list("created_at", flat=True).get(slug=self._project)
        for number in count(max(self._numbers(task), default=0) + 1):
            run_id = f"{task.name}-{number}"
            found = find_run(self._runtime, run_id)
            if found is None or (not found.is_over and found.at >= made):
                break
        return run_id

    def _numbers(self, task: DemoTask) -> list[int]:
        """Return the numbers of this task's runs so far: the last part of their run ids."""
        prefix = f"{task.name}-"
        runs = Run.objects.filter(project__slug=self._project, run_id__startswith=prefix)
        rests = [run_id.removeprefix(prefix) for run_id in runs.values_list("run_id", flat=True)]
        return [int(rest) for rest in rests if rest.isdigit()]
