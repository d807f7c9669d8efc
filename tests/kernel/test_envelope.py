"""What a driver may declare about its own turn, and what the envelope makes of it. (Seed 003.)"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kernel.drivers import DriverReply, Escalation, ModelRequest, ToolOffer
from kernel.drivers.decisions import read_decision
from kernel.drivers.escalation import DEFAULT_REASON, cut_units, read_reason, recognised, units
from kernel.messages import Limits, RunResult, RunSpec
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.kernel.test_scenarios import SPEC, fails, on, works

OUTCOMES = ("requested", "completed", "failed", "blocked")
ASKING = replace(SPEC, tools=("escalate",), grants=("*", "escalate"))


class Deciding(ScriptedModel):
    """A driver that returns prepared decisions; past the last it completes."""

    def __init__(self, *decisions: Any) -> None:
        super().__init__()
        self._decisions = list(decisions)

    async def reply(self, request: ModelRequest) -> DriverReply:
        self.requests.append(request.messages)
        given = self._decisions.pop(0) if self._decisions else {"type": "complete", "output": "done"}
        if isinstance(given, DriverReply):
            return given
        return read_decision(given() if callable(given) else given)


class Recognising(ScriptedModel):
    """A driver that reads a model's words for its ask."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        return recognised(await super().reply(request), request.tools)


def tool_call(name: str, step: Any = None, **arguments: Any) -> dict[str, Any]:
    claim = {} if step is None else {"step": step}
    return {"type": "tool_call", "call": {"name": name, "arguments": arguments}, **claim}


def ask(reason: str = "needs a key") -> dict[str, Any]:
    return {"type": "escalate", "reason": reason}


async def made(*decisions: Any, spec: RunSpec = SPEC, tools: dict[str, Callable[..., Any]] | None = None) -> "Made":
    model = Deciding(*decisions)
    edges = MemoryEdges(model, tools or {"shell": works(), "read": works("read it")}, on("tool.failed"))
    result = await LocalRun(edges, clock_ns=edges.clock).run(spec)
    return Made(edges, result, model)


class Made:
    """A run that was made."""

    def __init__(self, edges: MemoryEdges, result: RunResult, model: Deciding) -> None:
        self.edges, self.result, self.model = edges, result, model
        self.executed = [name for name, _ in edges.executed]
        self.refused = [data["code"] for data in edges.data_of("tool.blocked")]
        self.failed = [(data["code"], data["source"]) for data in edges.data_of("turn.failed")]


# ---- steps


async def test_a_step_past_the_budget_is_refused_and_the_run_goes_on() -> None:
    """A claim at or past the ceiling refuses its call and costs nothing of the budget of calls."""
    limits = Limits(max_turns=2, max_tool_calls=1)
    run = await made([tool_call("shell", 2), tool_call("shell", 7, n=1)], tool_call("shell"), spec=limited(limits))
    assert run.refused == ["step_limit_exceeded", "step_limit_exceeded"]
    assert (run.executed, run.result.status) == (["shell"], "limit_reached")


def limited(limits: Limits, spec: RunSpec = SPEC) -> RunSpec:
    return replace(spec, limits=limits)


async def test_a_step_ahead_is_a_claim_and_does_not_move_the_loop() -> None:
    """Inside the budget it is handed on as it is; the loop's own next step is where it was, and all rounds are left."""
    run = await made(tool_call("shell", 6), tool_call("shell", 1), tool_call("shell", 2))
    assert (run.refused, run.executed) == ([], ["shell"] * 3)
    assert run.result.status == "completed"


async def test_the_record_has_the_step_as_it_was_claimed() -> None:
    """The call and its outcome carry the claim, whatever becomes of it; without one they carry none."""
    run = await made(
        [tool_call("shell", 4), tool_call("ghost", 5)], tool_call("boom", 3), tool_call("shell", 9), tool_call("read"),
        spec=limited(Limits(max_turns=8)), tools={"shell": works(), "boom": fails("no"), "read": works("read it")},
    )  # fmt: skip
    told = {kind: [one.get("step") for one in run.edges.data_of(f"tool.{kind}")] for kind in OUTCOMES}
    assert told == {"requested": [4, 5, 3, 9, None], "completed": [4, None], "failed": [3], "blocked": [5, 9]}


