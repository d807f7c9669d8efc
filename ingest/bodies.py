"""Reads a request's body within a limit of bytes and of time, so that a refusal reaches the sender as an answer."""

from typing import Any, Final

from django.conf import settings
from rest_framework.request import Request

from ingest.errors import IngestError
from ingest.slow_senders import slow_senders
from ingest.wire import body_too_large

_PIECE: Final = 64 * 1024
# A body over the limit is read on and thrown away up to this many times the limit: a server that answers and hangs
# up while the sender still sends shows it a broken connection in place of the 413.
_DRAIN_TIMES: Final = 8


def read_body(request: Request, limit: int) -> bytes:
    """Return the body as sent, at most `limit` bytes.

    Raises IngestError 413 for a longer one, 400 for one that breaks off, 503 for one that takes too long.
    """
    connection = request._request.META.get("gunicorn.socket")
    if connection is None:
        return _read_body(request, limit)
    seconds = settings.INGEST_BODY_SECONDS
    with slow_senders.watched(connection, seconds, settings.INGEST_SLOW_SENDERS) as wait:
        try:
            return _read_body(request, limit)
        except IngestError:
            if not wait.is_ended:
                raise
    detail = f"the body took too long: over {seconds} s, or other slow ones were waited for; send it again, or in parts"
    raise IngestError("body_too_slow", 503, detail, field="body", limit=seconds, unit="seconds")


def _read_body(request: Request, limit: int) -> bytes:
    """Django reads no body without a Content-Length; a chunked one is read from the server, which marks its end."""
    meta = request._request.META
    if meta.get("CONTENT_LENGTH"):
        stream: Any = request._request
        declared = int(meta["CONTENT_LENGTH"])
        if declared > limit:
            _drain(stream, min(declared, limit * _DRAIN_TIMES))
            raise body_too_large(limit)
        body = _read(stream, declared)
        if len(body) < declared:
            raise _cut_off()
        return body
    if not meta.get("wsgi.input_terminated"):
        return b""
    body = _read(meta["wsgi.input"], limit + 1)
    if len(body) > limit:
        _drain(meta["wsgi.input"], limit * _DRAIN_TIMES)
        raise body_too_large(limit)
    return body


def _read(stream: Any, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := _next(stream, most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _drain(stream: Any, most: int) -> None:
    while most > 0 and (piece := _next(stream, most)):
        most -= len(piece)


def _next(stream: Any, most: int) -> bytes:
    try:
        return bytes(stream.read(min(most, _PIECE)))
    except Exception:  # noqa: BLE001 - each server has classes of its own for chunks that are none
        raise _cut_off() from None


def _cut_off() -> IngestError:
    detail = "the body broke off, or its chunks are no chunks; send it again"
    return IngestError("body_cut_off", 400, detail, field="body")
