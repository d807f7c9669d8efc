"""The scenarios of seed 001 §16.2, run on the core by the in-process runner; the Temporal tests run the same table."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kernel.messages import ApprovalDecided, Hint, HintRequest, Limits, RunSpec, SuppressedItem, Switches
from kernel.runtime.local import LocalRun
from kernel.testing import FindHints, MemoryEdges, ScriptedModel, ToolError, call, hint

ROOM = Limits(max_turns=40, max_tool_calls=400)  # room for what is not about these two
SPEC = RunSpec(run_id="r-1", task="Release the parser package", switches=Switches(off=("task.priming",)), limits=ROOM)


def fails(detail: str, **fields: Any) -> Callable[..., str]:
    def tool(**arguments: Any) -> str:
        raise ToolError(detail.format(**arguments), **fields)

    return tool


def works(text: str = "fine") -> Callable[..., str]:
    return lambda **arguments: text


def on(trigger: str, *hints: Hint) -> FindHints:
    return lambda request: hints if request.trigger == trigger else ()


@dataclass(frozen=True)
class Scenario:
    """A run to be made on any runner, and what must be true of it."""

    name: str
    replies: tuple[Any, ...]
    check: Callable[[MemoryEdges], None]
    tools: dict[str, Any] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)
    find_hints: FindHints | None = None
    spec: RunSpec = SPEC

    def edges(self) -> MemoryEdges:
        return MemoryEdges(ScriptedModel(*self.replies), dict(self.tools), self.find_hints, dict(self.servers))


def triggers(edges: MemoryEdges) -> list[str]:
    return [request.trigger for request in edges.hint_requests]


def skips(edges: MemoryEdges) -> list[str]:
    return [data["skip_reason"] for data in edges.data_of("activation.skipped")]


def last_roles(edges: MemoryEdges, request: int) -> list[str]:
    return [message.role for message in edges.model.requests[request]]


def context_texts(edges: MemoryEdges) -> list[str]:
    return [message.text for message in edges.model.requests[-1] if message.role == "context"]


def first_mcp_call(edges: MemoryEdges) -> None:
    assert triggers(edges) == ["mcp.first_call"]
    assert edges.hint_requests[0].mcp_server == "git"
    assert "run `k-1`" in context_texts(edges)[0]


def second_mcp_call(edges: MemoryEdges) -> None:
    assert triggers(edges) == ["mcp.first_call"]
    assert len(edges.executed) == 3


def first_mcp_call_fails(edges: MemoryEdges) -> None:
    assert triggers(edges) == ["tool.failed"]


def ordinary_failure(edges: MemoryEdges) -> None:
    (request,) = edges.hint_requests
    assert (request.trigger, request.tool, request.error_class) == ("tool.failed", "shell", "exit_nonzero")
    assert request.tool_result == "fatal: not a git repository"
    assert request.query == SPEC.task
    assert last_roles(edges, 1) == ["system", "user", "assistant", "tool", "context"]
    assert edges.model.requests[1][3].text == "[failed: exit_nonzero]\nfatal: not a git repository\n[effect: none]"


def same_failure(edges: MemoryEdges) -> None:
    assert triggers(edges) == ["tool.failed"]
    assert skips(edges) == ["duplicate_situation"]
    assert edges.data_of("activation.skipped")[0]["same_as"] == "r-1:a1"


def other_failure(edges: MemoryEdges) -> None:
    assert triggers(edges) == ["tool.failed", "tool.failed"]
    assert [request.tool_result for request in edges.hint_requests] == ["no such table: a", "syntax error near b"]


def several_calls(edges: MemoryEdges) -> None:
    assert last_roles(edges, 1) == ["system", "user", "assistant", "tool", "tool", "tool", "context"]
    assert [message.call_id for message in edges.model.requests[1][3:6]] == ["c1", "c2", "c3"]


def two_servers(edges: MemoryEdges) -> None:
    assert [request.mcp_server for request in edges.hint_requests] == ["git", "time"]
    fetches = [command for command in edges.commands if type(command).__name__ == "FetchHints"]
    assert len(fetches) == 1, "one call for the whole boundary"


def two_servers_one_slot(edges: MemoryEdges) -> None:
    assert [request.mcp_server for request in edges.hint_requests] == ["git", "time"]
    assert "activation.deferred" in edges.event_types()
    fetches = [command for command in edges.commands if type(command).__name__ == "FetchHints"]
    assert len(fetches) == 2, "the second waits for the next boundary"


def already_issued(edges: MemoryEdges) -> None:
    assert edges.hint_requests[1].issued_knowledge_ids == ("k-1",)
    assert sum(text.count("rule of k-1") for text in context_texts(edges)) == 1


def too_large(edges: MemoryEdges) -> None:
    (drop,) = edges.data_of("hint.delivery")
    assert (drop["stage"], drop["drop_reason"], drop["limit"]) == ("dropped", "activation_tokens", 400)
    assert drop["needed"] > 400
    assert edges.hint_requests[1].issued_knowledge_ids == ()
    assert edges.hint_requests[1].suppressed == (SuppressedItem("k-big", 1),)
    assert context_texts(edges) == []


def observation_down(edges: MemoryEdges) -> None:
    assert [data["result"] for data in edges.data_of("activation.completed")] == ["error"]
    assert edges.event_types()[-1] == "run.completed"
    assert context_texts(edges) == []


def refused(edges: MemoryEdges) -> None:
    assert edges.hint_requests == []
    assert edges.executed == []
    assert [data["status"] for data in edges.data_of("tool.blocked")] == ["blocked", "denied", "denied", "denied"]
    codes = [data["code"] for data in edges.data_of("tool.blocked")]
    assert codes == ["policy_blocked", "approval_denied", "tool_unavailable", "invalid_arguments"]


def uncertain_effect(edges: MemoryEdges) -> None:
    assert edges.data_of("tool.failed")[0]["effect"] == "uncertain"
    block = context_texts(edges)[0]
    assert "not an instruction" in block
    assert len(edges.executed) == 1, "nothing is repeated by the kernel"


def down(request: HintRequest) -> list[Hint]:
    raise ConnectionError("observation is down")


MALFORMED = replace(call("shell"), arguments="{not json")
SCENARIOS = [
    Scenario(
        "first successful MCP call",
        ([call("git_status")], "done"),
        first_mcp_call,
        {"git_status": works()},
        {"git_status": "git"},
        on("mcp.first_call", hint("k-1")),
    ),
    Scenario(
        "second call of the same MCP server",
        ([call("git_status")], [call("git_log")], [call("git_status", at="x")], "done"),
        second_mcp_call,
        {"git_status": works(), "git_log": works()},
        {"git_status": "git", "git_log": "git"},
    ),
    Scenario(
        "first MCP call fails, then succeeds",
        ([call("git_status")], [call("git_log")], "done"),
        first_mcp_call_fails,
        {"git_status": fails("not a repository"), "git_log": works()},
        {"git_status": "git", "git_log": "git"},
    ),
    Scenario(
        "ordinary tool failure",
        ([call("shell", command="git commit")], "done"),
        ordinary_failure,
        {"shell": fails("fatal: not a git repository", error_class="exit_nonzero")},
        find_hints=on("tool.failed", hint("k-1")),
    ),
    Scenario(
        "identical failure repeated, a success between",
        ([call("shell", id=1)], [call("other")], [call("shell", id=2)], "done"),
        same_failure,
        {"shell": fails("request 2026-11-30T03:0{id}:00Z failed after {id} s"), "other": works()},
    ),
    Scenario(
        "another failure of the same tool",
        ([call("sql", text="no such table: a")], [call("sql", text="syntax error near b")], "done"),
        other_failure,
        {"sql": fails("{text}")},
    ),
    Scenario(
        "several calls in one reply",
        ([call("shell", n=1), call("other"), call("shell", n=2)], "done"),
        several_calls,
        {"shell": fails("error number {n} of this kind"), "other": works()},
        find_hints=on("tool.failed", hint("k-1")),
    ),
    Scenario(
        "two MCP servers in one reply",
        ([call("git_status"), call("now")], "done"),
        two_servers,
        {"git_status": works(), "now": works()},
        {"git_status": "git", "now": "time"},
    ),
    Scenario(
        "two MCP servers in one reply, one activation a turn",
        ([call("git_status"), call("now")], [call("git_status", n=1)], "done"),
        two_servers_one_slot,
        {"git_status": works(), "now": works()},
        {"git_status": "git", "now": "time"},
        spec=replace(SPEC, limits=Limits(activations_per_turn=1)),
    ),
    Scenario(
        "knowledge already injected",
        ([call("sql", text="no such table: a")], [call("sql", text="syntax error near b")], "done"),
        already_issued,
        {"sql": fails("{text}")},
        find_hints=on("tool.failed", hint("k-1")),
    ),
    Scenario(
        "knowledge does not fit the budget",
        ([call("sql", text="no such table: a")], [call("sql", text="syntax error near b")], "done"),
        too_large,
        {"sql": fails("{text}")},
        find_hints=on("tool.failed", hint("k-big", "word " * 500)),
    ),
    Scenario(
        "Observation is down",
        ([call("shell")], "done"),
        observation_down,
        {"shell": fails("fatal: it broke")},
        find_hints=down,
    ),
    Scenario(
        "blocked, not approved, not offered, malformed",
        ([call("blocked"), call("asked"), call("nowhere"), MALFORMED], "done"),
        refused,
        {"blocked": works(), "asked": works(), "shell": works()},
        spec=replace(SPEC, blocked_tools=("blocked",), approval_tools=("asked",)),
    ),
    Scenario(
        "uncertain side effect",
        ([call("shell")], "done"),
        uncertain_effect,
        {"shell": fails("timed out after 5 s", status="timed_out", effect="uncertain", error_class="timeout")},
        find_hints=on("tool.failed", hint("k-1", "run it again with `--yes`")),
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario(scenario: Scenario) -> None:
    """Each scenario of the requirement holds on the in-process runner."""
    edges = scenario.edges()
    await LocalRun(edges, clock_ns=edges.clock).run(scenario.spec)
    scenario.check(edges)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario_survives_continue_as_new(scenario: Scenario) -> None:
    """With a new workflow run at every turn the same requests go to the model and the same situations are searched."""
    plain, cut = scenario.edges(), scenario.edges()
    await LocalRun(plain, clock_ns=plain.clock).run(scenario.spec)
    limits = replace(scenario.spec.limits, turns_per_workflow=1)
    await LocalRun(cut, clock_ns=cut.clock).run(replace(scenario.spec, limits=limits))
    assert cut.model.requests == plain.model.requests
    # run.continued takes an event number, so later source ids are shifted; nothing else differs.
    shifted = [replace(request, source_event_id="") for request in cut.hint_requests]
    assert shifted == [replace(request, source_event_id="") for request in plain.hint_requests]
    continued = cut.event_types().count("run.continued")
    assert continued == len(plain.model.requests) - 1
    assert [t for t in cut.event_types() if t != "run.continued"] == plain.event_types()


async def test_background_operation_activates_on_its_real_outcome() -> None:
    """The reply with the operation id triggers nothing; the failure that comes later does, once, and is told."""
    edges = MemoryEdges(ScriptedModel([call("build")], [call("other")], [call("other", n=2)], "done"))
    edges.find_hints = on("tool.failed", hint("k-1"))
    edges.background = ("build",)
    linked = asyncio.Event()

    async def build() -> str:
        await linked.wait()
        raise ToolError("linker: cannot find -lz", "build_error", "uncertain")

    async def other(**arguments: Any) -> str:
        if not arguments:
            linked.set()
            await asyncio.sleep(0.05)
        return "fine"

    edges.tools = {"build": build, "other": other}
    await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    (request,) = edges.hint_requests
    assert (request.tool, request.tool_result) == ("build", "linker: cannot find -lz")
    assert [message.origin for message in edges.model.requests[1]][-1] == "tool"
    assert [message.origin for message in edges.model.requests[2]][-2:] == ["operation", "hints"]
    assert edges.event_types().count("operation.failed") == 1


async def test_approved_call_is_executed() -> None:
    """A person's yes lets the call run, and its failure is a failure like any other."""
    edges = MemoryEdges(ScriptedModel([call("deploy")], "done"), {"deploy": fails("no such host: prod")})

    async def yes(command: Any) -> bool:
        return True

    await LocalRun(edges, yes, edges.clock).run(replace(SPEC, approval_tools=("deploy",)))
    assert [name for name, _ in edges.executed] == ["deploy"]
    assert triggers(edges) == ["tool.failed"]
    assert edges.data_of("approval.decided") == [{"approved": True, "by": "caller"}]


