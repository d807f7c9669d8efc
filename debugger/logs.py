"""Decides what reaches the logs: every line without the secrets and the payload that it, or an exception, may hold.

An exception is told by its type and place: its text may quote what was sent. What PostgreSQL adds to an error
(DETAIL, CONTEXT) holds values of the row and is cut off. (Seed 001 §20.)
"""

import json
import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg

from contract.redaction import redact

SIGN_IN_TOKEN = re.compile(r"(/sign-in/)[A-Za-z0-9_\-]{16,}")
ROW_VALUES = re.compile(r"\b(?:DETAIL|CONTEXT|STATEMENT|QUERY):\s.*", re.DOTALL)
SOURCE: Final = Path(__file__).resolve().parent.parent
MOST_FRAMES: Final = 30  # places of one exception
MOST_CHAINED: Final = 8  # exceptions told for one record
# Celery puts the text of a task's exception into its own message under these names.
CELERY_TEXTS: Final = ("exc", "traceback", "args", "kwargs", "return_value")

request_id: ContextVar[str] = ContextVar("request_id", default="")


def describe(error: BaseException) -> str:
    """Return an exception's type, and the part of it that never comes from a payload: a code of the system's."""
    name = type(error).__name__
    if isinstance(error, psycopg.Error) and error.sqlstate:
        return f"{name} (SQLSTATE {error.sqlstate})"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, UnicodeError):
        return f"{name} ({error.strerror})"
    return name


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and what it came from, the newest first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < MOST_CHAINED:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def places(error: BaseException) -> str:
    """Return types and places (file, line, function) of an exception and its causes, without any of their texts."""
    lines: list[str] = []
    for number, one in enumerate(_chain(error)):
        lines.append(f"{'caused by ' if number else ''}{describe(one)}")
        frames = traceback.extract_tb(one.__traceback__)
        for frame in frames[-MOST_FRAMES:]:
            path = Path(frame.filename)
            shown = path.relative_to(SOURCE) if path.is_relative_to(SOURCE) else path
            lines.append(f"  at {shown}:{frame.lineno} in {frame.name}")
    return "\n".join(lines)


def message_of(record: logging.LogRecord) -> str:
    """Return the record's message with each exception in it told by its type, and without a row's values."""
    arguments: Any = record.args
    if isinstance(arguments, tuple):
        arguments = tuple(_shown(value) for value in arguments)
    elif isinstance(arguments, Mapping):
        hidden = CELERY_TEXTS if record.name.startswith("celery") else ()
        error = record.exc_info[1] if record.exc_info else None
        arguments = {
            name: (describe(error) if error else "left out") if name in hidden else _shown(value)
            for name, value in arguments.items()
        }
    message = str(record.msg) if not isinstance(record.msg, BaseException) else describe(record.msg)
    if arguments:
        message %= arguments
    return _clean(ROW_VALUES.sub("[details left out]", message))


def _shown(value: object) -> object:
    return describe(value) if isinstance(value, BaseException) else value


def _clean(text: str) -> str:
    return SIGN_IN_TOKEN.sub(r"\1[REDACTED:sign_in_token]", redact(text)[0])


def _error_of(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return _clean(places(error)) if error else ""


class NotTwice(logging.Filter):
    """Drops Django's line of an answer of the machine API: the request's own line says more, and without its address.

    An answer that an exception made is kept: its places are told nowhere else.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        path = getattr(getattr(record, "request", None), "path", "")
        return bool(record.exc_info) or not path.startswith("/v1/")


class RedactingFormatter(logging.Formatter):
    """Lines for people: the format's own, then the places of an exception, then the id of the request."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = message_of(record)
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        text = self.formatMessage(record)
        current = request_id.get()
        if current:
            text = f"{text} [{current}]"
        error = _error_of(record)
        return f"{text}\n{error}" if error else text


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, request id, the facts of a request, an exception."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": message_of(record),
            "process": record.process,
        }
        current = request_id.get()
        if current:
            line["request_id"] = current
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            line |= {name: value for name, value in facts.items() if value is not None}
        error = _error_of(record)
        if error:
            line["exception"] = error
        return json.dumps(line, ensure_ascii=False, default=str)
