"""Owns the opaque cursors of the read APIs: a moment and an id, so that rows which arrive meanwhile move nothing."""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Final

from ingest.errors import IngestError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def make_cursor(moment: datetime, row_id: str) -> str:
    """Return the cursor of what comes after the row of that time and id."""
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(f"{micros}:{row_id}".encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """Return (moment, id) of a cursor. Raises IngestError 400 for one that is none of ours."""
    bad = IngestError("bad_cursor", 400, "cursor must be the next of an earlier answer, unchanged", field="cursor")
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        micros, _, row_id = raw.partition(":")
        moment = EPOCH + timedelta(microseconds=int(micros))
    except (ValueError, OverflowError, binascii.Error):
        raise bad from None
    if not row_id or "\x00" in row_id:
        raise bad
    return moment, row_id