@pytest.mark.parametrize("step", [True, False, -1, 1.0, "1", [1]])
async def test_what_is_no_step_ends_the_turn(step: Any) -> None:
    """A bool is no number here."""
    run = await made(tool_call("shell", step))
    assert (run.failed, run.executed) == ([("invalid_driver_decision", "runtime")], [])
    assert run.result.status == "failed"


async def test_a_step_behind_the_loop_is_malformed() -> None:
    """The loop can see that it is false; equal to the loop's position it is fine."""
    run = await made(tool_call("shell", 0), tool_call("shell", 0))
    assert (run.failed, run.executed) == ([("invalid_driver_decision", "runtime")], ["shell"])


@pytest.mark.parametrize("step", [True, -1, 0, "2"])
async def test_a_driver_that_builds_its_reply_itself_is_held_to_the_same(step: Any) -> None:
    """Claims are judged where the reply is taken in, not only where decisions are read."""
    wrong = DriverReply(calls=(call("shell", "c9"),), steps=(step,))
    run = await made(tool_call("shell"), wrong)
    assert (run.failed, run.executed) == ([("invalid_driver_decision", "runtime")], ["shell"])


# ---- the order of refusals, and the budget of calls


async def test_the_first_that_stands_against_a_call_refuses_it() -> None:
    """Step before budget, budget before catalogue, catalogue before arguments, arguments before policy."""
    spec = replace(limited(Limits(max_turns=3, max_tool_calls=3)), blocked_tools=("shell",))
    wrong = {"type": "tool_call", "call": {"name": "shell", "arguments": "{"}}
    guess = {"type": "tool_call", "call": {"name": "deploy", "arguments": "{"}}
    run = await made([guess, wrong, tool_call("shell"), tool_call("deploy", n=1), tool_call("deploy", 3)], spec=spec)
    assert run.refused == [
        "tool_unavailable",
        "invalid_arguments",
        "policy_blocked",
        "tool_call_limit_exceeded",
        "step_limit_exceeded",
    ]
    assert run.executed == []


async def test_t50_guessing_tools_uses_up_the_budget() -> None:
    """T50, T52: an unknown tool is refused, searches nothing, and costs a call each time; the run goes on."""
    guesses = [tool_call("deploy", n=n) for n in range(3)]
    run = await made(*guesses, tool_call("shell"), spec=limited(Limits(max_turns=4, max_tool_calls=3)))
    assert run.refused == ["tool_unavailable"] * 3 + ["tool_call_limit_exceeded"]
    assert (run.executed, run.edges.hint_requests) == ([], [])


async def test_the_budget_is_as_many_calls_as_steps_unless_said() -> None:
    """A reply of nine calls in a run of eight steps: the ninth is refused."""
    run = await made([tool_call("shell", n=n) for n in range(9)], spec=limited(Limits()))
    assert (len(run.executed), run.refused) == (8, ["tool_call_limit_exceeded"])


async def test_a_copy_costs_nothing() -> None:
    """Identical calls of one reply are executed, and paid for, once."""
    run = await made([tool_call("shell")] * 3, tool_call("read"), spec=limited(Limits(max_tool_calls=2)))
    assert (run.executed, run.refused) == (["shell", "read"], [])


async def test_an_approved_call_is_paid_for_once() -> None:
    """Waiting for a person's yes does not count the call again."""
    edges = MemoryEdges(Deciding(tool_call("shell"), tool_call("read")), {"shell": works(), "read": works()})

    async def yes(_: object) -> bool:
        return True

    spec = replace(limited(Limits(max_tool_calls=2)), approval_tools=("shell", "read"))
    result = await LocalRun(edges, yes, edges.clock).run(spec)
    assert ([name for name, _ in edges.executed], result.status) == (["shell", "read"], "completed")


# ---- the catalogue


