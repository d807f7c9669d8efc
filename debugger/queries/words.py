"""What the sentences of all rows share: pieces with a state, and how an end, or a missing end, is told. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.grouping import Group
from debugger.queries.pieces import Piece, diagnostic_gist, said
from ingest.journal import JournalEvent

STATE_OF_STATUS: Final = {
    "completed": "ok",
    "failed": "bad",
    "cancelled": "warn",
    "escalated": "warn",
    "limit_reached": "warn",
    "running": "open",
}


@dataclass(frozen=True, slots=True)
class Words:
    """A row's sentence and its state: ok, bad, warn, hint, open, muted, plain."""

    pieces: tuple[Piece, ...]
    state: str = "plain"


def data_of(event: JournalEvent | None) -> Mapping[str, Any]:
    return event.data if event is not None else {}


def open_words(group: Group, pieces: Iterable[Piece], waiting: str, left: str) -> Words:
    """Return the words of what has not ended: it is waited for, or was left so when the run ended."""
    if group.is_left_open:
        return Words((*pieces, Piece(left, "warn")), "warn")
    return Words((*pieces, Piece(waiting, "soft")), "open")


def ending_words(last: JournalEvent) -> Words:
    """Return how a call or operation ended."""
    data = last.data
    if last.type.endswith(".completed"):
        copied = said(data, "duplicate_of")
        note = (Piece(f"answered by the identical call {copied}", "soft"),) if copied else ()
        return Words(note, "ok")
    if last.type == "tool.blocked":
        why = _with_detail(said(data, "code") or said(data, "status") or "blocked", said(data, "detail"))
        return Words((Piece("not executed", "warn keep"), Piece(why, "soft")), "warn")
    error_class = said(data, "error_class") or said(data, "status") or "failed"
    return Words((Piece(_with_detail(error_class, said(data, "detail")), "bad"),), "bad")


def _with_detail(word: str, detail: str) -> str:
    """Return what a failure said and then its word: the text is what tells two failures apart."""
    gist = diagnostic_gist(detail)
    return f"{gist} · {word}" if gist and gist != word else word
