"""Redaction at the edges: every text that leaves, each looked through once.

The same text leaves in several places (a tool's output is a reply, a result in an event and part of a request), and
redacting a text a second time changes nothing. So what was found or made clean a short while ago is known by its
value. Only clean texts are remembered. (Seed 001 §16.1, §20.)
"""

from collections.abc import Iterable
from typing import Any, Final

from contract.redaction import redact, redact_value
from contract.secret_formats import name_kind

SHORT: Final = 256  # code points
SHORT_TEXTS: Final = 4_096  # remembered
LONG: Final = 20_000  # code points; a longer text is not remembered
LONG_TEXTS: Final = 64
PLAIN_NAMES: Final = 1_024  # remembered
FLAT: Final = 2  # objects inside one another

_short: dict[str, None] = {}
_long: dict[str, None] = {}
_plain: set[str] = set()


def clean(text: str) -> str:
    """Return `text` without its secrets."""
    if text in _short or text in _long or not text:
        return text
    cleaned = redact(text)[0]
    if len(cleaned) <= SHORT:
        _remember(_short, SHORT_TEXTS, cleaned)
    elif len(cleaned) <= LONG:
        _remember(_long, LONG_TEXTS, cleaned)
    return cleaned


def clean_fields(fields: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return a JSON object without its secrets; names count as they do in contract.redaction.redact_value.

    `depth` says how deep the object stands in another; what stands deep is left to that function, which never recurses.
    """
    if not fields.keys() <= _plain and not _are_plain(fields):
        return dict(redact_value(fields)[0])
    cleaned: dict[str, Any] = {}
    for name, value in fields.items():
        kind = type(value)
        if kind is str:
            value = clean(value)
        elif kind is dict and depth < FLAT:
            value = clean_fields(value, depth + 1)
        elif kind is dict or kind is list:
            value = redact_value(value)[0]
        cleaned[name] = value
    return cleaned


def _are_plain(names: Iterable[str]) -> bool:
    """Return whether no name is a secret, promises one or names one beside it, so that each value is judged alone."""
    for name in names:
        if name in _plain:
            continue
        if name == "value" or name_kind(name) is not None or redact(name)[1]:
            return False
        if len(_plain) < PLAIN_NAMES and len(name) <= SHORT:
            _plain.add(name)
    return True


def _remember(texts: dict[str, None], limit: int, text: str) -> None:
    if len(texts) >= limit:
        del texts[next(iter(texts))]
    texts[text] = None