@pytest.mark.parametrize(
    ("tools", "grants", "off"),
    [((), ("*", "escalate"), ()), (("escalate",), ("*",), ()), (("escalate",), ("*", "escalate"), ("kernel",))],
    ids=["not requested", "not granted", "namespace off"],
)
async def test_t55_an_ask_that_is_not_offered_is_a_call_like_any_other(
    tools: tuple[str, ...], grants: tuple[str, ...], off: tuple[str, ...]
) -> None:
    """T55: the name alone escalates nothing: the call is refused, leaves no record of an escalation, and the run goes
    on."""
    spec = replace(SPEC, tools=tools, grants=grants, namespaces_off=off)

    edges = MemoryEdges(Recognising([call("escalate", reason="now")], "done"), {})
    result = await LocalRun(edges, clock_ns=edges.clock).run(spec)
    assert [data["code"] for data in edges.data_of("tool.blocked")] == ["tool_unavailable"]
    assert (result.status, edges.data_of("run.escalated")) == ("completed", [])


# ---- asking


async def test_t56_the_first_decision_may_be_an_ask() -> None:
    """T56: the run ends escalated, with the reason, whom it is put to, and neither an error nor a denial."""
    spec = replace(ASKING, reviewer="release owner")
    run = await made({**ask(), "metadata": {"ticket": 7}}, spec=spec)
    assert run.result.status == "escalated"
    (end,) = run.edges.data_of("run.escalated")
    assert (end["reason"], end["reviewer"], end["n_denied"]) == ("needs a key", "release owner", 0)
    assert end["metadata"] == {"ticket": 7}
    assert (run.failed, run.refused, run.executed) == ([], [], [])


async def test_t53_reads_before_an_ask_are_answered_and_writes_after_it_closed() -> None:
    """T53: what comes first is executed, the run ends in the ask, what comes after is in the record as denied."""
    run = await made([tool_call("read"), ask(), tool_call("shell"), tool_call("read")], spec=ASKING)
    assert (run.executed, run.refused) == (["read"], ["escalation_pending"] * 2)
    assert run.edges.data_of("run.escalated")[0]["n_denied"] == 2
    stored = await run.edges.store.read(SPEC.run_id, 7)
    assert [(message.status, message.code) for message in stored[3:]] == [
        ("ok", ""),
        ("ok", ""),
        ("denied", "escalation_pending"),
        ("denied", "escalation_pending"),
    ]


@pytest.mark.parametrize(("told", "n"), [(3, 4), (0, 1), (-1, 1), (True, 1), ("3", 1)])
async def test_calls_a_runtime_denied_itself_are_counted(told: Any, n: int) -> None:
    """Behind a bridge they reach nobody else: the run's end counts them with those that stood in the reply."""
    run = await made([{**ask(), "metadata": {"n_denied": told}}, tool_call("shell")], spec=ASKING)
    assert run.edges.data_of("run.escalated")[0]["n_denied"] == n


async def test_t54_the_first_ask_wins() -> None:
    """T54: its reason counts; the second is a call after the ask."""
    run = await made([ask("first"), ask("second")], spec=ASKING)
    (end,) = run.edges.data_of("run.escalated")
    assert (end["reason"], end["n_denied"], run.refused) == ("first", 1, ["escalation_pending"])


async def test_an_ask_waits_for_what_was_started_before_it() -> None:
    """A question put to a person before the ask is answered first; then the run ends."""
    edges = MemoryEdges(Deciding([tool_call("ask_human", question="which?"), ask()]), {})

    async def answered(_: object) -> str:
        return "main"

    spec = replace(ASKING, tools=("escalate", "ask_human"))
    result = await LocalRun(edges, None, edges.clock, answered).run(spec)
    assert (result.status, edges.data_of("human.answered")) == ("escalated", [{"answer": "main", "by": "caller"}])


async def test_nothing_is_searched_for_when_a_run_ends_in_an_ask() -> None:
    """A failure before the ask is no reason to search: nobody reads the answer."""
    run = await made([tool_call("shell"), ask()], spec=ASKING, tools={"shell": fails("fatal: no such key")})
    assert (run.result.status, run.edges.hint_requests) == ("escalated", [])


