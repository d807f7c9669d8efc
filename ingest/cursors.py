"""Owns the opaque cursors of the read APIs and pages: what a page ended with, as text that is sent back unchanged.

With a moment and an id rows that arrive meanwhile move nothing.
"""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Final

from ingest.errors import IngestError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def pack(text: str) -> str:
    """Return a text as an opaque cursor."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unpack(cursor: str) -> str:
    """Return the text of a cursor. Raises IngestError 400 for one that `pack` did not make, or that holds a NUL."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise bad_cursor() from None
    if not text or "\x00" in text:
        raise bad_cursor()
    return text


def bad_cursor() -> IngestError:
    return IngestError("bad_cursor", 400, "cursor must be the next of an earlier answer, unchanged", field="cursor")


def make_cursor(moment: datetime, row_id: str) -> str:
    """Return the cursor of what comes after the row of that time and id."""
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    return pack(f"{micros}:{row_id}")


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """Return (moment, id) of a cursor. Raises IngestError 400 for one that is none of ours."""
    micros, _, row_id = unpack(cursor).partition(":")
    try:
        moment = EPOCH + timedelta(microseconds=int(micros))
    except (ValueError, OverflowError):
        raise bad_cursor() from None
    if not row_id:
        raise bad_cursor()
    return moment, row_id
