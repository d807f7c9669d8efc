"""Finds drivers and runtimes from outside the package: those named by import path, and the entry points of what is
installed. What is found is a driver, something that decides, or a runtime; each becomes a driver.

The import paths stand in KERNEL_DRIVERS as `name=package.module:Class,other=package.module:instance`; the entry point
group is `temporality.drivers`. A class is made without arguments. What is wrong is found when the worker starts.
"""

import inspect
import re
from collections.abc import Awaitable, Collection, Iterator
from copy import deepcopy
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol, cast

from kernel.drivers import Driver, DriverReply, ModelRequest
from kernel.drivers.decisions import read_decision
from kernel.drivers.plugin import Runtime, RuntimeDriver

GROUP: Final = "temporality.drivers"
VARIABLE: Final = "KERNEL_DRIVERS"
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
PATH: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*(:[A-Za-z_]\w*(\.\w+)*)?")
# What tells the three apart, and what else each must have.
KINDS: Final = {"reply": ("end_run", "close"), "decide": (), "run_turn": ()}


class OutsideError(ValueError):
    """A driver from outside cannot be used; the text names it, says what is wrong and how to mend it."""


class Decider(Protocol):
    """What the author of a simple driver writes: what to do next, as objects (kernel.drivers.decisions)."""

    def decide(self, request: ModelRequest) -> object | Awaitable[object]:
        """Return the decision, or an awaitable of it."""


class DecidingDriver:
    """A driver whose words are decision objects. `end_run` and `close` of the decider are called where it has them."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Ask for a decision and read it strictly. Raises ModelError for one that is not of the form."""
        # Copies of the offers, as the catalogue that calls are judged by holds the originals.
        decision = self._decider.decide(replace(request, tools=deepcopy(request.tools)))
        return read_decision(await decision if inspect.isawaitable(decision) else decision)

    async def end_run(self, run_id: str) -> None:
        await self._tell("end_run", run_id)

    async def close(self) -> None:
        await self._tell("close")

    async def _tell(self, method: str, *arguments: str) -> None:
        told = getattr(self._decider, method, None)
        outcome = told(*arguments) if told is not None else None
        if inspect.isawaitable(outcome):
            await outcome


def outside_drivers(named: str, taken: Collection[str] = ()) -> dict[str, Driver]:
    """Return the drivers from outside by name: those of `named` (the text of KERNEL_DRIVERS), and of entry points
    those whose name it does not give. Raises OutsideError; names in `taken` are the kernel's own.
    """
    found = outside_points(named, VARIABLE)
    for name in found:
        if name in taken:
            raise OutsideError(f"driver {name!r}: the kernel has one of this name; give yours another")
    return {name: as_driver(name, loaded(point)) for name, point in found.items()}


def outside_points(named: str, where: str) -> dict[str, EntryPoint]:
    """Return what may be loaded, by name: what `named` says (`name=package.module:Class`, commas between; `where` is
    the variable or argument it was given in), and the entry points it does not name. Raises OutsideError."""
    found = {point.name: point for point in _named(named, where)}
    for point in entry_points(group=GROUP):
        known = found.setdefault(point.name, point)
        if known.group == GROUP and known.value != point.value:
            raise OutsideError(
                f"two installed packages offer a driver {point.name!r} ({known.value}, {point.value}): uninstall one, "
                f"or say in {where} which it is"
            )
    return found


def _named(text: str, where: str) -> Iterator[EntryPoint]:
    names: list[str] = []
    for part in text.split(","):
        if not part.strip():
            continue
        name, _, path = (one.strip() for one in part.partition("="))
        if not NAME.fullmatch(name) or not PATH.fullmatch(path):
            raise OutsideError(f"{where}: {part.strip()[:120]!r} must be of the form name=package.module:Class")
        if name in names:
            raise OutsideError(f"{where} names the driver {name!r} twice: give each a name of its own")
        names.append(name)
        yield EntryPoint(name, path, where)


def loaded(point: EntryPoint) -> object:
    """Import what an entry point names. Raises OutsideError."""
    where = f"driver {point.name!r} ({point.value}, of {point.group})"
    try:
        return point.load()
    except ModuleNotFoundError as error:
        raise OutsideError(
            f"{where}: there is no module {error.name!r}; install it, or put its folder on PYTHONPATH"
        ) from None
    except AttributeError as error:
        raise OutsideError(f"{where}: {error}; correct what follows the colon") from None
    except Exception as error:
        raise OutsideError(f"{where}: importing it failed with {type(error).__name__}: {error}") from error


def as_driver(name: str, thing: Any) -> Driver:
    """Return what was found as a driver. Raises OutsideError when it is none of the three."""
    if isinstance(thing, type):
        try:
            thing = thing()
        except Exception as error:
            problem = f"driver {name!r}: its class cannot be made without arguments ({type(error).__name__}: {error})"
            raise OutsideError(f"{problem}; name an instance of it instead") from error
    kinds = [kind for kind in KINDS if callable(getattr(thing, kind, None))]
    if len(kinds) != 1:
        raise OutsideError(
            f"driver {name!r} has {' and '.join(kinds) or 'no method'} of {', '.join(KINDS)}: a driver has `reply`, "
            "what decides has `decide`, a runtime has `run_turn`, and only that one"
        )
    [kind] = kinds
    missing = [method for method in KINDS[kind] if not callable(getattr(thing, method, None))]
    if missing:
        raise OutsideError(f"driver {name!r} has `{kind}` and no `{missing[0]}`: add `async def {missing[0]}`")
    if kind != "decide" and not inspect.iscoroutinefunction(getattr(thing, kind)):
        raise OutsideError(f"driver {name!r}: `{kind}` must be `async def`")
    if kind == "run_turn":
        return RuntimeDriver(cast(Runtime, thing))
    return DecidingDriver(thing) if kind == "decide" else cast(Driver, thing)
