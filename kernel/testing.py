"""For tests and benchmarks of runs: a model with prepared replies, tools that are functions, everything in memory.

The edges are those of a real run (kernel.edge.activities); only what they reach out to is in memory. So every
request is validated, every text redacted and every position written once, as it is anywhere else.
"""

import inspect
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from kernel.drivers import DriverReply, ModelRequest
from kernel.edge.activities import Activities
from kernel.edge.observation_client import ObservationClient
from kernel.edge.records import MemoryRecords
from kernel.edge.retry import ModelError
from kernel.edge.telemetry_client import SendReport, TelemetryClient
from kernel.edge.transcript import MemoryTranscript
from kernel.messages import (
    CallModel,
    CloseTranscript,
    Effect,
    Event,
    FetchHints,
    Hint,
    HintAnswer,
    HintRequest,
    HintsArrived,
    KeepAnswer,
    Message,
    ModelAnswer,
    OperationFinished,
    PrepareRun,
    RunPrepared,
    RunSpec,
    RunTool,
    SendEvents,
    StartOperation,
    ToolCall,
    ToolFinished,
    ToolKind,
    ToolStatus,
)
from kernel.tools.answered import answered_entries
from kernel.tools.catalogue import Catalogue, ToolEntry, ToolResult
from kernel.tools.registry import PreparedTools, Toolbox

AGENT = "scripted"  # the driver name of a RunSpec that names none
Tool = Callable[..., Any]
FindHints = Callable[[HintRequest], Sequence[Hint]]
Reply = str | list[ToolCall] | Exception


class ToolError(Exception):
    """Raised by a test's tool to fail with a class and a diagnostic."""

    def __init__(
        self, detail: str, error_class: str = "error", effect: Effect = "none", status: ToolStatus = "failed"
    ) -> None:
        super().__init__(detail)
        self.error_class = error_class
        self.effect = effect
        self.status = status


def call(name: str, call_id: str = "", **arguments: Any) -> ToolCall:
    """Return a call as a model would write it; without `call_id` the model numbers it."""
    return ToolCall(call_id, name, json.dumps(arguments, sort_keys=True))


def hint(knowledge_id: str, proposition: str = "", **fields: Any) -> Hint:
    """Return an offered hint; its hint_id is given by Observation."""
    text = proposition or f"rule of {knowledge_id}: run `{knowledge_id}`"
    return Hint("", knowledge_id, fields.pop("revision", 1), text, fields.pop("state", "confirmed"), **fields)


class ScriptedModel:
    """A driver that gives prepared replies in order: a text, a list of calls, or an exception. Past the last it
    answers "done". `requests` holds the history of every request, in order."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self._ids = itertools.count(1)
        self.requests: list[Sequence[Message]] = []

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Give the next reply. Raises ModelError for a prepared exception."""
        self.requests.append(request.messages)
        given = self._replies.pop(0) if self._replies else "done"
        if isinstance(given, ModelError):
            raise given
        if isinstance(given, Exception):
            raise ModelError(type(given).__name__, str(given))
        if isinstance(given, str):
            return DriverReply(given)
        return DriverReply(calls=tuple(replace(one, call_id=one.call_id or f"c{next(self._ids)}") for one in given))

    async def end_run(self, run_id: str) -> None:
        """Nothing is held for a run."""

    async def close(self) -> None:
        """Nothing is held open."""


@dataclass
class MemoryEdges:
    """The world of a run in memory, and what went on in it.

    `tools` are functions by name, plain or async, those in `background` are operations; `servers` names the MCP server
    a tool belongs to; `models` are those of other agents than the run's own; `find_hints` answers a request and may
    raise to be unreachable. `events` are the core's, `wire` is what ingest would get.
    """

    model: ScriptedModel
    tools: dict[str, Tool] = field(default_factory=dict)
    find_hints: FindHints | None = None
    servers: dict[str, str] = field(default_factory=dict)
    models: dict[str, ScriptedModel] = field(default_factory=dict)
    background: tuple[str, ...] = ()
    events: list[Event] = field(default_factory=list)
    wire: list[Mapping[str, Any]] = field(default_factory=list)
    hint_requests: list[HintRequest] = field(default_factory=list)
    commands: list[Any] = field(default_factory=list)
    executed: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    now_ns: int = 1_800_000_000_000_000_000
    records: MemoryRecords = field(default_factory=MemoryRecords)

    def __post_init__(self) -> None:
        self.store = MemoryTranscript()
        self.toolbox = FunctionTools(self)
        telemetry, observation = MemoryTelemetry(self), MemoryObservation(self)
        self.activities = Activities(
            self.store,
            {AGENT: self.model, **self.models},
            self.toolbox,
            observation,
            telemetry,
            lambda: self.clock(),
            self.records,
        )

    def clock(self) -> int:
        """Return a time that moves a millisecond at each look."""
        self.now_ns += 1_000_000
        return self.now_ns

    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        self.commands.append(command)
        return await self.activities.prepare_run(command)

    async def call_model(self, command: CallModel) -> ModelAnswer:
        self.commands.append(command)
        return await self.activities.call_model(command)

    async def run_tool(self, command: RunTool) -> ToolFinished:
        self.commands.append(command)
        return await self.activities.run_tool(command)

    async def run_operation(self, command: StartOperation) -> OperationFinished:
        self.commands.append(command)
        return await self.activities.run_operation(command)

    async def close_transcript(self, command: CloseTranscript) -> None:
        self.commands.append(command)
        await self.activities.close_transcript(command)

    async def fetch_hints(self, command: FetchHints) -> HintsArrived:
        self.commands.append(command)
        return await self.activities.fetch_hints(command)

    async def send_events(self, command: SendEvents) -> None:
        self.commands.append(command)
        self.events.extend(command.events)
        await self.activities.send_events(command)

    async def keep_answer(self, command: KeepAnswer) -> None:
        self.commands.append(command)
        await self.activities.keep_answer(command)

    def event_types(self) -> list[str]:
        """Return the types of the events sent, in order."""
        return [event.type for event in self.events]

    def data_of(self, event_type: str) -> list[dict[str, Any]]:
        """Return the data of every event of one type, in order."""
        return [json.loads(event.data) for event in self.events if event.type == event_type]


