"""Reads the query parameters of the machine API: each known one once, each refusal by the parameter's name."""

from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import Final

from django.utils.dateparse import parse_datetime
from rest_framework.request import Request

from contract.events import ID_LIMIT
from ingest.errors import IngestError, shown_name

FLAGS: Final = {"true": True, "false": False}
INT32_MAX: Final = 2**31 - 1


class Parameters:
    """The query of one request; an empty value asks for the default."""

    def __init__(self, request: Request, known: Collection[str] | None = None) -> None:
        """Raises IngestError 400 for a name that is not `known` (None: any is), and for one given twice."""
        self.values: dict[str, str] = {}
        for name, values in request.query_params.lists():
            shown = shown_name(name)
            if known is not None and name not in known:
                detail = f"unknown parameter {shown}; known are {', '.join(known)}"
                raise IngestError("unknown_parameter", 400, detail, field=shown)
            if len(values) > 1:
                raise IngestError("repeated_parameter", 400, f"{shown} is given more than once", field=shown)
            self.values[name] = values[0]

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        raw = self.values.pop(name, "")
        if not raw:
            return default
        digits = raw.removeprefix("-")
        value = int(raw[:20]) if digits.isascii() and digits.isdigit() else lowest - 1
        if not lowest <= value <= highest:
            raise _invalid(name, f"a whole number from {lowest} to {highest}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        raw = self.values.pop(name, "")
        if raw and raw not in FLAGS:
            raise _invalid(name, "true or false")
        return FLAGS.get(raw, default)

    def text(self, name: str) -> str:
        raw = self.values.pop(name, "")
        if not is_text(raw):
            raise _invalid(name, TEXT_FORM)
        return raw

    def moment(self, name: str) -> datetime | None:
        raw = self.values.pop(name, "")
        if not raw:
            return None
        moment = parse_moment(raw)
        if moment is None:
            raise _invalid(name, MOMENT_FORM)
        return moment


TEXT_FORM: Final = f"at most {ID_LIMIT} characters, none of them NUL"
MOMENT_FORM: Final = "an RFC 3339 time with its zone, such as 2026-11-30T03:00:00Z"


def is_text(raw: str) -> bool:
    """Say whether a text can stand for an id or a word, and be asked for in PostgreSQL."""
    return len(raw) <= ID_LIMIT and "\x00" not in raw


def parse_moment(raw: str) -> datetime | None:
    """Return an RFC 3339 time in UTC, None for anything else."""
    try:
        # A plus sign that was not escaped in a URL arrives as a space.
        moment = parse_datetime(raw.replace(" ", "+") if raw.count("T") == 1 else raw)
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None or not 1 < moment.year < 9999:  # noqa: PLR2004
        return None
    return moment.astimezone(UTC)  # PostgreSQL knows no offsets of 16 hours and more


def parse_day(raw: str) -> date | None:
    """Return an ISO 8601 day, None for anything else and at the ends of the calendar, where days cannot be counted."""
    try:
        day = date.fromisoformat(raw)
    except ValueError:
        return None
    return day if 1 < day.year < 9999 else None  # noqa: PLR2004


def _invalid(name: str, must: str) -> IngestError:
    return IngestError("invalid_parameter", 400, f"{name} must be {must}", field=name)
