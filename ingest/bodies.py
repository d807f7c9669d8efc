"""Reads a request's body within a limit, chunked or not, so that a refusal reaches the sender as an answer."""

from typing import Any, Final

from rest_framework.request import Request

from ingest.wire import body_too_large

_PIECE: Final = 64 * 1024
# A body over the limit is read on and thrown away up to this many times the limit: a server that answers and hangs
# up while the sender still sends shows it a broken connection in place of the 413.
_DRAIN_TIMES: Final = 8


def read_body(request: Request, limit: int) -> bytes:
    """Return the body as sent, at most `limit` bytes. Raises IngestError 413 for a longer one.

    Django reads no body without a Content-Length; where the server marks the end of the stream itself (gunicorn
    does), a chunked body is read from it.
    """
    meta = request._request.META
    if meta.get("CONTENT_LENGTH"):
        stream: Any = request._request
        declared = int(meta["CONTENT_LENGTH"])
        if declared > limit:
            _drain(stream, min(declared, limit * _DRAIN_TIMES))
            raise body_too_large(limit)
        return _read(stream, declared)
    if not meta.get("wsgi.input_terminated"):
        return b""
    body = _read(meta["wsgi.input"], limit + 1)
    if len(body) > limit:
        _drain(meta["wsgi.input"], limit * _DRAIN_TIMES)
        raise body_too_large(limit)
    return body


def _read(stream: Any, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := stream.read(min(most, _PIECE))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _drain(stream: Any, most: int) -> None:
    while most > 0 and (piece := stream.read(min(most, _PIECE))):
        most -= len(piece)
