"""The demo tasks on the whole stack: each ends with a true answer, and what a demo is to show is in its events."""

import json
import sqlite3
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

from contract.events import EVENT_TYPES, check_data
from debugger.kernel_client import Answer, RunAddress, answer, look
from debugger.launching import start_run, wait_for_run
from kernel.drivers.scripted import DEMOS, MEMBERS
from kernel.runtime.start import StartError, checked, demo_spec
from kernel.tools.registry import Toolbox
from tests.conftest import RunningStack

pytestmark = pytest.mark.stack

NAMES = sorted(path.stem for path in DEMOS.glob("*.json"))


class DemoRun:
    """One demo run on the stack."""

    def __init__(self, stack: RunningStack, name: str, *granted: str) -> None:
        self.stack = stack
        self.run_id = f"{name}-{uuid.uuid4().hex[:8]}"
        start_run(stack.runtime(), {**demo_spec(name), "run_id": self.run_id}, stack.project, granted=granted)

    def finish(self, status: str = "completed") -> "DemoRun":
        """Wait for the end; whatever was reported by then fits the schema of its type."""
        assert wait_for_run(self.stack.runtime(), self.run_id, 120) == status
        for event in self.all_events():
            assert event["type"] in EVENT_TYPES
            assert check_data(event["type"], event["data"]) is None, event
        return self

    def all_events(self, run_id: str = "") -> list[dict[str, Any]]:
        """Return the events of the run, or of another one, in the order they were reported."""
        found = self.stack.get(f"/v1/runs/{run_id or self.run_id}/events").json().get("results", [])
        return list(found)

    def events(self, kind: str, run_id: str = "") -> list[dict[str, Any]]:
        return [event for event in self.all_events(run_id) if event["type"] == kind]

    def say(self, words: str, approved: bool = False) -> None:
        """Answer what the run waits for next, as a person does on its page."""
        deadline, address = time.monotonic() + 60, RunAddress(self.stack.project, self.run_id)
        while not (asks := look(self.stack.runtime(), address).asks):
            assert time.monotonic() < deadline, f"{self.run_id} asks nothing"
            threading.Event().wait(0.05)
        [ask] = asks
        answer(self.stack.runtime(), address, ask.key, Answer(ask.kind, "ada", words, approved))

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

    def searches(self, run_id: str = "") -> list[tuple[str, str]]:
        """Trigger and result of each search that was made, in order."""
        completed = self.events("activation.completed", run_id)
        return [(event["data"]["trigger"], event["data"]["result"]) for event in completed]

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


def test_background_build(stack: RunningStack) -> None:
    """An awaited operation fails and its hint comes at the boundary after; the next one tells its end by itself."""
    run = DemoRun(stack, "background-build").finish()
    with sqlite3.connect(run.work / "build" / "index.db") as index:
        [words] = index.execute("select count(*) from words").fetchone()
    assert run.answer == f"The index holds {words} words, and 0 links of the handbook are broken."
    events = [event for event in run.all_events() if event["type"].startswith("operation.")]
    assert [event["type"].partition(".")[2] for event in events] == ["started", "failed", "started", "completed"]
    failed, well = events[1]["operation_id"], events[3]["operation_id"]
    [searched] = [e for e in run.events("activation.completed") if e["data"]["trigger"] == "tool.failed"]
    assert (searched["operation_id"], searched["data"]["result"]) == (failed, "success")
    [awaited] = [event for event in run.events("tool.completed") if event["tool"] == "await_operation"]
    assert awaited["operation_id"] == failed != well, "nobody asked for the end of the second one"
    assert events[3]["turn"] < run.events("run.completed")[0]["data"]["n_turns"]
    assert [len(event["data"]["plan"]) for event in run.events("plan.updated")] == [3, 4]


def test_background_build_needs_its_hint(stack: RunningStack) -> None:
    """Without Observation the folder is never made and the run says that it built nothing."""
    with paused(stack):
        run = DemoRun(stack, "background-build").finish()
    assert run.answer.startswith("I could not build the index")
    assert not (run.work / "build").exists()


