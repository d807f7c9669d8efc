"""A runtime from outside as a driver: what it calls, what it is told, how its turn ends, and what it cannot do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kernel.drivers import DriverReply, Escalation
from kernel.drivers.plugin import BATCH, RuntimeDriver, ToolAnswer, Turn
from kernel.edge.model_call import MAX_CALLS
from kernel.edge.retry import EnvelopeError, ModelError
from tests.kernel.plugin_history import OFFERS, RUN, PluginRun

DONE = {"type": "complete", "output": "done"}


class Does:
    """A runtime whose turn is a function; `answers` is what the function keeps."""

    def __init__(self, turn: Callable[[Turn, list[ToolAnswer]], Awaitable[object]]) -> None:
        self._turn = turn
        self.answers: list[ToolAnswer] = []

    async def run_turn(self, turn: Turn) -> object:
        return await self._turn(turn, self.answers)


def run_of(turn: Callable[[Turn, list[ToolAnswer]], Awaitable[object]], **options: Any) -> tuple[PluginRun, Does]:
    runtime = Does(turn)
    return PluginRun(RuntimeDriver(runtime, **options)), runtime


async def test_calls_and_ending() -> None:
    """A call leaves as a model's would, its reply comes back with status and code, and the outcome is the answer."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers.append(await turn.invoke("read", {"path": "a"}, call_id="mine"))
        answers.append(await turn.invoke("write", '{"path": "b"}', step=4))
        return {"type": "complete", "output": "all read", "metadata": {"n": 2}}

    run, runtime = run_of(turn)
    run.answers["write"] = ("denied", "step_limit_exceeded", "no more")
    ending = await run.to_the_end()
    [first], [second] = (reply.calls for reply in run.replies[:2])
    assert (first.call_id, first.name, json.loads(first.arguments)) == ("mine", "read", {"path": "a"})
    assert (second.call_id, second.arguments) == ("", '{"path": "b"}')
    assert [reply.steps for reply in run.replies[:2]] == [(None,), (4,)]
    assert runtime.answers == [
        ToolAnswer("ok", "", "read: done"),
        ToolAnswer("denied", "step_limit_exceeded", "no more"),
    ]
    assert [answer.ok for answer in runtime.answers] == [True, False]
    assert (ending.text, ending.metadata, ending.calls) == ("all read", {"n": 2}, ())


async def test_what_a_turn_sees() -> None:
    """A turn knows its run, the tools it was offered, the history as it grows, and the step it is at."""
    seen: list[object] = []

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        seen.append((turn.run_id, turn.tools, turn.position, turn.finale, [one.text for one in turn.messages]))
        await turn.invoke("read")
        seen.append((turn.position, [one.text for one in turn.messages]))
        return DONE

    run, _ = run_of(turn)
    await run.to_the_end()
    assert seen == [(RUN, OFFERS, 0, False, ["the task"]), (1, ["the task", "", "read: done"])]


async def test_concurrent_calls_are_one_reply() -> None:
    """Calls that wait at the same time are one reply in the order they were made, each answered by its own reply, and
    what was told after the replies comes once, with the last."""

    async def later(turn: Turn) -> ToolAnswer:
        await asyncio.sleep(0)
        return await turn.invoke("write", {"n": 3}, step=7)

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        one = turn.invoke("read", {"n": 1}, call_id="same")
        two = turn.invoke("write", {"n": 2}, call_id="same")
        answers += await asyncio.gather(one, two, later(turn))
        answers.append(await turn.invoke("read"))
        return DONE

    run, runtime = run_of(turn)
    run.answers["read"] = ("failed", "timeout", "too slow")
    reply = await run.ask()
    assert [json.loads(call.arguments)["n"] for call in reply.calls] == [1, 2, 3]
    assert reply.steps == (None, None, 7)
    run.go_on(reply, "a hint", "an operation ended")
    await run.to_the_end()
    assert run.called() == [["read"]]
    assert [answer.text for answer in runtime.answers] == ["too slow", "write: done", "write: done", "too slow"]
    assert [answer.context for answer in runtime.answers] == [(), (), ("a hint", "an operation ended"), ()]


