"""Decides how far the answer of the turn before was heard; where the reports do not say, it is unknown, never guessed.

The rules, in order:

1. No answer was given: "no_answer".
2. Nothing was reported about it: it counts as heard, as written answers do.
3. A played part counts when it is the exact beginning of the spoken text and carries that text's hash, and when later
   parts are never shorter than earlier ones, by the time they were played. One that does not makes all of it "unknown".
4. A part played before a person broke in counts however late its report comes; one that goes on past that moment
   contradicts it: "unknown".
5. The longest part decides: the whole text was heard, a "prefix", or "nothing". Broken in on with no part reported is
   "unknown". Of a long prefix its end is quoted: a run's state has no room for an answer, which stands in the history.

(Seed 002.)
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kernel.conversation.records import ConversationError, Heard, Record, read_time
from kernel.messages import Cut

UNKNOWN: Final = "unknown"
PREFIX_LIMIT: Final = 2_000  # characters of a heard part that are quoted, its last: it is where the answer was cut
LEFT_OUT: Final = "…"


def find_cut(turn: Sequence[Record], owner: str, heard: Sequence[Heard]) -> Cut | None:
    """Return where the answer to the last thing the owner said was cut, None when it was heard whole.

    `turn` are the records up to now, none of them empty; only rows after the owner's last one are looked at.
    """
    if not turn:
        return None
    if turn[-1].source == owner:
        return Cut("no_answer", "", turn[-1].record_id)
    for answer in reversed(turn):
        if answer.source == owner:
            return None
        reports = [one for one in heard if one.record_id == answer.record_id]
        if reports:
            return _judge(answer, reports)
    return None


def text_hash(text: str) -> str:
    """Return the SHA-256 (hex) that binds a played part to the spoken text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _judge(answer: Record, reports: Sequence[Heard]) -> Cut | None:
    spoken = _spoken(answer, reports)
    try:
        parts = sorted((read_time(one.at), len(one.text)) for one in reports if one.kind == "played")
        stops = sorted(read_time(one.at) for one in reports if one.kind == "interrupted")
    except ConversationError:
        return Cut(UNKNOWN, "", answer.record_id)
    if spoken is None or not all(_is_part(one, spoken) for one in reports if one.kind == "played"):
        return Cut(UNKNOWN, "", answer.record_id)
    lengths = [length for _, length in parts]
    if lengths != sorted(lengths) or _goes_on(parts, stops):
        return Cut(UNKNOWN, "", answer.record_id)
    return _cut_at(answer, spoken, lengths, bool(stops))


def _cut_at(answer: Record, spoken: str, lengths: Sequence[int], interrupted: bool) -> Cut | None:
    if not lengths:
        return Cut(UNKNOWN, "", answer.record_id) if interrupted else None
    prefix = spoken[: lengths[-1]]
    if prefix.rstrip() == spoken.rstrip():
        return None
    if not prefix.strip():
        return Cut("nothing", "", answer.record_id)
    quoted = prefix if len(prefix) <= PREFIX_LIMIT else LEFT_OUT + prefix[-PREFIX_LIMIT:]
    return Cut("prefix", quoted, answer.record_id)


def _spoken(answer: Record, reports: Sequence[Heard]) -> str | None:
    """Return the text the voice was given, None when the reports disagree about it."""
    texts = {one.text for one in reports if one.kind == "spoken"} or {answer.text}
    return texts.pop() if len(texts) == 1 else None


def _is_part(report: Heard, spoken: str) -> bool:
    return report.text_sha256 == text_hash(spoken) and spoken.startswith(report.text)


def _goes_on(parts: Sequence[tuple[datetime, int]], stops: Sequence[datetime]) -> bool:
    """Whether more was played after a person broke in than before."""
    if not stops:
        return False
    before = [length for at, length in parts if at <= stops[0]]
    after = [length for at, length in parts if at > stops[0]]
    return bool(after) and after[-1] > (before[-1] if before else 0)
