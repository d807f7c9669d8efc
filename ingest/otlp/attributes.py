"""Turns OTLP's typed attribute lists into plain values under flat keys, bounded in depth and number. Pure.

Bytes become base64 text, as OTLP/JSON writes them. What is nested deeper than the limit becomes a marker and is
flagged; a list of too many attributes is refused. (Seed 001 §7.3, §13.)
"""

import base64
import math
from collections.abc import Sequence
from typing import Any, Final

from contract.redaction import redact
from ingest.otlp.records import bad
from ingest.repair import NESTING_MARKER, BigInteger

MAX_LEVELS: Final = 56  # containers in one attribute's value; an event may hold 64, and stands around it
MAX_ATTRIBUTES: Final = 4_096  # attributes of one span, record, event, scope or resource
_MARKER: Final = NESTING_MARKER.format(limit=MAX_LEVELS)


def plain_attributes(pairs: Any, words: list[str]) -> dict[str, Any]:
    """Return a protobuf KeyValue list as a dict. Raises IngestError when it is too long."""
    found: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        # Most values are texts, and asking which field is set costs more than reading this one.
        found[pair.key] = value.string_value or plain_value(value, words, 0)
    if len(found) != len(pairs):
        return _all_kept([(pair.key, plain_value(pair.value, words, 0)) for pair in pairs], words)
    if len(found) > MAX_ATTRIBUTES:
        raise _too_many(len(found))
    return found


def plain_value(value: Any, words: list[str], depth: int) -> Any:
    """Return a protobuf AnyValue as a plain value; an unset one is None."""
    which = value.WhichOneof("value")
    if which is None:
        return None
    inner = getattr(value, which)
    if which == "bytes_value":
        return _bytes(inner, words)
    if which not in ("array_value", "kvlist_value"):
        return inner
    if depth >= MAX_LEVELS:
        return _cut(words)
    if which == "array_value":
        return [plain_value(item, words, depth + 1) for item in inner.values]
    return _all_kept([(pair.key, plain_value(pair.value, words, depth + 1)) for pair in inner.values], words)


def plain_json_attributes(pairs: object, words: list[str], place: str, depth: int = 0) -> dict[str, Any]:
    """Return an OTLP/JSON attribute list as a dict; null is an empty list. Raises IngestError naming the place."""
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise bad("bad_attributes", place, 'must be a list of {"key": …, "value": {…}}')
    if len(pairs) > MAX_ATTRIBUTES:
        raise _too_many(len(pairs))
    found: list[tuple[str, Any]] = []
    for pair in pairs:
        key = pair.get("key", "") if isinstance(pair, dict) else None
        if not is_text(key):
            raise bad("bad_attributes", place, 'must hold only {"key": text, "value": {…}}')
        found.append((str(key), plain_json_value(pair.get("value"), words, place, depth)))
    return _all_kept(found, words)


def plain_json_value(value: object, words: list[str], place: str, depth: int = 0) -> Any:
    """Return an OTLP/JSON AnyValue as a plain value. Raises IngestError naming the place when it is none."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise bad("bad_attributes", place, 'has a value that is no object such as {"stringValue": "…"}')
    for name, inner in value.items():
        if inner is None or name not in _JSON_FIELDS:
            continue
        if name in ("arrayValue", "kvlistValue"):
            return _cut(words) if depth >= MAX_LEVELS else _json_container(name, inner, words, place, depth + 1)
        if name == "intValue":
            return json_integer(inner, f"{place} intValue", None)
        if name == "doubleValue":
            return _json_double(inner, place)
        if not (isinstance(inner, bool) if name == "boolValue" else is_text(inner)):
            raise bad("bad_attributes", place, f"has a {name} of another type")
        return inner if name != "bytesValue" else _sent_bytes(str(inner), words)
    return None


def is_text(value: object) -> bool:
    """Say whether a JSON value was sent as text: the digits of a number too long to be read as one were not."""
    return isinstance(value, str) and not isinstance(value, BigInteger)


def json_integer(value: object, place: str, highest: int | None) -> int:
    """Return an integer sent as a number or as its digits, from 0 to `highest` when that is given."""
    number: int | None = None
    if isinstance(value, str):
        digits = value.strip()
        if digits.removeprefix("-").isdecimal() and digits.isascii() and len(digits) <= 4_000:
            number = int(digits)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and math.isfinite(value) and value.is_integer():
        number = int(value)
    if number is None:
        raise bad("invalid_number", place, "must be a whole number, or its digits as text")
    if highest is not None and not 0 <= number <= highest:
        raise bad("invalid_number", place, f"must be a whole number from 0 to {highest}")
    return number


_JSON_FIELDS: Final = frozenset(
    ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue")
)


def _json_container(name: str, inner: object, words: list[str], place: str, depth: int) -> Any:
    values = inner.get("values") if isinstance(inner, dict) else 0
    if name == "kvlistValue":
        return plain_json_attributes(values, words, place, depth)
    if values is None:
        return []
    if not isinstance(values, list):
        raise bad("bad_attributes", place, 'has an arrayValue that is no {"values": […]}')
    return [plain_json_value(item, words, place, depth) for item in values]


def _bytes(raw: bytes, words: list[str]) -> str:
    """Return bytes as base64. Of a text that was sent as bytes its secrets go before, for base64 would hide them."""
    try:
        clean, n_secrets = redact(raw.decode())
    except UnicodeDecodeError:
        n_secrets = 0
    if n_secrets:
        words.append("redacted")
        raw = clean.encode()
    return base64.b64encode(raw).decode()


def _sent_bytes(text: str, words: list[str]) -> str:
    """Return the base64 of OTLP/JSON as sent unless a secret is in it; what is no base64 stays text."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return text
    before = len(words)
    told = _bytes(raw, words)
    return told if len(words) > before else text


def _json_double(value: object, place: str) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # also "NaN", "Infinity" and "-Infinity", which repair replaces and flags
        except (ValueError, OverflowError):
            pass
    raise bad("bad_attributes", place, "has a doubleValue that is no number")


def _all_kept(pairs: Sequence[tuple[str, Any]], words: list[str]) -> dict[str, Any]:
    """Return the pairs as a dict; a key given again gets a number, so that neither value is lost."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    words.append("key_collision")
    found = {}
    for position, (key, value) in enumerate(pairs):
        name = key
        while name in found:
            name = f"{name}#{position}"
        found[name] = value
    return found


def _cut(words: list[str]) -> str:
    words.append("nesting")
    return _MARKER


def _too_many(number: int) -> Exception:
    return bad("too_many_attributes", "attributes", f"are {number}; the limit is {MAX_ATTRIBUTES} in one list")