async def test_identical_calls_in_one_reply_run_once() -> None:
    """Every id gets the same reply; the copy sets nothing off."""
    edges = MemoryEdges(ScriptedModel([call("shell", a=1), call("shell", a=1)], "done"), {"shell": fails("error: no")})
    await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    assert len(edges.executed) == 1
    replies = [message.text for message in edges.model.requests[1][3:5]]
    assert replies == ["[failed: error]\nerror: no\n[effect: none]"] * 2
    assert len(edges.hint_requests) == 1
    assert edges.data_of("tool.failed")[1]["duplicate_of"] == "c1"


async def test_priming_and_runtime_have_budgets_of_their_own() -> None:
    """Primed knowledge counts as issued and spends nothing of the runtime budget."""
    spec = replace(SPEC, switches=Switches())
    edges = MemoryEdges(ScriptedModel([call("shell")], "done"), {"shell": fails("fatal: it broke")})
    edges.find_hints = lambda request: (hint("k-1"), hint("k-2"))
    run = LocalRun(edges, clock_ns=edges.clock)
    await run.run(spec)
    assert triggers(edges) == ["task.priming", "tool.failed"]
    assert edges.hint_requests[1].issued_knowledge_ids == ("k-1", "k-2")
    assert run.state is not None
    assert run.state.activation.tokens_used == 0
    assert [message.origin for message in edges.model.requests[0]] == ["rules", "task", "priming"]


