"""What a situation is: trigger, server or tool, error class and what the diagnostic says once noise is taken out.

Two keys: the exact one decides whether a situation was handled already, the class one serves statistics.
(Seed 001 §9.2.)
"""

import hashlib
from dataclasses import replace

from contract.fingerprint import VERSION, fingerprint
from kernel.core.state import Candidate

SHOWN_FINGERPRINT = 500  # code points of the fingerprint that travel in events


def with_situation(candidate: Candidate) -> Candidate:
    """Return the candidate with its keys. A first call is one situation per server, whatever it answered."""
    found = fingerprint(candidate.tool_result if candidate.trigger != "mcp.first_call" else "")
    scope = (candidate.trigger, candidate.mcp_server or candidate.tool or "", candidate.error_class)
    return replace(
        candidate,
        situation_key=_key(*scope, found.exact),
        situation_class=_key(*scope, found.masked),
        fingerprint=found.exact[:SHOWN_FINGERPRINT],
    )


def _key(*parts: str) -> str:
    return hashlib.sha256("\x1f".join((VERSION, *parts)).encode("utf-8", "replace")).hexdigest()[:32]
