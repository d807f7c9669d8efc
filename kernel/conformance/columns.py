"""The columns of the matrix: what drives the run, and what of a world the column's medium cannot carry.

A reason why a world cannot be played is about the medium, never about a type of ours.
"""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernel.conformance.adversary import adversary_seat
from kernel.conformance.edges import ANOTHER, WorldEdges
from kernel.conformance.mcp_seat import mcp_seat
from kernel.conformance.moves import Decisions
from kernel.conformance.openai_seat import completion_server, openai_seat
from kernel.conformance.playing import AFTER_END, LATE_RESULT, SECOND_END, Column, LocalPlayer, Play, Seat
from kernel.conformance.scripted_seat import scripted_seat
from kernel.conformance.temporal_column import START_SECONDS, temporal_player
from kernel.conformance.worlds import World
from kernel.drivers.escalation import ESCALATE
from kernel.drivers.openai_chat import OpenAIChatDriver
from kernel.drivers.outside import DecidingDriver

Makes = Callable[[World], Seat]
BESIDE: Final = (SECOND_END, LATE_RESULT, ANOTHER)  # attacks on a run from beside its driver
ONLY_SAYS: Final = (
    "{occupant} only says what is to be done: results of calls and the end of a run do not pass through it"
)
WHOLE: Final = "{occupant} answers when it is asked, with one whole reply, and is not asked again after the last one"


@dataclass(frozen=True)
class LocalColumn:
    """A column whose runs go on in this process; `makes` prepares what its seats share and yields what makes a seat."""

    id: str
    title: str
    about: str
    makes: Callable[[Path, AsyncExitStack], Makes]
    cannot: Callable[[World], str]
    player: type[LocalPlayer] = LocalPlayer
    at_once: int = 1

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Play]:
        """Make ready what the runs need, in a folder that is there for the while."""
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
            yield self.player(self.makes(folder, stack), folder)


@dataclass(frozen=True)
class TemporalColumn:
    """The column of the Temporal runner; without an `address` one is looked for."""

    address: str = ""
    id: str = "temporal"
    title: str = "Temporal"
    about: str = "Decision objects, on the workflow of a real Temporal server."
    at_once: int = 8
    start_seconds: float = START_SECONDS
    edges: type[WorldEdges] = WorldEdges

    def cannot(self, world: World) -> str:
        return asked_after_end(world, "a driver")

    def open(self) -> AbstractAsyncContextManager[Play]:
        return temporal_player(deciding_seat, self.address, self.start_seconds, self.edges)


def deciding_seat(world: World) -> Seat:
    """Return a seat whose driver decides as the world says."""
    return Seat(DecidingDriver(Decisions(world)))


def asked_after_end(world: World, occupant: str) -> str:
    """Nobody asks what answers whole replies once it gave its last one."""
    return WHOLE.format(occupant=occupant) if world.attack == AFTER_END else ""


def _seated(world: World, occupant: str) -> str:
    return ONLY_SAYS.format(occupant=occupant) if world.attack in BESIDE else asked_after_end(world, occupant)


def adversary_cannot(world: World) -> str:
    """A runtime asks by ending its turn, so nothing stands beside its ask."""
    for tried in world.rounds:
        if len(tried.calls) > 1 and any(move.tool == ESCALATE for move in tried.calls):
            return "a runtime asks by ending its turn: no reply holds a call behind its ask"
    return ""


def mcp_cannot(world: World) -> str:
    """Over MCP each call is a request of its own, with an object for arguments."""
    moves = [move for tried in world.rounds for move in tried.calls]
    if any(move.text is not None for move in moves):
        return "MCP carries arguments as an object: a malformed text cannot be sent"
    if any(move.call_id is not None for move in moves):
        return "a call over MCP has no id of its caller's choice: the protocol's own request ids end at the bridge"
    for tried in world.rounds:
        made = [(move.tool, move.written) for move in tried.calls]
        if len(set(made)) < len(made):
            return "each call over MCP is a request of its own: whether two make one reply is not the harness's to say"
    return _seated(world, "a harness") if world.attack in BESIDE else ""


def _nothing(world: World) -> str:
    return ""


ADVERSARY: Final = LocalColumn(
    "adversary",
    "Adversary",
    "A runtime of its own, straight at the envelope.",
    lambda folder, stack: adversary_seat,
    adversary_cannot,
)
SCRIPTED: Final = LocalColumn(
    "scripted",
    "Scripted driver",
    "The scripted driver, following rules in a file.",
    lambda folder, stack: lambda world: scripted_seat(world, folder),
    lambda world: _seated(world, "a script"),
)
MCP: Final = LocalColumn(
    "mcp", "MCP harness", "A client of the official SDK that calls tools over an MCP bridge.",
    lambda folder, stack: mcp_seat, mcp_cannot, at_once=4,
)  # fmt: skip
IN_PROCESS: Final = LocalColumn(
    "in_process",
    "In process",
    "Decision objects, on the in-process runner.",
    lambda folder, stack: deciding_seat,
    lambda world: asked_after_end(world, "a driver"),
)


def _openai(folder: Path, stack: AsyncExitStack) -> Makes:
    server = stack.enter_context(completion_server())
    client = OpenAIChatDriver(server.url, "none")
    stack.push_async_callback(client.close)
    return lambda world: openai_seat(world, server, client)


OPENAI: Final = LocalColumn(
    "openai",
    "OpenAI client",
    "The OpenAI-compatible driver with the real client, against a server on this machine.",
    _openai,
    lambda world: _seated(world, "a model"),
)


def all_columns(address: str = "") -> tuple[Column, ...]:
    """Return the columns of the matrix; `address` is that of a Temporal server."""
    return (ADVERSARY, SCRIPTED, OPENAI, MCP, IN_PROCESS, TemporalColumn(address))
