"""Owns `search_records` and `read_records`: a run's look into its own conversation, older rows included.

(Seed 002.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from contract.text import clip
from kernel.conversation.records import Record
from kernel.edge.records import RecordStore
from kernel.tools.catalogue import ToolEntry, ToolResult
from kernel.tools.registry import LocalTool, RunPlace

ROWS: Final = 20  # of one answer
ROW_TEXT: Final = 600  # characters of a row that are shown
QUERY_LIMIT: Final = 200  # characters

SEARCH: Final = ToolEntry(
    "search_records",
    f"Search this conversation, older rows included, for rows that hold all words of the query; the latest {ROWS}.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "maxLength": QUERY_LIMIT}},
        "required": ["query"],
        "additionalProperties": False,
    },
    effectful=False,
)
READ: Final = ToolEntry(
    "read_records",
    f"Read up to {ROWS} rows of this conversation in order, beginning with `record_id`; without one, the latest.",
    {"type": "object", "properties": {"record_id": {"type": "string"}}, "additionalProperties": False},
    effectful=False,
)


def record_tools(store: RecordStore) -> tuple[LocalTool, ...]:
    """Return both tools over a store."""

    async def search(place: RunPlace, arguments: Mapping[str, Any]) -> ToolResult:
        words = str(arguments["query"]).casefold().split()
        if not words or len(arguments["query"]) > QUERY_LIMIT:
            return _failed(f"query must have 1 to {QUERY_LIMIT} characters and a word", "invalid_query")
        rows = await _rows(store, place)
        if rows is None:
            return NO_CONVERSATION
        found = [row for row in rows if all(word in row.text.casefold() for word in words)]
        return ToolResult("ok", "none", _shown(found[-ROWS:], len(found)))

    async def read(place: RunPlace, arguments: Mapping[str, Any]) -> ToolResult:
        rows = await _rows(store, place)
        if rows is None:
            return NO_CONVERSATION
        start, wanted = max(0, len(rows) - ROWS), arguments.get("record_id", "")
        if wanted:
            places = [number for number, row in enumerate(rows) if row.record_id == wanted]
            if not places:
                return _failed("this conversation has no row of that record_id: search for it", "record_not_found")
            start = places[0]
        return ToolResult("ok", "none", _shown(rows[start : start + ROWS], len(rows)))

    return LocalTool(SEARCH, search), LocalTool(READ, read)


async def _rows(store: RecordStore, place: RunPlace) -> Sequence[Record] | None:
    """Return the rows of the run's own conversation, None when it has none."""
    return (await store.view(place.conversation)).records if place.conversation else None


def _shown(rows: Sequence[Record], total: int) -> str:
    """Return the rows, one paragraph each, and how many there are of how many."""
    lines = [f"{row.record_id} | {row.at} | {row.source}\n{clip(row.text, ROW_TEXT)}" for row in rows]
    return "\n\n".join([f"{len(rows)} of {total} rows", *lines])


def _failed(text: str, error_class: str) -> ToolResult:
    return ToolResult("failed", "none", diagnostic=text, error_class=error_class)


NO_CONVERSATION: Final = _failed("this run is no turn of a conversation: it has no records", "no_conversation")
