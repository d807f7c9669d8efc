"""Reads the conformance report that `python -m kernel.conformance` wrote, and lays it out as a matrix.

The file is somebody's: what is wrong with it is said in a line, with the field and what would do.
"""

import json
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from debugger.queries.event_detail import visible

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_ENTRIES: Final = 500  # conditions or columns
MOST_CELLS: Final = 10_000
TEXT_SHOWN: Final = 4_000  # code points
NAME_SHOWN: Final = 200  # code points of a title or an id, which stand in every cell
ATTEMPTS_SHOWN: Final = 100

# word -> (tone, what it means)
RESULTS: Final[Mapping[str, tuple[str, str]]] = {
    "pass": ("ok", "the model made the attempt, and the condition held"),
    "pass (driver)": ("ok", "the driver made the attempt, not the model, and the condition held"),
    "fail": ("bad", "the condition did not hold"),
    "not exercised": ("warn", "nothing made the attempt"),
    "not applicable": ("", "there is nothing to attempt here, for the reason given"),
    "not implemented": ("warn", "the column cannot be driven so far"),
}
ABSENT: Final = "not exercised"  # the word of a cell that the report does not have
NO_CELL: Final = "The report has no such cell."


class ReportProblem(Exception):
    """The report cannot be shown; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Condition:
    id: str
    title: str
    about: str
    requirement: str
    world: str


@dataclass(frozen=True, slots=True)
class Column:
    id: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One result. `is_unexplained` marks a "not applicable" without its reason, which is a defect."""

    condition: Condition
    column: Column
    result: str
    reason: str
    attempts: tuple[str, ...]

    @property
    def tone(self) -> str:
        return RESULTS[self.result][0]

    @property
    def meaning(self) -> str:
        return RESULTS[self.result][1]

    @property
    def is_unexplained(self) -> bool:
        return self.result == "not applicable" and not self.reason


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report: `rows` are the conditions, each with a cell for every column."""

    world_set: str
    made_at: datetime
    versions: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[Condition, tuple[Cell, ...]], ...]

    def cells(self) -> Iterator[Cell]:
        return (cell for _, cells in self.rows for cell in cells)

    @property
    def counts(self) -> tuple[tuple[str, str, str, int], ...]:
        """Each word with its tone, its meaning and how many cells have it."""
        numbers = Counter(cell.result for cell in self.cells())
        return tuple((word, tone, meaning, numbers[word]) for word, (tone, meaning) in RESULTS.items())

    @property
    def failures(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells() if cell.result == "fail")

    def find(self, condition: str, column: str) -> Cell | None:
        found = (cell for cell in self.cells() if (cell.condition.id, cell.column.id) == (condition, column))
        return next(found, None)


def read_report(path: Path) -> Report | None:
    """Return the report, None when there is no file. Raises ReportProblem for a file that cannot be shown."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise ReportProblem("it is no plain file")
        if about.st_size > MOST_BYTES:
            raise ReportProblem(f"it has {about.st_size:,} bytes; at most {MOST_BYTES:,} are read")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ReportProblem(f"it cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise ReportProblem(f"it has more than {MOST_BYTES:,} bytes")
    try:
        document = json.loads(raw.decode())
    except UnicodeDecodeError:
        raise ReportProblem("it is no UTF-8 text") from None
    except RecursionError:
        raise ReportProblem("it is nested too deeply") from None
    except ValueError as error:
        raise ReportProblem(f"it is no whole JSON document, it may have been cut off: {error}") from None
    try:
        return lay_out(document)
    except RecursionError:
        raise ReportProblem("it is nested too deeply") from None


def lay_out(document: object) -> Report:
    """Return the matrix of a report's document. Raises ReportProblem naming the first field that does not fit. Pure."""
    top = _object(document, "the report")
    conditions = [_condition(entry, f"conditions[{n}]") for n, entry in _entries(top, "conditions")]
    columns = tuple(_column(entry, f"columns[{n}]") for n, entry in _entries(top, "columns"))
    if len(conditions) * len(columns) > MOST_CELLS:
        raise ReportProblem(f"it has {len(conditions) * len(columns):,} cells; at most {MOST_CELLS:,} are shown")
    _refuse_twice([condition.id for condition in conditions], "conditions")
    _refuse_twice([column.id for column in columns], "columns")
    given = _cells(top, {one.id: one for one in conditions}, {one.id: one for one in columns})
    rows = tuple(
        (one, tuple(given.get((one.id, column.id)) or Cell(one, column, ABSENT, NO_CELL, ()) for column in columns))
        for one in conditions
    )
    return Report(_text(top, "world_set", "the report"), _moment(top), _versions(top), columns, rows)


def _cells(
    top: Mapping[str, Any], conditions: Mapping[str, Condition], columns: Mapping[str, Column]
) -> dict[tuple[str, str], Cell]:
    given: dict[tuple[str, str], Cell] = {}
    for n, entry in _entries(top, "cells", MOST_CELLS):
        place = f"cells[{n}]"
        fields = _object(entry, place)
        condition, column = (_text(fields, name, place) for name in ("condition", "column"))
        if condition not in conditions or column not in columns:
            raise ReportProblem(f"{place} names a condition or column that is not listed")
        if (condition, column) in given:
            raise ReportProblem(f"{place} is there twice")
        result = _text(fields, "result", place)
        if result not in RESULTS:
            raise ReportProblem(f"{place}.result is none of: {', '.join(RESULTS)}")
        reason = _text(fields, "reason", place, is_required=False)
        given[condition, column] = Cell(
            conditions[condition], columns[column], result, reason, _attempts(fields, place)
        )
    return given


def _attempts(fields: Mapping[str, Any], place: str) -> tuple[str, ...]:
    raw = fields.get("attempts") or []
    if not isinstance(raw, list):
        raise ReportProblem(f"{place}.attempts is no list")
    told = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in raw[:ATTEMPTS_SHOWN]]
    return tuple(_shown(one) for one in told)