async def test_offered_selected_and_injected_are_reported_apart() -> None:
    """Injected is said by the request that carried the block, with its position."""
    edges = MemoryEdges(ScriptedModel([call("shell")], "done"), {"shell": fails("fatal: it broke")})
    edges.find_hints = lambda request: (hint("k-1"), hint("k-2"), hint("k-3"))
    await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    stages = [(event.knowledge_id, json.loads(event.data)["stage"]) for event in edges.events if event.hint_id]
    assert stages == [
        ("k-1", "selected"),
        ("k-2", "selected"),
        ("k-3", "dropped"),
        ("k-1", "injected"),
        ("k-2", "injected"),
    ]
    injected = edges.data_of("hint.delivery")[-1]
    assert injected["position"] == 4
    requested = [event.event_id for event in edges.events if event.type == "model.requested"]
    assert injected["request_event_id"] == requested[1]


@pytest.mark.parametrize(
    ("switches", "searched", "skipped"),
    [
        (Switches(off=("task.priming",), activation=False), [], ["activation_off"]),
        (Switches(off=("task.priming", "tool.failed")), [], ["trigger_off"]),
        (Switches(off=("task.priming",), shadow=True), ["tool.failed"], []),
    ],
)
async def test_switches(switches: Switches, searched: list[str], skipped: list[str]) -> None:
    """What is switched off is skipped with that reason; shadow mode searches and injects nothing."""
    edges = MemoryEdges(ScriptedModel([call("shell")], "done"), {"shell": fails("fatal: it broke")})
    edges.find_hints = on("tool.failed", hint("k-1"))
    await LocalRun(edges, clock_ns=edges.clock).run(replace(SPEC, switches=switches))
    assert (triggers(edges), skips(edges)) == (searched, skipped)
    assert context_texts(edges) == []
    drops = [data["drop_reason"] for data in edges.data_of("hint.delivery")]
    assert drops == (["shadow"] if switches.shadow else [])


