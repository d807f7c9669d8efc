"""A column for somebody else's driver, found by import path or as an entry point.

What is named is one of what a worker takes (kernel.drivers.outside): a driver with `reply`, something that decides, or
a runtime with `run_turn`. A class that takes one argument is made for every world and given it: it does what the
world's rounds say in whatever way is its own, `world.round_at(n)` for the request after n replies. A class that takes
none, or an instance, is played as it is: what it does not try is not exercised.
"""

import inspect
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from kernel.conformance.columns import LocalColumn, Makes, adversary_cannot, asked_after_end, mcp_cannot
from kernel.conformance.playing import Seat, Unavailable
from kernel.conformance.worlds import World
from kernel.drivers.mcp_harness import McpHarnessRuntime
from kernel.drivers.outside import GROUP, OutsideError, as_driver, loaded, outside_points
from kernel.drivers.plugin import RuntimeDriver

ARGUMENT: Final = "--driver"


def outside_columns(named: str, taken: Collection[str] = ()) -> tuple[LocalColumn, ...]:
    """Return a column for each of `named` (`name=package.module:Class`, commas between) and of the entry points of
    installed packages, of which one that cannot be loaded says so in its cells. Raises OutsideError, also for a name
    that is `taken`."""
    points = outside_points(named, ARGUMENT)
    for name in points:
        if name in taken:
            raise OutsideError(f"driver {name!r}: the matrix has a column of this name; give yours another")
    return tuple(_column_of(name, point) for name, point in points.items())


def _column_of(name: str, point: EntryPoint) -> LocalColumn:
    try:
        return outside_column(name, loaded(point))
    except OutsideError as error:
        if point.group != GROUP:
            raise
        return _missing(name, str(error))


def _missing(name: str, problem: str) -> LocalColumn:
    def makes(folder: Path, stack: AsyncExitStack) -> Makes:
        raise Unavailable(problem)

    return LocalColumn(name, name, "An installed driver that cannot be loaded.", makes, lambda world: "")


def outside_column(name: str, thing: Any, about: str = "") -> LocalColumn:
    """Return the column of a class or an instance."""
    described = about or (inspect.getdoc(thing) or "A driver from outside.").split("\n")[0]

    def makes(folder: Path, stack: AsyncExitStack) -> Makes:
        return lambda world: outside_seat(name, thing, world)

    return LocalColumn(name, name, described, makes, partial(cannot, thing))


def cannot(thing: Any, world: World) -> str:
    """Return why a world cannot be played by what was found, as its medium is that of a column of ours."""
    harness = issubclass(thing, McpHarnessRuntime) if isinstance(thing, type) else isinstance(thing, McpHarnessRuntime)
    if harness:
        return mcp_cannot(world)
    return adversary_cannot(world) if hasattr(thing, "run_turn") else asked_after_end(world, "a driver")


def outside_seat(name: str, thing: Any, world: World) -> Seat:
    """Return a seat with what was found in it. Raises OutsideError."""
    made = thing(world) if isinstance(thing, type) and takes_world(thing) else thing
    driver = as_driver(name, made)
    return Seat(driver, outside=isinstance(driver, RuntimeDriver))


def takes_world(made: type) -> bool:
    """Tell whether a class is made with one argument."""
    try:
        inspect.signature(made).bind(None)
    except (TypeError, ValueError):
        return False
    return True
