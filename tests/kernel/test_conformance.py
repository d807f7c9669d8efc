"""The conformance matrix: what it says of the kernel, what may be not applicable, and how it is told. (Seed 003.)"""

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kernel.conformance.__main__ import main
from kernel.conformance.adversary import Adversary
from kernel.conformance.columns import ADVERSARY, TemporalColumn, all_columns
from kernel.conformance.conditions import CONDITIONS
from kernel.conformance.moves import Decisions
from kernel.conformance.outside_column import outside_column, outside_columns
from kernel.conformance.report import RESULTS, Report, is_current, make_report, versions
from kernel.conformance.world_set import ANSWERED, ASK, STEP_PAST, WORLDS
from kernel.conformance.worlds import Move, Round, Tool, World, set_hash
from kernel.drivers import DriverReply, ModelRequest
from kernel.drivers.outside import OutsideError

COLUMNS = ("adversary", "scripted", "openai", "mcp", "in_process", "temporal")

# All there is, each reason once, with where it stands. A reason is about the medium.
ASKED_ONCE = "{} answers when it is asked, with one whole reply, and is not asked again after the last one"
ONLY_SAYS = "{} only says what is to be done: results of calls and the end of a run do not pass through it"
BESIDE = ("second-end", "late-result", "anothers-reply")
ONE_BY_ONE = "each call over MCP is a request of its own: whether two make one reply is not the harness's to say"
REVIEWED: dict[tuple[str, str], tuple[str, ...]] = {
    ("adversary", "a runtime asks by ending its turn: no reply holds a call behind its ask"): (
        "batch",
        "two-asks",
        "forwarded-then-asked",
    ),
    ("scripted", ONLY_SAYS.format("a script")): BESIDE,
    ("scripted", ASKED_ONCE.format("a script")): ("after-end",),
    ("openai", ONLY_SAYS.format("a model")): BESIDE,
    ("openai", ASKED_ONCE.format("a model")): ("after-end",),
    ("mcp", ONLY_SAYS.format("a harness")): BESIDE,
    ("mcp", ONE_BY_ONE): ("identical", "step-of-copy", "forwarded-then-asked"),
    ("mcp", "MCP carries arguments as an object: a malformed text cannot be sent"): ("malformed",),
    (
        "mcp",
        "a call over MCP has no id of its caller's choice: the protocol's own request ids end at the bridge",
    ): ("call-ids",),
    ("in_process", ASKED_ONCE.format("a driver")): ("after-end",),
    ("temporal", ASKED_ONCE.format("a driver")): ("after-end",),
}
# What seat occupants cannot do and their drivers do for them: no cell of these columns is theirs alone by accident.
SEATED = ("scripted", "openai", "mcp")


@pytest.fixture(scope="module")
def report(temporal_address: str) -> Report:
    """The whole matrix, made once."""
    return asyncio.run(make_report(all_columns(temporal_address)))


def test_the_kernel_conforms(report: Report) -> None:
    """No cell fails, none is left out, none is not implemented: what is not tried has a reason of its medium."""
    told = [cell for cell in report.cells if cell.result not in ("pass", "pass (driver)", "not applicable")]
    assert told == []
    assert report.counts == {
        "pass": 356,
        "pass (driver)": 79,
        "fail": 0,
        "not exercised": 0,
        "not applicable": 21,
        "not implemented": 0,
    }
    assert len(report.cells) == len(CONDITIONS) * len(COLUMNS)


