"""Edges, transcripts and toolboxes that break the protocol, each in one way, and the cell that each must fail."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from contract.events import TERMINAL_TYPES
from kernel.conformance.columns import IN_PROCESS, LocalColumn
from kernel.conformance.edges import WorldEdges, WorldTools
from kernel.conformance.playing import LocalPlayer
from kernel.conformance.record import Executed
from kernel.conformance.worlds import World
from kernel.drivers import Driver
from kernel.drivers.escalation import ESCALATE
from kernel.edge.transcript import Entry, MemoryTranscript
from kernel.messages import (
    CallModel,
    CallSeen,
    CloseTranscript,
    Event,
    Message,
    ModelAnswer,
    ModelReplied,
    PrepareRun,
    RunPrepared,
    SendEvents,
    ToolSpec,
)
from kernel.tools.brush_operations import TAKE_TIME
from kernel.tools.catalogue import Catalogue, ToolEntry, ToolResult
from kernel.tools.registry import Toolbox


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
    """The answer with the same changed in all its calls."""
    return each_call(answer, lambda call: replace(call, **changed))


def each_call(answer: ModelAnswer, change: Callable[[CallSeen], CallSeen]) -> ModelAnswer:
    """The answer with all its calls changed."""
    if answer.replied is None:
        return answer
    return ModelAnswer(replied=replace(answer.replied, calls=tuple(change(call) for call in answer.replied.calls)))


class MisreadsSteps(WorldEdges):
    """Reads a claimed step as another one."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return each_call(
            await super().call_model(command), lambda call: replace(call, step=call.step and call.step + 99)
        )


class ComparesTooLittle(WorldEdges):
    """Takes calls for identical whose steps are not."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return each_call(
            await super().call_model(command), lambda call: replace(call, digest=f"{call.name} {call.excerpt}")
        )


class ShortensReasons(WorldEdges):
    """Cuts a declared reason that is within its limit."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return each_call(await super().call_model(command), lambda call: replace(call, escalates=call.escalates[:100]))


class HearsAsks(WorldEdges):
    """Takes every call of the affordance for an ask."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return each_call(
            await super().call_model(command),
            lambda call: replace(call, escalates="heard" if call.name == ESCALATE else ""),
        )


class SkipsReading(WorldEdges):
    """Does not look whether arguments can be read."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return seen_as(await super().call_model(command), malformed="")


class Forgives(WorldEdges):
    """Takes a request that failed for one that was answered."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        answer = await super().call_model(command)
        if answer.failed is None:
            return answer
        return ModelAnswer(replied=ModelReplied(answer.failed.at_ns, answer.failed.requested_ns, text="Done."))


class DropsMetadata(WorldEdges):
    """Loses what a driver gives with an ending."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        answer = await super().call_model(command)
        return ModelAnswer(answer.replied and replace(answer.replied, metadata=""), answer.failed)


class HearsNoFailure(WorldEdges):
    """Takes a declared failure for a completion."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        answer = await super().call_model(command)
        said = answer.replied and replace(answer.replied, failed="", text=answer.replied.text or "Done.")
        return ModelAnswer(said, answer.failed)


class ExecutesToTheEnd(WorldEdges):
    """Executes what the last reply calls."""

    async def call_model(self, command: CallModel) -> ModelAnswer:
        answer = await super().call_model(command)
        if command.finale:
            self.calls.append(Executed("late", "write", {}))
        return answer


class EscalatesAtTheEnd(WorldEdges):
    """Reports an ask of the last reply as one."""

    async def send_events(self, command: SendEvents) -> None:
        told = [
            replace(event, type="run.escalated") if event.type == "run.limit_reached" else event
            for event in command.events
        ]
        await super().send_events(replace(command, events=tuple(told)))


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


class TellsNoSteps(WorldEdges):
    """Reports calls without the steps that were claimed for them."""

    async def send_events(self, command: SendEvents) -> None:
        told = [replace(event, data=without_step(event.data)) for event in command.events]
        await super().send_events(replace(command, events=tuple(told)))


def without_step(data: str) -> str:
    """The data without a step."""
    return json.dumps({name: value for name, value in json.loads(data).items() if name != "step"})


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


class FailsQuietly(WorldTools):
    """Tells every call as a success."""

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        return replace(await super().run(run_id, catalogue, entry, arguments), status="ok", output="done")


class BendsPaths(WorldTools):
    """Makes a path fit into the notes folder."""

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        bent = json.loads(json.dumps(arguments).replace("../", "").replace('"/', '"'))
        return await super().run(run_id, catalogue, entry, bent)


class LivesInThePast(WorldTools):
    """Has a clock of its own, which went wrong."""

    def __init__(self, edges: WorldEdges) -> None:
        super().__init__(edges)
        self._clock_ns = lambda: 1_736_400_000_000_000_000  # 2025-01-09


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
    ("tells no steps", over(TellsNoSteps), "step-ahead", "the record of read tells the steps [None, None], not 2"),
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
    *[
        (f"forgives in {condition}", over(Forgives), condition, "the run ended completed")
        for condition in (
            "step-behind",
            "step-bool",
            "step-negative",
            "step-text",
            "reason-empty",
            "reason-over",
            "unknown-type",
            "empty-output",
            "wrong-type",
            "seat-fails",
        )
    ],
    ("answers for a last request that failed", over(Forgives), "finale-fails", "the answer is 'Done.'"),
    ("does not read arguments", over(SkipsReading), "malformed", "write ended as"),
    ("misreads steps", over(MisreadsSteps), "step-equal", "executed were"),
    ("takes steps for nothing", over(ForgetsSteps), "order-step", "ghost ended as"),
    ("compares too little", over(ComparesTooLittle), "step-of-copy", "write ended as"),
    ("shortens reasons", over(ShortensReasons), "reason-full", "the ask says"),
    ("swallows the last ask", over(SwallowsTheAsk), "ask-over-budget", "the run ended completed"),
    ("hears asks everywhere", over(HearsAsks), "forwarded", "escalate ended as"),
    ("drops metadata", over(DropsMetadata), "ask-metadata", "the metadata of the ending"),
    ("drops metadata of a completion", over(DropsMetadata), "completion", "the metadata of the ending"),
    ("hears no failure", over(HearsNoFailure), "declared-failure", "the run ended completed"),
    ("executes to the end", over(ExecutesToTheEnd), "finale-calls", "executed and stands in no history"),
    ("escalates at the end", over(EscalatesAtTheEnd), "finale-ask", "reported run.escalated"),
    ("forgets failures", stored_in(ForgetsResults), "last-failure", "holds no tool message"),
    ("drops the outcome of a call whose id was made", over(DropsAnOutcome), "call-ids", "has 0 endings"),
    ("fails quietly", executed_by(FailsQuietly), "neighbours", "boom ended as"),
    ("bends paths", executed_by(BendsPaths), "jail", "the receipts say"),
    ("lives in the past", executed_by(LivesInThePast), "date-mismatch", "no receipt is flagged"),
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
