"""What a situation is: trigger, server or tool, error class and what the diagnostic says once noise is taken out.

Two keys: the exact one decides whether a situation was handled already, the masked one serves statistics.
(Seed 001 §9.2.)
"""

import hashlib
from typing import Final

from contract.fingerprint import VERSION, fingerprint
from kernel.core.bounds import clip_bytes
from kernel.core.state import Situation

SHOWN: Final = 240  # bytes of the fingerprint that are kept and reported
KEY_DIGITS: Final = 32  # hex


def situation_of(trigger: str, scope: str, error_class: str, text: str) -> Situation:
    """Return the situation of a trigger at a server or tool (`scope`), told apart by a diagnostic text."""
    found = fingerprint(text)
    parts = (trigger, scope, error_class)
    return Situation(_key(*parts, found.exact), _key(*parts, found.masked), clip_bytes(found.exact, SHOWN))


def situation_data(situation: Situation) -> dict[str, str | None]:
    """Return the fields that name a situation in an event."""
    return {
        "situation_key": situation.key or None,
        "situation_class": situation.masked_key or None,
        "fingerprint": situation.fingerprint or None,
    }


def _key(*parts: str) -> str:
    return hashlib.sha256("\x1f".join((VERSION, *parts)).encode("utf-8", "replace")).hexdigest()[:KEY_DIGITS]
