"""What was tried against the envelope, the last request, runtimes from outside and the brush, and has to hold.

(Seeds 000, 003.)
"""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from kernel.core.bounds import METADATA_LIMIT
from kernel.core.delegation import child_spec
from kernel.drivers import DriverReply, Escalation, ModelRequest, ToolOffer
from kernel.drivers.escalation import read_reason, units
from kernel.drivers.mcp_harness import CommandHarness, McpHarnessRuntime
from kernel.drivers.openai_chat import read_completion
from kernel.drivers.outside import DecidingDriver
from kernel.drivers.plugin import Runtime, RuntimeDriver, Turn
from kernel.edge.activities import Activities
from kernel.edge.retry import EnvelopeError
from kernel.edge.transcript import message_from_json, message_to_json
from kernel.messages import Conversation, Limits, Member, Message, RunResult, RunSpec, ToolCall
from kernel.runtime.local import LocalRun
from kernel.runtime.logs import FORM, CleanFormatter
from kernel.testing import AGENT, MemoryEdges, MemoryObservation, MemoryTelemetry, ScriptedModel, call
from tests.kernel.test_envelope import ASKING, limited, made, tool_call
from tests.kernel.test_scenarios import SPEC, works

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
SHELL = call("shell", "c1")


class Returning(ScriptedModel):
    """A driver that returns prepared things, whatever they are; past the last it completes."""

    def __init__(self, *things: Any) -> None:
        super().__init__()
        self._things = list(things)

    async def reply(self, request: ModelRequest) -> DriverReply:
        self.requests.append(request.messages)
        thing: DriverReply = self._things.pop(0) if self._things else DriverReply("done")
        return thing


async def returned(*things: Any, spec: RunSpec = SPEC) -> tuple[MemoryEdges, RunResult]:
    edges = MemoryEdges(Returning(*things), {"shell": works()})
    return edges, await LocalRun(edges, clock_ns=edges.clock).run(spec)


def unanswered(messages: Sequence[Message]) -> list[str]:
    """Return the ids of calls without a reply."""
    answered = [message.call_id for message in messages if message.role == "tool"]
    return [one.call_id for message in messages for one in message.calls if one.call_id not in answered]


# ---- what a driver returns


