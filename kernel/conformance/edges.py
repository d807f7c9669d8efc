"""The edges of a run in a world: the real ones, over tools that do what the world says, all of it written down."""

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kernel.conformance.moves import SeatFailed, number_of
from kernel.conformance.record import Attack, Executed, Given, Record, Sent
from kernel.conformance.worlds import Tool, World
from kernel.drivers import Driver, DriverReply, ModelRequest
from kernel.edge.activities import Activities
from kernel.edge.transcript import MemoryTranscript
from kernel.messages import (
    Hint,
    HintRequest,
    Message,
    OperationFinished,
    RunResult,
    RunTool,
    StartOperation,
    ToolFinished,
)
from kernel.testing import AGENT, MemoryEdges, MemoryObservation, MemoryTelemetry, ScriptedModel, hint
from kernel.tools.catalogue import Catalogue, ToolEntry, ToolResult
from kernel.tools.registry import LocalTool, PreparedTools, RunPlace, Toolbox

CALL: Final[ContextVar[str]] = ContextVar("call")  # the id of the call that is being executed
FAILED: Final = "broken"  # the error class of a tool that fails
ANOTHER: Final = "reply for another"  # the attack in which a result names a call that is not its own
SCHEMA: Final = {"type": "object", "properties": {"text": {"type": "string"}}}


class Watched:
    """A driver that is watched: the requests it is given and what it gives back are written down. One that hangs is let
    go of when the run is over."""

    def __init__(self, driver: Driver, edges: "WorldEdges") -> None:
        self._driver = driver
        self._edges = edges
        self.requests: list[Sent] = []
        self.given: list[Given] = []

    async def reply(self, request: ModelRequest) -> DriverReply:
        number = number_of(request.messages)
        offered = tuple(offer.name for offer in request.tools)
        self.requests.append(Sent(tuple(request.messages), offered, request.finale))
        try:
            reply = await self._replied(request, self._edges.world.round_at(number).hangs)
        except Exception as error:
            raised = str(getattr(error, "error_class", type(error).__name__))
            self.given.append(Given(number, raised=raised))
            raise
        self.given.append(Given(number, reply))
        return reply

    async def _replied(self, request: ModelRequest, hangs: bool) -> DriverReply:
        if not hangs:
            return await self._driver.reply(request)
        replying = asyncio.create_task(self._driver.reply(request))
        self._edges.reached.set()
        released = asyncio.create_task(self._edges.released.wait())
        try:
            await asyncio.wait([replying, released], return_when=asyncio.FIRST_COMPLETED)
        finally:
            released.cancel()
            answered = replying.done() or not replying.cancel()
        if not answered:
            raise SeatFailed
        return await replying

    async def end_run(self, run_id: str) -> None:
        await self._driver.end_run(run_id)

    async def close(self) -> None:
        """The column closes its driver itself."""


@dataclass
class WorldEdges(MemoryEdges):
    """The edges of one run in `world`, with `driver` in the seat and `folder` for its files."""

    model: ScriptedModel = field(default_factory=ScriptedModel)  # not used
    world: World = field(default_factory=lambda: World("", ()))
    driver: Driver = field(default_factory=ScriptedModel)
    folder: Path = Path()

    def __post_init__(self) -> None:
        self.now_ns = self.world.clock_ns
        self.store = self.made_store()
        self.watched = Watched(self.driver, self)
        self.calls: list[Executed] = []
        self.reached = asyncio.Event()  # a tool waits
        self.released = asyncio.Event()  # the run is over
        self.find_hints = self._hints if self.world.hint else None
        self.world_toolbox = self.made_toolbox()
        telemetry, observation = MemoryTelemetry(self), MemoryObservation(self)
        self.activities = Activities(
            self.store, {AGENT: self.watched}, self.world_toolbox, observation, telemetry, lambda: self.clock()
        )

    def made_store(self) -> MemoryTranscript:
        return MemoryTranscript()

    def made_toolbox(self) -> "WorldTools":
        return WorldTools(self)

    def _hints(self, request: HintRequest) -> tuple[Hint, ...]:
        return (hint("k-1", self.world.hint),) if request.trigger == "tool.failed" else ()

    async def run_tool(self, command: RunTool) -> ToolFinished:
        CALL.set(command.call_id)
        finished = await super().run_tool(command)
        return replace(finished, call_id="another") if self.world.attack == ANOTHER else finished

    async def run_operation(self, command: StartOperation) -> OperationFinished:
        CALL.set(command.call_id)
        return await super().run_operation(command)

    async def record(self, result: RunResult, attacks: tuple[Attack, ...] = ()) -> Record:
        """Return what the run left."""
        messages: list[Message] = []
        while (entry := await self.store.entry(result.run_id, len(messages))) is not None:
            messages.append(entry.message)
        events = {event.event_id: event for event in reversed(self.events)}
        return Record(
            world=self.world,
            result=result,
            events=tuple(sorted(events.values(), key=lambda event: event.seq)),
            requests=tuple(self.watched.requests),
            given=tuple(self.watched.given),
            executed=tuple(self.calls),
            transcript=tuple(messages),
            attacks=attacks,
        )


class WorldTools(Toolbox):
    """The toolbox of a world: the kernel's own tools, and those of the world beside them."""

    def __init__(self, edges: WorldEdges) -> None:
        self._edges = edges
        own = [tool for tool in edges.world.tools if not tool.server]
        super().__init__(
            edges.folder,
            extra=[LocalTool(entry_of(tool), self._runs(tool)) for tool in own],
            clock_ns=edges.clock,
            notes_dir=edges.folder / "notes" / edges.world.id,
        )

    async def prepare(self, spec: Any) -> PreparedTools:
        prepared = await super().prepare(spec)
        served = [entry_of(tool) for tool in self._edges.world.tools if tool.server]
        return replace(prepared, catalogue=replace(prepared.catalogue, tools=(*prepared.catalogue.tools, *served)))

    async def run(
        self, run_id: str, catalogue: Catalogue, entry: ToolEntry, arguments: Mapping[str, Any]
    ) -> ToolResult:
        self._edges.calls.append(Executed(CALL.get(), entry.name, dict(arguments)))
        tool = next((one for one in self._edges.world.tools if one.name == entry.name and one.server), None)
        if tool is not None:
            return await self._result(tool)
        return await super().run(run_id, catalogue, entry, arguments)

    def _runs(self, tool: Tool) -> Any:
        async def run(place: RunPlace, arguments: Mapping[str, Any]) -> ToolResult:
            return await self._result(tool)

        return run

    async def _result(self, tool: Tool) -> ToolResult:
        if tool.waits:
            self._edges.reached.set()
            await self._edges.released.wait()
        self._edges.now_ns += tool.takes_ms * 1_000_000
        if tool.fails:
            return ToolResult("failed", "none", diagnostic=tool.fails, error_class=FAILED)
        return ToolResult("ok", "applied", tool.gives)


def entry_of(tool: Tool) -> ToolEntry:
    """Return a tool of a world as the catalogue has it."""
    return ToolEntry(
        tool.name,
        f"The tool {tool.name}.",
        SCHEMA,
        mcp_server=tool.server or None,
        remote_name=tool.name,
        kind="background" if tool.background else "call",
    )
