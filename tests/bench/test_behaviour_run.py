"""The benchmark as it is run, on a running stack: three tasks in three arms, and the same seed gives the same again."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.behaviour.arms import note_id
from bench.behaviour.tasks import TASKS
from debugger.embedded.stack import SOURCE
from tests.conftest import RunningStack

pytestmark = pytest.mark.stack

NAMES = ("make-flavour", "shell-priming-beacon", "shell-wrong-permission")
TIMES = ("run_id", "latencies_ms", "waits_ms")


def run(stack: RunningStack, folder: Path) -> dict[str, Any]:
    """Run the command against the stack and return the document it leaves."""
    places = {"base_url": stack.base_url, "database_url": stack.database_url, "broker_url": stack.broker_url}
    (stack.var_dir / "places.json").write_text(json.dumps(places))
    out = folder / "report.json"
    command = [sys.executable, "-m", "bench.behaviour", "--into", str(stack.var_dir / "places.json")]
    command += ["--tasks", ",".join(NAMES), "--arms", "priming,runtime,placebo", "--out", str(out)]
    command += ["--doc", str(folder / "page.md")]
    environment = {**os.environ, **stack.programs.environment()}
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True)
    assert out.exists(), done.stderr
    report = json.loads(out.read_text())
    assert done.returncode == int(not all(check["met"] for check in report["checks"])), done.stderr
    return dict(report)


@pytest.fixture(scope="module")
def reports(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return [run(stack, tmp_path_factory.mktemp("behaviour")) for _ in range(2)]


def of(report: dict[str, Any], task: str, arm: str) -> dict[str, Any]:
    (found,) = [one for one in report["runs"] if (one["task"], one["arm"]) == (task, arm)]
    return dict(found)


def test_the_same_seed_gives_the_same_results(reports: list[dict[str, Any]]) -> None:
    """Other runs by their ids, and of each the same outcome."""
    first, again = ([{k: v for k, v in one.items() if k not in TIMES} for one in each["runs"]] for each in reports)
    assert len(first) == len(NAMES) * 3
    assert first == again
    assert not {one["run_id"] for one in reports[0]["runs"]} & {one["run_id"] for one in reports[1]["runs"]}


def test_a_hint_found_by_the_error_solves_the_task_and_a_placebo_does_not(reports: list[dict[str, Any]]) -> None:
    """In each arm what it says: nothing, the item, or another text at the same moment."""
    report = reports[0]
    assert of(report, "make-flavour", "runtime")["success"] is True
    assert [of(report, "make-flavour", arm)["n_injected"] for arm in ("priming", "runtime", "placebo")] == [0, 1, 1]
    assert of(report, "make-flavour", "placebo")["used"] == 0
    assert [of(report, "shell-priming-beacon", arm)["primed"] for arm in ("priming", "runtime", "placebo")] == [
        True
    ] * 3
    wrong = of(report, "shell-wrong-permission", "runtime")
    assert (wrong["success"], wrong["own_injected"], wrong["used"]) == (False, True, 1)
    assert [item["flag"] for item in report["items"] if item["kind"] == "wrong"] == ["harmful"]


def test_the_runs_stand_where_the_stack_shows_them(stack: RunningStack, reports: list[dict[str, Any]]) -> None:
    """The document says where, and the runs went through the hints API, ingest and the fold of that stack."""
    told = of(reports[0], "make-flavour", "runtime")
    assert reports[0]["base_url"] == stack.base_url
    script = (
        "from knowledge.models import Candidate, RunSummary; "
        f"one = RunSummary.objects.get(project__slug={told['project']!r}, run_id={told['run_id']!r}); "
        "hint = Candidate.objects.get(project_id=one.project_id, run_id=one.run_id, injected_ns__isnull=False); "
        "print('found', one.success, one.n_injected, hint.knowledge_id)"
    )
    (task,) = [task for task in TASKS if task.name == "make-flavour"]
    assert f"found True 1 {note_id(task)}" in stack.manage("shell", "-c", script)