async def test_more_calls_than_a_reply_may_have() -> None:
    """What does not fit into one reply waits for the next; a reply never has more calls than the edge takes."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers += await asyncio.gather(*[turn.invoke("read", {"n": n}) for n in range(BATCH + 3)])
        return DONE

    run, runtime = run_of(turn)
    await run.to_the_end()
    assert [len(names) for names in run.called()] == [BATCH, 3]
    assert len(runtime.answers) == BATCH + 3
    assert BATCH <= MAX_CALLS


async def test_the_same_turn_again_is_the_same_reply() -> None:
    """A request that is repeated gets the reply it got before: calls, the ending, or the error; nothing goes on."""
    n_calls = 0

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        nonlocal n_calls
        n_calls += 1
        await turn.invoke("read", {"n": n_calls})
        raise ValueError("broken")

    run, _ = run_of(turn)
    first = await run.ask()
    assert await run.ask() is first
    run.go_on(first)
    for _ in range(2):
        with pytest.raises(EnvelopeError, match="ValueError: broken") as caught:
            await run.ask()
        assert (caught.value.error_class, caught.value.source, caught.value.retryable) == (
            "runtime_failed",
            "envelope",
            False,
        )
    assert n_calls == 1


async def test_a_request_given_up_is_asked_again() -> None:
    """A request that is cancelled while the runtime works is not an end of the turn: asked again, it goes on."""
    reached, may_go = asyncio.Event(), asyncio.Event()

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers.append(await turn.invoke("read"))
        reached.set()
        await may_go.wait()
        answers.append(await turn.invoke("write"))
        return DONE

    run, runtime = run_of(turn)
    run.go_on(await run.ask())
    asking = asyncio.create_task(run.ask())
    await reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    may_go.set()
    await run.to_the_end()
    assert run.called() == [["write"]]
    assert [answer.text for answer in runtime.answers] == ["read: done", "write: done"]


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        "done",
        [DONE],
        {},
        {"type": "tool_call", "call": {"name": "read"}},
        {"type": ["complete"], "output": "x"},
        {"type": "complete"},
        {"type": "complete", "output": ""},
        {"type": "complete", "output": 5},
        {"type": "complete", "output": "x", "more": 1},
        {"type": "complete", "output": "x", "metadata": [1]},
        {"type": "complete", "output": "x", "metadata": {"at": object()}},
        {"type": "complete", "output": "x", "metadata": {"n": float("nan")}},
        {"type": "fail", "error": ""},
        {"type": "escalate"},
        {"type": "escalate", "reason": "a" * 513},
        {"type": "escalate", "reason": "please", "to": "owner"},
    ],
)
async def test_an_outcome_of_another_form(outcome: object) -> None:
    """What is not exactly one ending fails the turn from outside, and no text of it is in the error."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        return outcome

    run, _ = run_of(turn)
    with pytest.raises(EnvelopeError) as caught:
        await run.ask()
    assert (caught.value.error_class, caught.value.source) == ("invalid_runtime_outcome", "envelope")
    assert "please" not in str(caught.value)


async def test_failing_and_escalating() -> None:
    """Both are endings; whether this run may escalate is judged by the core, so an ask is passed on in any case."""

    async def fails(turn: Turn, answers: list[ToolAnswer]) -> object:
        return {"type": "fail", "error": "no such repository", "metadata": {"tried": 3}}

    async def asks(turn: Turn, answers: list[ToolAnswer]) -> object:
        return {"type": "escalate", "reason": "needs a key", "metadata": {"where": "vault"}}

    failed = await run_of(fails)[0].ask()
    assert (failed.failed, failed.metadata, failed.calls) == ("no such repository", {"tried": 3}, ())
    for offers in (OFFERS, ()):
        reply = await PluginRun(RuntimeDriver(Does(asks)), offers).ask()
        assert reply.escalation == Escalation("needs a key", 0)
        assert [call.name for call in reply.calls] == ["escalate"]
        assert reply.metadata == {"where": "vault"}


async def test_an_ask_called_like_a_tool_is_no_ending() -> None:
    """A runtime that forwards the affordance makes an ordinary call of it, for the core to refuse."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        await turn.invoke("escalate", {"reason": "please"})
        return DONE

    run, _ = run_of(turn)
    reply = await run.ask()
    assert ([call.name for call in reply.calls], reply.escalation) == (["escalate"], None)


@pytest.mark.parametrize("step", [True, -1, 1.5, "2"])
async def test_a_bad_step_is_passed_on(step: Any) -> None:
    """A step that is none stands in the reply as it was claimed: the edge refuses the reply as malformed."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        await turn.invoke("read", step=step)
        return DONE

    run, _ = run_of(turn)
    assert (await run.ask()).steps == (step,)


