"""Redaction at the edges: every text that leaves, each looked through once.

The same text leaves in several places (a tool's output is a reply, a result in an event and part of a request), and
redacting a text a second time changes nothing. So what was found or made clean a short while ago is known by its
value. Only clean texts are remembered. (Seed 001 §16.1, §20.)
"""

from functools import lru_cache
from typing import Any, Final

from contract.redaction import redact, redact_value
from contract.secret_formats import name_kind

SHORT: Final = 256  # code points
SHORT_TEXTS: Final = 4_096  # remembered
LONG: Final = 20_000  # code points; a longer text is not remembered
LONG_TEXTS: Final = 64
FLAT: Final = 2  # objects inside one another

_short: dict[str, None] = {}
_long: dict[str, None] = {}


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
    cleaned: dict[str, Any] = {}
    if "value" in fields or not all(map(_is_plain, fields)):
        cleaned = redact_value(fields)[0]
    else:
        for name, value in fields.items():
            if isinstance(value, str):
                value = clean(value)
            elif isinstance(value, dict) and depth < FLAT:
                value = clean_fields(value, depth + 1)
            elif isinstance(value, dict | list):
                value = redact_value(value)[0]
            cleaned[name] = value
    return cleaned


@lru_cache(maxsize=1_024)
def _is_plain(name: str) -> bool:
    """Return whether a name neither is a secret nor promises one, so that its value is judged alone."""
    return name_kind(name) is None and not redact(name)[1]


def _remember(texts: dict[str, None], limit: int, text: str) -> None:
    if len(texts) >= limit:
        del texts[next(iter(texts))]
    texts[text] = None
