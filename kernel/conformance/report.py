"""Makes the matrix: every condition in every column, judged by what the run left, and told as a table or as JSON."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

from kernel.conformance.condition import Condition
from kernel.conformance.conditions import CONDITIONS
from kernel.conformance.playing import PLAY_SECONDS, Column, Play, Unavailable
from kernel.conformance.record import Record
from kernel.conformance.worlds import set_hash

PASS: Final = "pass"
BY_DRIVER: Final = "pass (driver)"
FAIL: Final = "fail"
NOT_EXERCISED: Final = "not exercised"
NOT_APPLICABLE: Final = "not applicable"
NOT_IMPLEMENTED: Final = "not implemented"
RESULTS: Final = (PASS, BY_DRIVER, FAIL, NOT_EXERCISED, NOT_APPLICABLE, NOT_IMPLEMENTED)
PACKAGES: Final = ("temporalio", "openai", "mcp")
SOURCES: Final = ("kernel", "contract")
REASON_LIMIT: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class Cell:
    """What one condition is in one column; `attempts` are the ids of what was tried."""

    condition: str
    column: str
    result: str
    reason: str = ""
    attempts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The matrix, and what it was made of."""

    world_set: str
    made_at: str
    conditions: tuple[Condition, ...]
    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many cells there are of each result, zeroes included."""
        found = Counter(cell.result for cell in self.cells)
        return {result: found[result] for result in RESULTS}

    @property
    def failed(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.result == FAIL)

    def cell(self, condition: str, column: str) -> Cell:
        """Return a cell. Raises LookupError for one that is not there."""
        return next(cell for cell in self.cells if (cell.condition, cell.column) == (condition, column))

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "world_set": self.world_set,
            "made_at": self.made_at,
            "versions": dict(self.versions),
            "conditions": [
                {
                    "id": one.id,
                    "title": one.title,
                    "about": one.about,
                    "requirement": one.requirement,
                    "world": one.world.content_hash,
                }
                for one in self.conditions
            ],
            "columns": [{"id": one.id, "title": one.title, "about": one.about} for one in self.columns],
            "cells": [asdict(cell) | {"attempts": list(cell.attempts)} for cell in self.cells],
        }

    def to_text(self) -> str:
        """Return the report as a table, with what did not pass below it."""
        width = max([len(one.id) for one in self.conditions], default=0)
        lines = [f"{'':{width}}  {'  '.join(f'{one.id:14}' for one in self.columns)}".rstrip()]
        for condition in self.conditions:
            results = [self.cell(condition.id, column.id).result for column in self.columns]
            lines.append(f"{condition.id:{width}}  {'  '.join(f'{one:14}' for one in results)}".rstrip())
        for result in RESULTS[2:]:
            told = [cell for cell in self.cells if cell.result == result]
            lines += ["", f"{result}:"] if told else []
            lines += [f"  {cell.condition} / {cell.column}: {cell.reason}" for cell in told]
        counts = ", ".join(f"{number} {result}" for result, number in self.counts.items() if number)
        return "\n".join([*lines, "", f"{counts}; worlds {self.world_set[:12]}"])


async def make_report(columns: Sequence[Column], conditions: Sequence[Condition] = CONDITIONS) -> Report:
    """Try every condition in every column. What takes long is waiting, so all columns are tried side by side."""
    tried = await asyncio.gather(*(column_cells(column, conditions) for column in columns))
    cells = [cell for column in tried for cell in column]
    return Report(
        world_set=set_hash([one.world for one in conditions]),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        conditions=tuple(conditions),
        columns=tuple(columns),
        cells=tuple(cells),
        versions=versions(),
    )


async def column_cells(column: Column, conditions: Sequence[Condition]) -> list[Cell]:
    """Return a column's cells, in the order of the conditions."""
    try:
        async with column.open() as play:
            room = asyncio.Semaphore(column.at_once)
            return list(await asyncio.gather(*(_cell(column, play, room, one) for one in conditions)))
    except Unavailable as error:
        return [Cell(one.id, column.id, NOT_EXERCISED, str(error)[:REASON_LIMIT]) for one in conditions]


async def _cell(column: Column, play: Play, room: asyncio.Semaphore, condition: Condition) -> Cell:
    reason = column.cannot(condition.world)
    if reason:
        return Cell(condition.id, column.id, NOT_APPLICABLE, reason)
    async with room:
        try:
            record = await play(condition.world)
        except TimeoutError:
            return Cell(condition.id, column.id, FAIL, f"the run did not end within {PLAY_SECONDS:g} seconds")
        except NotImplementedError as error:
            return Cell(condition.id, column.id, NOT_IMPLEMENTED, str(error)[:REASON_LIMIT])
        except Exception as error:  # noqa: BLE001 - a column's driver is anybody's code: what it breaks is its cell
            return Cell(condition.id, column.id, FAIL, f"the run broke: {type(error).__name__}: {error}"[:REASON_LIMIT])
    return judged(condition, column.id, record)


def judged(condition: Condition, column: str, record: Record) -> Cell:
    """Return the cell that a record makes of a condition."""
    try:
        attempts = condition.tried(record)
        problem = condition.holds(record) if attempts else ""
    except (LookupError, TypeError, ValueError) as error:
        return Cell(condition.id, column, FAIL, f"the record cannot be read: {type(error).__name__}: {error}")
    if not attempts:
        ended = f"the run ended {record.result.status} and holds no attempt: {record.result.reason}"
        return Cell(condition.id, column, NOT_EXERCISED, ended[:REASON_LIMIT])
    result = FAIL if problem else BY_DRIVER if record.by_driver else PASS
    return Cell(condition.id, column, result, problem[:REASON_LIMIT], attempts)


def versions() -> dict[str, str]:
    """Return what a report was made with: Python, the packages that carry the media, the sources of the kernel."""
    root = Path(__file__).resolve().parent.parent.parent
    read = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            read.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return {"python": python_version(), "kernel": read.hexdigest()[:12], **{name: version(name) for name in PACKAGES}}


def is_current(text: str, made_with: Mapping[str, str], world_set: str) -> bool:
    """Tell whether the text of a report is whole and was made with these versions in these worlds."""
    try:
        report = json.loads(text)
        return bool(report["cells"]) and report["versions"] == dict(made_with) and report["world_set"] == world_set
    except (ValueError, KeyError, TypeError):
        return False
