"""Drivers and runtimes that break the protocol, each in one way, and the cell of the matrix that each must fail."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.conformance.adversary import Adversary, adversary_seat
from kernel.conformance.columns import ADVERSARY, IN_PROCESS, MCP, OPENAI, SCRIPTED, LocalColumn
from kernel.conformance.mcp_seat import PlayingHarness
from kernel.conformance.moves import Decisions, Reaching
from kernel.conformance.openai_seat import completion_server, openai_seat
from kernel.conformance.playing import Seat
from kernel.conformance.worlds import Move, World
from kernel.drivers import DriverReply, ModelRequest, ToolOffer
from kernel.drivers.mcp_harness import McpHarnessRuntime
from kernel.drivers.openai_chat import OpenAIChatDriver
from kernel.drivers.outside import DecidingDriver
from kernel.drivers.plugin import RuntimeDriver, Turn
from kernel.drivers.rendering import render_openai
from kernel.drivers.scripted import ScriptedDriver, follow
from kernel.edge.retry import EnvelopeError

Makes = Callable[[World], Seat]


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
    ("forwards both asks", decided_by(ForwardsTheAsk), "forwarded-then-asked", "the run ended completed"),
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
