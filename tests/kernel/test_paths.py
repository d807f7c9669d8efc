"""The special paths of a turn, each on both runners: operations, people, plans, delegates, and their ends.

Whatever path a call takes, its reply stands in its place before anything is searched for. (Seed 001 §6.2.)
"""

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from kernel.core.history import check_history
from kernel.messages import (
    ApprovalAnswer,
    AskApproval,
    AskQuestion,
    Limits,
    Member,
    Message,
    QuestionAnswer,
    RunSpec,
    RunStatus,
    Switches,
)
from kernel.runtime.local import LocalRun
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, ToolError, call, hint
from tests.kernel.core_run import SPEC as CORE_SPEC
from tests.kernel.core_run import CoreRun
from tests.kernel.temporal_run import TemporalRun, temporal_run, without_times
from tests.kernel.test_scenarios import on, works

Reply = str | list[Any]
KERNEL_TOOLS = ("await_operation", "ask_human", "update_plan", "delegate")
TEAM = (
    Member("reviewer", agent="reviewer", tools=(), limits=Limits(max_turns=3)),
    Member("builder", agent="builder", tools=(), limits=Limits(max_turns=2)),
)


@dataclass(frozen=True)
class Path:
    """A world, what a person in it says, and what must be true of its run on any runner."""

    name: str
    replies: tuple[Reply, ...]
    check: Callable[["World"], None]
    tools: Callable[[], dict[str, Any]] = dict
    background: tuple[str, ...] = ()
    models: dict[str, tuple[Reply, ...]] = field(default_factory=dict)
    hints: Any = None
    approves: bool = False
    answer: str = ""
    spec: dict[str, Any] = field(default_factory=dict)


class World:
    """One run of a path: its edges and its spec."""

    def __init__(self, path: Path, run_id: str) -> None:
        models = {agent: ScriptedModel(*replies) for agent, replies in path.models.items()}
        self.edges = MemoryEdges(
            ScriptedModel(*path.replies), path.tools(), path.hints, models=models, background=path.background
        )
        off = Switches(off=("task.priming",))
        self.spec = replace(RunSpec(run_id, "Build it", switches=off, tools=KERNEL_TOOLS, members=TEAM), **path.spec)
        self.path = path

    @property
    def requests(self) -> list[tuple[Message, ...]]:
        return self.edges.model.requests

    def own_events(self) -> list[Any]:
        return [event for event in self.edges.events if event.event_id.startswith(f"{self.spec.run_id}:")]

    def data_of(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(event.data) for event in self.own_events() if event.type == kind]

    def seen(self) -> list[str]:
        """The requests, the searches and the events, comparable between runs of other ids.

        What goes on beside the calls ends when it ends, so of the events the order is left out and with it their
        numbers.
        """
        searches = [replace(request, source_event_id="") for request in self.edges.hint_requests]
        events = [
            replace(event, event_id="", seq=0, caused_by=None, turn=None)
            for event in without_times(self.own_events())
            if event.type not in ("model.requested", "hint.delivery")
        ]
        named = [
            [repr(one).replace(self.spec.run_id, "RUN") for one in many] for many in (self.requests, searches, events)
        ]
        return [*named[0], *named[1], *sorted(named[2])]


def last_replies(world: World, request: int) -> list[str]:
    texts: list[str] = []
    for message in world.requests[request]:
        texts = [] if message.role == "assistant" else [*texts, message.text] if message.role == "tool" else texts
    return texts


def slow_failure() -> dict[str, Any]:
    """`build` fails when `test` has been called, and `test` ends a good while later."""
    tested, built = asyncio.Event(), asyncio.Event()

    async def build() -> str:
        await tested.wait()
        built.set()
        raise ToolError("linker: cannot find -lz", "link_error", "uncertain")

    async def test(**arguments: Any) -> str:
        tested.set()
        await built.wait()
        await asyncio.sleep(1)
        return "fine"

    return {"build": build, "test": test}


