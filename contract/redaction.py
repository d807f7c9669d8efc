"""Removes secrets from text and JSON values before they are written anywhere, leaving `[REDACTED:<kind>]`.

One home for both sides of the wire: the kernel redacts inside the tool activity, ingest redacts again at the door.
Work is linear in the text; a second pass changes nothing; what is clean comes back as it is, the same object. What
merely resembles a secret (hashes, commit ids, UUIDs, base64 images, MAX_TOKENS=100) stays. The marker is never `***`,
which an agent takes for a bad read and tries again. (Seed 001 §16.1, §20.)
"""

from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from contract.integers import INT64_MAX, INT64_MIN
from contract.redaction_rules import ExtraRules
from contract.secret_finders import FINDERS, Span
from contract.secret_formats import name_kind
from contract.secret_scan import SCAN
from contract.secret_values import MARKED, MARKER, SCHEME, is_secret

__all__ = ["MARKER", "PLAIN_LENGTH", "holds_secret", "plain_texts", "redact", "redact_value"]

# A removal can uncover another secret beside it; each round reads the text once.
_ROUNDS: Final = 4
_WRAPPED: Final = ("value", "stringValue", "string_value")
# Names that promise no secret and hold none, known again without a look. Names with a secret are never remembered.
_PLAIN_NAMES: Final = 4_096
PLAIN_LENGTH: Final = 128  # code points
_plain: Final[dict[str, None]] = {}


def redact(text: str, extra: ExtraRules | None = None) -> tuple[str, int]:
    """Return `text` without its secrets and how many were removed. `extra` are a project's own patterns."""
    total = 0
    if extra is not None:
        text, total = extra.replace(text)
    for _ in range(_ROUNDS):
        if not SCAN.may_hold(text):
            break
        before = total
        for worth, find in zip(SCAN.finders(text), FINDERS, strict=True):
            if worth:
                text, found = _replace(text, find(text))
                total += found
        if total == before:
            break
    return text, total


def redact_value(value: Any, extra: ExtraRules | None = None) -> tuple[Any, int]:
    """Return a JSON value without its secrets and how many were removed; what is given is never changed.

    Names count: under `password`, `api_key`, `cookie` … the whole text goes, also inside lists, and so does the
    value of a `{"key": "password", "value": …}` pair. Depth is no limit: nothing here recurses. A clean value is
    returned itself, not a copy: one look over all its texts joined tells that nothing is there.
    """
    texts = plain_texts(value, named=extra is not None)
    if texts is not None:
        extra = extra if extra is not None and extra.may_hold(texts) else None
        if extra is None and not SCAN.may_hold("\n".join(texts)):
            return value, 0
    holder: list[Any] = [value]
    total = 0
    todo: list[tuple[Any, Any, str | None]] = [(holder, 0, None)]
    while todo:
        container, place, kind = todo.pop()
        old = container[place]
        if isinstance(old, str):
            container[place], found = _redact_under(old, kind, extra)
        elif isinstance(old, dict):
            container[place], found = _redact_names(old, extra)
            todo.extend(_entries(container[place], kind))
        elif isinstance(old, list):
            container[place], found = list(old), 0
            todo.extend((container[place], i, kind) for i in range(len(old)))
        elif kind == "password" and isinstance(old, int) and not isinstance(old, bool) and abs(old) > 999:
            container[place], found = MARKER.format(kind=kind), 1
        else:
            found = 0
        total += found
    return (holder[0], total) if total else (value, 0)


def plain_texts(value: Any, *, named: bool = False) -> list[str] | None:
    """Return all texts of a JSON value, with its names if `named`; None when that does not tell all of it.

    That is so when a name promises a secret or is over PLAIN_LENGTH, and for what a strict store of JSON cannot hold:
    an integer beyond 64 bits, NaN, Infinity, a value of another type. One walk, and nothing here recurses.
    """
    if type(value) is str:
        return [value]
    texts: list[str] = []
    todo = [value]
    while todo:
        node = todo.pop()
        if type(node) is dict:
            if not node.keys() <= _plain.keys() and not _are_plain(node):
                return None
            if "value" in node and _pair_kind(node) is not None:
                return None
            if named:
                texts += node
            items: Any = node.values()
        else:
            items = node if type(node) is list else (node,)
        for item in items:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                todo.append(item)
            elif not (
                item is None
                or kind is bool
                or (kind is int and INT64_MIN <= item <= INT64_MAX)
                or (kind is float and isfinite(item))
            ):
                return None
    return texts


def holds_secret(texts: list[str], extra: ExtraRules | None = None) -> bool:
    """Say whether any of `texts` may hold a secret: False is certain. One look over all of them joined."""
    return SCAN.may_hold("\n".join(texts)) or (extra is not None and extra.may_hold(texts))


def _are_plain(names: dict[Any, Any]) -> bool:
    """Say whether no name is long, a secret, or promises one; those are remembered, within bounds."""
    for name in names:
        if name in _plain:
            continue
        if type(name) is not str or len(name) > PLAIN_LENGTH or name_kind(name) is not None or redact(name)[1]:
            return False
        if len(_plain) >= _PLAIN_NAMES:
            _plain.clear()
        _plain[name] = None
    return True


def _pair_kind(pairs: dict[str, Any]) -> str | None:
    """Return the kind that the name in a `{"key": …, "value": …}` pair promises."""
    named = pairs.get("key") or pairs.get("name") if "value" in pairs else None
    return name_kind(named) if isinstance(named, str) else None


def _entries(pairs: dict[str, Any], kind: str | None) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Yield each entry with the kind its name promises; a cookie jar and a wrapped value pass theirs on."""
    named_kind = _pair_kind(pairs)
    for name in pairs:
        if name in _WRAPPED:
            yield pairs, name, named_kind or kind
        else:
            yield pairs, name, name_kind(name) or (kind if kind == "cookie" else None)


def _redact_under(text: str, kind: str | None, extra: ExtraRules | None) -> tuple[str, int]:
    """Redact a text that stands under a name of `kind`."""
    if kind is None or not is_secret(text, kind, prose=False):
        clean, found = redact(text, extra)
        if kind is None or not is_secret(clean, kind, prose=False):
            return clean, found
    scheme = SCHEME.match(text) if kind == "authorization" else None
    kept = scheme.group() if scheme else ""
    if MARKED.fullmatch(text, len(kept)):
        return text, 0
    return kept + MARKER.format(kind=kind), 1


def _redact_names(old: dict[Any, Any], extra: ExtraRules | None) -> tuple[dict[str, Any], int]:
    """Return a shallow copy whose names hold no secret; two names that become equal both stay."""
    copy: dict[str, Any] = {}
    numbers: dict[str, int] = {}  # what the next name of a stem is given, so that many of one kind cost no search
    total = 0
    for name, value in old.items():
        if extra is None and name in _plain:
            copy[name] = value
            continue
        clean, found = redact(str(name), extra)
        total += found
        stem, n = clean, numbers.get(clean, 2)
        while found and (clean in copy or clean in old):
            clean, n = f"{stem} ({n})", n + 1
            numbers[stem] = n
        copy[clean] = value
    return copy, total


def _replace(text: str, spans: Iterator[Span]) -> tuple[str, int]:
    """Put markers in place of `spans`, which come in order; one that overlaps an earlier one is passed over."""
    parts: list[str] = []
    done = 0
    for start, end, kind in spans:
        if start < done or start == end:
            continue
        parts += (text[done:start], MARKER.format(kind=kind))
        done = end
    if not parts:
        return text, 0
    return "".join(parts) + text[done:], len(parts) // 2
