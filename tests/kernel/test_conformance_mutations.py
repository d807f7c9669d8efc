"""The matrix sees what is broken: each mutation of a driver, an edge, a runner or a record fails its named cell.

The same cells pass without the mutation (test_conformance.py), so a condition that cannot fail does not stay.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.events import TERMINAL_TYPES
from kernel.conformance.adversary import Adversary, adversary_seat
from kernel.conformance.columns import ADVERSARY, IN_PROCESS, MCP, OPENAI, SCRIPTED, LocalColumn
from kernel.conformance.conditions import CONDITIONS
from kernel.conformance.edges import WorldEdges, WorldTools
from kernel.conformance.mcp_seat import PlayingHarness
from kernel.conformance.moves import Decisions, Reaching
from kernel.conformance.openai_seat import completion_server, openai_seat
from kernel.conformance.playing import LocalPlayer, Seat
from kernel.conformance.record import Record
from kernel.conformance.report import Cell, make_report
from kernel.conformance.worlds import Move, World
from kernel.drivers import Driver, DriverReply, ModelRequest, ToolOffer
from kernel.drivers.escalation import ESCALATE
from kernel.drivers.mcp_harness import McpHarnessRuntime
from kernel.drivers.openai_chat import OpenAIChatDriver
from kernel.drivers.outside import DecidingDriver
from kernel.drivers.plugin import RuntimeDriver, Turn
from kernel.drivers.rendering import render_openai
from kernel.drivers.scripted import ScriptedDriver, follow
from kernel.edge.retry import EnvelopeError
from kernel.edge.transcript import Entry, MemoryTranscript
from kernel.messages import (
    ApprovalDecided,
    AskApproval,
    CallModel,
    CallSeen,
    CloseTranscript,
    Command,
    Event,
    Limits,
    Message,
    ModelAnswer,
    Observation,
    PrepareRun,
    RunPrepared,
    RunResult,
    RunSpec,
    SendEvents,
    ToolFinished,
    ToolSpec,
)
from kernel.runtime.local import LocalRun
from kernel.tools.brush_operations import TAKE_TIME
from kernel.tools.catalogue import Catalogue, ToolEntry, ToolResult
from kernel.tools.registry import Toolbox

Makes = Callable[[World], Seat]


# ---- broken drivers --------------------------------------------------------------------------------------


class ForwardsTheAsk(Decisions):
    """Passes a granted ask on as a call."""

    def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
        return super().call_decision(move, offered=False)


class IgnoresTheCatalogue(Decisions):
    """Ends the turn on the name of the affordance, offered or not."""

    def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
        return super().call_decision(move, offered=True)


class ClaimsAStep(Decisions):
    """Claims a step of its own for calls that claim none."""

    def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
        return super().call_decision(move if move.step is not None else replace(move, step=99), offered)


class KeepsTheWholeReason(Decisions):
    """Hands the reason over as the model wrote it."""

    def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
        decision = super().call_decision(move, offered)
        if decision["type"] != "escalate":
            return decision
        return {"type": "escalate", "reason": str(move.arguments["reason"])}


class SplitsAPair(Decisions):
    """Cuts a reason wherever the limit is."""

    def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
        reason = str(move.arguments["reason"]).strip().encode("utf-16-le")[: 2 * 512]
        return {"type": "escalate", "reason": reason.decode("utf-16-le", "replace")}


class AsksLast(Decisions):
    """Puts the second ask first."""

    async def decide(self, request: ModelRequest) -> object:
        decided = await super().decide(request)
        return decided[::-1] if isinstance(decided, list) else decided


class RepeatsCalls(Decisions):
    """Makes the first call of a reply once more, under other arguments."""

    async def decide(self, request: ModelRequest) -> object:
        decided = await super().decide(request)
        again = {"type": "tool_call", "call": {"name": "write", "arguments": {"text": "again"}}}
        return [*decided, again] if isinstance(decided, list) else decided


class Lenient(DecidingDriver):
    """Takes what it understands of a decision and leaves the rest."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        try:
            return await super().reply(request)
        except Exception:  # noqa: BLE001 - that is what is wrong with it
            return DriverReply("Done.")


class NamesToolsToTheEnd(OpenAIChatDriver):
    """Sends the tools of the run with its last request as well."""

    tools: tuple[ToolOffer, ...] = ()

    async def reply(self, request: ModelRequest) -> DriverReply:
        self.tools = request.tools or self.tools
        return await super().reply(replace(request, tools=self.tools))


