"""Turns the body of a hints request into a JSON object, or says in one sentence why it is none.

NUL characters and half surrogate pairs are replaced, as everywhere in this API.
"""

from typing import Any, Final

from django.conf import settings
from rest_framework.request import Request

from ingest.bodies import read_body
from ingest.errors import IngestError
from ingest.json_body import parse
from ingest.repair import Repairs, clean_value
from ingest.wire import check_media_type, inflate

MAX_NESTING: Final = 8  # containers; a request has three
MAX_KEY_BYTES: Final = 4_096  # a knowledge id of any characters stays whole as a key


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
