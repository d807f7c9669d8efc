"""What one field of a hints request may hold: how it is checked, how the document says the same. Pure.

A refusal names the field, its limit and what was sent in numbers, never the value. Null means not
given. What is checked here is JSON as it was read: a number is no text and true is no number. (Seed 001 §7.1, §7.3.)
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract import stages
from ingest.errors import IngestError, shown_name

INT64: Final = 2**63 - 1
NULLABLE: Final = {"nullable": True}

Check = Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class RequestField:
    """One field: its check (value, path) -> what the search gets, and its shape in the document."""

    check: Check
    shape: Mapping[str, Any]
    required: bool = False


def invalid(path: str, problem: str, code: str = "invalid_field") -> IngestError:
    """Return the refusal of a value of the wrong kind; `problem` goes on after the name of the field."""
    return IngestError(code, 400, f"{path} {problem}", field=path)


def over(path: str, actual: int, limit: int, unit: str, fix: str) -> IngestError:
    """Return the refusal of what is beyond a limit, with both numbers."""
    detail = f"{path} has {actual} {unit}; the limit is {limit}: {fix}"
    return IngestError("limit_exceeded", 422, detail, field=path, limit=limit, actual=actual, unit=unit)


def text(limit: int, *, required: bool = False, **shape: Any) -> RequestField:
    """A text of at most `limit` code points."""

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise invalid(path, f"must be a text of at most {limit} characters")
        if required and not value:
            raise invalid(path, f"must be a text of 1 to {limit} characters; it is empty")
        if len(value) > limit:
            raise over(path, len(value), limit, "characters", "send less of it")
        return value

    rest = {"minLength": 1} if required else NULLABLE
    return RequestField(check, {"type": "string", "maxLength": limit, **rest, **shape}, required)


def texts(most: int, limit: int, **shape: Any) -> RequestField:
    """A list of at most `most` texts of 1 to `limit` code points."""
    one = text(limit, required=True)

    def check(value: Any, path: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise invalid(path, f"must be a list of at most {most} texts")
        if len(value) > most:
            raise over(path, len(value), most, "entries", "leave out the oldest")
        return tuple(one.check(entry, f"{path}[{place}]") for place, entry in enumerate(value))

    bounds = {"type": "array", "items": dict(one.shape), "maxItems": most}
    return RequestField(check, {**bounds, **NULLABLE, **shape})


def whole(lowest: int, highest: int, **shape: Any) -> RequestField:
    """A whole number within bounds, both included."""

    def check(value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(path, f"must be a whole number from {lowest} to {highest}")
        if not lowest <= value <= highest:
            limit = highest if value > highest else lowest
            detail = f"{path} is {value}; it must be from {lowest} to {highest}"
            raise IngestError("limit_exceeded", 422, detail, field=path, limit=limit, actual=value)
        return value

    return RequestField(check, {"type": "integer", "minimum": lowest, "maximum": highest, **NULLABLE, **shape})


def numbers(most: int, **shape: Any) -> RequestField:
    """A list of at most `most` finite numbers."""

    def check(value: Any, path: str) -> tuple[float, ...]:
        if not isinstance(value, list):
            raise invalid(path, f"must be a list of at most {most} finite numbers")
        if len(value) > most:
            raise over(path, len(value), most, "numbers", "send the vector of one text")
        return tuple(_number(entry, f"{path}[{place}]") for place, entry in enumerate(value))

    bounds = {"type": "array", "items": {"type": "number"}, "maxItems": most}
    return RequestField(check, {**bounds, **NULLABLE, **shape})


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise invalid(path, "must be a finite number")
    return float(value)


def trigger(default: str) -> RequestField:
    """The name of a trigger, known here or not; an empty one is the default."""

    def check(value: Any, path: str) -> str:
        if value == "":
            return default
        problem = stages.trigger_problem(value) if isinstance(value, str) else "must be a text: the name of a trigger"
        if problem is not None:
            raise invalid(path, problem)
        return str(value)

    known = ", ".join(stages.TRIGGERS)
    shape = {
        "type": "string",
        "pattern": f"^{stages.TRIGGER_PATTERN}$",
        "maxLength": stages.TRIGGER_LIMIT,
        "default": default,
        **NULLABLE,
        "description": f"known are {known}; any other name of this form is searched as well",
    }
    return RequestField(check, shape)


def revisions(most: int, limit: int, **shape: Any) -> RequestField:
    """An object of ids of at most `limit` code points and revisions."""

    def check(value: Any, path: str) -> dict[str, int]:
        if not isinstance(value, dict):
            raise invalid(path, "must be an object of knowledge ids and revisions")
        if len(value) > most:
            raise invalid(path, f"must have at most {most} entries, it has {len(value)}: leave out the oldest")
        for name, revision in value.items():
            if not 0 < len(name) <= limit:
                raise invalid(path, f"must have knowledge ids of 1 to {limit} characters as its keys")
            if isinstance(revision, bool) or not isinstance(revision, int) or revision < 1:
                raise invalid(f"{path}.{shown_name(name)}", "must be a revision: an integer, 1 or more")
        return dict(value)

    bounds = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}, "maxProperties": most}
    return RequestField(check, {**bounds, **NULLABLE, **shape})


def group(fields: Mapping[str, RequestField], **shape: Any) -> RequestField:
    """An object of named fields and no others."""

    def check(value: Any, path: str) -> dict[str, Any]:
        return read_object(fields, value, f"{path}.")

    return RequestField(check, {**object_shape(fields), **NULLABLE, **shape})


def read_object(fields: Mapping[str, RequestField], value: Any, prefix: str) -> dict[str, Any]:
    """Return what is given of the fields, checked in their order. Raises IngestError naming the first that is wrong."""
    if not isinstance(value, dict):
        raise invalid(prefix.rstrip(".") or "the body", "must be a JSON object", "bad_body")
    unknown = sorted(str(name) for name in value if name not in fields)
    if unknown:
        path = f"{prefix}{shown_name(unknown[0])}"
        raise IngestError(
            "unknown_field", 400, f"{path}: unknown field; known are {', '.join(sorted(fields))}", field=path
        )
    given: dict[str, Any] = {}
    for name, one in fields.items():
        entry = value.get(name)
        if one.required and name not in value:
            raise invalid(f"{prefix}{name}", "is required")
        if one.required or entry is not None:
            given[name] = one.check(entry, f"{prefix}{name}")
    return given


def object_shape(fields: Mapping[str, RequestField]) -> dict[str, Any]:
    """Return the shape of an object with these fields and no others."""
    shape: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict(one.shape) for name, one in fields.items()},
        "additionalProperties": False,
    }
    required = [name for name, one in fields.items() if one.required]
    return {**shape, "required": required} if required else shape