async def test_a_forged_ask_fails_the_run_and_escalates_nothing() -> None:
    """A runtime that ends in an ask it was not offered misbehaves: the envelope says so, from outside."""
    run = await made([tool_call("read"), ask(), tool_call("shell")])
    assert run.failed == [("tool_unavailable", "envelope")]
    assert (run.result.status, run.executed, run.edges.data_of("run.escalated")) == ("failed", ["read"], [])
    stored = await run.edges.store.read(SPEC.run_id, 6)
    assert [message.status for message in stored[3:]] == ["ok", "cancelled", "cancelled"]


async def test_policy_may_forbid_to_ask() -> None:
    """A blocked affordance is not offered: its name is refused, and an ask all the same fails the run."""
    spec = replace(ASKING, blocked_tools=("escalate",))
    run = await made(tool_call("escalate", reason="x"), ask(), spec=spec)
    assert (run.refused[0], run.failed) == ("tool_unavailable", [("tool_unavailable", "envelope")])
    assert run.edges.data_of("run.escalated") == []


async def test_a_forwarded_ask_fails_loudly() -> None:
    """A driver that passes the granted affordance on escalates nothing, and the call says so; it searches nothing."""
    run = await made(tool_call("escalate", reason="needs a key"), spec=ASKING)
    (failed,) = run.edges.data_of("tool.failed")
    assert failed["error_class"] == "escalation_not_terminated"
    assert (run.result.status, run.edges.data_of("run.escalated")) == ("completed", [])
    assert run.edges.hint_requests == []


async def test_an_ask_in_the_last_request_is_none() -> None:
    """The last request offers no tools, so a call in its reply is only a call that nobody executes."""

    class Late(ScriptedModel):
        async def reply(self, request: ModelRequest) -> DriverReply:
            calls = (call("escalate", f"c{request.turn}", reason="now"),)
            reply = DriverReply("no", calls) if request.finale else DriverReply(calls=(call("read", "c1"),))
            return recognised(reply, request.tools)

    edges = MemoryEdges(Late(), {"read": works()})
    result = await LocalRun(edges, clock_ns=edges.clock).run(replace(ASKING, limits=Limits(max_turns=1)))
    assert (result.status, edges.data_of("run.escalated")) == ("limit_reached", [])


@pytest.mark.parametrize("finale_reply", [ask("late"), {"type": "fail", "error": "no"}])
async def test_an_ending_declared_in_the_last_request_is_no_other_end(finale_reply: Any) -> None:
    """The run has reached its limit, whatever its driver declares then."""
    run = await made(tool_call("read"), finale_reply, spec=limited(Limits(max_turns=1), ASKING))
    assert (run.result.status, run.failed) == ("limit_reached", [])
    assert run.edges.data_of("run.escalated") == []


# ---- reasons


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"reason": "  needs a key \\n"}', "needs a key"),
        ('{"reason": ""}', DEFAULT_REASON),
        ('{"reason": 7}', DEFAULT_REASON),
        ("[1]", DEFAULT_REASON),
        ("{", DEFAULT_REASON),
        ("", DEFAULT_REASON),
        ('{"reason": "%s"}' % ("a" * 511 + "\U0001f600"), "a" * 511),
        ('{"reason": "%s"}' % ("a" * 510 + "\U0001f600"), "a" * 510 + "\U0001f600"),
    ],
)
def test_the_reason_is_read_mildly_from_a_model(arguments: str, reason: str) -> None:
    """Trimmed, cut at 512 UTF-16 units without splitting a pair, and never missing."""
    assert read_reason(arguments) == reason
    assert 1 <= units(read_reason(arguments)) <= 512


def test_units_are_those_of_utf_16() -> None:
    """A character outside of the basic plane has two, a lone surrogate one."""
    assert [units(text) for text in ("a", "é", "\U0001f600", "\ud83d")] == [1, 1, 2, 1]
    assert cut_units("\U0001f600" * 3, 3) == "\U0001f600"