@pytest.mark.parametrize(
    ("name", "arguments"), [("", {}), (5, {}), ("read", {"at": object()}), ("read", {"at": float("nan")})]
)
async def test_a_call_that_cannot_be_written_down(name: Any, arguments: Any) -> None:
    """Such a call is an error where it is made, and reaches nobody."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        with pytest.raises((TypeError, ValueError)):
            await turn.invoke(name, arguments)
        return DONE

    assert (await run_of(turn)[0].ask()).text == "done"


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "error", [RuntimeError("lost"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), Mute()], ids=repr
)
async def test_a_runtime_that_raises(error: BaseException) -> None:
    """Whatever a runtime raises fails its run, the end of the process included; another run is not touched."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        if turn.run_id == RUN:
            raise error
        await turn.invoke("read")
        return DONE

    run, runtime = run_of(turn)
    other = PluginRun(run.driver, run_id="other")
    other.go_on(await other.ask())
    with pytest.raises(EnvelopeError) as caught:
        await run.ask()
    assert (caught.value.error_class, caught.value.source) == ("runtime_failed", "envelope")
    assert (await other.ask()).text == "done"


async def test_a_silent_runtime() -> None:
    """One that neither calls nor ends is stopped when its time is up; afterwards it reaches nobody."""
    stopped: list[str] = []

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(turn.run_id)
            answers.append(await turn.invoke("write"))
        return DONE

    run, runtime = run_of(turn, silent_seconds=0.01, grace_seconds=60)
    with pytest.raises(EnvelopeError) as caught:
        await run.ask()
    assert (caught.value.error_class, caught.value.source) == ("runtime_silent", "envelope")
    assert stopped == [RUN]
    with pytest.raises(EnvelopeError):
        await run.ask()


async def test_in_the_finale_nothing_is_called() -> None:
    """With the limits spent, calls are answered as refused without leaving the turn, and the ending is waited for."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        while not turn.finale:
            answers.append(await turn.invoke("read"))
        answers.append(await turn.invoke("write", step=99))
        return {"type": "complete", "output": f"got as far as {len(answers)}"}

    run, runtime = run_of(turn)
    run.go_on(await run.ask())
    run.go_on(await run.ask(), "answer now", finale=True)
    ending = await run.ask()
    assert (ending.text, ending.calls) == ("got as far as 3", ())
    assert [answer.code for answer in runtime.answers] == ["", "", "step_limit_exceeded"]
    assert runtime.answers[1].context == ("answer now",)


async def test_a_call_that_waits_when_the_finale_comes() -> None:
    """A call that was made too late for the last round is refused as well, and not kept for a reply."""
    first = asyncio.Event()

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        async def beside() -> None:
            await first.wait()
            answers.append(await turn.invoke("write"))

        late = asyncio.create_task(beside())
        await turn.invoke("read")
        await late
        return DONE

    run, runtime = run_of(turn)
    reply = await run.ask()
    first.set()
    await asyncio.sleep(0)
    run.go_on(reply, finale=True)
    assert (await run.ask()).text == "done"
    assert [(answer.status, answer.code) for answer in runtime.answers] == [("denied", "step_limit_exceeded")]


async def test_a_runtime_that_calls_on_in_the_finale() -> None:
    """One that does not stop calling is silent: it is stopped, and its run fails."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        while True:
            await turn.invoke("read")

    run, _ = run_of(turn, silent_seconds=0.01, grace_seconds=60)
    run.request = replace(run.request, finale=True, tools=())
    with pytest.raises(EnvelopeError) as caught:
        await run.ask()
    assert caught.value.error_class == "runtime_silent"


async def test_calls_of_a_task_left_behind() -> None:
    """After the outcome nothing reaches anybody: neither what waits at that moment nor what is called later."""
    left: list[asyncio.Task[ToolAnswer]] = []

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        async def twice() -> ToolAnswer:
            answers.append(await turn.invoke("write"))
            return await turn.invoke("write")

        left.append(asyncio.create_task(twice()))
        await asyncio.sleep(0)
        return DONE

    run, runtime = run_of(turn)
    reply = await run.ask()
    assert (reply.text, reply.calls) == ("done", ())
    answers = [await left[0], *runtime.answers]
    assert [(one.status, one.code, one.ok) for one in answers] == [("denied", "turn_draining", False)] * 2
    run.go_on(reply)
    with pytest.raises(EnvelopeError) as caught:
        await run.ask()
    assert caught.value.error_class == "runtime_lost"


async def test_a_run_that_ends_stops_its_runtime() -> None:
    """When a run is over its runtime's task is cancelled and what it waits for is refused."""
    ended: list[str] = []

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        try:
            answers.append(await turn.invoke("read"))
            answers.append(await turn.invoke("write"))
        finally:
            ended.append(turn.run_id)
        return DONE

    run, runtime = run_of(turn)
    await run.ask()
    await run.driver.end_run("another run")
    assert ended == []
    await run.driver.end_run(RUN)
    assert ended == [RUN]
    assert runtime.answers == []
    await run.driver.end_run(RUN)
    assert ended == [RUN]


