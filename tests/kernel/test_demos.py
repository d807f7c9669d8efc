"""The demo tasks on the whole stack: each ends with a true answer, and what a demo is to show is in its events."""

import json
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from debugger.launching import start_run, wait_for_run
from kernel.drivers.scripted import DEMOS
from kernel.runtime.start import StartError, demo_spec
from kernel.tools.registry import Toolbox
from tests.conftest import RunningStack

pytestmark = pytest.mark.stack

NAMES = sorted(path.stem for path in DEMOS.glob("*.json"))


class DemoRun:
    """One demo run on the stack."""

    def __init__(self, stack: RunningStack, name: str) -> None:
        self.stack = stack
        self.run_id = f"{name}-{uuid.uuid4().hex[:8]}"
        start_run(stack.runtime(), {**demo_spec(name), "run_id": self.run_id})

    def finish(self) -> "DemoRun":
        assert wait_for_run(self.stack.runtime(), self.run_id, 120) == "completed"
        return self

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = self.stack.get(f"/v1/runs/{self.run_id}/events").json().get("results", [])
        return [event for event in found if event["type"] == kind]

    def await_event(self, kind: str) -> None:
        deadline = time.monotonic() + 60
        while not self.events(kind):
            assert time.monotonic() < deadline, f"no {kind} of {self.run_id}"
            threading.Event().wait(0.05)

    @property
    def answer(self) -> str:
        [completed] = self.events("run.completed")
        return str(completed["data"]["answer"])

    @property
    def work(self) -> Path:
        return Toolbox(self.stack.var_dir / "work").folders(self.run_id).work

    def searches(self) -> list[tuple[str, str]]:
        """Trigger and result of each search that was made, in order."""
        return [(event["data"]["trigger"], event["data"]["result"]) for event in self.events("activation.completed")]

    def skips(self) -> list[str]:
        return [event["data"]["skip_reason"] for event in self.events("activation.skipped")]


def set_paused(stack: RunningStack, paused: bool) -> None:
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute("UPDATE ingest_project SET hints_paused = %s WHERE slug = %s", [paused, stack.project])


@contextmanager
def paused(stack: RunningStack) -> Iterator[None]:
    """Observation is switched off for the project while the block runs."""
    set_paused(stack, True)
    try:
        yield
    finally:
        set_paused(stack, False)


def test_release_package(stack: RunningStack) -> None:
    """Two failures bring two fixes, and the answer names the commit that is really there."""
    run = DemoRun(stack, "release-package").finish()
    git = ["git", "-c", "safe.directory=*", "-C", str(run.work), "log", "--format=%h %s"]
    commit, _, subject = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip().partition(" ")
    assert run.answer == f"Version 1.0 of the parser package is recorded as commit {commit}."
    assert subject == "release 1.0"
    assert [search for search in run.searches() if search[0] == "tool.failed"] == [("tool.failed", "success")] * 2
    task = demo_spec("release-package")["task"]
    assert "git" not in task.lower() and "repositor" not in task.lower()


def test_release_package_needs_its_hints(stack: RunningStack) -> None:
    """Without Observation the same agent gives up: what it did, it did because of what stood in the request."""
    with paused(stack):
        run = DemoRun(stack, "release-package").finish()
    assert run.answer.startswith("I could not record the release")
    assert not (run.work / ".git").exists()
    assert {result for _, result in run.searches()} == {"error"}
    assert run.events("hint.delivery") == []


def test_review_history(stack: RunningStack) -> None:
    """The first call to the git server brings its practices once; the answer is what the newest commit did."""
    run = DemoRun(stack, "review-history").finish()
    assert run.answer == "The newest change makes the parser fold case before it splits."
    assert [search for search in run.searches() if search[0] == "mcp.first_call"] == [("mcp.first_call", "success")]
    calls = [event for event in run.events("tool.completed") if event["mcp_server"] == "git"]
    assert [event["tool"] for event in calls] == ["git__git_status", "git__git_log", "git__git_show"]


def test_fix_the_data(stack: RunningStack) -> None:
    """The same error is searched for once, another one again; two calls of one reply are answered together."""
    run = DemoRun(stack, "fix-the-data").finish()
    query = "import sqlite3; print(sqlite3.connect('shop.db').execute(\"select count(*) from orders where state='paid'\").fetchone()[0])"  # noqa: E501 - one command
    count = subprocess.run(["python3", "-c", query], cwd=run.work, capture_output=True, text=True, check=True).stdout
    assert run.answer == f"{count.strip()} orders are paid."
    assert [search for search in run.searches() if search[0] == "tool.failed"] == [("tool.failed", "success")] * 2
    assert run.skips() == ["duplicate_situation"]
    calls = Counter(event["turn"] for event in run.events("tool.requested"))
    assert max(calls.values()) == 2


def test_observation_off(stack: RunningStack) -> None:
    """Observation is switched off on the way: the next search is an error, the tool reply stands, the run completes."""
    run = DemoRun(stack, "observation-off")
    run.await_event("activation.completed")
    with paused(stack):
        run.finish()
    assert run.searches() == [("tool.failed", "success"), ("tool.failed", "error")]
    assert "503" in run.events("activation.completed")[1]["data"]["error"]
    words = len((run.work / "notes.txt").read_text().split())
    assert run.answer == f"The notes are under version control and have {words} words."
    [failed] = [event for event in run.events("tool.failed") if "wordcount" in event["data"]["detail"]]
    assert failed["data"]["error_class"] == "exit_nonzero"


@pytest.mark.parametrize("name", NAMES)
def test_demo_files_are_complete(name: str) -> None:
    """A demo file has a name, a title, a spec and a script of its own."""
    document = json.loads((DEMOS / f"{name}.json").read_text())
    assert document["name"] == name
    assert document["title"] and document["spec"]["task"]
    assert all("call" in rule or "answer" in rule for rule in document["script"]["rules"])


def test_an_unknown_demo_is_refused_with_the_known_names() -> None:
    """A misspelt demo names those there are."""
    with pytest.raises(StartError, match=", ".join(NAMES)):
        demo_spec("realease-package")