def test_what_is_not_applicable_was_reviewed(report: Report) -> None:
    """Every reason stands in the list above, where it was read by a person, and says nothing of types of ours."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for cell in report.cells:
        if cell.result == "not applicable":
            place = (cell.column, cell.reason)
            found[place] = (*found.get(place, ()), cell.condition)
    assert {place: sorted(rows) for place, rows in found.items()} == {
        place: sorted(rows) for place, rows in REVIEWED.items()
    }
    own = re.compile(r"[A-Z][a-z]+[A-Z]|\b(variant|type|class|field|enum)s?\b|_")
    assert [reason for _, reason in found if own.search(reason)] == []


def test_what_was_tried_is_named(report: Report) -> None:
    """A cell that passes names what was tried, each attempt once; one that was not tried names nothing."""
    for cell in report.cells:
        assert bool(cell.attempts) is (cell.result in ("pass", "pass (driver)"))
        assert len(set(cell.attempts)) == len(cell.attempts)
        assert (cell.reason != "") is (cell.result == "not applicable")


def declares(tried: Round) -> bool:
    """Whether a round holds what only a driver declares."""
    claimed = any(move.step is not None or move.forward for move in tried.calls)
    return claimed or tried.raises or tried.decide is not None


def test_what_a_driver_did_for_its_occupant_is_the_drivers(report: Report) -> None:
    """Where the seat has an occupant of its own, steps and decisions are its driver's doing; elsewhere they are not."""
    reached = {
        column: {one.condition for one in report.cells if (one.column, one.result) == (column, "pass (driver)")}
        for column in COLUMNS
    }
    assert {column for column in COLUMNS if reached[column]} == set(SEATED)
    declared = {one.id for one in CONDITIONS if any(declares(tried) for tried in one.world.rounds)}
    assert reached["openai"] == declared
    assert reached["scripted"] == declared | {"malformed", "call-ids", "cancelled-asking"}
    assert reached["mcp"] == declared - {"step-of-copy", "forwarded-then-asked"}


def test_conditions_cover_the_rules() -> None:
    """There are enough rows, each with its own id, title, world and the seed that asks for it."""
    assert len(CONDITIONS) >= 40
    for name in ("id", "title"):
        assert len({getattr(one, name) for one in CONDITIONS}) == len(CONDITIONS)
    assert all(re.fullmatch(r"[a-z0-9-]{1,40}", one.id) for one in CONDITIONS)
    assert all(re.match(r"seed 00[013]\b", one.requirement) and one.about.strip() for one in CONDITIONS)
    assert [one.world for one in CONDITIONS if one.world not in WORLDS] == []
    assert [world.id for world in WORLDS if world not in [one.world for one in CONDITIONS]] == []


# ---- worlds and their hashes -----------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "id": "other",
    "rounds": (Round(say="Other."),),
    "tools": (Tool("other"),),
    "own": ("update_plan",),
    "unrequested": ("read",),
    "grants": ("read",),
    "namespaces_off": ("lists",),
    "blocked": ("read",),
    "approval": ("read",),
    "limits": {"max_turns": 3},
    "hint": "Run `unlock`.",
    "cancelled": True,
    "attack": "second end",
    "task": "Other.",
    "clock_ns": 1,
}


@pytest.mark.parametrize("name", [one.name for one in fields(World)])
def test_a_changed_world_has_another_hash(name: str) -> None:
    """Whatever of a world changes, its hash and that of the set change; nothing else does."""
    changed = replace(ANSWERED, **{name: CHANGES[name]})
    others = [world for world in WORLDS if world is not ANSWERED]
    assert changed.content_hash != ANSWERED.content_hash
    assert set_hash([changed, *others]) != set_hash(WORLDS)
    assert replace(changed, **{name: getattr(ANSWERED, name)}).content_hash == ANSWERED.content_hash


def test_a_changed_move_changes_the_hash() -> None:
    """What is claimed is part of the world, and true is not 1."""
    hashes = {
        replace(STEP_PAST, rounds=(Round((Move("write", {"text": "a"}, step=step),)),)).content_hash
        for step in (None, 0, 1, True, "1", -1)
    }
    assert len(hashes) == 6


def test_the_hash_of_the_set_is_stable() -> None:
    """Neither the order of the worlds nor a world named twice counts; another process says the same."""
    assert set_hash(WORLDS) == set_hash(WORLDS[::-1]) == set_hash((*WORLDS, ANSWERED))
    program = "from kernel.conformance import world_set as w, worlds; print(worlds.set_hash(w.WORLDS))"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == set_hash(WORLDS)


# ---- how it is told --------------------------------------------------------------------------------------


