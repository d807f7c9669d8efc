"""Recorded histories replay on today's workflow, and the sandbox refuses a core that is not pure.

Histories are made by `python -m tests.kernel.record_histories`.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from kernel.runtime.workflow import AgentRun
from tests.kernel.record_histories import HISTORIES, SHAPES

SOURCE = Path(__file__).parent.parent.parent
REPLAY = """
import asyncio, sys
from pathlib import Path
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from kernel.runtime.leaving import leave
from kernel.runtime.workflow import AgentRun

history = WorkflowHistory.from_json("recorded", Path(sys.argv[1]).read_text())
asyncio.run(Replayer(workflows=[AgentRun]).replay_workflow(history))
leave(0)
"""
# What a change of the core looks like: where, what stood there, what stands there now.
IMPURE_CLOCK = ("decide.py", "    name = type(observation).__name__\n", "    name = type(observation).__name__\n    import datetime; datetime.datetime.now()\n")  # fmt: skip # noqa: E501
IMPURE_RANDOM = ("decide.py", "    name = type(observation).__name__\n", "    name = type(observation).__name__\n    import random; random.random()\n")  # fmt: skip # noqa: E501
OTHER_COMMANDS = ("finale.py", "    if state.turn >= limits.max_turns:\n", "    if state.turn < limits.max_turns:\n")  # fmt: skip # noqa: E501


def test_every_shape_is_recorded() -> None:
    """Each shape of run has its history, and no history is of a shape that is gone."""
    assert sorted(path.stem for path in HISTORIES.glob("*.json")) == sorted(SHAPES)


@pytest.mark.parametrize("name", sorted(SHAPES))
async def test_recorded_history_replays(name: str) -> None:
    """The workflow gives the commands it gave when the history was recorded."""
    history = WorkflowHistory.from_json(name, (HISTORIES / f"{name}.json").read_text())
    await Replayer(workflows=[AgentRun]).replay_workflow(history)


def replay_with(change: tuple[str, str, str] | None, folder: Path) -> subprocess.CompletedProcess[str]:
    """Replay a history in another process on a copy of the kernel in which one place of the core is changed."""
    for package in ("kernel", "contract"):
        shutil.copytree(SOURCE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    if change is not None:
        name, before, after = change
        module = folder / "kernel" / "core" / name
        text = module.read_text()
        assert text.count(before) == 1
        module.write_text(text.replace(before, after))
    script = folder / "replay.py"
    script.write_text(REPLAY)
    command = [sys.executable, str(script), str(HISTORIES / "tool_fails_and_hint.json")]
    return subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)


def test_unchanged_copy_replays(tmp_path: Path) -> None:
    """The control of the tests below: the copy itself is no reason to fail."""
    done = replay_with(None, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", [IMPURE_CLOCK, IMPURE_RANDOM], ids=["clock", "random"])
def test_impure_core_is_refused(tmp_path: Path, change: tuple[str, str, str]) -> None:
    """A clock or randomness in the core does not replay unnoticed: the sandbox names it."""
    done = replay_with(change, tmp_path)
    assert done.returncode != 0
    assert "RestrictedWorkflowAccessError" in done.stderr


def test_other_commands_are_noticed(tmp_path: Path) -> None:
    """A core that gives other commands for the same history is found out."""
    done = replay_with(OTHER_COMMANDS, tmp_path)
    assert done.returncode != 0
    assert "NondeterminismError" in done.stderr or "Nondeterminism" in done.stderr