def awaited(world: World) -> None:
    started, told = world.requests[1][3].text, world.requests[2]
    assert "op-3 was started in the background; this is not its result" in started
    assert [message.role for message in told[4:]] == ["assistant", "tool", "context"]
    assert told[5].text.startswith("[Background operation op-3 of build ended: failed, link_error. Its effect is unc")
    assert told[5].text.endswith("linker: cannot find -lz")
    (request,) = world.edges.hint_requests
    assert (request.trigger, request.tool, request.tool_result) == ("tool.failed", "build", "linker: cannot find -lz")
    assert world.data_of("operation.failed")[0]["status"] == "failed"
    assert world.data_of("tool.failed") == [], "waiting worked; what failed is the operation"


def delivered(world: World) -> None:
    assert [message.origin for message in world.requests[2]][-3:] == ["tool", "operation", "hints"]
    assert [message.role for message in world.requests[2]][-3:] == ["tool", "context", "context"]
    (request,) = world.edges.hint_requests
    (failed,) = [event for event in world.own_events() if event.type == "operation.failed"]
    assert request.source_event_id == failed.event_id
    assert sum("cannot find -lz" in message.text for message in world.requests[-1]) == 1


def awaited_after_its_end(world: World) -> None:
    assert [message.role for message in world.requests[1][3:]] == ["tool", "tool", "tool", "context"]
    assert "cannot find -lz" in world.requests[1][5].text, "told by the reply, not once more by a message"
    assert len(world.edges.hint_requests) == 1


def nothing_to_await(world: World) -> None:
    (refused,) = world.data_of("tool.blocked")
    assert (refused["status"], refused["code"]) == ("denied", "operation_unknown")
    assert "'op-99'" in last_replies(world, 1)[0]
    assert world.edges.hint_requests == []


def operations_limited(world: World) -> None:
    assert [data.get("code") for data in world.data_of("tool.blocked")] == ["operation_limit"]
    assert len(world.data_of("operation.started")) == 1
    (stopped,) = world.data_of("operation.failed")
    assert (stopped["status"], stopped["effect"]) == ("cancelled", "uncertain")
    assert world.edges.hint_requests == [], "what was stopped because the run ended is no failure"


def answered(world: World) -> None:
    assert last_replies(world, 1) == ["use [REDACTED:github_token]" if "ghp_" in world.path.answer else "main", "fine"]
    assert world.data_of("human.asked") == [{"question": "Which branch?"}]
    (said,) = world.data_of("human.answered")
    assert "ghp_" not in json.dumps(said)
    assert world.edges.hint_requests == []


def unanswered(world: World) -> None:
    assert last_replies(world, 1) == ["No person answered in time."]
    assert [data["code"] for data in world.data_of("tool.blocked")] == ["question_unanswered"]
    assert world.edges.hint_requests == [] and world.data_of("human.answered") == [{"timed_out": True}]


def undecided(world: World) -> None:
    assert [data["code"] for data in world.data_of("tool.blocked")] == ["approval_timeout"]
    assert world.data_of("approval.decided") == [{"approved": False, "timed_out": True}]
    assert world.edges.executed == [] and world.edges.hint_requests == []


def planned(world: World) -> None:
    assert world.data_of("plan.updated") == [{"plan": ["build", "test"]}]
    assert last_replies(world, 1)[0].startswith("The plan was noted; it has 2 steps.")