class FunctionTools(Toolbox):
    """A toolbox of functions: no folders, no processes."""

    def __init__(self, world: MemoryEdges) -> None:
        # What a toolbox sets up (a work folder, MCP sessions, the jail) is what this one does without.
        self._world = world

    async def prepare(self, spec: RunSpec) -> PreparedTools:
        world = self._world
        kinds: dict[str, ToolKind] = dict.fromkeys(world.background, "background")
        entries = [
            ToolEntry(name, "a function", {}, mcp_server=world.servers.get(name), kind=kinds.get(name, "call"))
            for name in world.tools
        ]
        return PreparedTools(Catalogue((*entries, *answered_entries(spec))))

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        """Execute one function. What it raises besides ToolError is a lost edge, as it would be anywhere."""
        self._world.executed.append((entry.name, dict(arguments)))
        try:
            result = self._world.tools[entry.name](**arguments)
            if not isinstance(result, str) and inspect.isawaitable(result):
                result = await result
        except ToolError as error:
            return ToolResult(error.status, error.effect, diagnostic=str(error), error_class=error.error_class)
        return ToolResult("ok", "applied", str(result))

    async def close_run(self, run_id: str) -> None:
        """Nothing is left running."""

    async def close(self) -> None:
        """Nothing is held open."""


class MemoryObservation(ObservationClient):
    """The client of an Observation that is a function: its answers are JSON and are checked like any."""

    def __init__(self, world: MemoryEdges) -> None:
        # No connection is made, so none is set up: that alone would take longer than a run.
        self._world = world
        self._requests: tuple[HintRequest, ...] = ()
        self.n_failed = 0

    async def fetch(self, command: FetchHints) -> tuple[HintAnswer, ...]:
        self._world.hint_requests.extend(command.requests)
        self._requests = command.requests
        return await super().fetch(command)

    async def _post(self, body: Mapping[str, object]) -> tuple[int, bytes]:
        try:
            return 200, json.dumps({"answers": self._answers()}).encode()
        except Exception as error:
            raise httpx.ConnectError(str(error)) from error

    def _answers(self) -> list[dict[str, object]]:
        """Answer a batch as Observation does: nothing issued, suppressed, or offered earlier in it."""
        offered: list[str] = []
        answers: list[dict[str, object]] = []
        for request in self._requests:
            known = (*request.issued_knowledge_ids, *(one.knowledge_id for one in request.suppressed), *offered)
            found = self._world.find_hints(request) if self._world.find_hints else ()
            hints = [one for one in found if one.knowledge_id not in known]
            offered += [one.knowledge_id for one in hints]
            answers.append(
                {
                    "activation_id": request.activation_id,
                    "algorithm_version": "in-memory",
                    "counts": {"retrieved": len(found)},
                    "hints": [hint_json(one, f"{request.activation_id}:h{rank}") for rank, one in enumerate(hints, 1)],
                }
            )
        return answers


def hint_json(offered: Hint, hint_id: str) -> dict[str, object]:
    """Return a hint as the hints API gives it."""
    return {
        "hint_id": hint_id,
        "knowledge_id": offered.knowledge_id,
        "revision": offered.revision,
        "proposition": offered.proposition,
        "state": offered.state,
        "matched_by": list(offered.matched_by),
        "caution": offered.caution,
    }


class MemoryTelemetry(TelemetryClient):
    """The client of an ingest that keeps what it is sent."""

    def __init__(self, world: MemoryEdges) -> None:
        self._world = world
        self.counts = Counter()

    async def send(self, events: Sequence[Mapping[str, Any]]) -> SendReport:
        self._world.wire.extend(events)
        self.counts["delivered"] += len(events)
        return SendReport(n_delivered=len(events))
