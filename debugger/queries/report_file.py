"""Reads a report that a command left as a JSON file, for a page: bounded, and whatever is wrong with it said in a line.

The file is somebody's: a problem names the field and what would do. What is no character, or would reorder a line, is
written out.
"""

import json
import math
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from debugger.queries.event_detail import visible

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_ENTRIES: Final = 500  # of a list, unless its reader says otherwise
TEXT_SHOWN: Final = 4_000  # code points
NAME_SHOWN: Final = 200  # code points of a title or an id


class ReportProblem(Exception):
    """The report cannot be shown; the message says why, in one line."""


def read_document(path: Path) -> Mapping[str, Any] | None:
    """Return the document of the file, None when there is no file. Raises ReportProblem for one that cannot be read."""
    raw = _read(path)
    if raw is None:
        return None
    try:
        document = json.loads(raw.decode())
    except UnicodeDecodeError:
        raise ReportProblem("it is no UTF-8 text") from None
    except RecursionError:
        raise ReportProblem("it is nested too deeply") from None
    except ValueError as error:
        raise ReportProblem(f"it is no whole JSON document, it may have been cut off: {error}") from None
    return read_mapping(document, "the report")


def _read(path: Path) -> bytes | None:
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
    return raw


def read_id(fields: Mapping[str, Any], place: str) -> str:
    """Return an id whole: it may be part of an address."""
    text = read_text(fields, "id", place)
    if len(text) > NAME_SHOWN:
        raise ReportProblem(f"{place}: id has more than {NAME_SHOWN} characters")
    return text


def read_versions(top: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    versions = read_mapping(top.get("versions"), "versions")
    return tuple((as_shown(name)[:100], as_shown(str(value))[:200]) for name, value in versions.items())[:MOST_ENTRIES]


def read_moment(top: Mapping[str, Any]) -> datetime:
    try:
        moment = datetime.fromisoformat(read_text(top, "made_at", "the report"))
    except ValueError:
        raise ReportProblem("made_at is no time in ISO 8601") from None
    if moment.tzinfo is None:
        raise ReportProblem("made_at has no zone: write +00:00 behind it")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ReportProblem("made_at is outside of the calendar in UTC") from None


def read_entries(top: Mapping[str, Any], name: str, most: int = MOST_ENTRIES) -> Iterator[tuple[int, object]]:
    entries = top.get(name)
    if not isinstance(entries, list):
        raise ReportProblem(f"{name} is no list")
    if len(entries) > most:
        raise ReportProblem(f"{name} has {len(entries):,} entries; at most {most:,} are shown")
    return iter(list(enumerate(entries)))


def read_mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReportProblem(f"{place} is no object")
    return value


def read_text(fields: Mapping[str, Any], name: str, place: str, *, is_required: bool = True) -> str:
    value = fields.get(name)
    if value is None and not is_required:
        return ""
    if not isinstance(value, str) or (is_required and not value) or "\x00" in value:
        raise ReportProblem(f"{place}: {name} is no text" + (" or empty" if is_required else ""))
    return as_shown(value)


def read_number(fields: Mapping[str, Any], name: str, place: str) -> float | None:
    """Return a finite number, None where the field is absent or null."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ReportProblem(f"{place}: {name} is no number")
    return float(value)


def refuse_twice(ids: list[str], name: str) -> None:
    twice = [one for one, number in Counter(ids).items() if number > 1]
    if twice:
        raise ReportProblem(f"{name} has {twice[0][:80]!r} twice")


def as_shown(text: str) -> str:
    """Return a text as a page can carry it: what is no character, or would reorder a line, is written out."""
    return visible(text[:TEXT_SHOWN].encode(errors="backslashreplace").decode())
