"""Plays a world in this process and returns its record: the runner is the in-process one, the seat is a column's."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from kernel.conformance.edges import WorldEdges
from kernel.conformance.moves import Reaching
from kernel.conformance.record import Aside, Attack, Record
from kernel.conformance.worlds import World
from kernel.core.decide import decide
from kernel.core.state import RunState
from kernel.core.transitions import IllegalObservation
from kernel.drivers import Driver
from kernel.messages import AskApproval, CancelRequested, ModelReplied, Observation, RunBroken, ToolFinished
from kernel.runtime.local import LocalRun

PLAY_SECONDS: Final = 60.0  # after which a run in a world counts as one that does not end
CANCEL_REASON: Final = "enough of it"
SECOND_END: Final = "second end"
LATE_RESULT: Final = "late result"
AFTER_END: Final = "call after the end"

Play = Callable[[World], Awaitable[Record]]


class Column(Protocol):
    """What drives the runs of one column of the matrix."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def about(self) -> str: ...

    @property
    def at_once(self) -> int:
        """How many runs may go on at the same time."""

    def cannot(self, world: World) -> str:
        """Return what in the column's medium keeps a world from being played, or an empty text."""

    def open(self) -> AbstractAsyncContextManager[Play]:
        """Make ready what the column's runs need. Raises Unavailable when it cannot be had on this machine."""


class Unavailable(Exception):
    """What a column needs is not there; the text says what."""


@dataclass
class Seat:
    """Whatever drives one run: its driver, and what is known of it beside the run. `late` is done when the run is over;
    `bodies` are its requests as they came over the wire."""

    driver: Driver
    reaching: Reaching | None = None
    aside: list[Aside] = field(default_factory=list)
    outside: bool = False
    late: Callable[[], Awaitable[None]] | None = None
    bodies: Sequence[Mapping[str, Any]] = ()

    @property
    def by_driver(self) -> bool:
        return self.reaching is not None and self.reaching.reached

    async def finish(self) -> None:
        """Do what comes late, and let go of everything."""
        if self.late is not None:
            await self.late()
        await self.driver.close()


class LocalPlayer:
    """Plays worlds in this process. Its parts are for others to replace: the edges, and the run over them."""

    def __init__(self, seat: Callable[[World], Seat], folder: Path) -> None:
        self._seat = seat
        self._folder = folder

    async def __call__(self, world: World) -> Record:
        """Run the world to its end. Raises TimeoutError when it has none."""
        seat = self._seat(world)
        edges = self.edges(world, seat.driver)
        run = self.run(edges)
        try:
            task = asyncio.create_task(run.run(world.spec(f"conformance-{world.id}", "scripted")))
            if world.cancelled:
                await _reached(edges, task)
                run.cancel(CANCEL_REASON)
            result = await asyncio.wait_for(task, PLAY_SECONDS)
        finally:
            edges.released.set()
            await seat.finish()
        attacks = attacks_on(run.state, world.attack, edges)
        return recorded(await edges.record(result, attacks), seat)

    def edges(self, world: World, driver: Driver) -> WorldEdges:
        return WorldEdges(world=world, driver=driver, folder=self._folder)

    def run(self, edges: WorldEdges) -> LocalRun:
        return LocalRun(edges, _deny, edges.clock)


def recorded(record: Record, seat: Seat) -> Record:
    """Return the record with what the seat knows."""
    bodies = [*seat.bodies, *[None] * len(record.requests)]
    requests = tuple(replace(sent, body=body) for sent, body in zip(record.requests, bodies, strict=False))
    return replace(record, requests=requests, aside=tuple(seat.aside), by_driver=seat.by_driver, outside=seat.outside)


async def _reached(edges: WorldEdges, task: asyncio.Task[object]) -> None:
    """Wait until a tool of the world waits, or the run has ended without that."""
    reached = asyncio.create_task(edges.reached.wait())
    try:
        await asyncio.wait([reached, task], timeout=PLAY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        reached.cancel()


async def _deny(asked: AskApproval) -> bool:
    return False


def attacks_on(state: RunState | None, attack: str, edges: WorldEdges) -> tuple[Attack, ...]:
    """Give a run that is over the observations of an attack, and return what became of each."""
    if state is None or attack not in (SECOND_END, LATE_RESULT):
        return ()
    now = edges.clock()
    observations: dict[str, Observation] = (
        {"a cancellation": CancelRequested(now, "late"), "a defect": RunBroken(now, "late")}
        if attack == SECOND_END
        else {"a result": ToolFinished(now, now, "call-2-1", "ok"), "a reply": ModelReplied(now, now, text="late")}
    )
    return tuple(_attack(state, attack, about, observed) for about, observed in observations.items())


def _attack(state: RunState, name: str, about: str, observed: Observation) -> Attack:
    try:
        after, commands = decide(state, observed)
    except IllegalObservation:
        return Attack(name, about, refused=True, changed=False)
    return Attack(name, about, refused=False, changed=after != state or bool(commands))