class OverhearsTheAsk(ScriptedDriver):
    """Follows its script and recognises no ask in it."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        return follow(self._rules(request.script), render_openai(request.messages))


def decided_by(decisions: type[Decisions], driver: type[DecidingDriver] = DecidingDriver) -> LocalColumn:
    """The in-process column with another driver in the seat."""

    def makes(folder: Path, stack: AsyncExitStack) -> Makes:
        return lambda world: Seat(driver(decisions(world)))

    return replace(IN_PROCESS, makes=makes)


def _naming(folder: Path, stack: AsyncExitStack) -> Makes:
    server = stack.enter_context(completion_server())
    client = NamesToolsToTheEnd(server.url, "none")
    stack.push_async_callback(client.close)
    return lambda world: openai_seat(world, server, client)


def _overhearing(folder: Path, stack: AsyncExitStack) -> Makes:
    written = SCRIPTED.makes(folder, stack)

    def make(world: World) -> Seat:
        written(world)
        driver = Reaching(OverhearsTheAsk(folder), world)
        return Seat(driver, driver)

    return make


class SwallowsOutcomes(RuntimeDriver):
    """Takes any outcome of its runtime for a completion."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        try:
            return await super().reply(request)
        except EnvelopeError:
            return DriverReply("Done.")


class SwallowsTheHarnessAsk(McpHarnessRuntime):
    """Completes the turn whose harness has asked."""

    async def run_turn(self, turn: Turn) -> Mapping[str, Any]:
        outcome = await super().run_turn(turn)
        return {"type": "complete", "output": "Done."} if outcome["type"] == "escalate" else outcome


class CountsNothing(McpHarnessRuntime):
    """Does not tell how many calls came after the ask."""

    async def run_turn(self, turn: Turn) -> Mapping[str, Any]:
        return {name: value for name, value in (await super().run_turn(turn)).items() if name != "metadata"}


def outcomes_of(driver: type[RuntimeDriver]) -> LocalColumn:
    """The adversary's column with another driver around it."""

    def make(world: World) -> Seat:
        seat = adversary_seat(world)
        return replace(seat, driver=driver(Adversary(world)))

    return replace(ADVERSARY, makes=lambda folder, stack: make)


def harnessed_by(runtime: type[McpHarnessRuntime]) -> LocalColumn:
    """The column of the harness with another runtime around it."""

    def make(world: World) -> Seat:
        harness = PlayingHarness(world)
        return Seat(RuntimeDriver(runtime(harness)), aside=harness.aside, outside=True)

    return replace(MCP, makes=lambda folder, stack: make)


DRIVERS: list[tuple[str, LocalColumn, str, str]] = [
    ("forwards the ask", decided_by(ForwardsTheAsk), "ask", "the run ended completed"),
    ("forwards the ask of a batch", decided_by(ForwardsTheAsk), "batch", "the run ended completed"),
    ("ignores the catalogue", decided_by(IgnoresTheCatalogue), "ask-ungranted", "escalate ended as"),
    ("claims a step silently", decided_by(ClaimsAStep), "answered", "executed were no calls"),
    ("claims a step in the last round", decided_by(ClaimsAStep), "last-receipt", "holds no tool message"),
    ("keeps the whole reason", decided_by(KeepsTheWholeReason), "reason-cut", "the run ended failed"),
    ("splits a pair", decided_by(SplitsAPair), "reason-cut", "the ask says"),
    ("gives no default reason", decided_by(KeepsTheWholeReason), "reason-unreadable", "the ask says '5'"),
    ("asks in the wrong order", decided_by(AsksLast), "two-asks", "the ask says 'The second?'"),
    ("makes calls of its own", decided_by(RepeatsCalls), "answered", "executed were"),
    ("reads decisions leniently", decided_by(Decisions, Lenient), "unknown-key", "the run ended completed"),
    ("reads metadata leniently", decided_by(Decisions, Lenient), "metadata", "the run ended completed"),
    ("names tools to the end", replace(OPENAI, makes=_naming), "ceiling-2", "the last request names tools"),
    ("recognises no ask", replace(SCRIPTED, makes=_overhearing), "ask-first", "the run ended completed"),
    ("takes any outcome", outcomes_of(SwallowsOutcomes), "unknown-key", "the run ended completed"),
    ("swallows a harness's ask", harnessed_by(SwallowsTheHarnessAsk), "ask", "the run ended completed"),
    ("does not count what a harness did", harnessed_by(CountsNothing), "batch", "0 calls after the ask"),
]


# ---- broken edges ----------------------------------------------------------------------------------------


class ForgetsSteps(WorldEdges):
    """Loses the steps a driver claims."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return seen_as(await super().call_model(command), step=None)


class Renumbers(WorldEdges):
    """Gives every call the step after the loop's position."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return seen_as(await super().call_model(command), step=command.turn)


