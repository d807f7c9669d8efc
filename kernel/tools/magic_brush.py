"""Owns `magic_brush`, the one tool through which an agent reaches the notes and the clock: operations in, receipts out."""

from typing import Final

BRUSH: Final = "magic_brush"

# Added to the system message of a run that is offered the brush.
TIME_RULES: Final = (
    "Current time: you do not know today's date or the time; what you remember from training is no evidence of it, and "
    "neither is a date in a tool's description. Before you write a current date or timestamp, and before you judge "
    "whether something is recent, future, outdated or fictional, take a time receipt in this run: call "
    f"`{BRUSH}` with the operation `get_current_time`. Use the dates of the newest receipt as they stand there. "
    "A note that states today's date is refused without a receipt (`time_receipt_required`); set `dated` on a write or "
    "append whose text is about the present day. What failed in a receipt was not done: say so, never guess its result."
)
