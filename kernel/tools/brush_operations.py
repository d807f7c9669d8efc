"""Decides which arguments of `magic_brush` are operations; whatever is not is refused before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OPERATIONS_LIMIT: Final = 16
TEXT_LIMIT: Final = 16_000  # code points of one text
TEXTS_LIMIT: Final = 64_000  # code points of all texts of a call
TAKE_TIME: Final = "get_current_time"
WRITING: Final = ("write", "append")
# What each operation must be given, and what it may be given.
KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "list": ((), ("path",)),
    "read": (("path",), ("offset",)),
    "write": (("path", "text"), ("dated",)),
    "append": (("path", "text"), ("dated",)),
    TAKE_TIME: ((), ()),
}
_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "op": (str, "a text"),
    "path": (str, "a text"),
    "text": (str, "a text"),
    "dated": (bool, "true or false"),
    "offset": (int, "a whole number"),
}
_UNSTORABLE: Final = frozenset(chr(code) for code in (*range(32), 127)) - set("\t\n\r")

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "minItems": 1,
            "maxItems": OPERATIONS_LIMIT,
            "description": "what to do, in order",
            "items": {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": list(KEYS)},
                    "path": {
                        "type": "string",
                        "description": "a note, such as journal/ideas.md, from the notes folder on; list: a folder",
                    },
                    "text": {"type": "string", "description": "write, append: what to put there"},
                    "dated": {
                        "type": "boolean",
                        "description": "write, append: the text is about the present day; needs a time receipt",
                    },
                    "offset": {"type": "integer", "description": "read: the character to begin at, 0 without it"},
                },
                "required": ["op"],
                "additionalProperties": False,
            },
        },
        "on_failure": {
            "type": "string",
            "enum": ["stop", "go_on"],
            "description": "what becomes of the operations after one that fails; stop without it",
        },
    },
    "required": ["operations"],
    "additionalProperties": False,
}


class BrushError(Exception):
    """The arguments are no operations; the text says what to change and quotes no value."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a call."""

    op: str
    path: str = ""
    text: str = ""
    dated: bool = False
    offset: int = 0


def read_operations(arguments: Mapping[str, Any]) -> tuple[tuple[Operation, ...], bool]:
    """Return the operations and whether they go on after a failure. Raises BrushError."""
    unknown = [name for name in arguments if name not in ("operations", "on_failure")]
    if unknown:
        raise BrushError("there are the arguments operations and on_failure, and no others")
    on_failure = arguments.get("on_failure", "stop")
    if on_failure not in ("stop", "go_on"):
        raise BrushError("on_failure must be stop or go_on")
    given = arguments.get("operations")
    if not isinstance(given, list) or not 1 <= len(given) <= OPERATIONS_LIMIT:
        raise BrushError(f"operations must be a list of 1 to {OPERATIONS_LIMIT}: split a longer one into several calls")
    operations = tuple(_operation(number, value) for number, value in enumerate(given, 1))
    if sum(len(one.text) for one in operations) > TEXTS_LIMIT:
        raise BrushError(f"all texts of a call may have {TEXTS_LIMIT} characters: split it into several calls")
    return operations, on_failure == "go_on"


def _operation(number: int, value: Any) -> Operation:
    place = f"operations[{number - 1}]"
    if not isinstance(value, dict):
        raise BrushError(f"{place} must be an object with op")
    op = value.get("op")
    if not isinstance(op, str) or op not in KEYS:
        raise BrushError(f"{place}.op must be one of {', '.join(KEYS)}")
    needed, possible = KEYS[op]
    for name in needed:
        if name not in value:
            raise BrushError(f"{place}: {op} needs {name}")
    for name, one in value.items():
        if name not in ("op", *needed, *possible):
            takes = ", ".join((*needed, *possible)) or "nothing else"
            raise BrushError(f"{place}: a key that {op} does not take; it takes {takes}")
        kind, words = _TYPES[name]
        if type(one) is not kind:
            raise BrushError(f"{place}.{name} must be {words}")
    operation = Operation(**value)
    problem = _text_problem(operation)
    if problem:
        raise BrushError(f"{place}.{problem}")
    return operation


def _text_problem(operation: Operation) -> str:
    if len(operation.text) > TEXT_LIMIT:
        return f"text has {len(operation.text)} characters; the limit is {TEXT_LIMIT}: append the rest in another step"
    if not _UNSTORABLE.isdisjoint(operation.text):
        return "text has a control character besides tab and line ends: leave it out"
    try:
        operation.text.encode()
    except UnicodeEncodeError:
        return "text has half of a surrogate pair, which no file can hold: leave it out"
    if operation.offset < 0:
        return "offset must be 0 or more"
    return ""
