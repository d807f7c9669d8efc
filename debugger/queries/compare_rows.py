"""What a row tells once all is taken out that differs between any two runs: ids, times, durations. Pure.

Two rows that tell the same are the same line of a comparison, whatever run they stand in. (Seed 001 §14.)
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from debugger.queries.grouping import RECEIPT
from debugger.queries.pieces import counted, one_line, said
from debugger.queries.rows import RUN, Row
from ingest.journal import JournalEvent

READ: Final = 4_000  # code points of a text that are compared
SHORTEST: Final = 4  # code points of a run id that is taken out of texts; a shorter one may be any word
SENTENCE, STATE, SENT = "sentence", "state", "sent"
# Field of an event -> what a difference in it is called.
TEXTS: Final = {
    "task": "task",
    "arguments": "arguments",
    "text": "text",
    "result": "result",
    "error_class": "kind of error",
    "detail": "error text",
    "error": "error",
    "answer": "answer",
    "query": "query",
    "block": "knowledge put in",
}
UNSEEN: Final = ("result", "query", "block")  # texts that no row shows
LINE: Final = 160  # code points of a line of such a text
COUNTS: Final = {"n_calls": "number of calls"}
WORDS: Final = {
    STATE: "how it ended",
    **TEXTS,
    SENT: "messages sent",
    **COUNTS,
    SENTENCE: "wording",
}
FIXED: Final = ("rules", "task")  # origins of messages that are compared by their content, not only by their kind
_TIME: Final = (
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?Z| UTC|[+-]\d\d:?\d\d)?|"
    r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d\b|"
    r"\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?|\b1\d{9}(?:\.\d{1,9})?\b|(?<=at )[+-]\d[\d,.]{0,12}"
)
_LONG: Final = r"\b\d{1,6}(?:\.\d{1,6})? ?(?:ms|s)\b"
_SIZE: Final = r"\b\d[\d,]{0,12} (?:tokens?|messages?)\b"  # ids count as tokens; messages are all from the start on
_ID: Final = (
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|"
    r"\b(?=[a-f]{0,63}\d)(?=\d{0,63}[a-f])[0-9a-f]{7,64}\b"
)
_DIGIT: Final = re.compile(r"\d")
_VARIES: Final = re.compile(f"(?P<id>{_ID})|(?P<time>{_TIME})|(?P<long>{_LONG})|(?P<size>{_SIZE})")
_ASKED: Final = re.compile(f"(?P<id>{_ID})|(?P<time>{_TIME})")


@dataclass(frozen=True, slots=True)
class Told:
    """A row with what it tells. `subject` is what it is about: only rows of the same are paired at all.

    `parts` are (name, text), and what two rows of the same are compared by; `asked` is what was asked of a tool.
    """

    row: Row
    subject: tuple[str, ...]
    asked: str
    parts: tuple[tuple[str, str], ...]

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        return self.subject, self.parts


def tell_rows(rows: Iterable[Row], events: Mapping[str, JournalEvent], run_id: str) -> tuple[Told, ...]:
    """Return what each row tells; `events` are the run's, by id."""
    own = own_pattern(run_id)
    return tuple(_tell(row, [events[one] for one in row.event_ids if one in events], own) for row in rows)


def unseen_differences(a: Told, b: Told) -> tuple[str, str]:
    """Return the first line of each that differs in a text which the rows do not show; empty where they show it."""
    of_a, of_b = dict(a.parts), dict(b.parts)
    name = next((name for name in UNSEEN if of_a.get(name) != of_b.get(name)), None)
    if name is None or a.asked != b.asked:  # who asks otherwise is answered otherwise
        return "", ""
    pairs = zip_longest(of_a.get(name, "").splitlines(), of_b.get(name, "").splitlines(), fillvalue="")
    one, other = next(((one, other) for one, other in pairs if one != other), ("", ""))
    return one_line(one, LINE) or "no such line", one_line(other, LINE) or "no such line"


def own_pattern(run_id: str) -> re.Pattern[str] | None:
    """Return what finds a run's id where it stands as a word of its own; None for an id that is too short for that."""
    return re.compile(rf"(?<![^\W_]){re.escape(run_id)}(?![^\W_])") if len(run_id) >= SHORTEST else None


def differences(a: Told, b: Told) -> tuple[str, ...]:
    """Return in what two rows of the same subject differ, in words; what the sentence alone tells comes only alone."""
    if a.parts == b.parts:
        return ()
    of_a, of_b = dict(a.parts), dict(b.parts)
    names = [name for name in WORDS if of_a.get(name, "") != of_b.get(name, "")]
    telling = [name for name in names if name != SENTENCE] or names
    return tuple(WORDS[name] for name in telling)


def settle(text: str, own: re.Pattern[str] | None, pattern: re.Pattern[str] = _VARIES) -> str:
    """Return `text` without the id of its run (`own`), other ids and times, each as a word of its kind."""
    text = text[:READ]
    text = own.sub("<run>", text) if own is not None else text
    if _DIGIT.search(text) is None:  # all that varies has one
        return text
    return pattern.sub(lambda found: f"<{found.lastgroup}>", text)


def _tell(row: Row, events: Sequence[JournalEvent], own: re.Pattern[str] | None) -> Told:
    in_time = sorted(events, key=lambda event: (event.occurred_ns, event.type))
    parts = {}
    for name in TEXTS:
        raw = "\n".join(filter(None, (said(event.data, name) for event in in_time)))
        if raw and row.kind != RECEIPT:
            parts[name] = settle(raw, own, _ASKED if name == "arguments" else _VARIES)
    for name in COUNTS:
        numbers = [number for event in in_time if (number := counted(event.data, name)) is not None]
        if numbers:
            parts[name] = " ".join(map(str, numbers))
    sent = [_sent(message) for event in in_time for message in _listed(event.data.get("new_messages"))]
    if sent:
        parts[SENT] = " ".join(sent)
    # The sentence shows the beginning of these texts: they are compared whole, and not twice.
    sentence = " ".join("<run>" if piece.tone == RUN else settle(piece.text, own) for piece in row.pieces)
    parts[STATE] = row.state
    parts[SENTENCE] = "" if row.kind == RECEIPT else sentence
    return Told(row, _subject(row, in_time), parts.get("arguments", ""), tuple(sorted(parts.items())))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _sent(message: Any) -> str:
    """Return what is compared of a message of a request: who says it and where it comes from, of rules the text too."""
    if not isinstance(message, dict):
        return ""
    origin = said(message, "origin")
    return f"{said(message, 'role')}:{origin}:{said(message, 'hash') if origin in FIXED else ''}"


def _subject(row: Row, events: Sequence[JournalEvent]) -> tuple[str, ...]:
    """Return the kind of a row and the tool, the server or the trigger it is about."""
    tool = next((event.tool for event in events if event.tool), "")
    server = next((event.mcp_server for event in events if event.mcp_server), "")
    trigger = next((word for event in events if (word := said(event.data, "trigger"))), "")
    return (row.kind, server or "", tool or "", trigger)