class SwallowsTheAsk(WorldEdges):
    """Loses that a driver declared the run's end."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return seen_as(await super().call_model(command), escalates="")


def seen_as(answer: ModelAnswer, **changed: Any) -> ModelAnswer:
    """The answer with all its calls changed."""
    if answer.replied is None:
        return answer
    calls: tuple[CallSeen, ...] = tuple(replace(call, **changed) for call in answer.replied.calls)
    return ModelAnswer(replied=replace(answer.replied, calls=calls))


class BlamesTheModel(WorldEdges):
    """Says of every failure that the model failed."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        answer = await super().call_model(command)
        failed = answer.failed and replace(answer.failed, error_class="model_failed", source="runtime")
        return ModelAnswer(answer.replied, failed)


class OffersToTheEnd(WorldEdges):
    """Makes the last request like any other."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return await super().call_model(replace(command, finale=False))


class LeavesCallsOpen(WorldEdges):
    """Writes nothing for calls that are pending when the run ends."""

    async def close_transcript(self, command: CloseTranscript) -> None:
        """Nothing is written."""


class OffersMore(WorldEdges):
    """Tells the core of a tool that the run was not given."""

    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        prepared = await super().prepare_run(command)
        return replace(prepared, tools=(*prepared.tools, ToolSpec("ghost")))


class EndsTwice(WorldEdges):
    """Reports the end of the run a second time."""

    async def send_events(self, command: SendEvents) -> None:
        await super().send_events(replace(command, events=(*command.events, *after_the_end(command))))


class ReportsAfterTheEnd(WorldEdges):
    """Reports something more when the run is over."""

    async def send_events(self, command: SendEvents) -> None:
        more = [replace(event, type="turn.completed") for event in after_the_end(command)]
        await super().send_events(replace(command, events=(*command.events, *more)))


class NeverEnds(WorldEdges):
    """Keeps the end of the run to itself."""

    async def send_events(self, command: SendEvents) -> None:
        kept = tuple(event for event in command.events if event.type not in TERMINAL_TYPES)
        await super().send_events(replace(command, events=kept))


class DropsAnOutcome(WorldEdges):
    """Reports no second outcome of a round."""

    async def send_events(self, command: SendEvents) -> None:
        outcomes = [event for event in command.events if event.type == "tool.completed"]
        kept = [replace(one, type="turn.started") if one in outcomes[1:] else one for one in command.events]
        await super().send_events(replace(command, events=tuple(kept)))


def after_the_end(command: SendEvents) -> list[Event]:
    """The terminal event of a report once more, under the next number."""
    ends = [event for event in command.events if event.type in TERMINAL_TYPES]
    return [replace(event, seq=event.seq + 1, event_id=f"{event.event_id}-again") for event in ends]


class ForgetsResults(MemoryTranscript):
    """Keeps no result of a tool."""

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        kept = replace(message, text="(no output)") if message.role == "tool" else message
        return await super().write(run_id, seq, kept, outcome)


class TellsAtTheStart(MemoryTranscript):
    """Tells the outcome of an operation where it is started as well."""

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        early = message.role == "tool" and "op-3" in message.text
        told = replace(message, text=f"{message.text} artefact 17") if early else message
        return await super().write(run_id, seq, told, outcome)


class HintsAsTheUser(MemoryTranscript):
    """Puts hints into the user's mouth."""

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        told = replace(message, role="user") if message.origin == "hints" else message
        return await super().write(run_id, seq, told, outcome)


class ExecutesTwice(WorldTools):
    """Executes a call, and once more to be sure."""

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        await super().run(run_id, catalogue, entry, arguments)
        return await super().run(run_id, catalogue, entry, arguments)


class ReadsTheClockItself(WorldTools):
    """Takes a time receipt before every call of the brush."""

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        await Toolbox.run(self, run_id, catalogue, entry, {"operations": [{"op": TAKE_TIME}]})
        return await super().run(run_id, catalogue, entry, arguments)


class GoesOn(WorldTools):
    """Runs all operations of a call, whatever becomes of them."""

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        return await super().run(run_id, catalogue, entry, {**arguments, "on_failure": "go_on"})


def over(edges: type[WorldEdges]) -> LocalColumn:
    """The in-process column over other edges."""

    class Player(LocalPlayer):
        def edges(self, world: World, driver: Driver) -> WorldEdges:
            return edges(world=world, driver=driver, folder=self._folder)

    return replace(IN_PROCESS, player=Player)


