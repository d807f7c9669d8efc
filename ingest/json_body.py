"""Turns the bytes of a request into a JSON value, or says in one sentence why they are none. Pure.

NaN, keys that stand twice and other encodings than UTF-8 are refused, because a sender who makes them does not mean
what would be read. Events are read by `wire.py`, which takes what it can.
"""

import json
from typing import Any, NoReturn

from ingest.errors import IngestError, shown_name


class _TwiceError(ValueError):
    """A key stands twice in one object."""


def parse(raw: bytes) -> Any:
    """Return the JSON value of a body. Raises IngestError 400 with the place of the first fault, never its text."""
    if not raw.strip():
        raise IngestError("bad_json", 400, "the body is empty; send a JSON object", field="body")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise IngestError("bad_json", 400, f"the body is not UTF-8 at byte {error.start}", field="body") from None
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except RecursionError:
        raise IngestError("too_nested", 400, "the body is nested too deeply to be read", field="body") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise IngestError("bad_json", 400, f"the body is no JSON: {error.msg} ({place})", field="body") from None
    except _TwiceError as error:
        name = shown_name(str(error))
        detail = f"{name} stands twice in one object; send each field once"
        raise IngestError("duplicate_key", 400, detail, field=name) from None
    except ValueError:
        raise IngestError("bad_json", 400, "the body has a number that is too long to be read", field="body") from None


def _no_constant(name: str) -> NoReturn:
    detail = f"the body is no JSON: {name} is no number of JSON; leave the field out"
    raise IngestError("bad_json", 400, detail, field="body")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _TwiceError(name)
            seen.add(name)
    return made