def team(world: World) -> None:
    reply = last_replies(world, 1)
    assert reply[0] == "all good", "a run that ended well answers with its answer"
    assert reply[1].startswith("[The run ") and "limit_reached" in reply[1], "T26: a member obeys its own limit"
    assert reply[2] == "fine", "calls behind a delegate do not wait for it"
    assert [message.role for message in world.requests[1][3:]] == ["tool", "tool", "tool", "context"]
    (request,) = world.edges.hint_requests
    assert (request.tool, request.error_class) == ("delegate", "delegate_limit_reached")
    assert len(world.edges.models["reviewer"].requests) == 1
    assert len(world.edges.models["builder"].requests) == 3, "its two rounds, and the last request"
    finished = {data["child_run_id"]: data["status"] for data in world.data_of("delegate.finished")}
    run_id = world.spec.run_id
    assert finished == {f"{run_id}.1": "completed", f"{run_id}.2": "limit_reached"}
    of_children = [event for event in world.edges.wire if event["run_id"] != run_id]
    assert {(event["parent_run_id"], event["team_root"]) for event in of_children} == {(run_id, run_id)}
    task = world.edges.models["reviewer"].requests[0][1]
    assert (task.role, task.text) == ("user", "look at it")


def not_delegated(world: World) -> None:
    codes = [data.get("code") for data in world.data_of("tool.blocked")]
    assert codes == ["member_unknown", "delegate_limit", "invalid_arguments"]
    assert world.edges.hint_requests == []


def too_deep(world: World) -> None:
    assert [data.get("code") for data in world.data_of("tool.blocked")] == ["depth_limit"]
    assert world.data_of("delegate.started") == []


def copied(world: World) -> None:
    assert last_replies(world, 1) == ["all good", "all good"], "identical calls are one run"
    assert len(world.data_of("delegate.started")) == 1


def approved_operation(world: World) -> None:
    assert [data["approved"] for data in world.data_of("approval.decided")] == [True]
    assert [name for name, _ in world.edges.executed] == ["build"]
    assert "ended well" in world.requests[2][5].text


AWAIT = call("await_operation", operation_id="op-3")
ASK = call("ask_human", question="Which branch?")
REVIEW = call("delegate", member="reviewer", task="look at it")
BUILD = call("delegate", member="builder", task="build it")
LINK = on("tool.failed", hint("k-link", "install zlib1g-dev"))
PATHS = [
    Path(
        "awaited", ([call("build")], [AWAIT], "done"), awaited, lambda: {"build": fails_linking}, ("build",), hints=LINK
    ),
    Path(
        "delivered",
        ([call("build")], [call("test")], "done"),
        delivered,
        slow_failure,
        ("build",),
        hints=LINK,
    ),
    Path(
        "awaited after its end",
        ([call("build"), call("test"), AWAIT], "done"),
        awaited_after_its_end,
        slow_failure,
        ("build",),
        hints=LINK,
    ),
    Path("nothing to await", ([call("await_operation", operation_id="op-99")], "done"), nothing_to_await),
    Path(
        "operations are limited and stopped",
        ([call("build", n=1), call("build", n=2)], "done"),
        operations_limited,
        lambda: {"build": forever},
        ("build",),
        spec={"limits": Limits(pending_operations=1)},
    ),
    Path("answered", ([ASK, call("ok")], "done"), answered, lambda: {"ok": works()}, answer="main"),
    Path(
        "answered with a secret",
        ([ASK, call("ok")], "done"),
        answered,
        lambda: {"ok": works()},
        answer=f"use ghp_{'a1B2' * 9}",
    ),
    Path("unanswered", ([ASK], "done"), unanswered, spec={"limits": Limits(person_timeout_ms=100)}),
    Path(
        "undecided",
        ([call("deploy")], "done"),
        undecided,
        lambda: {"deploy": works()},
        spec={"limits": Limits(person_timeout_ms=100), "approval_tools": ("deploy",)},
    ),
    Path("planned", ([call("update_plan", steps=["build", "test"])], "done"), planned),
    Path(
        "a team",
        ([REVIEW, BUILD, call("ok")], "done"),
        team,
        lambda: {"ok": works()},
        models={"reviewer": ("all good",), "builder": ([call("nope", n=1)], [call("nope", n=2)])},
        hints=LINK,
    ),
    Path(
        "not delegated",
        ([call("delegate", member="nobody", task="x"), REVIEW, BUILD, call("delegate", member=7, task="x")], "done"),
        not_delegated,
        models={"reviewer": ("all good",)},
        spec={"limits": Limits(delegates_per_run=1)},
    ),
    Path("too deep", ([REVIEW], "done"), too_deep, spec={"depth": 1}),
    Path("one run for identical calls", ([REVIEW, REVIEW], "done"), copied, models={"reviewer": ("all good",)}),
    Path(
        "an operation that needs a yes",
        ([call("build")], [AWAIT], "done"),
        approved_operation,
        lambda: {"build": works()},
        ("build",),
        approves=True,
        spec={"approval_tools": ("build",)},
    ),
]


