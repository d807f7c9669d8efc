"""Decides whether a note may be written as one of the present day: only on a time receipt of the same run. (Seed 000.)

Without a receipt it is refused. With one it is written, and flagged where the date it asserts is today neither in UTC
nor in the second zone: the date may be meant, so that the agent is told and decides.
"""

from collections.abc import Mapping
from typing import Any, Final

from kernel.messages import TimeReceipt
from kernel.tools.brush_operations import TAKE_TIME, Operation
from kernel.tools.clock import receipt_dates
from kernel.tools.date_claims import Claims, claims_of, claims_of_name
from kernel.tools.note_errors import NoteError

REQUIRED: Final = "time_receipt_required"
MISMATCH: Final = "date_mismatch"
CLAIMS_TOLD: Final = 5
CLAIM_CHARACTERS: Final = 40


def check_dates(operation: Operation, receipt: TimeReceipt | None) -> Mapping[str, Any]:
    """Return what the receipt of a write or append tells of its dates, nothing when it is not about today.

    Raises NoteError `time_receipt_required`.
    """
    claims = claims_of(operation.text)
    named = claims_of_name(operation.path) if operation.op == "write" else Claims()
    if not (operation.dated or claims or named):
        return {}
    if receipt is None:
        text = f"the note is about today, and this run has no time receipt: take one with {TAKE_TIME} before it"
        raise NoteError(REQUIRED, text)
    today = receipt_dates(receipt)
    wrong = (*claims.wrong(today), *named.wrong(today))
    told: dict[str, Any] = {"time_receipt": receipt.utc}
    if wrong:
        told["flag"] = MISMATCH
        told["asserted"] = [one.text[:CLAIM_CHARACTERS] for one in wrong[:CLAIMS_TOLD]]
        told["today"] = [day.isoformat() for day in today]
    return told
