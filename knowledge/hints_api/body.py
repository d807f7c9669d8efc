"""Turns the body of a hints request into a JSON object, or says in one sentence why it is none.

NUL characters and half surrogate pairs are replaced, as everywhere in this API; NaN, keys that stand twice and other
encodings than UTF-8 are refused, because a sender who makes them does not mean what would be read.
"""

import json
from typing import Any, Final, NoReturn

from django.conf import settings
from rest_framework.request import Request

from ingest.bodies import read_body
from ingest.errors import IngestError
from ingest.repair import Repairs, clean_value
from ingest.wire import check_media_type, inflate
from knowledge.hints_api.fields import shown_name

MAX_NESTING: Final = 8  # containers; a request has three
MAX_KEY_BYTES: Final = 4_096  # a knowledge id of any characters stays whole as a key


class _TwiceError(ValueError):
    """A key stands twice in one object."""


def read_object(request: Request) -> dict[str, Any]:
    """Return the request's JSON object, made storable. Raises IngestError (400, 413, 415, 503)."""
    value = parse(_read(request))
    if not isinstance(value, dict):
        raise IngestError("bad_body", 400, "the body must be a JSON object", field="body")
    return dict(clean_value(value, Repairs(), max_nesting=MAX_NESTING, max_key_bytes=MAX_KEY_BYTES))


def _read(request: Request) -> bytes:
    limit = settings.HINTS_MAX_BODY_BYTES
    try:
        check_media_type(request.headers.get("Content-Type", ""))
        body = read_body(request, limit)
        return inflate(body, request.headers.get("Content-Encoding", ""), limit)
    except IngestError as error:
        told = {
            "unsupported_type": "send the request as Content-Type: application/json, in UTF-8",
            "body_too_large": f"the body takes more than {limit} bytes after decompression; send shorter texts and "
            "lists, or fewer requests at once",
        }
        raise IngestError(error.code, error.status, told.get(error.code, error.detail), **error.extra) from None


def parse(raw: bytes) -> Any:
    """Return the JSON value of a body. Raises IngestError 400 with the place of the first fault, never its text."""
    if not raw.strip():
        raise IngestError("bad_json", 400, 'the body is empty; send a JSON object with at least "run"', field="body")
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
