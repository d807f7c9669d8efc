"""What the rows of a run's envelope say: its limits and safe end, asks, failed turns, time receipts, cut answers. Pure.

(Seeds 000, 002 and 003.)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract import stages
from contract.events import TERMINAL_TYPES
from debugger.queries.grouping import RECEIPT, Group
from debugger.queries.pieces import Piece, counted, one_line, plural, said
from debugger.queries.words import STATE_OF_STATUS, Words

DAY: Final = len("2026-11-30")
SAFE_COMPLETION: Final = "safe_completion"
SOURCES: Final = {"envelope": "found by the envelope, from outside", "runtime": "found by the runtime itself"}
HEARD: Final = {
    "nothing": "before any word of it was heard",
    "no_answer": "there was no answer at all",
    "unknown": "how much of it was heard is not known",
}


def limit_words(limit: str) -> str:
    """Return a limit of a run in words; one that is not known here stays as it is."""
    return stages.RUN_LIMITS.get(limit, limit.replace("_", " "))


def thinking_words(group: Group) -> Words:
    data = group.events[0].data
    kind, limit, detail = said(data, "kind"), said(data, "limit"), one_line(said(data, "detail"))
    if kind != SAFE_COMPLETION:
        shown = (Piece(one_line(kind.replace("_", " "), 60), "soft"),) if kind else ()
        return Words((Piece("Thinking", "b"), *shown, *((Piece(detail, "quiet"),) if detail else ())))
    n_receipts = counted(data, "n_receipts")
    recorded = "no result is recorded" if n_receipts == 0 else f"{plural(n_receipts or 0, 'result')} recorded"
    pieces = [Piece("Safe completion", "b"), Piece(one_line(limit_words(limit)) if limit else detail, "warn keep")]
    pieces += [Piece(recorded, "soft keep")] if n_receipts is not None else []
    return Words((*pieces, Piece("one last request without tools follows", "quiet")), "warn")


def receipt_words(group: Group) -> Words:
    data = group.events[0].data
    utc, zoned, zone = (one_line(said(data, name), 60) for name in ("utc", "zoned", "zone"))
    unix = counted(data, "unix")
    told = [Piece(utc or (f"{unix} s since 1970" if unix is not None else "no time was reported"), "mono keep")]
    is_same_day = zoned[:DAY] == utc[:DAY]  # then it is not said twice
    told += [Piece(zoned[DAY:].removeprefix("T") if is_same_day else zoned, "mono keep")] if zoned else []
    told += [Piece(zone, "quiet")] if zone else []
    return Words((Piece("Time receipt", "b"), *told), "ok" if utc or unix is not None else "plain")


def failed_turn_words(group: Group) -> Words:
    data = group.events[0].data
    code, source, error = said(data, "code"), said(data, "source"), said(data, "error")
    meaning = stages.TURN_FAILURES.get(code)
    pieces = [Piece("Turn failed", "b"), Piece(meaning or one_line(error or code) or "no reason was reported", "bad")]
    pieces += [Piece(one_line(code, 80), "mono soft")] if code else []
    pieces += [Piece(SOURCES.get(source, f"by the {one_line(source, 40)}"), "soft")] if source else []
    pieces += [Piece(one_line(error), "quiet")] if error and meaning else []
    return Words(tuple(pieces), "bad")


def cut_words(group: Group) -> Words:
    """Say where the answer before was cut, or how much of one was heard."""
    event = group.events[0]
    prefix, heard = one_line(said(event.data, "prefix")), said(event.data, "heard")
    title = Piece("The answer before was cut" if event.type == "answer.cut" else "Answer heard", "b")
    if prefix:
        place = Piece("after" if event.type == "answer.cut" else "up to", "soft keep")
        return Words((title, place, Piece(f"“{prefix}”")))
    return Words((title, Piece(HEARD.get(heard, one_line(heard.replace("_", " ")) or HEARD["unknown"]), "soft")))


def end_words(group: Group) -> Words:
    """Say how the run ended: its status, why, and what it answered."""
    event = group.events[0]
    status = TERMINAL_TYPES[event.type]
    state = STATE_OF_STATUS.get(status, "plain")
    told = ENDS.get(status, _ended)(event.data)
    return Words((Piece("Run", "b"), Piece(status.replace("_", " "), f"{state} keep"), *told), state)


def _ended(data: Mapping[str, Any]) -> Iterator[Piece]:
    why = said(data, "error") or said(data, "reason") or said(data, "limit")
    answer = said(data, "answer")
    if why or answer:
        yield Piece(one_line(why), "soft") if why else Piece(f"“{one_line(answer)}”", "quiet")


def _escalated(data: Mapping[str, Any]) -> Iterator[Piece]:
    if reviewer := said(data, "reviewer"):
        yield Piece(f"to {one_line(reviewer, 60)}", "keep")
    yield from _ended(data)
    if n_denied := counted(data, "n_denied"):
        yield Piece(f"{plural(n_denied, 'call')} after the ask denied", "soft keep")


def _limited(data: Mapping[str, Any]) -> Iterator[Piece]:
    limit, answer = said(data, "limit"), said(data, "answer")
    if why := limit_words(limit) if limit else said(data, "reason") or said(data, "error"):
        yield Piece(one_line(why), "soft")
    if answer:
        yield Piece(f"“{one_line(answer)}”", "quiet")


ENDS: Final = {"escalated": _escalated, "limit_reached": _limited}
ENVELOPE_WORDS: Final = {
    "thinking": thinking_words,
    RECEIPT: receipt_words,
    "turn.failed": failed_turn_words,
    "answer.cut": cut_words,
    "answer.heard": cut_words,
    **dict.fromkeys(TERMINAL_TYPES, end_words),
}