async def test_last_turn_searches_nothing_and_the_limit_has_its_own_end() -> None:
    """Before the last request no search is made; after it the run ends as limit_reached, once."""
    turns = [[call("shell", n=name)] for name in ("alpha", "bravo", "charlie")]
    edges = MemoryEdges(ScriptedModel(*turns), {"shell": fails("cannot find '{n}'")})
    result = await LocalRun(edges, clock_ns=edges.clock).run(replace(SPEC, limits=Limits(max_turns=2)))
    searched = [request.tool_result for request in edges.hint_requests]
    assert result.status == "limit_reached"
    assert len(edges.model.requests) == 3
    assert (searched, skips(edges)) == (["cannot find 'alpha'"], ["final_turn"])
    assert sum(kind in ("run.completed", "run.limit_reached", "run.failed") for kind in edges.event_types()) == 1


async def test_cancel_closes_pending_calls_neutrally() -> None:
    """A cancelled run says of its pending call that its effect is not known, and searches nothing."""
    edges = MemoryEdges(ScriptedModel([call("shell"), call("other")], "done"))
    run = LocalRun(edges, clock_ns=edges.clock)
    edges.tools = {"shell": lambda: run.cancel("stop"), "other": works()}
    result = await run.run(SPEC)
    assert (result.status, edges.hint_requests) == ("cancelled", [])
    assert {data["status"] for data in edges.data_of("tool.blocked")} == {"cancelled"}
    assert edges.event_types()[-1] == "run.cancelled"


async def test_model_failure_ends_the_run_as_failed() -> None:
    """A model that cannot be reached is a failed run with its error, not an exception."""
    edges = MemoryEdges(ScriptedModel(ConnectionError("refused")))
    result = await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    assert result.status == "failed"
    assert edges.event_types()[-3:] == ["model.failed", "turn.failed", "run.failed"]


def test_approval_observation_is_a_plain_value() -> None:
    """Observations compare by value, so a recorded run can be compared with a live one."""
    assert ApprovalDecided(1, "c1", True) == ApprovalDecided(1, "c1", True)