def test_team(stack: RunningStack) -> None:
    """Each member's situation is searched for in its own run; the root answers from both answers."""
    run = DemoRun(stack, "team").finish()
    assert run.answer == (
        "The parser package is ready: all 2 tests pass, and its newest change makes the parser fold case before it "
        "splits."
    )
    started = {event["data"]["member"]: event["data"]["child_run_id"] for event in run.events("delegate.started")}
    historian, tester = started["historian"], started["tester"]
    assert [search for search in run.searches(historian) if search[0] != "task.priming"] == [
        ("mcp.first_call", "success")
    ]
    assert [search for search in run.searches(tester) if search[0] != "task.priming"] == [("tool.failed", "success")]
    assert {trigger for trigger, _ in run.searches()} == {"task.priming"}
    children = [*run.all_events(historian), *run.all_events(tester)]
    begun = [event for event in children if event["type"] == "run.started"]
    assert [(event["parent_run_id"], event["team_root"]) for event in begun] == [(run.run_id, run.run_id)] * 2
    assert [check_data(event["type"], event["data"]) for event in children] == [None] * len(children)
    ends = {event["data"]["child_run_id"]: event["data"]["status"] for event in run.events("delegate.finished")}
    assert ends == {historian: "completed", tester: "completed"}
    first_end = min(run.events("delegate.finished"), key=lambda event: event["seq"])
    assert all(event["seq"] < first_end["seq"] for event in run.events("delegate.started")), "side by side"


def test_team_needs_its_hints(stack: RunningStack) -> None:
    """Without Observation neither member knows its way, and the root does not pretend."""
    with paused(stack):
        run = DemoRun(stack, "team").finish()
    assert run.answer.startswith("I cannot say whether the parser package is ready.")
    assert "I read the title" in run.answer and "I could not run the tests" in run.answer


def tags(run: DemoRun) -> str:
    git = ["git", "-c", "safe.directory=*", "-C", str(run.work), "tag", "--points-at", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("said", "decisions", "expected", "tagged"),
    [
        ("It is 1.0.", [True, True], "The parser is tagged as version 1.0.", "v1.0\n"),
        ("2", [False], "I tagged nothing, because a person did not approve it. They said: not today", ""),
        ("1.0", [True, False], "I tagged nothing, because a person did not approve it. They said: not today", ""),
        ("Ask $(Ada)", [], "I tagged nothing. I asked for a version and was told: Ask $(Ada)", ""),
        ("", [], "I tagged nothing. I asked for a version and was told: (an empty answer)", ""),
    ],
    ids=["approved", "denied", "the mended call denied", "no version", "nothing said"],
)
def test_ask_first(stack: RunningStack, said: str, decisions: list[bool], expected: str, tagged: str) -> None:
    """It waits for an answer and for each yes, the one for what a hint says too, and does what the person said."""
    run = DemoRun(stack, "ask-first")
    run.say(said)
    for approved in decisions:
        run.say("" if approved else "not today", approved)
    run.finish()
    assert (run.answer, tags(run)) == (expected, tagged)
    assert [event["data"]["approved"] for event in run.events("approval.decided")] == decisions
    failed = len(run.events("tool.failed"))
    assert run.searches().count(("tool.failed", "success")) == failed == int(len(decisions) == 2)


def test_ask_first_needs_its_hint(stack: RunningStack) -> None:
    """Without Observation the approved call fails for want of an author, and nothing is tagged."""
    with paused(stack):
        run = DemoRun(stack, "ask-first")
        run.say("1.0")
        run.say("", approved=True)
        run.finish()
    assert (run.answer, tags(run)) == ("I could not tag it: git wants an author and I know none.", "")


def test_needs_a_grant(stack: RunningStack) -> None:
    """Refused the shell, the run ends in an ask, and what it called beside is not executed; granted it, the next one
    counts."""
    asked = DemoRun(stack, "needs-a-grant").finish("escalated")
    [ended] = asked.events("run.escalated")
    assert (ended["data"]["reviewer"], ended["data"]["n_denied"]) == ("owner", 1)
    assert "takes the tool shell" in ended["data"]["reason"]
    refused = {(event["tool"], event["data"]["code"]) for event in asked.events("tool.blocked")}
    assert refused == {("shell", "tool_unavailable"), ("update_plan", "escalation_pending")}
    assert asked.events("plan.updated") == []
    granted = DemoRun(stack, "needs-a-grant", "shell").finish()
    words = len((granted.work / "handbook.txt").read_text().split())
    assert granted.answer == f"handbook.txt has {words} words."


@pytest.mark.parametrize("name", NAMES)
def test_demo_files_are_complete(name: str) -> None:
    """A demo file has a name, a title, a spec that is accepted, and scripts of its own and of its members."""
    document = json.loads((DEMOS / f"{name}.json").read_text())
    assert document["name"] == name
    assert document["title"] and document["spec"]["task"]
    assert checked({**document["spec"], "run_id": "r"}).task == document["spec"]["task"]
    members = [DEMOS / MEMBERS / f"{member['script']}.json" for member in document["spec"].get("members", ())]
    scripts = [document["script"], *(json.loads(path.read_text())["script"] for path in members)]
    assert all("call" in rule or "answer" in rule for script in scripts for rule in script["rules"])


def test_an_unknown_demo_is_refused_with_the_known_names() -> None:
    """A misspelt demo names those there are."""
    with pytest.raises(StartError, match=", ".join(NAMES)):
        demo_spec("realease-package")
