"""Which tool calls a run made and how each ended, put together from their separate events.

A call is asked for (`tool.requested`), ends (`tool.completed`, `tool.failed`, `tool.blocked`), and may go on in the
background, in which case the operation's end is its real outcome. Any of these may be missing. (Seed 001 §5.1.)
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingest.journal import JournalEvent
from knowledge.event_data import identity, text

STATUS_OF: Final = {
    "tool.completed": "ok",
    "tool.failed": "failed",
    "tool.blocked": "blocked",
    "operation.completed": "ok",
    "operation.failed": "failed",
}
TOOL_ENDS: Final = ("tool.completed", "tool.failed", "tool.blocked")
OPERATION_ENDS: Final = ("operation.completed", "operation.failed")
WORD: Final = re.compile(r"[\w@%+=:./~-]{1,100}")
ESCAPE: Final = re.compile(r"\\.")
WORDS_LIMIT: Final = 2_000  # words read of one call's arguments
NAMES_LIMIT: Final = 100  # argument names read of one call


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `index` is its place among the run's events.

    `words` are those of its argument values, `names` the tool's and the arguments' own. `status` is ok, failed,
    blocked, cancelled (its operation was stopped with the run) or open; a `copy` was answered by an identical call
    executed in its place.
    """

    index: int
    call_id: str | None
    tool: str
    mcp_server: str | None
    turn: int | None
    status: str
    copy: bool
    requested_event_id: str | None
    ended_event_id: str | None
    ended_index: int
    requested_ns: int
    words: frozenset[str]
    names: frozenset[str]

    @property
    def said(self) -> frozenset[str]:
        """All a call holds, names and values."""
        return self.words | self.names

    @property
    def executed(self) -> bool:
        return self.status in ("ok", "failed") and not self.copy


def split_words(value: str) -> list[str]:
    """Return the words of a text or command, lower case, with flags, paths and assignments in one piece."""
    found = (match.casefold().rstrip(".:,=") for match in WORD.findall(value))
    return [word for word in found if len(word) > 1]


def read_arguments(arguments: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a call's argument values and the names of its arguments.

    Of arguments that are no valid (or a cut) JSON, all words count as values.
    """
    names: frozenset[str] = frozenset()
    try:
        value = json.loads(arguments)
        leaves = _leaves(value)
    except (ValueError, RecursionError):
        leaves = [ESCAPE.sub(" ", arguments)]
    else:
        if isinstance(value, dict):
            names = frozenset(word for key in list(value)[:NAMES_LIMIT] for word in split_words(key))
    found = [word for leaf in leaves for word in split_words(leaf)]
    return frozenset(found[:WORDS_LIMIT]), names


def tool_names(tool: str) -> frozenset[str]:
    """Return the names a tool is known by: as offered, and without the MCP server before it."""
    return frozenset(name.casefold() for name in (tool, tool.rpartition("__")[2]) if name)


def _leaves(value: Any) -> list[str]:
    found: list[str] = []
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
        elif current is not None:
            found.append(str(current))
    return found


def pair_calls(events: Sequence[JournalEvent], told_twice: Collection[int] = ()) -> list[Call]:
    """Return the calls in order, given the events in order; those at the places `told_twice` make none of their own.

    Events of one call share its call_id. An id used again, as some models do, is paired in order: the second
    request with the second end. Calls without an id are paired by tool in the same way.
    """
    requests: dict[tuple[str, str], list[int]] = {}
    ends: dict[tuple[str, str], list[int]] = {}
    operations: dict[str, int] = {}
    for index, event in enumerate(events):
        if index in told_twice:
            continue
        if event.type == "tool.requested":
            requests.setdefault(_key(event), []).append(index)
        elif event.type in TOOL_ENDS:
            ends.setdefault(_key(event), []).append(index)
        elif event.type in OPERATION_ENDS and event.call_id:
            operations.setdefault(event.call_id, index)
    calls = []
    for key in {**requests, **ends}:
        asked, ended = requests.get(key, []), ends.get(key, [])
        for place in range(max(len(asked), len(ended))):
            request = asked[place] if place < len(asked) else None
            end = ended[place] if place < len(ended) else None
            calls.append(_call(events, request, end, operations))
    return sorted(calls, key=lambda call: call.index)


def _key(event: JournalEvent) -> tuple[str, str]:
    return ("id", event.call_id) if event.call_id else ("tool", event.tool or "")


def _call(events: Sequence[JournalEvent], request: int | None, end: int | None, operations: Mapping[str, int]) -> Call:
    parts = [events[index] for index in (request, end) if index is not None]
    first = parts[0]
    operation = operations.get(first.call_id or "")
    last = operation if operation is not None else end
    status = _status(events[last]) if last is not None else "open"
    # A call that one event tells whole has its arguments there.
    words, names = read_arguments(next((said for part in parts if (said := text(part.data, "arguments"))), ""))
    tool = _said(part.tool for part in parts) or ""
    return Call(
        index=request if request is not None else end or 0,
        call_id=first.call_id,
        tool=tool,
        mcp_server=_said(part.mcp_server for part in parts),
        turn=next((part.turn for part in parts if part.turn is not None), None),
        status=status,
        copy=end is not None and identity(events[end].data, "duplicate_of") is not None,
        requested_event_id=events[request].event_id if request is not None else None,
        ended_event_id=events[last].event_id if last is not None else None,
        ended_index=last if last is not None else len(events),
        requested_ns=first.occurred_ns,
        words=words,
        names=names | tool_names(tool),
    )


def _status(end: JournalEvent) -> str:
    """Return how a call ended. A stopped operation says nothing about the call: it neither failed nor went well."""
    cancelled = end.type == "operation.failed" and text(end.data, "status") == "cancelled"
    return "cancelled" if cancelled else STATUS_OF.get(end.type, "open")


def _said(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)