async def test_a_runtime_that_does_not_stop(caplog: pytest.LogCaptureFixture) -> None:
    """One that holds on when it is cancelled holds up nobody, and what it calls from then on is refused."""
    may_end = asyncio.Event()
    ended = asyncio.Event()

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        try:
            await turn.invoke("read")
        finally:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue
            answers.append(await turn.invoke("write"))
            ended.set()
        return DONE

    run, runtime = run_of(turn, grace_seconds=0.01)
    await run.ask()
    await run.driver.end_run(RUN)
    assert "goes on although its run is over" in caplog.text
    may_end.set()
    await ended.wait()
    assert [answer.code for answer in runtime.answers] == ["turn_draining"]


async def test_a_request_under_way_when_the_run_ends() -> None:
    """A request whose runtime does not stop with its run is not waited for any longer than the run."""
    thinking, may_end = asyncio.Event(), asyncio.Event()

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        while not may_end.is_set():
            try:
                thinking.set()
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return DONE

    run, _ = run_of(turn, grace_seconds=0.01)
    asking = asyncio.create_task(run.ask())
    await thinking.wait()
    await run.driver.end_run(RUN)
    with pytest.raises(EnvelopeError) as caught:
        await asking
    assert caught.value.error_class == "runtime_lost"
    may_end.set()


async def test_what_a_runtime_changes_in_its_offers_is_its_own() -> None:
    """The tools a turn is given are copies: changed ones change nothing of the run's catalogue."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        turn.tools[0].schema["type"] = "anything"  # type: ignore[index]
        return DONE

    run, _ = run_of(turn)
    assert (await run.ask()).text == "done"
    assert run.request.tools[0].schema == {"type": "object"}


async def test_a_call_given_up_before_it_left() -> None:
    """A call whose caller has gone before it was taken reaches nobody; one that had left is answered to nobody."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        gone = asyncio.create_task(turn.invoke("write"))
        await asyncio.sleep(0)
        gone.cancel()
        left = asyncio.create_task(turn.invoke("write", {"n": 1}))
        kept = asyncio.create_task(turn.invoke("read"))
        answers.append(await kept)
        left.cancel()
        answers.append(await turn.invoke("read"))
        return DONE

    run, runtime = run_of(turn)
    await run.to_the_end()
    assert run.called() == [["write", "read"], ["read"]]
    assert [answer.text for answer in runtime.answers] == ["read: done"] * 2


async def test_a_process_that_lost_the_turn() -> None:
    """Where the turn is not, a later request fails the run, without starting it again; unless the runtime resumes."""
    n_started = 0

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        nonlocal n_started
        n_started += 1
        await turn.invoke("read")
        return DONE

    run, runtime = run_of(turn)
    run.go_on(await run.ask())
    run.driver = RuntimeDriver(runtime)
    with pytest.raises(EnvelopeError) as caught:
        await run.ask()
    assert (caught.value.error_class, n_started) == ("runtime_lost", 1)
    runtime.resumes = True  # type: ignore[attr-defined]
    run.driver = RuntimeDriver(runtime)
    assert [call.name for call in (await run.ask()).calls] == ["read"]
    assert n_started == 2


async def test_a_history_that_is_not_the_turns() -> None:
    """Replies are taken only as answers to the calls made last: a history with others ends the turn."""

    async def turn(turn: Turn, answers: list[ToolAnswer]) -> object:
        answers.append(await turn.invoke("read"))
        return DONE

    run, runtime = run_of(turn)
    reply = await run.ask()
    run.go_on(DriverReply(calls=reply.calls * 2))
    with pytest.raises(ModelError) as caught:
        await run.ask()
    assert caught.value.error_class == "runtime_lost"
    await asyncio.sleep(0)
    assert [answer.code for answer in runtime.answers] == ["turn_draining"]


async def test_closing_the_driver_closes_the_runtime() -> None:
    """At the worker's end all turns are stopped and the runtime is closed."""
    closed: list[str] = []

    class Runtime:
        async def run_turn(self, turn: Turn) -> object:
            try:
                return await turn.invoke("read")
            finally:
                closed.append(turn.run_id)

        async def close(self) -> None:
            closed.append("runtime")

    driver = RuntimeDriver(Runtime())
    for run_id in ("a", "b"):
        await PluginRun(driver, run_id=run_id).ask()
    await driver.close()
    assert closed == ["a", "b", "runtime"]
