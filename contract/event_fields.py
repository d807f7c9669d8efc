"""What one key of an event's `data` may hold, how a value is checked, and how the same is said as JSON Schema. Pure.

A refusal names the field, what it must be and its limit, and never repeats the value. (Seed 001 §7.2.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract import stages

KINDS: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "number": (int, float),
    "bool": (bool,),
    "object": (dict,),
    "array": (list,),
}
JSON_KINDS: Final = {
    "str": "string",
    "int": "integer",
    "number": "number",
    "bool": "boolean",
    "object": "object",
    "array": "array",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One key of an event's `data`: its kind (a key of KINDS), whether it must be there, and what else must hold.

    `words` is a closed vocabulary; `is_trigger` means the name of a trigger, which is open; `lowest` and `highest`
    bound a number, inclusive; `keys` are the fields of an object, of which others are let through.
    """

    kind: str
    doc: str
    required: bool = False
    words: Mapping[str, str] | None = None
    is_trigger: bool = False
    lowest: float | None = None
    highest: float | None = None
    keys: "Mapping[str, Field] | None" = None


def need(kind: str, doc: str, words: Mapping[str, str] | None = None, **limits: Any) -> Field:
    return Field(kind, doc, True, words, **limits)


def may(kind: str, doc: str, words: Mapping[str, str] | None = None, **limits: Any) -> Field:
    return Field(kind, doc, False, words, **limits)


def check_fields(owner: str, fields: Mapping[str, Field], values: Mapping[str, Any], path: str) -> str | None:
    """Return what is wrong with `values`, or None. `owner` is what requires its fields, `path` stands before names."""
    for name, field in fields.items():
        value = values.get(name)
        if value is None:
            if field.required:
                return f"{path}.{name} is required for {owner} ({field.doc})"
            continue
        problem = _problem(field, value, f"{path}.{name}")
        if problem is not None:
            return problem
    return None


def _problem(field: Field, value: Any, path: str) -> str | None:
    if not _is_of(field.kind, value):
        return f"{path} must be of type {field.kind}"
    if field.words is not None and value not in field.words:
        return f"{path} must be one of: {', '.join(field.words)}"
    if field.is_trigger and (problem := stages.trigger_problem(value)) is not None:
        return f"{path} {problem}"
    if field.lowest is not None and not value >= field.lowest:
        return f"{path} must be {_range(field)}"
    if field.highest is not None and not value <= field.highest:
        return f"{path} must be {_range(field)}"
    return check_fields(path, field.keys, value, path) if field.keys else None


def _is_of(kind: str, value: Any) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))


def _range(field: Field) -> str:
    if field.highest is None:
        return f"{field.lowest} or more"
    return f"from {field.lowest} to {field.highest}"


def schema_of(fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return the JSON Schema of an object with these fields; keys of other names are let through."""
    return {
        "type": "object",
        "properties": {name: _property(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": True,
    }


def _property(field: Field) -> dict[str, Any]:
    kind = schema_of(field.keys) if field.keys else {"type": JSON_KINDS[field.kind]}
    limits = {
        "enum": list(field.words) if field.words is not None else None,
        "pattern": f"^{stages.TRIGGER_PATTERN}$" if field.is_trigger else None,
        "maxLength": stages.TRIGGER_LIMIT if field.is_trigger else None,
        "minimum": field.lowest,
        "maximum": field.highest,
    }
    return {**kind, "description": field.doc, **{name: limit for name, limit in limits.items() if limit is not None}}
