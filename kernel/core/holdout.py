"""Withholding on purpose: which situations of an experiment go without their hints. No chance: a keyed hash decides.

Drawn only when something would have been placed, so that both arms are situations of the same kind; the same
situation of a run falls into the same arm however often it is drawn. (Seed 001 §16.4.)
"""

import hashlib
import hmac
from typing import Final

from kernel.core.state import Candidate
from kernel.messages import RunSpec

RANGE: Final = 2**64


def takes_part(spec: RunSpec, candidate: Candidate) -> bool:
    """Return whether a draw is made: the run belongs to an experiment and this is a situation, not the start."""
    return spec.holdout.share > 0 and bool(candidate.situation.key)


def is_withheld(spec: RunSpec, situation_key: str) -> bool:
    """Return whether the situation falls into the withheld arm."""
    message = f"{spec.run_id}\x1f{situation_key}".encode("utf-8", "surrogatepass")
    salt = spec.holdout.salt.encode("utf-8", "surrogatepass")
    drawn = int.from_bytes(hmac.digest(salt, message, hashlib.sha256)[:8], "big")
    return drawn < spec.holdout.share * RANGE