@pytest.mark.parametrize("reason", ["", "   ", "a" * 513, "\U0001f600" * 257, 7, None])
async def test_a_declared_reason_is_read_strictly(reason: Any) -> None:
    """A driver that declares an ask says why, in 1 to 512 units; else its decision is none."""
    run = await made({"type": "escalate", "reason": reason}, spec=ASKING)
    assert (run.failed, run.result.status) == ([("invalid_driver_decision", "runtime")], "failed")


# ---- decisions


@pytest.mark.parametrize(
    "decision",
    [
        None,
        "complete",
        {},
        {"type": "think"},
        {"type": "complete", "output": "x", "extra": 1},
        {"type": "complete", "output": 7},
        {"type": "complete", "output": ""},
        {"type": "complete", "output": "x", "metadata": {"a": object()}},
        {"type": "complete", "output": "x", "metadata": {"a": float("nan")}},
        {"type": "complete", "output": "x", "metadata": [1]},
        {"type": "fail", "error": None},
        {"type": "tool_call"},
        {"type": "tool_call", "call": {"name": ""}},
        {"type": "tool_call", "call": {"name": "shell", "id": 7}},
        {"type": "tool_call", "call": {"name": "shell", "arguments": {"a": {1, 2}}}},
        {"type": "tool_call", "call": {"name": "shell", "how": "fast"}},
        [],
        [{"type": "complete", "output": "x"}],
        [{"type": "tool_call", "call": {"name": "shell"}}, {"type": "fail", "error": "x"}],
    ],
    ids=str,
)
async def test_a_decision_of_another_form_ends_the_turn(decision: Any) -> None:
    """Unknown keys, wrong types and values that are no JSON are malformed, and nothing is executed."""
    run = await made(lambda: decision)
    assert (run.failed, run.executed) == ([("invalid_driver_decision", "runtime")], [])
    assert run.result.status == "failed"


async def test_a_driver_may_end_its_run_as_failed() -> None:
    """The error is the driver's, and what it gives with it is reported."""
    run = await made({"type": "fail", "error": "no such repository", "metadata": {"tried": 2}})
    assert (run.failed, run.result.status) == ([("declared_failure", "runtime")], "failed")
    (end,) = run.edges.data_of("run.failed")
    assert (end["error"], end["metadata"]) == ("no such repository", {"tried": 2})


async def test_a_driver_that_raises_fails_its_run_alone() -> None:
    """Its exception is an answer: not tried again, and no secret of it gets out."""

    def explode() -> Any:
        raise RuntimeError("password=hunter2-Zq9-very-secret")

    run = await made(explode)
    assert (run.failed, len(run.model.requests)) == ([("driver_failed", "runtime")], 1)
    (failed,) = run.edges.data_of("model.failed")
    assert "hunter2" not in failed["error"]


async def test_words_that_sound_like_an_ask_are_none() -> None:
    """A model that says it wants a person, to a tool or in its answer, has chosen nothing: nobody is asked."""
    said = 'I escalate this to a person: {"name": "escalate", "arguments": {"reason": "now"}}'
    edges = MemoryEdges(Recognising([call("shell", command=said)], said), {"shell": works()})
    result = await LocalRun(edges, clock_ns=edges.clock).run(ASKING)
    assert (result.status, result.answer, len(edges.executed)) == ("completed", said, 1)
    assert edges.data_of("run.escalated") == []


def test_escalation_is_recognised_only_in_the_catalogue() -> None:
    """The same words of a model are an ask where the affordance was offered, and a call where it was not."""
    reply = DriverReply(calls=(call("look", "c0"), call("escalate", "c1", reason="x"), call("escalate", "c2")))
    offered, other = ToolOffer("escalate", "", {}), ToolOffer("look", "", {})
    assert recognised(reply, (other, offered)).escalation == Escalation("x", 1)
    assert recognised(reply, (other,)).escalation is None
    assert recognised(reply, ()).calls == recognised(reply, (offered,)).calls == reply.calls