def _condition(entry: object, place: str) -> Condition:
    fields = _object(entry, place)
    rest = (_text(fields, name, place, is_required=False) for name in ("about", "requirement", "world"))
    return Condition(_id(fields, place), _text(fields, "title", place)[:NAME_SHOWN], *rest)


def _column(entry: object, place: str) -> Column:
    fields = _object(entry, place)
    about = _text(fields, "about", place, is_required=False)
    return Column(_id(fields, place), _text(fields, "title", place)[:NAME_SHOWN], about)


def _id(fields: Mapping[str, Any], place: str) -> str:
    """Return an id whole: it is part of the address of a cell."""
    text = _text(fields, "id", place)
    if len(text) > NAME_SHOWN:
        raise ReportProblem(f"{place}: id has more than {NAME_SHOWN} characters")
    return text


def _versions(top: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    versions = _object(top.get("versions"), "versions")
    return tuple((_shown(name)[:100], _shown(str(value))[:200]) for name, value in versions.items())[:MOST_ENTRIES]


def _moment(top: Mapping[str, Any]) -> datetime:
    try:
        moment = datetime.fromisoformat(_text(top, "made_at", "the report"))
    except ValueError:
        raise ReportProblem("made_at is no time in ISO 8601") from None
    if moment.tzinfo is None:
        raise ReportProblem("made_at has no zone: write +00:00 behind it")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ReportProblem("made_at is outside of the calendar in UTC") from None


def _entries(top: Mapping[str, Any], name: str, most: int = MOST_ENTRIES) -> Iterator[tuple[int, object]]:
    entries = top.get(name)
    if not isinstance(entries, list):
        raise ReportProblem(f"{name} is no list")
    if len(entries) > most:
        raise ReportProblem(f"{name} has {len(entries):,} entries; at most {most:,} are shown")
    return iter(list(enumerate(entries)))


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReportProblem(f"{place} is no object")
    return value


def _text(fields: Mapping[str, Any], name: str, place: str, *, is_required: bool = True) -> str:
    value = fields.get(name)
    if value is None and not is_required:
        return ""
    if not isinstance(value, str) or (is_required and not value) or "\x00" in value:
        raise ReportProblem(f"{place}: {name} is no text" + (" or empty" if is_required else ""))
    return _shown(value)


def _refuse_twice(ids: list[str], name: str) -> None:
    twice = [one for one, number in Counter(ids).items() if number > 1]
    if twice:
        raise ReportProblem(f"{name} has {twice[0][:80]!r} twice")


def _shown(text: str) -> str:
    """Return a text as a page can carry it: what is no character, or would reorder a line, is written out."""
    return visible(text[:TEXT_SHOWN].encode(errors="backslashreplace").decode())
