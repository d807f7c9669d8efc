"""Tries a task's commands in folders of their own, in the environment the kernel's shell gives them.

Only for the check that tasks are what they say; a benchmark's runs go through the kernel.
"""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.behaviour.task import Task
from kernel.tools.shell import SYSTEM_PATH, RunFolders

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Tried:
    """How a script ended."""

    code: int
    output: str


def sh(script: str, folders: RunFolders) -> Tried:
    """Run a script in the work folder. Raises subprocess.TimeoutExpired."""
    done = subprocess.run(
        ("/bin/sh", "-c", script),
        cwd=folders.work,
        env=folders.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
    )
    return Tried(done.returncode, done.stdout.decode(errors="replace"))


def is_done(task: Task, folders: RunFolders) -> bool:
    """Return whether the folder is as the task wants it."""
    return sh(task.check, folders).code == 0


def missing_tools(tasks: Iterable[Task]) -> dict[str, list[str]]:
    """Return the tools that are not there, each with the names of the tasks that need it."""
    path = RunFolders(Path("/nonexistent")).environment().get("PATH", SYSTEM_PATH)
    missing: dict[str, list[str]] = {}
    for task in tasks:
        for tool in task.needs:
            if shutil.which(tool, path=path) is None:
                missing.setdefault(tool, []).append(task.name)
    return missing


def problems(task: Task, root: Path) -> list[str]:
    """Return what is wrong with a task, as sentences; none when it is what it says. Works in folders below `root`.

    Each command is tried in a folder in which the first one has failed, as it is in a run. Folders keep their path,
    because what is set up may name it: they are put aside and back.
    """
    folders, aside = RunFolders(root / "run"), root / "aside"
    folders.make()
    found = _problems_before(task, folders)
    if found:
        return found
    shutil.copytree(folders.root, aside, symlinks=True)
    for command in task.candidates:
        shutil.rmtree(folders.root)
        shutil.copytree(aside, folders.root, symlinks=True)
        ended = sh(command, folders)
        done = is_done(task, folders)
        if done != (command == task.right):
            found.append(f"{command!r} {'solves' if done else 'does not solve'} it: {ended.code} {ended.output[-300:]}")
    return found


def _problems_before(task: Task, folders: RunFolders) -> list[str]:
    setup = sh(f"set -e\n{task.setup}", folders)
    if setup.code:
        return [f"setup ends with {setup.code}: {setup.output[-500:]}"]
    found = []
    if is_done(task, folders):
        found.append("the check passes on the untouched folder")
    first = sh(task.first, folders)
    if first.code == 0:
        found.append("the first command does not fail")
    if not first.output.strip():
        found.append("the first command says nothing")
    if len(set(task.candidates)) != len(task.candidates):
        found.append("a command stands among the candidates twice")
    return found