def stored_in(store: type[MemoryTranscript]) -> LocalColumn:
    """The in-process column over another transcript."""

    class Edges(WorldEdges):
        def made_store(self) -> MemoryTranscript:
            return store()

    return over(Edges)


def executed_by(tools: type[WorldTools]) -> LocalColumn:
    """The in-process column over another toolbox."""

    class Edges(WorldEdges):
        def made_toolbox(self) -> WorldTools:
            return tools(self)

    return over(Edges)


EDGES: list[tuple[str, LocalColumn, str, str]] = [
    ("loses claimed steps", over(ForgetsSteps), "step-past", "write ended as"),
    ("lets a refused step cost", over(ForgetsSteps), "step-costs-nothing", "write ended as"),
    ("renumbers steps", over(Renumbers), "step-costs-nothing", "write ended as"),
    ("swallows an escalation", over(SwallowsTheAsk), "ask", "the run ended completed"),
    ("swallows a forged ask", over(SwallowsTheAsk), "forged-ask", "the run ended completed"),
    ("blames the model", over(BlamesTheModel), "raises", "the turn failed as ('model_failed', 'runtime')"),
    ("offers tools to the end", over(OffersToTheEnd), "ceiling-8", "the last request offers tools"),
    ("leaves calls open", over(LeavesCallsOpen), "batch", "the replies to"),
    ("leaves calls open when cancelled", over(LeavesCallsOpen), "cancelled", "the replies to"),
    ("offers more than was given", over(OffersMore), "unpublished", "ghost ended as"),
    ("ends twice", over(EndsTwice), "answered", "the run has 2 terminal events"),
    ("reports after the end", over(ReportsAfterTheEnd), "answered", "stands after the terminal event"),
    ("never ends", over(NeverEnds), "answered", "the run has 0 terminal events"),
    ("drops an outcome", over(DropsAnOutcome), "identical", "has 0 endings"),
    ("forgets results", stored_in(ForgetsResults), "last-receipt", "holds no tool message"),
    ("tells an outcome twice", stored_in(TellsAtTheStart), "background", "the outcome is told 2 times"),
    ("puts hints into the user's mouth", stored_in(HintsAsTheUser), "hinted", "the hint does not follow a reply"),
    ("executes twice", executed_by(ExecutesTwice), "answered", "was executed 2 times"),
    (
        "takes time receipts by itself",
        executed_by(ReadsTheClockItself),
        "time-receipt",
        "the note without a receipt is ok",
    ),
    ("goes on after a failure", executed_by(GoesOn), "receipts", "the receipts say"),
]


# ---- broken runners --------------------------------------------------------------------------------------


class Changed(LocalRun):
    """A runner that runs another spec than it was given."""

    async def run(self, spec: RunSpec) -> RunResult:
        return await super().run(self.changed(spec))

    def changed(self, spec: RunSpec) -> RunSpec:
        return spec


class IgnoresPolicy(Changed):
    def changed(self, spec: RunSpec) -> RunSpec:
        return replace(spec, blocked_tools=(), approval_tools=())


class GrantsAll(Changed):
    def changed(self, spec: RunSpec) -> RunSpec:
        return replace(spec, grants=("*", ESCALATE), namespaces_off=())


class OffersAll(Changed):
    def changed(self, spec: RunSpec) -> RunSpec:
        return replace(spec, tools=("read", "write", "boom", ESCALATE))


class LimitsNothing(Changed):
    def changed(self, spec: RunSpec) -> RunSpec:
        return replace(spec, limits=Limits())


class SaysYes(LocalRun):
    """A runner that approves by itself."""

    async def _ask_approval(self, command: AskApproval) -> ApprovalDecided:
        return ApprovalDecided(self._clock_ns(), command.call_id, approved=True, by="runner")


class TakesAnyResult(LocalRun):
    """A runner that takes a result for that of the call it waits for."""

    def _observe(self, observation: Observation) -> Sequence[Command]:
        assert self.state is not None
        running = next((one.seen.call_id for one in self.state.calls if not one.outcome), "")
        if isinstance(observation, ToolFinished):
            observation = replace(observation, call_id=running)
        return super()._observe(observation)


class SaysCompleted(LocalRun):
    """A runner that returns every end as a completion."""

    async def run(self, spec: RunSpec) -> RunResult:
        return replace(await super().run(spec), status="completed")


class HearsNoCancellation(LocalRun):
    """A runner that goes on when it is cancelled."""

    def cancel(self, reason: str = "") -> None:
        edges = self._edges
        assert isinstance(edges, WorldEdges)
        edges.released.set()


