"""Turns a request body into the list of its events, bounded in memory whatever the bytes are. Pure.

What can be read is read: invalid UTF-8, lone surrogates, NaN, huge integers and bottomless nesting reach the
repair of each event instead of costing the whole batch. (Seed 001 §7.3, §13.)
"""

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ingest.errors import IngestError
from ingest.repair import BigInteger

# An event stands three containers deep in a body; the parser keeps a little more than repair does, so that repair
# sees the excess and flags the event.
_LEVELS_AROUND: Final = 8
_CHUNK: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b"
_MOST_MEMBERS: Final = 1_000  # of one gzip body; a sender needs one
# orjson reads integers beyond 64 bits as floats; a body with such digits goes the exact way. A text with every digit
# made a 0 is searched, which takes a tenth of a regular expression's time.
_DIGITS_AS_ZERO: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_TOO_LONG: Final = (b"-" + b"0" * 19, b"0" * 20)
_TOKENS: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_INFLATERS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Bounds of one request: bytes after inflating, events, bytes of one event, nesting levels, bytes of a key."""

    max_body_bytes: int
    max_events: int
    max_event_bytes: int
    max_nesting: int
    max_key_bytes: int


def check_media_type(content_type: str) -> None:
    """Raise IngestError 415 when the body is declared as anything but JSON in UTF-8 (other parameters are fine)."""
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media_type not in ("application/json", ""):
        raise IngestError(
            "unsupported_type", 415, "send the events as Content-Type: application/json", field="Content-Type"
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('" ') not in ("utf-8", "utf8"):
            raise IngestError("unsupported_type", 415, "send the events in UTF-8 (charset=utf-8)", field="Content-Type")


def body_too_large(limit: int) -> IngestError:
    """Return the refusal of a body over `limit` bytes."""
    detail = f"the body takes more than {limit} bytes after decompression; send fewer events per request"
    return IngestError("body_too_large", 413, detail, field="body", limit=limit)


def inflate(body: bytes, content_encoding: str, limit: int) -> bytes:
    """Return the decoded body, never more than `limit` bytes of it in memory.

    Raises IngestError: 413 over the limit, 415 for an unknown encoding, 400 for broken data.
    """
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        if len(body) > limit:
            raise body_too_large(limit)
        return body
    if encoding not in _INFLATERS:
        raise IngestError(
            "unsupported_encoding", 415, "send Content-Encoding: gzip, deflate or none", field="Content-Encoding"
        )
    window = _INFLATERS[encoding]
    # "deflate" is sent with and without the zlib header; the low bits of the first byte tell which.
    if encoding == "deflate" and body[:1] and body[0] & 0x0F != 8:
        window = -zlib.MAX_WBITS
    try:
        return b"".join(_inflated(body, window, limit))
    except zlib.error:
        raise _broken(encoding) from None


def _inflated(body: bytes, window: int, limit: int) -> Iterator[bytes]:
    """Yield decoded pieces of all members, stopping one byte over the limit.

    The body is fed in pieces, because an inflater copies what it was given and did not use.
    """
    room, at = limit, 0
    for _ in range(_MOST_MEMBERS):
        inflater = zlib.decompressobj(window)
        fed = b""
        while not inflater.eof:
            if not fed:
                fed = body[at : at + _CHUNK]
                at += len(fed)
            piece = inflater.decompress(fed, min(_CHUNK, room + 1))
            fed = inflater.unconsumed_tail
            room -= len(piece)
            if room < 0:
                raise body_too_large(limit)
            if piece:
                yield piece
            elif not fed and at >= len(body) and not inflater.eof:
                raise _broken("compressed")
        at -= len(inflater.unused_data)
        if not body.startswith(_GZIP, at):
            return
    raise IngestError("bad_encoding", 400, f"more than {_MOST_MEMBERS} gzip members; compress it as one", field="body")


def _broken(encoding: str) -> IngestError:
    return IngestError("bad_encoding", 400, f"the {encoding} body is broken or cut off; send it again", field="body")


def parse_events(body: bytes, limits: WireLimits) -> list[Any]:
    """Return the values of the body's `events` list, unchecked. Raises IngestError 400 or 413."""
    document = parse_json(body, limits.max_nesting + _LEVELS_AROUND)
    events = document.get("events") if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise IngestError("bad_body", 400, 'the body must be an object {"events": [...]}', field="events")
    if len(events) > limits.max_events:
        detail = f"{len(events)} events in one request; the limit is {limits.max_events}, split them"
        raise IngestError("too_many_events", 413, detail, field="events", limit=limits.max_events)
    return events


def parse_json(body: bytes, max_depth: int) -> Any:
    """Return the JSON value of `body`. Raises IngestError 400 with the place of the first fault, never its text.

    The common body takes the fast reader. What that refuses (lone surrogates, NaN, raw control characters,
    nesting) or reads inexactly (long integers) takes the standard library's, with nesting cut at `max_depth`.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    if not body.strip():
        raise IngestError("bad_json", 400, 'the body is empty; send {"events": [...]}', field="body")
    if not _has_long_integer(body):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    text = body.decode("utf-8", "surrogateescape")
    readable = cut_nesting(text, max_depth)
    try:
        return _READER.decode(readable)
    except json.JSONDecodeError as error:
        if readable is not text:
            raise IngestError(
                "too_nested", 400, f"the body is no JSON and nested deeper than {max_depth} levels", limit=max_depth
            ) from None
        detail = f"the body is no JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise IngestError("bad_json", 400, detail, field="body") from None


def _has_long_integer(body: bytes) -> bool:
    digits = body.translate(_DIGITS_AS_ZERO)
    return any(mark in digits for mark in _TOO_LONG)


def _read_integer(digits: str) -> int | BigInteger:
    return int(digits) if len(digits) <= 20 else BigInteger(digits)


_READER: Final = json.JSONDecoder(parse_int=_read_integer, strict=False)


def cut_nesting(text: str, max_depth: int) -> str:
    """Return JSON text in which every container deeper than `max_depth` levels is replaced by null.

    The text is not checked: what is broken stays broken and is reported by the reader.
    """
    kept: list[str] = []
    depth = start = 0
    for token in _TOKENS.finditer(text):
        mark = token.group()
        if mark in ("[", "{"):
            depth += 1
            if depth == max_depth + 1:
                kept += (text[start : token.start()], "null")
        elif mark in ("]", "}"):
            if depth == max_depth + 1:
                start = token.end()
            depth -= 1
    if not kept:
        return text
    if depth <= max_depth:
        kept.append(text[start:])
    return "".join(kept)
