"""What a run may cost Temporal at its worst, and what far too large inputs come to: a clear end, none that hangs."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from contract.events import TERMINAL_TYPES
from kernel.messages import (
    ApprovalAnswer,
    Limits,
    McpServer,
    Member,
    OperationFinished,
    QuestionAnswer,
    RunSpec,
    Switches,
)
from kernel.runtime.workflow import AgentRun
from kernel.testing import MemoryEdges, ScriptedModel, ToolError, call, hint
from tests.kernel.temporal_run import TemporalRun, temporal_run
from tests.kernel.test_scenarios import SPEC, fails, works

HISTORY_BYTES = 10 * 1024 * 1024  # of one workflow run; Temporal ends one at 50 MB and warns at 10
PAYLOAD_BYTES = 2 * 1024 * 1024  # Temporal takes no argument or result over it
SECONDS = 20
MANY = 10**6
GENEROUS = Limits(
    max_turns=100, activations_per_turn=8, activations_per_tool=MANY, activations_per_run=MANY, tokens_per_run=MANY
)
Meanwhile = Callable[[TemporalRun], Awaitable[Any]]


@dataclass(frozen=True)
class Size:
    """One workflow run's history: its events, the bytes of all of them and of the largest."""

    events: int
    bytes: int
    largest: int


def worst(turns: int, calls: int, char: str) -> MemoryEdges:
    """Turns in which every other call fails in a way of its own, with as much text as a tool may give, and every
    failure has hints of its own."""
    numbers, items = itertools.count(), itertools.count()

    def bad(n: int, text: str) -> str:
        raise ToolError(f"error kind{n} " + char * 5_000, f"class{n % 7}")

    def good(n: int, text: str) -> str:
        return char * 20_000

    replies = [
        [call(("good", "bad")[n % 2], n=n, text=char * 600) for n in itertools.islice(numbers, calls)]
        for _ in range(turns)
    ]
    return MemoryEdges(
        ScriptedModel(*replies),
        {"bad": bad, "good": good},
        lambda request: tuple(hint(f"k-{next(items)}", char * 300) for _ in range(4)),
        {"good": "git"},
    )


async def sizes_of(run: TemporalRun) -> list[Size]:
    """The histories of all workflow runs of a run, first to last."""
    sizes, workflow_run = [], run.handle.first_execution_run_id
    while workflow_run:
        history = await run.client.get_workflow_handle(run.handle.id, run_id=workflow_run).fetch_history()
        weights = [event.ByteSize() for event in history.events]
        sizes.append(Size(len(weights), sum(weights), max(weights)))
        ended = history.events[-1]
        workflow_run = ended.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return sizes


@pytest.mark.parametrize(
    ("turns", "calls", "char"), [(60, 4, "x"), (3, 32, "\N{GRINNING FACE}")], ids=["many turns", "wide letters"]
)
async def test_a_history_stays_small_at_its_worst(temporal_address: str, turns: int, calls: int, char: str) -> None:
    """A run goes on as new long before its history is too large, and no payload comes near the limit."""
    edges = worst(turns, calls, char)
    async with temporal_run(temporal_address, edges, replace(SPEC, limits=GENEROUS)) as run:
        assert (await run.handle.result()).status == "completed"
        sizes = await sizes_of(run)
    assert len(edges.model.requests) == turns + 1
    assert len(sizes) > 1
    assert max(size.bytes for size in sizes) < HISTORY_BYTES
    assert max(size.largest for size in sizes) < PAYLOAD_BYTES / 4


def names(count: int, length: int) -> tuple[str, ...]:
    return tuple(f"{n}-".ljust(length, "s") for n in range(count))


