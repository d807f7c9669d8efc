"""Drivers from outside of the package: found by import path and by entry point, run whole, refused with a reason."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.events import check_data
from kernel.drivers import Driver, DriverReply, ModelRequest
from kernel.drivers.decisions import INVALID
from kernel.drivers.outside import DecidingDriver, OutsideError, as_driver, outside_drivers
from kernel.drivers.plugin import RuntimeDriver
from kernel.edge.retry import ModelError
from kernel.messages import Hint, HintRequest, Message, RunResult, RunSpec
from kernel.runtime.config import ConfigError, worker_config
from kernel.runtime.local import LocalRun
from kernel.runtime.worker import drivers_of
from kernel.testing import MemoryEdges, ScriptedModel, ToolError, hint
from tests.source_rules import ROOT

README = (ROOT / "kernel" / "README.md").read_text(encoding="utf-8").partition("## Bring your own runtime")[2]
EXAMPLE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
NAMED = re.findall(r"KERNEL_DRIVERS=(\S+)", README)[0]
ENTRY_POINTS = re.findall(r'\[project\.entry-points\."([\w.]+)"\]\n(\w+) = "([\w:]+)"', README)[0]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder outside of the package from which modules are imported; the README's example is in it."""
    (tmp_path / "my_agent.py").write_text(EXAMPLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def install(folder: Path, name: str, line: str) -> None:
    """Make a folder on the import path hold an installed package with one entry point, as pip would."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[temporality.drivers]\n{line}\n")


async def run_on(driver: Driver, shell: Any, find_hints: Any = None, **spec: Any) -> tuple[RunResult, MemoryEdges]:
    edges = MemoryEdges(ScriptedModel(), {"shell": shell}, find_hints, models={"mine": driver})  # type: ignore[dict-item]
    given = RunSpec("run-1", "read the notes", agent="mine", **spec)
    result = await asyncio.wait_for(LocalRun(edges, clock_ns=edges.clock).run(given), 60)
    for event in edges.events:
        assert check_data(event.type, json.loads(event.data)) is None
    return result, edges


def notes(command: str) -> str:
    if command != "cat notes.txt":
        raise ToolError("no such file", "exit_nonzero")
    return "buy milk"


def nothing(command: str) -> str:
    raise ToolError("no such file", "exit_nonzero")


def test_the_example_is_short() -> None:
    """What the README shows is a runtime and a decider in some thirty lines."""
    assert len(EXAMPLE.splitlines()) <= 35
    assert ENTRY_POINTS == ("temporality.drivers", "reader", "my_agent:Reader")


async def test_the_readmes_runtime_runs(outside: Path) -> None:
    """The runtime of the README, found by its import path, runs whole: with success, and with the help of a hint."""
    drivers = outside_drivers(NAMED)
    assert sorted(drivers) == ["careful", "reader"]
    result, edges = await run_on(drivers["reader"], notes)
    assert (result.status, result.answer, edges.executed) == (
        "completed",
        "buy milk",
        [("shell", {"command": "cat notes.txt"})],
    )

    def moved(command: str) -> str:
        if command == "cat notes.md":
            return "buy bread"
        raise ToolError("no such file", "exit_nonzero")

    def find(request: HintRequest) -> list[Hint]:
        return [hint("look-in-md")] if request.trigger == "tool.failed" else []

    result, edges = await run_on(outside_drivers(NAMED)["reader"], moved, find)
    assert (result.status, result.answer) == ("completed", "buy bread")
    assert [command["command"] for _, command in edges.executed] == ["cat notes.txt", "cat notes.md"]


async def test_the_readmes_runtime_asks_where_it_may(outside: Path) -> None:
    """Granted the affordance it ends in an ask, with its metadata; without the grant it says that it failed."""
    driver = outside_drivers(NAMED)["reader"]
    result, edges = await run_on(driver, nothing, tools=("escalate",), grants=("*", "escalate"))
    [data] = edges.data_of("run.escalated")
    assert (result.status, data["reason"]) == ("escalated", "The notes cannot be read.")
    assert data["metadata"] == {"code": "exit_nonzero"}
    result, edges = await run_on(driver, nothing, tools=("escalate",))
    [data] = edges.data_of("run.failed")
    assert (result.status, data["error"]) == ("failed", "no notes: exit_nonzero")
    assert "run.escalated" not in edges.event_types()


async def test_the_readmes_decider_runs(outside: Path) -> None:
    """The decider of the README is asked for each reply and runs whole."""
    result, edges = await run_on(outside_drivers(NAMED)["careful"], notes)
    assert (result.status, result.answer) == ("completed", "buy milk")
    assert edges.event_types().count("model.requested") == 2


async def test_an_installed_package_is_found(outside: Path) -> None:
    """A package with an entry point needs no variable; a variable says which driver a name is all the same."""
    assert outside_drivers("") == {}
    group, name, value = ENTRY_POINTS
    install(outside, "my_agent", f"{name} = {value}")
    [(found, driver)] = outside_drivers("").items()
    assert found == "reader"
    result, _ = await run_on(driver, notes)
    assert (result.status, result.answer) == ("completed", "buy milk")
    assert isinstance(outside_drivers("reader=my_agent:Careful")["reader"], DecidingDriver)
    install(outside, "other_agent", "reader = my_agent:Careful")
    with pytest.raises(OutsideError, match="two installed packages offer a driver 'reader'.*uninstall one"):
        outside_drivers("")
    assert isinstance(outside_drivers(f"reader={value}")["reader"], RuntimeDriver)


SOURCE = """
class Whole:
    async def reply(self, request): ...
    async def end_run(self, run_id): ...
    async def close(self): ...

class Two(Whole):
    def decide(self, request): ...

class Half:
    async def reply(self, request): ...

class Plain:
    def run_turn(self, turn): ...

class Nothing:
    pass

class Needs:
    def __init__(self, key): ...

class Outer:
    class Inner(Whole): ...

instance = Whole()
number = 5
"""

REFUSED = [
    ("a", r"KERNEL_DRIVERS: 'a' must be of the form name=package.module:Class"),
    ("a=", r"must be of the form"),
    ("a b=parts:Whole", r"must be of the form"),
    ("a=parts:Whole()", r"must be of the form"),
    ("a=parts:Whole,a=parts:Half", r"names the driver 'a' twice"),
    ("scripted=parts:Whole", r"'scripted': the kernel has one of this name; give yours another"),
    ("a=nowhere.at_all:X", r"'a' \(nowhere.at_all:X, of KERNEL_DRIVERS\): there is no module 'nowhere'; install it"),
    ("a=parts:Missing", r"'a'.* has no attribute 'Missing'; correct what follows the colon"),
    ("a=broken:X", r"'a'.*importing it failed with ZeroDivisionError"),
    ("a=parts:Nothing", r"'a' has no method of reply, decide, run_turn"),
    ("a=parts:number", r"'a' has no method of"),
    ("a=parts:Two", r"'a' has reply and decide of"),
    ("a=parts:Half", r"'a' has `reply` and no `end_run`: add `async def end_run`"),
    ("a=parts:Plain", r"'a': `run_turn` must be `async def`"),
    ("a=parts:Needs", r"'a': its class cannot be made without arguments.*name an instance of it instead"),
]


@pytest.mark.parametrize(("named", "problem"), REFUSED)
def test_what_cannot_be_used_is_refused_with_the_reason(outside: Path, named: str, problem: str) -> None:
    """Each mistake is named with its driver, what is wrong and what to do; the worker does not start with it."""
    (outside / "parts.py").write_text(SOURCE)
    (outside / "broken.py").write_text("1 / 0")
    with pytest.raises(OutsideError, match=problem):
        outside_drivers(named, taken=("scripted",))


def test_what_can_be_named(outside: Path) -> None:
    """A class, an instance, a class in a class, and a module may be named; spaces and an empty end do no harm."""
    (outside / "parts.py").write_text(SOURCE)
    (outside / "whole.py").write_text("def decide(request): ...")
    found = outside_drivers(" a = parts:Whole , b=parts:instance,c=parts:Outer.Inner,d=whole,")
    assert sorted(found) == ["a", "b", "c", "d"]


def test_the_worker_has_the_drivers_from_outside(outside: Path, tmp_path: Path) -> None:
    """They stand beside the kernel's own; one that cannot be used keeps the worker from starting, with the reason."""
    environ = {
        "TEMPORALITY_URL": "http://127.0.0.1:1",
        "TEMPORALITY_API_KEY": "tk_x",
        "KERNEL_DATABASE_URL": "postgresql://nowhere",
        "KERNEL_WORK_DIR": str(tmp_path),
    }
    assert sorted(drivers_of(worker_config(environ))) == ["scripted"]
    assert sorted(drivers_of(worker_config(environ | {"KERNEL_DRIVERS": NAMED}))) == ["careful", "reader", "scripted"]
    for name in ("scripted", "openai_chat"):
        with pytest.raises(ConfigError, match="the kernel has one of this name"):
            drivers_of(worker_config(environ | {"KERNEL_DRIVERS": f"{name}=my_agent:Reader"}))


async def test_a_deciders_words_are_read_strictly() -> None:
    """Plain or async, its decisions are read as written; any other object is an error of the run's driver."""

    class Decides:
        def __init__(self, *decisions: object) -> None:
            self.decisions = list(decisions)
            self.told: list[str] = []

        async def decide(self, request: ModelRequest) -> object:
            return self.decisions.pop(0)

        def end_run(self, run_id: str) -> None:
            self.told.append(run_id)

        async def close(self) -> None:
            self.told.append("closed")

    call = {"type": "tool_call", "call": {"name": "shell", "arguments": {}}, "step": 3}
    decider = Decides(call, "just words")
    driver = as_driver("mine", decider)
    request = ModelRequest("run-1", 1, (Message("user", "the task", "task"),), ())
    assert (await driver.reply(request)).steps == (3,)
    with pytest.raises(ModelError) as caught:
        await driver.reply(request)
    assert caught.value.error_class == INVALID
    await driver.end_run("run-1")
    await driver.close()
    assert decider.told == ["run-1", "closed"]


async def test_a_driver_that_raises_fails_its_run() -> None:
    """What is no error of a model request is the driver's own failure, in the words of the run's record."""

    class Breaks:
        async def reply(self, request: ModelRequest) -> DriverReply:
            raise ZeroDivisionError("by zero")

        async def end_run(self, run_id: str) -> None:
            raise ZeroDivisionError("again")

        async def close(self) -> None: ...

    result, edges = await run_on(as_driver("mine", Breaks()), notes)
    [data] = edges.data_of("turn.failed")
    assert (result.status, data["code"]) == ("failed", "driver_failed")
    assert edges.executed == []