def run_by(run: type[LocalRun]) -> LocalColumn:
    """The in-process column with another runner."""

    class Player(LocalPlayer):
        def run(self, edges: WorldEdges) -> LocalRun:
            return run(edges, clock_ns=edges.clock)

    return replace(IN_PROCESS, player=Player)


RUNNERS: list[tuple[str, LocalColumn, str, str]] = [
    ("ignores policy", run_by(IgnoresPolicy), "blocked", "write ended as"),
    ("grants everything", run_by(GrantsAll), "not-granted", "write was offered"),
    ("grants the ask", run_by(GrantsAll), "forged-ask", "the run ended escalated"),
    ("opens a namespace", run_by(GrantsAll), "namespace-off", "listing was offered"),
    ("offers everything", run_by(OffersAll), "not-requested", "write was offered"),
    ("offers the ask", run_by(OffersAll), "ask-unrequested", "the run ended escalated"),
    ("limits no calls", run_by(LimitsNothing), "call-budget", "write ended as"),
    ("limits no rounds", run_by(LimitsNothing), "ceiling-2", "the last request offers tools"),
    ("limits no time", run_by(LimitsNothing), "time-spent", "the last request offers tools"),
    ("never fails at a limit", run_by(LimitsNothing), "at-limit-fail", "the run ended completed"),
    ("executes a denied call", run_by(SaysYes), "denied", "write ended as"),
    ("asks nobody", run_by(IgnoresPolicy), "denied", "nobody was asked"),
    ("takes any result", run_by(TakesAnyResult), "anothers-reply", "the run ended completed"),
    ("says completed at a limit", run_by(SaysCompleted), "ceiling-1", "the run returned completed"),
    ("hears no cancellation", run_by(HearsNoCancellation), "cancelled", "the run ended completed"),
]

MUTATIONS = (*DRIVERS, *EDGES, *RUNNERS)


async def cell_of(column: LocalColumn, condition: str) -> Cell:
    """The one cell of a column that a condition makes."""
    [row] = [one for one in CONDITIONS if one.id == condition]
    return (await make_report([column], [row])).cells[0]


@pytest.mark.parametrize(
    ("column", "condition", "reason"), [one[1:] for one in MUTATIONS], ids=[one[0] for one in MUTATIONS]
)
async def test_a_mutation_fails_its_cell(column: LocalColumn, condition: str, reason: str) -> None:
    """What is broken is tried, fails, and the cell says what was found."""
    cell = await cell_of(column, condition)
    assert (cell.result, cell.attempts != ()) == ("fail", True), cell
    assert reason in cell.reason


ORIGINALS = {"adversary": ADVERSARY, "scripted": SCRIPTED, "openai": OPENAI, "mcp": MCP, "in_process": IN_PROCESS}


@pytest.mark.parametrize(("column", "condition"), sorted({(one[1].id, one[2]) for one in MUTATIONS}))
async def test_the_cell_passes_without_its_mutation(column: str, condition: str) -> None:
    """It is the mutation that fails the cell."""
    assert (await cell_of(ORIGINALS[column], condition)).result.startswith("pass")


class TakesInWhatIsLate(LocalPlayer):
    """Plays worlds whose runs do not withstand what comes after their end."""

    async def __call__(self, world: World) -> Record:
        record = await super().__call__(world)
        return replace(record, attacks=tuple(replace(one, refused=False, changed=True) for one in record.attacks))


@pytest.mark.parametrize("condition", ["second-end", "late-result"])
async def test_a_run_that_takes_in_what_is_late_fails(condition: str) -> None:
    """An observation after the end that is not turned away fails the cell."""
    cell = await cell_of(replace(IN_PROCESS, player=TakesInWhatIsLate), condition)
    assert cell.result == "fail"
    assert cell.reason.endswith("was taken in and changed something")


async def test_a_call_let_through_after_the_end_fails() -> None:
    """A call that is answered by anything but a refusal when the run is over fails the cell."""

    class Open(LocalPlayer):
        async def __call__(self, world: World) -> Record:
            record = await super().__call__(world)
            return replace(record, aside=tuple(replace(one, code="") for one in record.aside))

    cell = await cell_of(replace(ADVERSARY, player=Open), "after-end")
    assert (cell.result, cell.reason) == ("fail", "a call after the end was answered without a refusal")


async def test_what_is_not_tried_is_not_exercised() -> None:
    """A driver that claims no step and asks nobody passes and fails nothing there."""

    class Tame(Decisions):
        def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
            tame = replace(move, step=None, tool="read" if move.tool == ESCALATE else move.tool)
            return super().call_decision(tame, offered)

    for condition in ("step-past", "step-behind", "ask", "forwarded"):
        assert (await cell_of(decided_by(Tame), condition)).result == "not exercised"
