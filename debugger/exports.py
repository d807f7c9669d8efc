"""Turns a table of a page into a file, CSV for spreadsheets or JSON for programs: streamed, within a bound.

Times are ISO 8601 in UTC, numbers are as they are, an unknown value is empty (null in JSON). A text that a spreadsheet
would read as a formula gets an apostrophe before it in CSV; JSON has it as it is.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar

from django.conf import settings
from django.http import Http404, StreamingHttpResponse
from django.utils.http import content_disposition_header

FORMS: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
BOM: Final = "\ufeff"  # without it spreadsheets take UTF-8 for something else
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
AT_ONCE: Final = 200  # rows that are sent together

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as they are read, each as long as `columns`. `name` is that of the file, `about` what was asked for."""

    name: str
    columns: tuple[str, ...]
    rows: Iterable[Sequence[Any]]
    about: tuple[tuple[str, str], ...] = ()


def as_file(table: Table, form: str) -> StreamingHttpResponse:
    """Return the first EXPORT_ROWS rows as a file in a form of FORMS. Raises Http404 for another form."""
    if form not in FORMS:
        raise Http404("no such form")
    lines = _csv(table) if form == "csv" else _json(table)
    headers = file_headers(f"{table.name}.{form}")
    return StreamingHttpResponse(_together(lines), content_type=FORMS[form], headers=headers)


def file_headers(name: str) -> dict[str, str]:
    """Return the headers of an answer that a browser keeps as a file and never shows; `name` may be of any script."""
    return {"Content-Disposition": str(content_disposition_header(True, name)), "X-Content-Type-Options": "nosniff"}


def pages(read: Callable[[str], tuple[Iterable[T], str | None]]) -> Iterator[T]:
    """Yield the rows of all pages; `read` takes a cursor, "" for the first page, and returns rows and the next one."""
    cursor: str | None = ""
    while cursor is not None:
        rows, cursor = read(cursor)
        yield from rows


def cut_notice() -> str:
    return f"Cut: only the first {settings.EXPORT_ROWS:,} rows are here. Narrow the filters of the page for the others."


def _csv(table: Table) -> Iterator[str]:
    line: Callable[[Iterable[Any]], str] = csv.writer(_Echo()).writerow
    yield BOM + line(table.columns)
    for number, row in enumerate(islice(table.rows, settings.EXPORT_ROWS + 1)):
        is_cut = number == settings.EXPORT_ROWS
        yield line([cut_notice()] if is_cut else [_cell(value) for value in row])


def _json(table: Table) -> Iterator[str]:
    """Yield one object; what is known only at the end of the rows stands behind them."""
    yield f'{{"table": {json.dumps(table.name)}, "asked": {_dumped(dict(table.about))}, "rows": ['
    number = 0
    is_cut = False
    for row in islice(table.rows, settings.EXPORT_ROWS + 1):
        if number == settings.EXPORT_ROWS:
            is_cut = True
            break
        told = {name: _plain(value) for name, value in zip(table.columns, row, strict=True)}
        yield f"{',' if number else ''}\n{_dumped(told)}"
        number += 1
    notice = cut_notice() if is_cut else ""
    yield f'\n], "n_rows": {number}, "is_cut": {_dumped(is_cut)}, "notice": {_dumped(notice)}}}\n'


class _Echo:
    """What the csv module writes into: it gets each line back."""

    def write(self, line: str) -> str:
        return line


def _together(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield the lines as UTF-8, many at once; half of a surrogate pair is written as a question mark."""
    lines = iter(lines)
    while part := list(islice(lines, AT_ONCE)):
        yield "".join(part).encode(errors="replace")


def _cell(value: Any) -> Any:
    """Return a value as CSV has it."""
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, list | dict):
        plain = ", ".join(map(str, plain)) if isinstance(plain, list) else _dumped(plain)
    if isinstance(plain, str) and plain.lstrip(" ").startswith(FORMULA):
        return f"'{plain}"
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return list(value) if isinstance(value, tuple) else value


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
