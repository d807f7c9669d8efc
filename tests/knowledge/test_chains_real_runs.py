"""Real runs of the kernel, reported over HTTP to the real ingest and Observation: what their chains say.

With RECORD_EVENTS=1 in the environment, what the runs sent is written to tests/events for the tests of the fold.
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from contract.events import ID_FIELDS
from debugger.queries.timeline import build_timeline
from ingest.authentication import create_key
from ingest.journal import read_events
from ingest.models import Project
from kernel.drivers.scripted import ScriptedDriver
from kernel.edge.activities import Activities
from kernel.edge.observation_client import ObservationClient
from kernel.edge.telemetry_client import SendReport, TelemetryClient
from kernel.edge.transcript import MemoryTranscript
from kernel.messages import Holdout, Limits, McpServer, Member, RunSpec, Switches
from kernel.runtime.local import LocalRun
from kernel.tools.registry import Toolbox
from knowledge.chains import refresh_run
from knowledge.drafts import ItemDraft
from knowledge.items import import_items
from knowledge.models import Activation, Candidate, RunSummary
from tests.knowledge.streams import RECORDED

pytestmark = pytest.mark.django_db(transaction=True)

PATIENT_MS = 30_000  # of a retrieval: these runs are about chains, on a machine that may be busy
COMMIT = "git commit -q --allow-empty -m first"
ITEMS = (
    ItemDraft(
        knowledge_id="git-init-first",
        proposition="When git says that this is not a git repository, run `git init` in the folder and try again.",
        state="confirmed",
        tool="shell",
        entities=("not a git repository",),
        topics=("git",),
    ),
    ItemDraft(
        knowledge_id="git-wrong-folder",
        proposition="Not a git repository often means the wrong folder: look for the repository with `git rev-parse`.",
        state="confirmed",
        tool="shell",
        entities=("not a git repository",),
        topics=("folders",),
    ),
    ItemDraft(
        knowledge_id="git-old-rule",
        proposition="On not a git repository, copy the folder .git from a neighbour.",
        state="invalidated",
        tool="shell",
        entities=("not a git repository",),
        topics=("copies",),
    ),
)
SERVER_ITEMS = (
    ItemDraft(
        knowledge_id="mcp-git-short-log",
        proposition="Ask this server for few commits: `git_log` with `max_count` 5.",
        state="confirmed",
        trigger="mcp.first_call",
        mcp_server="git",
        topics=("git history",),
    ),
    ItemDraft(
        knowledge_id="reviews-name-commits",
        proposition="A review of the git history names each commit by its hash.",
        state="confirmed",
        topics=("git history",),
    ),
)


class RecordingTelemetry(TelemetryClient):
    """Sends as the kernel does, and keeps what it sent."""

    def __init__(self, base_url: str, api_key: str) -> None:
        super().__init__(base_url, api_key)
        self.sent: list[Mapping[str, Any]] = []

    async def send(self, events: Sequence[Mapping[str, Any]]) -> SendReport:
        self.sent.extend(events)
        return await super().send(events)


@dataclass
class World:
    """A project with knowledge, and the addresses a runtime of it is given."""

    project: Project
    base_url: str
    raw_key: str
    folder: Path

    def run(self, name: str, rules: list[dict[str, Any]], **spec: Any) -> str:
        """Make one run that follows `rules`, fold it, and return its id."""
        (self.folder / f"{name}.json").write_text(json.dumps({"script": {"rules": rules}}))
        run_id = f"{name}-1"
        limits = replace(spec.pop("limits", Limits()), retrieval_timeout_ms=PATIENT_MS)
        sent = asyncio.run(self._run(RunSpec(run_id=run_id, agent="scripted", script=name, limits=limits, **spec)))
        assert refresh_run(self.project.pk, run_id)
        if os.environ.get("RECORD_EVENTS"):
            self._record(name, run_id, sent)
        return run_id

    async def _run(self, spec: RunSpec) -> list[Mapping[str, Any]]:
        toolbox = Toolbox(self.folder / "work")
        observation = ObservationClient(self.base_url, self.raw_key)
        telemetry = RecordingTelemetry(self.base_url, self.raw_key)
        drivers = {"scripted": ScriptedDriver(self.folder)}
        try:
            edges = Activities(MemoryTranscript(), drivers, toolbox, observation, telemetry)
            await LocalRun(edges).run(spec)
        finally:
            await toolbox.close()
            await observation.close()
            await telemetry.close()
        return telemetry.sent

    def _record(self, name: str, run_id: str, sent: Sequence[Mapping[str, Any]]) -> None:
        ours = [event for event in read_events(self.project.pk, run_id) if event.type in ("hint.query", "hint.offered")]
        found = [
            {
                **{field: value for field in ID_FIELDS if (value := getattr(event, field)) is not None},
                "occurred_at_unix_nano": event.occurred_ns,
                "data": event.data,
            }
            for event in ours
        ]
        document = {"events": sorted([*sent, *found], key=lambda event: event["occurred_at_unix_nano"])}
        RECORDED.mkdir(exist_ok=True)
        text = json.dumps(document, indent=1, ensure_ascii=False).replace(str(self.folder), "/runs")
        (RECORDED / f"{name}.json").write_text(text + "\n")


@pytest.fixture
def world(live_server: LiveServer, tmp_path: Path) -> World:
    project = Project.objects.create(slug="alpha", name="Alpha")
    import_items(project, ITEMS, by="test")
    _, raw = create_key(project, "kernel", ["ingest", "observe", "read"])
    return World(project, live_server.url, raw, tmp_path)


def shell(command: str) -> list[dict[str, Any]]:
    return [{"tool": "shell", "arguments": {"command": command}}]


def rows(world: World, run_id: str) -> tuple[RunSummary, list[Activation], dict[str, Candidate]]:
    key = {"project": world.project, "run_id": run_id}
    candidates = {one.knowledge_id: one for one in Candidate.objects.filter(**key)}
    return RunSummary.objects.get(**key), list(Activation.objects.filter(**key).order_by("ordinal")), candidates


def test_failure_hint_use_and_outcome(world: World) -> None:
    """A failed command, a hint injected, the command it names, the failed command going well: told apart, linked."""
    run_id = world.run(
        "hint_helped",
        [
            {"if": {"not_called": "git init", "hint": "git init"}, "call": shell("git init -q")},
            {"if": {"called": "git init", "not_called": "user.email"}, "call": shell("git config user.email a@b.c")},
            {"if": {"last": "Author identity|tell me who"}, "answer": "No identity."},
            {"if": {"called": "user.name"}, "answer": "The first commit is made."},
            {"if": {"called": "user.email"}, "call": shell(f"git config user.name A && {COMMIT}")},
            {"if": {"start": True}, "call": shell(COMMIT)},
        ],
        task="Make the first commit in this folder",
        limits=Limits(hints_per_activation=1),
        switches=Switches(off=("task.priming",)),
    )
    summary, (activation,), candidates = rows(world, run_id)
    assert (summary.status, summary.n_activations, summary.n_skipped) == ("completed", 1, 0)
    assert (summary.n_offered, summary.n_injected, summary.n_dropped) == (2, 1, 1)
    assert summary.hint_tokens == activation.tokens > 0
    assert (activation.trigger, activation.tool, activation.result) == ("tool.failed", "shell", "success")
    assert activation.source_event_id is not None
    assert (activation.n_retrieved, activation.n_offered, activation.n_injected) == (3, 2, 1)
    used, dropped, held = (candidates[name] for name in ("git-init-first", "git-wrong-folder", "git-old-rule"))
    assert held.hold_reason == "retired"
    assert held.offered_ns is None
    assert (dropped.drop_reason, dropped.offered_ns is not None, dropped.injected_ns) == ("hint_limit", True, None)
    assert used.offered_ns and used.selected_ns and used.injected_ns
    assert used.request_event_id == activation.request_event_id
    assert (used.position, used.usage_source) == (4, "usage.v2")
    assert used.evidence["usage"]["words"] == ["git", "init"]
    assert (used.outcome, activation.resolved) == ("helpful", True)


def test_failing_again_is_not_helpful(world: World) -> None:
    """The hint is injected, the same command fails the same way: not used, neutral, and the second search skipped."""
    run_id = world.run(
        "hint_ignored",
        [
            {"if": {"called": "status"}, "answer": "I give up."},
            {"if": {"hint": "git init"}, "call": shell("git commit -q --allow-empty -m again; git status")},
            {"if": {"start": True}, "call": shell(COMMIT)},
        ],
        task="Make the first commit in this folder",
        switches=Switches(off=("task.priming",)),
    )
    summary, activations, candidates = rows(world, run_id)
    assert [activation.result for activation in activations] == ["success", "skipped"]
    assert activations[1].skip_reason == "duplicate_situation"
    assert (summary.n_activations, summary.n_skipped) == (1, 1)
    ignored = candidates["git-init-first"]
    assert ignored.injected_ns is not None
    assert (ignored.used_ns, ignored.ignored_ns is not None) == (None, True)
    assert (activations[0].resolved, ignored.outcome) == (False, "neutral")


def test_priming_and_first_call_of_a_server(world: World) -> None:
    """A primed hint and one for the first call to an MCP server: two searches, two budgets, one chain."""
    import_items(world.project, SERVER_ITEMS, by="test")
    repository = {"repo_path": "<<folder>>"}
    log = [{"tool": "git__git_log", "arguments": {**repository, "max_count": 5}}]
    run_id = world.run(
        "mcp_first_call",
        [
            {"if": {"called": "max_count"}, "answer": "One commit."},
            {"if": {"called": 'repo_path": "(?P<folder>[^"]+)'}, "call": log},
            {"if": {"last": "^(?P<folder>/.*)"}, "call": [{"tool": "git__git_status", "arguments": repository}]},
            {"if": {"start": True}, "call": shell("pwd")},
        ],
        task="Review the git history",
        setup=f"git init -q && git config user.email a@b.c && git config user.name A && {COMMIT}",
        mcp_servers=(McpServer("git", "mcp-server-git", ("--repository", "{work}")),),
    )
    summary, (priming, first), candidates = rows(world, run_id)
    assert (priming.trigger, first.trigger) == ("task.priming", "mcp.first_call")
    assert (first.mcp_server, first.result, first.n_injected) == ("git", "success", 1)
    assert summary.mcp_servers == ["git"]
    assert (summary.priming_tokens, summary.hint_tokens) == (priming.tokens, first.tokens)
    assert priming.tokens > 0
    assert first.later_calls[0]["status"] == "ok"
    hint = candidates["mcp-git-short-log"]
    assert hint.injected_ns is not None
    assert hint.evidence["usage"]["words"] == ["git_log"]
    assert (first.resolved, hint.outcome) == (None, "")


def test_shadow_injects_nothing(world: World) -> None:
    """In shadow mode hints are offered and dropped, and none counts as injected."""
    run_id = world.run(
        "shadow",
        [
            {"if": {"last": "not a git"}, "answer": "It is no repository."},
            {"if": {"start": True}, "call": shell(COMMIT)},
        ],
        task="Make the first commit in this folder",
        switches=Switches(off=("task.priming",), shadow=True),
    )
    summary, (activation,), candidates = rows(world, run_id)
    assert (summary.n_offered, summary.n_injected, summary.n_dropped, summary.hint_tokens) == (2, 0, 2, 0)
    assert {one.drop_reason for one in candidates.values() if one.offered_ns} == {"shadow"}
    assert activation.tokens == 0


COMMIT_ONCE: list[dict[str, Any]] = [
    {"if": {"last": "not a git"}, "answer": "It is no repository."},
    {"if": {"start": True}, "call": shell(COMMIT)},
]


@pytest.mark.parametrize(("share", "arm"), [(1.0, "withheld"), (1e-12, "offered")])
def test_both_arms_of_a_holdout_show_their_draw(world: World, share: float, arm: str) -> None:
    """What the kernel drew is in the chain of both arms; withheld hints are offered, dropped and never injected."""
    run_id = world.run(
        f"holdout_{arm}",
        COMMIT_ONCE,
        task="Make the first commit in this folder",
        switches=Switches(off=("task.priming",)),
        holdout=Holdout(share, "salt", "spring"),
    )
    summary, (activation,), candidates = rows(world, run_id)
    assert (activation.experiment, activation.arm, activation.share) == ("spring", arm, share)
    assert activation.holdout_tokens is not None
    offered = [one for one in candidates.values() if one.offered_ns]
    assert (summary.n_offered, activation.n_offered, len(offered)) == (2, 2, 2)
    if arm == "withheld":
        counts = (activation.n_selected, activation.n_injected, activation.n_dropped, activation.tokens)
        assert counts == (0, 0, 2, 0)
        assert activation.holdout_tokens > 0
        assert {one.drop_reason for one in offered} == {"holdout"}
        assert sum(one.drop_detail["needed"] for one in offered) == activation.holdout_tokens
    else:
        assert (activation.n_selected, activation.n_injected, activation.n_dropped) == (2, 2, 0)
        assert activation.tokens == activation.holdout_tokens
        assert {one.drop_reason for one in offered} == {""}


def test_a_deferred_search_is_one_activation(world: World) -> None:
    """Two failures in one reply and room for one search: the other waits a boundary and stays one activation."""
    run_id = world.run(
        "deferred",
        [
            {"if": {"called": "pwd"}, "answer": "Neither works."},
            {"if": {"start": True}, "call": [*shell(COMMIT), *shell("cat nowhere.txt")]},
            {"if": {"last": "."}, "call": shell("pwd")},
        ],
        task="Make the first commit in this folder",
        switches=Switches(off=("task.priming",)),
        limits=Limits(activations_per_turn=1),
    )
    summary, (waited, at_once), _ = rows(world, run_id)
    assert (summary.n_activations, summary.n_skipped) == (2, 0)
    assert (at_once.deferred_ns, at_once.result) == (None, "success")
    assert waited.deferred_ns is not None
    assert waited.requested_ns is not None
    assert waited.deferred_ns < waited.requested_ns
    assert (waited.deferred_limit, waited.turn, waited.result) == (1, 2, "empty")
    source = next(event for event in read_events(world.project.pk, run_id) if event.event_id == waited.source_event_id)
    assert (source.type, "nowhere.txt" in source.data["detail"]) == ("tool.failed", True)


def test_a_run_with_a_plan_an_operation_and_a_question_nobody_answers(world: World) -> None:
    """The operation's failure is the trigger and counts once; its row, the call that waited and the plan say so."""
    plan = [{"tool": "update_plan", "arguments": {"steps": ["commit", "tell"]}}]
    start = [{"tool": "shell_background", "arguments": {"command": f"sleep 0.2; {COMMIT}"}}]
    wait = [{"tool": "await_operation", "arguments": {"operation_id": "<<op>>"}}]
    ask = [{"tool": "ask_human", "arguments": {"question": "Which folder?"}}]
    run_id = world.run(
        "special",
        [
            {"if": {"called": "Which folder"}, "answer": "Nobody knows."},
            {"if": {"last": "Operation (?P<op>op-[0-9]+) was started"}, "call": wait},
            {"if": {"last": "not a git"}, "call": ask},
            {"if": {"start": True}, "call": [*plan, *start]},
        ],
        task="Make the first commit in this folder",
        tools=("shell", "shell_background", "await_operation", "update_plan", "ask_human"),
        switches=Switches(off=("task.priming",)),
        limits=Limits(person_timeout_ms=100),
    )
    summary, (activation,), candidates = rows(world, run_id)
    assert (summary.status, summary.n_tool_calls, summary.n_tools_failed) == ("completed", 4, 1)
    events = read_events(world.project.pk, run_id)
    source = next(event for event in events if event.event_id == activation.source_event_id)
    assert (source.type, source.tool, activation.trigger) == ("operation.failed", "shell_background", "tool.failed")
    # A command in the background is a shell command: what is known about the shell is about it too.
    assert (activation.tool, candidates["git-init-first"].injected_ns is not None) == ("shell", True)
    told = {row.kind: row.text for row in build_timeline(events).rows if row.kind not in ("tool", "model")}
    tools = [row.text for row in build_timeline(events).rows if row.kind == "tool"]
    assert told["plan.updated"] == "Plan latest 1. commit · 2. tell"
    assert told["operation"].startswith("Operation op-")
    assert "not a git repository" in told["operation"]
    assert told["human"] == "Question nobody answered in time", "the call above says what was asked"
    assert any("started operation" in text for text in tools)
    assert any(text.startswith("await_operation") and text.endswith("the operation failed") for text in tools)


