"""The one error of ingest: a stable code, an HTTP status and a sentence for a person."""

import logging
from typing import Final

logger = logging.getLogger(__name__)

SHOWN: Final = 64  # code points of a name that is told back
RETRY_SECONDS: Final = 5  # what a sender, or a browser, is told to wait when nothing can be stored now


class IngestError(Exception):
    """A request or an event that is not accepted: a stable `code`, an HTTP `status`, a sentence for a person.

    `detail` names the field, the limit and the fix; it never repeats what was sent. `extra` is merged into the
    body (for example `{"limit": 1000}`).
    """

    def __init__(self, code: str, status: int, detail: str, **extra: object) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status
        self.detail = detail
        self.extra = extra


def shown_name(name: str) -> str:
    """Return a name that a sender made up as it is told back: short, and printable."""
    kept = "".join(one if one.isprintable() else "\ufffd" for one in name[:SHOWN])
    return kept if len(name) <= SHOWN else f"{kept}…"


def refusal_of(error: Exception) -> IngestError:
    """Return why one event is refused. A fault of ours refuses that event alone, and is logged by its place."""
    if isinstance(error, IngestError):
        return error
    logger.error("an event met a fault of ours and was refused", exc_info=error)
    detail = "this event met a fault of ours and was not stored; the others were. The server's log says where"
    return IngestError("internal_fault", 500, detail)
