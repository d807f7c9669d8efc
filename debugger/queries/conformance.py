"""Reads the conformance report that `python -m kernel.conformance` wrote, and lays it out as a matrix.

The file is somebody's: what is wrong with it is said in a line, with the field and what would do.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from debugger.queries.report_file import (
    NAME_SHOWN,
    ReportProblem,
    as_shown,
    read_document,
    read_entries,
    read_id,
    read_mapping,
    read_moment,
    read_text,
    read_versions,
    refuse_twice,
)

MOST_CELLS: Final = 10_000
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
    document = read_document(path)
    if document is None:
        return None
    try:
        return lay_out(document)
    except RecursionError:
        raise ReportProblem("it is nested too deeply") from None


def lay_out(document: object) -> Report:
    """Return the matrix of a report's document. Raises ReportProblem naming the first field that does not fit. Pure."""
    top = read_mapping(document, "the report")
    conditions = [_condition(entry, f"conditions[{n}]") for n, entry in read_entries(top, "conditions")]
    columns = tuple(_column(entry, f"columns[{n}]") for n, entry in read_entries(top, "columns"))
    if len(conditions) * len(columns) > MOST_CELLS:
        raise ReportProblem(f"it has {len(conditions) * len(columns):,} cells; at most {MOST_CELLS:,} are shown")
    refuse_twice([condition.id for condition in conditions], "conditions")
    refuse_twice([column.id for column in columns], "columns")
    given = _cells(top, {one.id: one for one in conditions}, {one.id: one for one in columns})
    rows = tuple(
        (one, tuple(given.get((one.id, column.id)) or Cell(one, column, ABSENT, NO_CELL, ()) for column in columns))
        for one in conditions
    )
    return Report(read_text(top, "world_set", "the report"), read_moment(top), read_versions(top), columns, rows)


def _cells(
    top: Mapping[str, Any], conditions: Mapping[str, Condition], columns: Mapping[str, Column]
) -> dict[tuple[str, str], Cell]:
    given: dict[tuple[str, str], Cell] = {}
    for n, entry in read_entries(top, "cells", MOST_CELLS):
        place = f"cells[{n}]"
        fields = read_mapping(entry, place)
        condition, column = (read_text(fields, name, place) for name in ("condition", "column"))
        if condition not in conditions or column not in columns:
            raise ReportProblem(f"{place} names a condition or column that is not listed")
        if (condition, column) in given:
            raise ReportProblem(f"{place} is there twice")
        result = read_text(fields, "result", place)
        if result not in RESULTS:
            raise ReportProblem(f"{place}.result is none of: {', '.join(RESULTS)}")
        reason = read_text(fields, "reason", place, is_required=False)
        given[condition, column] = Cell(
            conditions[condition], columns[column], result, reason, _attempts(fields, place)
        )
    return given


def _attempts(fields: Mapping[str, Any], place: str) -> tuple[str, ...]:
    raw = fields.get("attempts") or []
    if not isinstance(raw, list):
        raise ReportProblem(f"{place}.attempts is no list")
    told = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in raw[:ATTEMPTS_SHOWN]]
    return tuple(as_shown(one) for one in told)


def _condition(entry: object, place: str) -> Condition:
    fields = read_mapping(entry, place)
    rest = (read_text(fields, name, place, is_required=False) for name in ("about", "requirement", "world"))
    return Condition(read_id(fields, place), read_text(fields, "title", place)[:NAME_SHOWN], *rest)


def _column(entry: object, place: str) -> Column:
    fields = read_mapping(entry, place)
    about = read_text(fields, "about", place, is_required=False)
    return Column(read_id(fields, place), read_text(fields, "title", place)[:NAME_SHOWN], about)