OFTEN = Limits(turns_per_workflow=1)
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "task": ({"task": "t" * 1_900_000}, "argument_too_large"),
    "rules": ({"rules": '"' * 900_000}, "argument_too_large"),
    "rules within one argument": ({"rules": "r" * 1_000_000}, "rules has 1000000 characters"),
    "skills": ({"skills": names(1_000, 100)}, "skills has 1000 entries"),
    "long skills": ({"skills": names(1_000, 1_000)}, "skills has 1000 entries"),
    "members": ({"members": tuple(Member(f"m{n}", rules="r" * 10_000) for n in range(100))}, "members has 100 entries"),
    "switches": ({"switches": Switches(off=("x" * 1_200_000,))}, "switches.off[0]"),
    "model": ({"model": "m" * 1_200_000}, "model has 1200000 characters"),
    "ids": ({"actor_id": '"' * 400_000}, "actor_id has 400000 characters"),
    "servers": ({"mcp_servers": (McpServer("a", "x", ("y" * 1_600_000,)),)}, "argument_too_large"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
async def test_a_spec_far_too_large_ends_in_a_clear_failure(temporal_address: str, name: str) -> None:
    """The run fails before anything is executed, and its record says what is too large."""
    changes, said = HOSTILE[name]
    edges = MemoryEdges(ScriptedModel("done"), {"shell": works()})
    async with temporal_run(temporal_address, edges, replace(SPEC, limits=OFTEN, **changes)) as run:
        result = await asyncio.wait_for(run.handle.result(), SECONDS)
    assert result.status == "failed"
    [failed] = edges.data_of("run.failed")
    assert said in failed["error"]
    assert [kind for kind in edges.event_types() if kind in TERMINAL_TYPES] == ["run.failed"]
    assert (edges.model.requests, edges.executed) == ([], [])


async def test_what_temporal_does_not_take_is_refused_at_the_start(temporal_address: str) -> None:
    """A spec over the limit of a payload starts no run."""
    edges = MemoryEdges(ScriptedModel("done"))
    with pytest.raises(RPCError, match="exceeds limit"):
        async with temporal_run(temporal_address, edges, replace(SPEC, run_id="r-none", task="t" * 3_000_000)):
            raise AssertionError("it was started")
    assert edges.commands == []


async def ended(address: str, edges: MemoryEdges, spec: RunSpec, meanwhile: Meanwhile) -> str:
    async with temporal_run(address, edges, spec) as run:
        await meanwhile(run)
        result = await asyncio.wait_for(run.handle.result(), SECONDS)
        assert max(size.largest for size in await sizes_of(run)) < PAYLOAD_BYTES
    return str(result.status)


async def pending(run: TemporalRun, kind: str) -> str:
    while not (found := getattr(await run.handle.query(AgentRun.status), f"pending_{kind}")):
        await asyncio.sleep(0.02)
    return str(found[0].call_id)


def asking() -> tuple[MemoryEdges, RunSpec]:
    edges = MemoryEdges(ScriptedModel([call("ask_human", question="Which?")], "done"))
    return edges, replace(SPEC, tools=("ask_human",))


async def test_a_person_who_writes_too_much_is_told(temporal_address: str) -> None:
    """An answer over the limit is refused by its length and the question stays; names and notes are cut."""

    async def answer(run: TemporalRun) -> None:
        call_id = await pending(run, "questions")
        for length in (4_097, 1_900_000):
            too_long = QuestionAnswer(call_id, "x" * length, "ada")
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await run.handle.execute_update(AgentRun.answer_question, too_long)
            assert f"text has {length} characters; the limit is 4096" in str(refused.value.cause)
        assert await pending(run, "questions") == call_id
        right = QuestionAnswer(call_id, "\N{GRINNING FACE}" * 4_096, "a" * 500_000)
        await run.handle.execute_update(AgentRun.answer_question, right)

    edges, spec = asking()
    assert await ended(temporal_address, edges, spec, answer) == "completed"
    [answered] = edges.data_of("human.answered")
    assert (len(answered["answer"]), len(answered["by"])) == (4_096, 200)


async def test_a_note_without_end_is_cut(temporal_address: str) -> None:
    """What a person says to a call they refuse reaches the model within its limit."""

    async def refuse(run: TemporalRun) -> None:
        answer = ApprovalAnswer(await pending(run, "approvals"), False, "b" * 500_000, "n" * 500_000)
        await run.handle.execute_update(AgentRun.decide_approval, answer)

    edges = MemoryEdges(ScriptedModel([call("deploy")], "done"), {"deploy": works()})
    assert await ended(temporal_address, edges, replace(SPEC, approval_tools=("deploy",)), refuse) == "completed"
    assert len(edges.model.requests[1][3].text) < 1_200


@pytest.mark.parametrize("length", [50_000, 1_900_000])
async def test_a_reason_without_end_is_cut(temporal_address: str, length: int) -> None:
    """A run cancelled for a reason of megabytes is cancelled; the beginning of the reason is kept."""

    async def cancel(run: TemporalRun) -> None:
        await pending(run, "questions")
        await run.handle.cancel(reason="r" * length)

    edges, spec = asking()
    assert await ended(temporal_address, edges, spec, cancel) == "cancelled"
    [data] = edges.data_of("run.cancelled")
    assert data["reason"].startswith("r" * 900) and data["reason"].endswith("[the rest was left out]")
    assert len(data["reason"]) <= 1_000


async def test_rubbish_signals_change_nothing_but_an_outcome_that_is_too_large_is_cut(temporal_address: str) -> None:
    """What is no outcome is dropped; one with megabytes of text is taken with as much as is kept of any."""

    async def signal(run: TemporalRun) -> None:
        call_id = await pending(run, "questions")
        await run.handle.signal("operation_finished", "rubbish")
        await run.handle.signal("operation_finished", OperationFinished(1, "op-3", "ok", excerpt="x" * 1_500_000))
        await run.handle.execute_update(AgentRun.answer_question, QuestionAnswer(call_id, "go on", "ada"))

    edges, spec = asking()
    edges.model._replies.insert(0, [call("build"), call("ask_human", question="Which?")])
    edges.model._replies.pop(1)
    edges.tools, edges.background = {"build": asyncio.Event().wait}, ("build",)
    assert await ended(temporal_address, edges, spec, signal) == "completed"
    [completed] = edges.data_of("operation.completed")
    assert len(completed["result"]) <= 4_096


async def test_an_observation_that_answers_too_much_is_an_error_of_its_own(temporal_address: str) -> None:
    """Hints that together are over Temporal's limit are not taken, and the run goes on."""
    edges = MemoryEdges(ScriptedModel([call("sql", text="no such table"), call("sql", text="syntax error")], "done"))
    edges.tools = {"sql": fails("{text}")}
    items = itertools.count()
    wide = "\N{GRINNING FACE}"
    edges.find_hints = lambda request: tuple(
        hint(f"k-{next(items)}", wide * 4_096, caution=wide * 1_900) for _ in range(20)
    )

    async def nothing(run: TemporalRun) -> None:
        """Let the run go."""

    assert await ended(temporal_address, edges, SPEC, nothing) == "completed"
    assert [data["result"] for data in edges.data_of("activation.completed")] == ["error", "error"]