def fails_linking(**arguments: Any) -> str:
    raise ToolError("linker: cannot find -lz", "link_error", "uncertain")


async def forever(**arguments: Any) -> str:
    await asyncio.Event().wait()
    return "never"


async def on_local(path: Path, run_id: str = "r-00000000", **limits: Any) -> World:
    world = World(path, run_id)
    spec = replace(world.spec, limits=replace(world.spec.limits, **limits))

    async def approve(command: AskApproval) -> bool:
        if not path.approves:
            await asyncio.Event().wait()
        return True

    async def answer(command: AskQuestion) -> str:
        if not path.answer:
            await asyncio.Event().wait()
        return path.answer

    run = LocalRun(world.edges, approve, world.edges.clock, answer)
    result = await asyncio.wait_for(run.run(spec), 20)
    assert result.status == "completed", result
    return world


async def people(path: Path, run: TemporalRun) -> None:
    """Answer what waits, as the path's person does, until the run ends."""
    while path.approves or path.answer:
        try:
            status: RunStatus = await run.handle.query(AgentRun.status)
            for asked in status.pending_approvals if path.approves else ():
                answer = ApprovalAnswer(asked.call_id, True, "caller")
                await run.handle.execute_update(AgentRun.decide_approval, answer)
            for question in status.pending_questions if path.answer else ():
                said = QuestionAnswer(question.call_id, path.answer, "caller")
                await run.handle.execute_update(AgentRun.answer_question, said)
        except (RPCError, WorkflowUpdateFailedError):
            continue


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
async def test_path(path: Path) -> None:
    """Each path holds on the in-process runner."""
    path.check(await on_local(path))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
async def test_path_survives_continue_as_new(path: Path) -> None:
    """A new workflow run at every turn changes no request to the model and no search."""
    plain, cut = await on_local(path), await on_local(path, turns_per_workflow=1)
    assert cut.requests == plain.requests
    searched = [[replace(request, source_event_id="") for request in w.edges.hint_requests] for w in (cut, plain)]
    assert searched[0] == searched[1]
    assert len(cut.data_of("run.continued")) == len(plain.requests) - 1


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
async def test_path_is_the_same_run_on_temporal(temporal_address: str, path: Path) -> None:
    """Both runners give the model the same requests, ask Observation the same and report the same events."""
    local = await on_local(path)
    durable = World(path, f"r-{uuid.uuid4().hex[:8]}")
    async with temporal_run(temporal_address, durable.edges, durable.spec) as run:
        answering = asyncio.create_task(people(path, run))
        assert (await run.result()).status == "completed"
        answering.cancel()
    path.check(durable)
    assert durable.seen() == local.seen()


WAITS: dict[str, tuple[Reply, dict[str, Any]]] = {
    "question": ([ASK, call("ok")], {}),
    "delegate": ([call("delegate", member="builder", task="x")], {"builder": ([call("hang")],)}),
    "operation": ([call("build"), AWAIT], {}),
    "approval": ([call("deploy"), call("ok")], {}),
}