def test_the_report_as_json(report: Report) -> None:
    """The JSON has exactly the agreed fields, a cell for each row and column, and survives the way through text."""
    told: Mapping[str, Any] = json.loads(json.dumps(report.to_json()))
    assert set(told) == {"world_set", "made_at", "versions", "conditions", "columns", "cells"}
    assert told["world_set"] == set_hash(WORLDS)
    assert datetime.fromisoformat(told["made_at"]).tzinfo is not None
    assert set(told["versions"]) == {"python", "kernel", "temporalio", "openai", "mcp"}
    assert [tuple(one) for one in told["columns"]] == [("id", "title", "about")] * len(COLUMNS)
    assert [one["id"] for one in told["columns"]] == list(COLUMNS)
    assert [tuple(one) for one in told["conditions"]] == [("id", "title", "about", "requirement", "world")] * len(
        CONDITIONS
    )
    assert [one["world"] for one in told["conditions"]] == [one.world.content_hash for one in CONDITIONS]
    places = Counter((one["condition"], one["column"]) for one in told["cells"])
    assert places == Counter((row.id, column) for row in CONDITIONS for column in COLUMNS)
    for one in told["cells"]:
        assert tuple(one) == ("condition", "column", "result", "reason", "attempts")
        assert one["result"] in RESULTS
        assert all(isinstance(attempt, str) for attempt in one["attempts"])


def test_the_report_as_text(report: Report) -> None:
    """The table has a line a row, what did not pass below it with its reason, and the counts with the set's hash."""
    lines = report.to_text().split("\n")
    assert lines[0].split() == list(COLUMNS)
    assert [line.split()[0] for line in lines[1 : 1 + len(CONDITIONS)]] == [one.id for one in CONDITIONS]
    assert "  malformed / mcp: MCP carries arguments as an object: a malformed text cannot be sent" in lines
    assert lines[-1] == f"356 pass, 79 pass (driver), 21 not applicable; worlds {set_hash(WORLDS)[:12]}"


async def test_the_command_prints_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """One condition in two columns: what stands on stdout is the report."""
    assert await main(["--json", "--only", "ask", "--column", "in_process", "--column", "scripted"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["column"], one["result"]) for one in told["cells"]] == [("scripted", "pass"), ("in_process", "pass")]
    assert told["world_set"] == set_hash([ASK])