def test_an_operation_that_outlives_its_run_is_stopped_and_says_so(world: World) -> None:
    """A run that ends leaves no operation open and counts none as a failed call."""
    start = [{"tool": "shell_background", "arguments": {"command": "sleep 30"}}]
    run_id = world.run(
        "left",
        [{"if": {"last": "was started"}, "answer": "It goes on."}, {"if": {"start": True}, "call": start}],
        task="Start the watch",
        tools=("shell_background",),
        switches=Switches(off=("task.priming",)),
    )
    summary, activations, _ = rows(world, run_id)
    assert (summary.status, summary.n_tools_failed, activations) == ("completed", 0, [])
    (row,) = (row for row in build_timeline(read_events(world.project.pk, run_id)).rows if row.kind == "operation")
    assert (row.state, "stopped because the run ended" in row.text) == ("warn", True)


def test_a_delegate_and_its_child_name_each_other(world: World) -> None:
    """The child's run is a run of its own with its parent and team root; the parent's row leads to it."""
    child = {"script": {"rules": [{"if": {"start": True}, "answer": "Looks fine."}]}}
    (world.folder / "reviewer.json").write_text(json.dumps(child))
    ask = [{"tool": "delegate", "arguments": {"member": "reviewer", "task": "Review the notes"}}]
    run_id = world.run(
        "team",
        [{"if": {"last": "Looks fine"}, "answer": "Reviewed."}, {"if": {"start": True}, "call": ask}],
        task="Have the notes reviewed",
        tools=("delegate",),
        members=(Member("reviewer", script="reviewer"),),
        switches=Switches(off=("task.priming",)),
    )
    (row,) = (row for row in build_timeline(read_events(world.project.pk, run_id)).rows if row.kind == "delegate")
    (child_id,) = row.run_ids
    assert row.text == f"Delegate reviewer {child_id} completed “Looks fine.”"
    assert refresh_run(world.project.pk, child_id)
    summary, _, _ = rows(world, child_id)
    assert (summary.parent_run_id, summary.team_root, summary.status) == (run_id, run_id, "completed")
    assert summary.task == "Review the notes"


def test_chain_over_the_api(world: World) -> None:
    """What the fold found is read back over HTTP, reasons in words."""
    test_shadow_injects_nothing(world)
    headers = {"Authorization": f"Bearer {world.raw_key}"}
    get: Callable[[str], Any] = lambda url: Client().get(url, headers=headers).json()  # noqa: E731
    (run,) = get("/v1/runs?trigger=tool.failed&drop_reason=shadow")["results"]
    assert (run["status"], run["n_unfolded"], run["n_injected"]) == ("completed", 0, 0)
    (activation,) = get(f"/v1/runs/{run['run_id']}/activations")["results"]
    reasons = {one["drop_reason_meaning"] for one in activation["candidates"] if one["drop_reason"]}
    assert reasons == {"the run is in shadow mode: hints are retrieved and reported, never injected"}
