"""Where a hint block stands in the request that carried it: its neighbours, and its text as the model read it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.pieces import one_line, plural
from ingest.messages import RebuiltRequest

NEIGHBOURS: Final = 2  # messages shown on either side of the block
GIST: Final = 160
BEFORE: Final = 20  # messages ahead of the block when its request is opened at it


@dataclass(frozen=True, slots=True)
class Placed:
    """One line of the request: a message, or (`role` is "") how many are left out. `tone`: new, block or kept."""

    role: str
    text: str
    tone: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The request around a block. `warning` says what does not fit or is missing, empty when all is well."""

    lines: tuple[Placed, ...]
    position: int
    n_messages: int
    block: str
    warning: str

    @property
    def number(self) -> int:
        """The 1-based place of the block, as the request's page counts."""
        return self.position + 1

    @property
    def window_start(self) -> int:
        """Where the request's page begins so that the block is on it, with what stood before it."""
        return max(0, self.position - BEFORE)


def place_block(request: RebuiltRequest, position: int, block: str) -> Placement:
    """Return where the block of an activation stands, given the 0-based position reported for it."""
    messages = request.messages
    if not 0 <= position < len(messages):
        missing = _missing(request) or "the position reported for the block is outside the request"
        return Placement((), position, len(messages), block, missing)
    first, last = max(0, position - NEIGHBOURS), min(len(messages), position + NEIGHBOURS + 1)
    lines = [_line(messages[index], index == position) for index in range(first, last)]
    if first:
        n_kept = sum(not message.get("is_new") for message in messages[:first])
        unchanged = ", unchanged" if n_kept == first else ""
        lines.insert(0, Placed("", f"{plural(first, 'earlier message')}{unchanged}", "kept"))
    if last < len(messages):
        lines.append(Placed("", plural(len(messages) - last, "later message"), "kept"))
    sent = str(messages[position].get("text") or "")
    warning = _missing(request)
    if block and block not in sent:
        warning = warning or "the message that was sent does not hold the block that was reported"
    return Placement(tuple(lines), position, len(messages), block or sent, warning)


def _missing(request: RebuiltRequest) -> str:
    if not request.missing:
        return ""
    return f"{plural(len(request.missing), 'part')} of this request did not arrive or was forgotten"


def _line(message: Mapping[str, Any], is_block: bool) -> Placed:
    tone = "block" if is_block else "new" if message.get("is_new") else "kept"
    tokens = message.get("tokens")
    return Placed(str(message.get("role") or "?"), _gist(message), tone, tokens if isinstance(tokens, int) else None)


def _gist(message: Mapping[str, Any]) -> str:
    text = one_line(str(message.get("text") or ""), GIST)
    calls = message.get("calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str) and calls:
        names = ", ".join(str(call.get("name")) for call in calls if isinstance(call, Mapping))
        return f"{text} · calls {names}" if text else f"calls {names}"
    return text or "(empty)"