@pytest.mark.parametrize("runner", ["local", "temporal"])
@pytest.mark.parametrize("what", WAITS)
async def test_cancelled_while_waiting_all_calls_are_answered(temporal_address: str, what: str, runner: str) -> None:
    """A run cancelled while it waits for something leaves a legal history, one terminal event and nothing running."""
    reached = asyncio.Event()

    async def hang(**arguments: Any) -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    reply, models = WAITS[what]
    tools = {"build": hang, "hang": hang, "ok": works(), "deploy": works()}
    members = (replace(TEAM[1], limits=Limits()),)
    path = Path(
        what, (reply, "done"), lambda world: None, lambda: tools, ("build",), models,
        spec={"approval_tools": ("deploy",), "members": members},
    )  # fmt: skip
    world = World(path, f"r-{uuid.uuid4().hex[:8]}")
    await (cancelled_locally if runner == "local" else cancelled_on_temporal)(world, temporal_address)
    history = await world.edges.store.read(world.spec.run_id, 3 + len(reply))
    check_history(history)
    assert [message.role for message in history[2:]] == ["assistant", *["tool"] * len(reply)]
    closed = [message.call_id for message in history if "cancelled while this call was pending" in message.text]
    assert closed == {"question": ["c1"], "delegate": ["c1"], "operation": ["c2"], "approval": ["c1", "c2"]}[what]
    types = [event.type for event in world.own_events()]
    assert types.count("run.cancelled") == 1 and types[-1] == "run.cancelled"
    if what == "delegate":
        assert world.data_of("delegate.finished")[0]["status"] == "cancelled"
        assert "run.cancelled" in [
            e.type for e in world.edges.events if e.event_id.startswith(f"{world.spec.run_id}.1:")
        ]
    if what == "operation":
        assert world.data_of("operation.failed")[0]["status"] == "cancelled"


def waits(world: World) -> bool:
    """Whether all that the path waits for was begun."""
    kinds = {type(command).__name__ for command in world.edges.commands}
    return "CallModel" in kinds and (world.path.name != "operation" or "StartOperation" in kinds)


async def cancelled_locally(world: World, _: str) -> None:
    async def never(command: Any) -> Any:
        await asyncio.Event().wait()

    run = LocalRun(world.edges, never, world.edges.clock, never)
    task = asyncio.create_task(run.run(world.spec))
    async with asyncio.timeout(60):
        while run.state is None or run.state.phase not in ("waiting", "approving") or not waits(world):
            await asyncio.sleep(0.01)
        if world.path.name == "delegate":
            while not world.edges.executed:
                await asyncio.sleep(0.01)
    run.cancel("enough")
    assert (await asyncio.wait_for(task, 60)).status == "cancelled"


async def cancelled_on_temporal(world: World, address: str) -> None:
    async with temporal_run(address, world.edges, world.spec) as run:
        async with asyncio.timeout(20):
            while (await run.handle.query(AgentRun.status)).phase not in ("waiting", "approving") or not waits(world):
                await asyncio.sleep(0.05)
            while world.path.name == "delegate" and not world.edges.executed:
                await asyncio.sleep(0.05)
        await run.handle.cancel()
        assert (await run.result()).status == "cancelled"
        async with asyncio.timeout(20):
            child = f"{world.spec.run_id}.1:"
            while world.path.name == "delegate" and not any(
                event.type == "run.cancelled" and event.event_id.startswith(child) for event in world.edges.events
            ):
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("asks", [("ask_human", {"question": "Which?"}), ("sql", {})], ids=["question", "approval"])
def test_what_waits_for_a_person_is_told_at_once(asks: tuple[str, dict[str, Any]]) -> None:
    """All that happened until a run waits is reported before it does: nobody can answer what they do not see."""
    run = CoreRun(replace(CORE_SPEC, approval_tools=("sql",)))
    run.ask(asks)
    assert run.state.phase in ("waiting", "approving") and run.state.events == ()
    assert run.events[-1].type in ("human.asked", "approval.requested")
