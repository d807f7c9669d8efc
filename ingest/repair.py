"""Decides how a value that PostgreSQL or a strict JSON reader cannot hold is made storable. Pure.

Text a model or a tool produced may hold anything. It is telemetry, so it is repaired and flagged, never refused:
the words of `REPAIRS` that apply to an event are stored beside it and shown with it. (Seed 001 §7.3, §13.)
"""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from contract.integers import INT64_MAX, INT64_MIN

REPAIRS: Final[dict[str, str]] = {
    "nul": "a NUL character was replaced by U+FFFD",
    "surrogate": "half a surrogate pair, or a byte that is no UTF-8, was replaced by U+FFFD",
    "non_finite": "NaN or Infinity was replaced by null",
    "big_integer": "an integer beyond 64 bits was kept as text",
    "cut": "a text was cut to the size limit; a marker says how long it was",
    "long_key": "a key over the size limit was shortened and given a hash",
    "key_collision": "two keys became equal by repair; the later one was given a hash",
    "nesting": "a part nested deeper than the limit was replaced by a marker",
    "not_json": "a value that JSON cannot express was replaced by the name of its type",
    "unknown_field": "a field that is no part of the envelope was moved into data.unknown_fields",
    "redacted": "a secret was replaced by a marker",
    "end_before_start": "the end lies before the start; both are kept as sent",
    "clock_far": "the sender's time is over a day ahead of ours, or before the year 2000",
}

NESTING_MARKER: Final = "[nested deeper than {limit} levels]"
CUT_MARKER: Final = "… [cut: {total} characters in all]"
REPLACEMENT: Final = "\ufffd"
CUT_FLOOR: Final = 256  # bytes of JSON a cut text keeps at least, marker included
_MARKER_ROOM: Final = 64


@dataclass(slots=True)
class Repairs:
    """The words of REPAIRS that apply to one event, in the order first seen."""

    words: list[str] = field(default_factory=list)

    def add(self, word: str) -> None:
        if word not in self.words:
            self.words.append(word)


class BigInteger(str):
    """The digits of a JSON integer too long to be read as one."""

    __slots__ = ()


def clean_text(text: str, repairs: Repairs) -> str:
    """Return `text` as PostgreSQL can store it: NUL and half surrogate pairs become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
        repairs.add("nul")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # Through UTF-16 two halves that belong together become one character, a lone half U+FFFD.
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            repairs.add("surrogate")
    return text


@dataclass(frozen=True, slots=True)
class _Cleaner:
    """One pass over a value; recursion ends at the nesting limit, however deep the value is."""

    repairs: Repairs
    max_nesting: int
    max_key_bytes: int

    def clean(self, value: object, depth: int) -> Any:
        if isinstance(value, str):
            if isinstance(value, BigInteger):
                self.repairs.add("big_integer")
                return str(value)
            return clean_text(value, self.repairs)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _clean_number(value, self.repairs)
        if not isinstance(value, dict | list | tuple):
            self.repairs.add("not_json")
            return f"[{type(value).__name__}]"
        if depth >= self.max_nesting:
            self.repairs.add("nesting")
            return NESTING_MARKER.format(limit=self.max_nesting)
        if isinstance(value, dict):
            return self._clean_object(value, depth + 1)
        return [self.clean(item, depth + 1) for item in value]

    def _clean_object(self, value: dict[Any, object], depth: int) -> dict[str, Any]:
        """Return the object with storable keys; of keys that become equal all stay, the later ones with a hash."""
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            name = clean_text(key if isinstance(key, str) else str(key), self.repairs)
            if len(name) * 4 > self.max_key_bytes and len(name.encode()) > self.max_key_bytes:
                name = _shortened(name, key, self.max_key_bytes)
                self.repairs.add("long_key")
            if name in cleaned:
                name = _shortened(name, key, self.max_key_bytes)
                self.repairs.add("key_collision")
            cleaned[name] = self.clean(item, depth)
        return cleaned


def clean_value(value: object, repairs: Repairs, *, max_nesting: int, max_key_bytes: int) -> Any:
    """Return the JSON value as jsonb can store it and a strict reader can read it; changes are named in `repairs`.

    `max_nesting` is the number of container levels kept, `max_key_bytes` the longest key in UTF-8 bytes.
    """
    return _Cleaner(repairs, max_nesting, max_key_bytes).clean(value, 0)


def _clean_number(value: int | float, repairs: Repairs) -> int | float | str | None:
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        repairs.add("non_finite")
        return None
    if INT64_MIN <= value <= INT64_MAX:
        return value
    repairs.add("big_integer")
    bits = value.bit_length()
    return str(value) if bits <= 4096 else f"[integer of {bits} bits]"


def _shortened(name: str, key: object, max_bytes: int) -> str:
    mark = "…#" + hashlib.blake2b(repr(key).encode(), digest_size=6).hexdigest()
    room = max(max_bytes - len(mark.encode()), 0)
    return name.encode()[:room].decode("utf-8", "ignore") + mark


def cut_to_size(value: Any, limit: int, repairs: Repairs) -> Any:
    """Return the storable value with its longest texts cut so that its compact JSON takes at most `limit` bytes.

    Raises ValueError when cutting texts cannot do it, because it is large in many small parts.
    """
    total = len(orjson.dumps(value))
    if total <= limit:
        return value
    sizes: list[int] = []
    _collect_sizes(value, sizes)
    longest = _longest_kept(sizes, limit - (total - sum(sizes)))
    if longest < CUT_FLOOR:
        raise ValueError("too large even with its texts cut")
    repairs.add("cut")
    return _cut_texts(value, longest)


def _json_bytes(text: str) -> int:
    return len(orjson.dumps(text)) - 2


def _collect_sizes(value: Any, sizes: list[int]) -> None:
    if isinstance(value, str):
        sizes.append(_json_bytes(value))
    elif isinstance(value, dict):
        for item in value.values():
            _collect_sizes(item, sizes)
    elif isinstance(value, list):
        for item in value:
            _collect_sizes(item, sizes)


def _longest_kept(sizes: list[int], budget: int) -> int:
    """Return the largest size texts may keep so that all together take at most `budget` bytes."""
    left = budget
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return share
        left -= size
    return ordered[-1] if ordered else 0


def _cut_texts(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, longest)
    if isinstance(value, dict):
        return {name: _cut_texts(item, longest) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut_texts(item, longest) for item in value]
    return value


def _cut_text(text: str, longest: int) -> str:
    """Return `text` within `longest` bytes of JSON; a cut one ends in a marker with the original length."""
    if _json_bytes(text) <= longest:
        return text
    room = longest - _MARKER_ROOM
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if _json_bytes(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low] + CUT_MARKER.format(total=len(text))