async def test_the_command_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out leaves the whole report and nothing beside it; --unless-current leaves a report of today alone, and makes
    one of other worlds or other sources again."""
    path = tmp_path / "below" / "matrix.json"
    given = ["--out", str(path), "--column", "in_process", "--unless-current"]
    assert await main([*given, "--only", "ask"]) == 0
    assert [one.name for one in path.parent.iterdir()] == ["matrix.json"]
    kept = path.read_text()
    marked = json.dumps(json.loads(kept) | {"made_at": "2020-01-01T00:00:00+00:00"})
    path.write_text(marked)
    assert await main([*given, "--only", "ask"]) == 0
    assert path.read_text() == marked
    assert await main([*given, "--only", "batch"]) == 0
    assert [one["condition"] for one in json.loads(path.read_text())["cells"]] == ["batch"]
    assert not is_current(kept, versions() | {"kernel": "0" * 12}, set_hash([ASK]))
    assert is_current(kept, versions(), set_hash([ASK]))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--only", "nothing"], "there is no condition 'nothing'; there are: answered, "),
        (["--column", "nothing"], "there is no column 'nothing'; there are: adversary, scripted, "),
        (["--driver", "mine"], "--driver: 'mine' must be of the form name=package.module:Class"),
        ([f"--driver=mcp={__name__}:Deaf"], "driver 'mcp': the matrix has a column of this name; give yours another"),
        (["--driver", "mine=no.such:Class"], "driver 'mine' (no.such:Class, of --driver): there is no module 'no'"),
    ],
)
async def test_the_command_says_what_it_cannot_use(
    given: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is none ends the command with status 2, and nothing is written."""
    path = tmp_path / "matrix.json"
    assert await main(["--out", str(path), *given]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(told)
    assert (printed.out, path.exists()) == ("", False)


async def test_without_a_temporal_server_its_column_says_so() -> None:
    """Nothing answers at the address: no cell passes or fails, and each says why."""
    made = await make_report([TemporalColumn("127.0.0.1:1", start_seconds=0.3)], CONDITIONS[:2])
    assert [cell.result for cell in made.cells] == ["not exercised"] * 2
    assert all(cell.reason.startswith("no Temporal answers at 127.0.0.1:1: ") for cell in made.cells)


# ---- somebody else's driver ------------------------------------------------------------------------------


class Told(Decisions):
    """Does what the world says, by decisions."""


class Deaf:
    """Says the same whatever the world is."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        return DriverReply("Done.")

    async def end_run(self, run_id: str) -> None:
        """Nothing is held for a run."""

    async def close(self) -> None:
        """Nothing is held open."""


class Unfinished(Decisions):
    """Has not been taught to ask."""

    def __init__(self, world: World) -> None:
        if "escalate" in world.own:
            raise NotImplementedError("asks are not there yet")
        super().__init__(world)


class Useless:
    """Is none of what a worker takes."""


async def test_a_driver_of_ones_own_has_a_column() -> None:
    """One that is made with the world is judged like ours; one that cannot be told anything has tried nothing."""
    [told, deaf] = outside_columns(f"told={__name__}:Told,deaf={__name__}:Deaf")
    made = await make_report([told, deaf], [one for one in CONDITIONS if one.id in ("ask", "step-past", "unknown-key")])
    assert [(one.id, one.about) for one in (told, deaf)] == [
        ("told", "Does what the world says, by decisions."),
        ("deaf", "Says the same whatever the world is."),
    ]
    assert {(cell.column, cell.result) for cell in made.cells if cell.column == "told"} == {("told", "pass")}
    results = {cell.condition: cell.result for cell in made.cells if cell.column == "deaf"}
    assert results == {"ask": "not exercised", "step-past": "not exercised", "unknown-key": "not exercised"}


async def test_an_installed_driver_has_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's entry point needs no argument; one that cannot be loaded leaves the other columns alone."""
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = f"[temporality.drivers]\ntold = {__name__}:Told\ngone = no.such:Class\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    made = await make_report(outside_columns(""), [one for one in CONDITIONS if one.id == "ask"])
    assert [(cell.column, cell.result) for cell in made.cells] == [("told", "pass"), ("gone", "not exercised")]
    assert "'no'" in made.cell("ask", "gone").reason


async def test_a_runtime_from_outside_is_not_asked_for_what_its_medium_cannot_do() -> None:
    """A runtime's reply ends with its ask, as that of our own adversary; a decider is not asked after its end."""
    rows = [one for one in CONDITIONS if one.id in ("batch", "two-asks", "after-end")]
    made = await make_report([ADVERSARY, outside_column("again", Adversary), outside_column("told", Told)], rows)
    for row in ("batch", "two-asks"):
        assert made.cell(row, "again").result == made.cell(row, "adversary").result == "not applicable"
    assert made.cell("after-end", "told").result == "not applicable"


async def test_the_readmes_driver() -> None:
    """The example of the kernel's guide makes the calls it is to make, and its cells say what it leaves out."""
    text = (Path(__file__).parent.parent.parent / "kernel/README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(class Mine:.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"__name__": __name__}
    exec(code, names)
    rows = [one for one in CONDITIONS if one.id in ("answered", "unknown-key", "step-past", "ask", "forwarded")]
    made = await make_report([outside_column("mine", names["Mine"])], rows)
    assert {cell.condition: cell.result for cell in made.cells} == {
        "answered": "pass",
        "unknown-key": "pass",
        "forwarded": "pass",
        "step-past": "not exercised",
        "ask": "fail",
    }


async def test_what_is_not_there_yet_is_not_implemented() -> None:
    """A driver that says what it cannot do yet has neither passed nor failed there."""
    rows = [one for one in CONDITIONS if one.id in ("answered", "ask")]
    made = await make_report([outside_column("new", Unfinished)], rows)
    assert [(cell.result, cell.reason) for cell in made.cells] == [
        ("pass", ""),
        ("not implemented", "asks are not there yet"),
    ]


async def test_what_is_no_driver_fails_its_cells() -> None:
    """A class that is none of what a worker takes passes nothing."""
    made = await make_report([outside_column("useless", Useless)], CONDITIONS[:1])
    assert [cell.result for cell in made.cells] == ["fail"]
    assert OutsideError.__name__ in made.cells[0].reason