ODD: list[Any] = [
    None,
    {},
    "done",
    DriverReply(text=None),  # type: ignore[arg-type]
    DriverReply("x", model=7),  # type: ignore[arg-type]
    DriverReply("x", finish_reason=None),  # type: ignore[arg-type]
    DriverReply(failed=" "),
    DriverReply(calls=None),  # type: ignore[arg-type]
    DriverReply(calls=("shell",)),  # type: ignore[arg-type]
    DriverReply(calls=(ToolCall("c1", None, "{}"),)),  # type: ignore[arg-type]
    DriverReply(calls=(ToolCall("c1", "shell", {}),)),  # type: ignore[arg-type]
    DriverReply(calls=(SHELL,), steps=3),  # type: ignore[arg-type]
    DriverReply(calls=(SHELL,), escalation="now"),  # type: ignore[arg-type]
    DriverReply(calls=(SHELL,), escalation=Escalation("now", True)),
    DriverReply(calls=(SHELL,), escalation=Escalation("now", 1)),
    DriverReply(calls=(SHELL,), escalation=Escalation(None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("thing", ODD, ids=range(len(ODD)))
async def test_what_is_no_reply_ends_the_run_as_an_invalid_decision(thing: Any) -> None:
    """A driver is anybody's code: what it returns is looked at before it is used, and asked for once."""
    edges, result = await returned(thing, spec=ASKING)
    assert [(data["code"], data["source"]) for data in edges.data_of("turn.failed")] == [
        ("invalid_driver_decision", "runtime")
    ]
    assert (result.status, edges.executed, len(edges.model.requests)) == ("failed", [], 1)


async def test_a_reply_that_fails_calls_nothing() -> None:
    """Its calls would stand in the history without replies."""
    edges, result = await returned(DriverReply(calls=(SHELL,), failed="no such repository"))
    assert [data["code"] for data in edges.data_of("turn.failed")] == ["invalid_driver_decision"]
    stored = await edges.store.read(SPEC.run_id, 2)
    assert (result.status, edges.executed, unanswered(stored)) == ("failed", [], [])


@pytest.mark.parametrize("count", [-(10**9), "12", 1.5, True, 2**60])
async def test_what_is_no_count_of_tokens_is_none(count: Any) -> None:
    """Neither does a negative count give a run more tokens, nor does an odd one end it: an estimate is used."""
    replies = [DriverReply(calls=(call("shell", f"c{n}", n=n),), input_tokens=count) for n in range(3)]
    edges, result = await returned(*replies, spec=limited(Limits(run_tokens=1)))
    assert (result.status, len(edges.executed)) == ("limit_reached", 1)
    assert "input_tokens" not in edges.data_of("model.completed")[0]


@pytest.mark.parametrize("step", [10**30, 10**5_000], ids=["30 digits", "5000 digits"])
async def test_a_step_far_out_is_refused_like_any_other(step: int) -> None:
    """A number that cannot be written out is a claim past the budget all the same."""
    run = await made([tool_call("shell", step)], tool_call("shell"))
    assert (run.refused, run.executed, run.result.status) == (["step_limit_exceeded"], ["shell"], "completed")


async def test_metadata_of_any_size_leaves_the_edge_small() -> None:
    """What an activity returns stays in workflow history; how large it was is told."""
    metadata = {"log": "x" * 3_000_000}
    run = await made({"type": "escalate", "reason": "needs a key", "metadata": metadata}, spec=ASKING)
    (end,) = run.edges.data_of("run.escalated")
    assert end["metadata"] == {"left_out": f"3000011 characters; the limit is {METADATA_LIMIT}"}
    entry = await run.edges.store.entry(SPEC.run_id, 2)
    assert entry is not None and len(entry.outcome) < METADATA_LIMIT


class Unspeakable(BaseException):
    """What a driver may raise; it cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError(TOKEN)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), Unspeakable(), BaseException(TOKEN), SystemExit(1)])
async def test_whatever_a_driver_raises_fails_its_run_and_nothing_else(error: BaseException) -> None:
    """A cancellation that nobody asked for is the driver's own, and no caller of the run sees an exception."""

    class Raising(ScriptedModel):
        async def reply(self, request: ModelRequest) -> DriverReply:
            self.requests.append(request.messages)
            raise error

    edges = MemoryEdges(Raising(), {"shell": works()})
    result = await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    assert [data["code"] for data in edges.data_of("turn.failed")] == ["driver_failed"]
    assert (result.status, len(edges.model.requests)) == ("failed", 1)
    assert TOKEN not in json.dumps(edges.wire)


@pytest.mark.parametrize("how", [asyncio.CancelledError(), SystemExit(1), None], ids=["cancelled", "exit", "hangs"])
async def test_a_driver_that_does_not_let_go_of_a_run_keeps_no_report(how: BaseException | None) -> None:
    """The terminal event is sent whatever becomes of what a driver holds, and other drivers are told, too."""
    told: list[str] = []

    class Holding(ScriptedModel):
        async def end_run(self, run_id: str) -> None:
            if how is not None:
                raise how
            await asyncio.Event().wait()

    class Told(ScriptedModel):
        async def end_run(self, run_id: str) -> None:
            told.append(run_id)

    edges = MemoryEdges(model := Holding("done"), {})
    outward = MemoryObservation(edges), MemoryTelemetry(edges)
    drivers = {AGENT: model, "other": Told()}
    edges.activities = Activities(edges.store, drivers, edges.toolbox, *outward, edges.clock, end_seconds=0.01)
    result = await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    assert (result.status, edges.wire[-1]["type"], told) == ("completed", "run.completed", [SPEC.run_id])


async def test_what_a_decider_changes_in_its_offers_is_its_own() -> None:
    """The catalogue by which calls are judged holds other objects."""

    class Changing:
        async def decide(self, request: ModelRequest) -> object:
            schema = request.tools[0].schema
            assert isinstance(schema, dict)
            schema["required"] = ["never"]
            done = {"type": "complete", "output": "done"}
            return done if request.turn > 1 else tool_call("shell", n=1)

    edges = MemoryEdges(DecidingDriver(Changing()), {"shell": works()})  # type: ignore[arg-type]
    result = await LocalRun(edges, clock_ns=edges.clock).run(SPEC)
    assert (result.status, edges.executed) == ("completed", [("shell", {"n": 1})])


def completion(message: dict[str, Any], usage: Any = None) -> ChatCompletion:
    """Return a provider's answer as the client reads it: unchecked."""
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return ChatCompletion.construct(choices=[choice], model="m", usage=usage)


@pytest.mark.parametrize(
    "one",
    [
        {"id": "c1", "function": {"name": "shell", "arguments": '{"n": 1}'}},
        {"id": "c1", "type": None, "function": {"name": "shell", "arguments": '{"n": 1}'}},
        {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": {"n": 1}}},
    ],
    ids=["no type", "null type", "arguments as an object"],
)
def test_a_call_of_an_odd_endpoint_is_a_call(one: dict[str, Any]) -> None:
    """Dropped, it would let the words beside it pass for the answer of a run that has done nothing."""
    reply = read_completion(completion({"content": "I look it up.", "tool_calls": [one]}))
    assert reply.calls == (ToolCall("c1", "shell", '{"n": 1}'),)


@pytest.mark.parametrize("usage", ["none", {}, {"prompt_tokens": -1, "completion_tokens": None}, None])
def test_odd_counts_of_a_provider_cost_no_answer(usage: Any) -> None:
    """What it said is there; what it used is estimated."""
    reply = read_completion(completion({"content": "done"}, usage))
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("done", None, None)


def test_a_refusal_beside_empty_content_is_the_text() -> None:
    """White space is no content."""
    assert read_completion(completion({"content": " \n", "refusal": "I cannot."})).text == "I cannot."


# ---- asks


@pytest.mark.parametrize("before", [470, 490, 505])
async def test_no_part_of_a_secret_stands_at_the_end_of_a_reason(before: int) -> None:
    """A reason is cut at 512 units, where a secret in two would be known by nobody as one."""
    reason = read_reason(json.dumps({"reason": f"{'x' * before} {TOKEN}"}))
    assert units(reason) <= 512
    assert TOKEN[:6] not in reason


def test_a_child_has_no_more_grants_than_its_parent() -> None:
    """Delegating is no way around grants and namespaces; whom an ask is put to, and in what language, goes along."""
    spec = replace(SPEC, grants=("delegate",), namespaces_off=("git",), reviewer="release owner", locale="ru")
    child = child_spec(spec, Member("worker", tools=("shell", "escalate")), "look", 1)
    assert (child.grants, child.namespaces_off) == (spec.grants, spec.namespaces_off)
    assert (child.reviewer, child.locale) == ("release owner", "ru")


# ---- the last request


async def test_a_last_reply_with_many_calls_keeps_its_words() -> None:
    """More calls than a reply may have are dropped like any, and counted."""
    many = tuple(call("shell", f"x{n}", n=n) for n in range(100))
    edges, result = await returned(
        DriverReply(calls=(SHELL,)), DriverReply("Half is done.", many), spec=limited(Limits(max_turns=1))
    )
    assert (result.status, result.answer.split("\n")[0]) == ("limit_reached", "Half is done.")
    assert edges.data_of("model.completed")[-1]["n_dropped"] == 100
    assert len(edges.executed) == 1


@pytest.mark.parametrize("text", ["\u200b", "\ufeff\n", "\x00\x1b", "\ud800"], ids=ascii)
async def test_what_nobody_can_see_is_no_last_answer(text: str) -> None:
    """Characters that show nothing are no text: the results that are recorded are the answer then."""
    edges, result = await returned(DriverReply(calls=(SHELL,)), DriverReply(text), spec=limited(Limits(max_turns=1)))
    assert result.status == "limit_reached"
    assert result.answer.endswith("- shell {}: ok")


@pytest.mark.parametrize("last", [DriverReply("word " * 2_000), DriverReply("word " * 2_000, (call("shell", "c9"),))])
async def test_a_long_last_answer_is_remembered_as_it_was_given(last: DriverReply) -> None:
    """A conversation keeps the whole of it, not what travels in events; one that is flagged is kept as it was told."""
    spec = replace(limited(Limits(max_turns=1)), conversation=Conversation("talk"))
    edges, result = await returned(DriverReply(calls=(SHELL,)), last, spec=spec)
    *_, kept = (await edges.records.view("talk")).records
    assert len(result.answer) < 5_000
    assert kept.text == (result.answer if last.calls else last.text.strip())


# ---- runtimes from outside


class Asking:
    """A runtime that is a function."""

    def __init__(self, run: Callable[[Turn], Awaitable[object]]) -> None:
        self._run = run

    async def run_turn(self, turn: Turn) -> object:
        return await self._run(turn)


async def served(runtime: Runtime, spec: RunSpec = SPEC) -> tuple[MemoryEdges, RunResult]:
    driver = RuntimeDriver(runtime)
    edges = MemoryEdges(driver, {"shell": works()})  # type: ignore[arg-type]
    result = await LocalRun(edges, clock_ns=edges.clock).run(spec)
    await driver.close()
    return edges, result


async def test_a_call_from_another_event_loop_is_told_so_at_once() -> None:
    """It could be answered in no other loop, and would be waited for until the run is given up as silent."""

    async def other_loop(turn: Turn) -> object:
        with pytest.raises(RuntimeError, match="run_coroutine_threadsafe"):
            await asyncio.to_thread(asyncio.run, turn.invoke("shell"))
        loop = asyncio.get_running_loop()
        answer = await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(turn.invoke("shell"), loop).result())
        return {"type": "complete", "output": answer.status}

    edges, result = await served(Asking(other_loop))
    assert (result.status, result.answer, len(edges.executed)) == ("completed", "ok", 1)


def test_no_secret_stands_in_the_workers_log() -> None:
    """Neither in words, nor in the traceback of what somebody's task raised and nobody looked at."""
    try:
        raise ValueError(TOKEN)
    except ValueError as error:
        raised = (type(error), error, error.__traceback__)
    record = logging.LogRecord("asyncio", logging.ERROR, __file__, 1, "a task with %s", (TOKEN,), raised)
    line = CleanFormatter(FORM).format(record)
    assert TOKEN not in line
    assert line.count("[REDACTED:github_token]") == 2 and "Traceback" in line


async def test_an_old_request_that_comes_late_disturbs_no_run() -> None:
    """An attempt that was given up long ago is refused, and the turn goes on where it is."""

    async def twice(turn: Turn) -> object:
        for n in range(2):
            await turn.invoke("shell", {"n": n})
        return {"type": "complete", "output": "done"}

    driver = RuntimeDriver(Asking(twice))
    first: tuple[Message, ...] = Message("system", "rules", "rules"), Message("user", "task", "task")
    offers = (ToolOffer("shell", "", {}),)
    opening = ModelRequest("r", 1, first, offers)
    said = await driver.reply(opening)
    grown = *first, Message("assistant", "", "model", said.calls), Message("tool", "fine", "tool", call_id="c1")
    said = await driver.reply(ModelRequest("r", 2, grown, offers))
    with pytest.raises(EnvelopeError, match="gone on"):
        await driver.reply(opening)
    grown = *grown, Message("assistant", "", "model", said.calls), Message("tool", "fine", "tool", call_id="c2")
    assert (await driver.reply(ModelRequest("r", 3, grown, offers))).text == "done"
    await driver.close()


@pytest.mark.parametrize("background", ["sleep 300 &", "setsid sleep 300 & echo $! > left;"], ids=["group", "its own"])
async def test_a_command_that_ended_is_not_waited_for_by_its_pipes(background: str, tmp_path: Path) -> None:
    """What a harness leaves in the background holds its output open, and its answer is there all the same."""
    command = CommandHarness(["sh", "-c", f"{background} echo done"], folder=tmp_path)
    try:
        _, result = await served(McpHarnessRuntime(command))
        assert (result.status, result.answer) == ("completed", "done")
    finally:
        for left in tmp_path.glob("left"):
            os.kill(int(left.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("written", [f"'{TOKEN}{'y' * 480}'", "$TEMPORALITY_MCP_TOKEN"], ids=["cut", "of the bridge"])
async def test_no_secret_of_a_failed_command_is_told(written: str) -> None:
    """Neither a part of one that stands where the text is cut, nor the token it was given."""
    seen: list[str] = []

    class Seeing(CommandHarness):
        async def __call__(self, url: str, token: str, turn: Turn) -> str:
            seen.append(token)
            return await super().__call__(url, token, turn)

    harness = Seeing(["sh", "-c", f"echo {written} >&2; exit 3"])
    edges, result = await served(McpHarnessRuntime(harness))
    told = json.dumps(edges.wire)
    assert (result.status, "exit code 3" in told) == ("failed", True)
    assert TOKEN[-12:] not in told and seen[0] not in told


# ---- the transcript


def test_how_a_call_ended_is_kept_in_the_transcript() -> None:
    """Another process reads it from there: for its reports, and for a runtime that asks how its call ended."""
    message = Message("tool", "No tool.", "refusal", call_id="c1", status="denied", code="tool_unavailable")
    assert message_from_json(message_to_json(message)) == message
    older = json.loads(message_to_json(message))
    del older["status"], older["code"]
    assert message_from_json(json.dumps(older)) == replace(message, status="", code="")
