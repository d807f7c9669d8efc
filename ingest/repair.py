"""Makes any decoded JSON value storable in PostgreSQL, and says what it changed. Pure.

A text column and jsonb take no NUL and no half surrogate pair, jsonb no NaN, our columns no integer over 64 bits.
None of that is a reason to lose an event: the value is replaced or kept as text and the repair is named.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
REPLACEMENT = "\ufffd"
CUT_FLOOR = 256  # code points a cut string keeps at least
DEEP_MARKER = "[nested deeper than {limit} levels]"


@dataclass(slots=True)
class Repairs:
    """The words of what was changed in one event, in the order first seen: nul, surrogate, non_finite, …"""

    words: list[str] = field(default_factory=list)

    def add(self, word: str) -> None:
        if word not in self.words:
            self.words.append(word)


def clean_text(text: str, repairs: Repairs) -> str:
    """Return `text` without NUL and lone surrogates; both become U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", REPLACEMENT)
        repairs.add("nul")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        repairs.add("surrogate")
    return text


def clean_value(value: Any, repairs: Repairs, *, max_nesting: int, max_key_bytes: int) -> Any:
    """Return `value` (decoded JSON) storable as jsonb. Depth is bounded by `max_nesting`, so recursion is too."""
    if isinstance(value, str):
        return clean_text(value, repairs)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if INT64_MIN <= value <= INT64_MAX:
            return value
        repairs.add("big_integer")
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        repairs.add("non_finite")
        return None
    if max_nesting <= 0:
        repairs.add("nesting")
        return DEEP_MARKER.format(limit="the allowed")

    def below(inner: Any) -> Any:
        return clean_value(inner, repairs, max_nesting=max_nesting - 1, max_key_bytes=max_key_bytes)

    if isinstance(value, list):
        return [below(inner) for inner in value]
    return _clean_object(value, repairs, max_key_bytes, below)


def _clean_object(
    value: dict[str, Any], repairs: Repairs, max_key_bytes: int, below: Callable[[Any], Any]
) -> dict[str, Any]:
    cleaned: dict[str, Any] = {}
    for key, inner in value.items():
        name = clean_text(key, repairs)
        if len(name.encode()) > max_key_bytes:
            name = name.encode()[: max_key_bytes - 3].decode(errors="ignore") + "…"
            repairs.add("long_key")
        if name in cleaned:  # two keys became one: the first wins, whatever the order of later ones
            repairs.add("key_collision")
            continue
        cleaned[name] = below(inner)
    return cleaned


def size_of(value: Any) -> int:
    """Return the size of `value` in bytes of compact UTF-8 JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def cut_to_size(value: Any, limit: int, repairs: Repairs) -> Any:
    """Return `value` with its longest strings cut until it fits `limit` bytes; cut strings name their full length.

    Raises ValueError when it does not fit even so (many short strings or keys).
    """
    longest = limit // 2
    while size_of(value) > limit:
        if longest < CUT_FLOOR:
            raise ValueError("too large even with its strings cut")
        value = _cut_strings(value, longest)
        repairs.add("cut")
        longest //= 2
    return value


def _cut_strings(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        if len(value.encode()) <= longest:
            return value
        kept = value.encode()[: longest - 64].decode(errors="ignore")
        return f"{kept}… [cut: {len(value)} characters in all]"
    if isinstance(value, list):
        return [_cut_strings(inner, longest) for inner in value]
    if isinstance(value, dict):
        return {key: _cut_strings(inner, longest) for key, inner in value.items()}
    return value
