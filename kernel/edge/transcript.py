"""Owns the transcript: the append-only messages of each run, outside of workflow history. First write wins.

Beside a reply stands the outcome of the activity that wrote it, so that an activity repeated after a crash
returns what the first attempt returned and does nothing twice. Texts are kept as ASCII JSON: no character of a
tool's output can be refused by the database. (Seed 001 §15.)
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

import orjson

from kernel.core.codec import to_json
from kernel.edge.database import Pool, open_pool
from kernel.messages import Append, Message, ToolCall

GONE: Final = "a row that was in the way of a write is gone: transcripts are append-only"
SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS kernel;
CREATE TABLE IF NOT EXISTS kernel.run (
    run_id text PRIMARY KEY, record text NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS kernel.message (
    run_id text NOT NULL, seq integer NOT NULL, message text NOT NULL, outcome text NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (run_id, seq));
CREATE TABLE IF NOT EXISTS kernel.begun_call (
    run_id text NOT NULL, seq integer NOT NULL, begun_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, seq));
"""


class TranscriptGap(Exception):
    """A position that must hold a message holds none; the text names it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of the transcript and the outcome (JSON text) of the activity that wrote it, if it has one."""

    message: Message
    outcome: str = ""


class TranscriptStore(Protocol):
    """Where transcripts are kept. Positions start at 0; everything written stays as it was first written."""

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        """Write unless the position is taken; return what stands there."""

    async def entry(self, run_id: str, seq: int) -> Entry | None: ...

    async def read(self, run_id: str, stop: int, start: int = 0) -> tuple[Message, ...]:
        """Return the messages at `start`..`stop`-1. Raises TranscriptGap when one is missing."""

    async def begin_call(self, run_id: str, seq: int) -> bool:
        """Note that the call whose reply belongs at `seq` is about to be executed; False when it was noted before."""

    async def save_run(self, run_id: str, record: str) -> str:
        """Keep what preparation found (JSON text) unless it is kept already; return what is kept."""

    async def run_record(self, run_id: str) -> str | None: ...

    async def close(self) -> None: ...


async def append_all(store: TranscriptStore, run_id: str, appends: Sequence[Append]) -> None:
    """Write the messages of `appends`, copying the text where one names the position it repeats.

    Raises TranscriptGap when there is nothing to copy.
    """
    for append in appends:
        message = append.message
        if append.copy_of is not None:
            source = await store.entry(run_id, append.copy_of)
            if source is None:
                raise TranscriptGap(f"run {run_id}: nothing to copy at position {append.copy_of}")
            original = source.message
            message = replace(message, text=original.text, status=original.status, code=original.code)
        await store.write(run_id, append.seq, message)


def _gap(run_id: str, start: int, found: int) -> TranscriptGap:
    return TranscriptGap(f"run {run_id}: no message at position {start + found}")


class MemoryTranscript:
    """The transcript of one process, for runs that need not outlive it."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Entry] = {}
        self._records: dict[str, str] = {}
        self._begun: set[tuple[str, int]] = set()

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        return self._entries.setdefault((run_id, seq), Entry(message, outcome))

    async def entry(self, run_id: str, seq: int) -> Entry | None:
        return self._entries.get((run_id, seq))

    async def read(self, run_id: str, stop: int, start: int = 0) -> tuple[Message, ...]:
        found: list[Message] = []
        for seq in range(start, stop):
            entry = self._entries.get((run_id, seq))
            if entry is None:
                raise _gap(run_id, start, len(found))
            found.append(entry.message)
        return tuple(found)

    async def begin_call(self, run_id: str, seq: int) -> bool:
        fresh = (run_id, seq) not in self._begun
        self._begun.add((run_id, seq))
        return fresh

    async def save_run(self, run_id: str, record: str) -> str:
        return self._records.setdefault(run_id, record)

    async def run_record(self, run_id: str) -> str | None:
        return self._records.get(run_id)

    async def close(self) -> None:
        """Nothing is held open."""


class PostgresTranscript:
    """The transcript in PostgreSQL, in a schema of the kernel's own. Make it with `open`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, database_url: str, *, max_connections: int = 8) -> "PostgresTranscript":
        """Connect and make the tables where absent. Raises psycopg.Error at once when that is not possible."""
        return cls(await open_pool(database_url, SCHEMA, max_connections))

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        insert = (
            "INSERT INTO kernel.message (run_id, seq, message, outcome) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        )
        kept = _ascii(outcome)
        async with self._pool.connection() as connection:
            written = await connection.execute(insert, (run_id, seq, message_to_json(message), kept))
        if written.rowcount == 1:
            return Entry(message, kept)
        entry = await self.entry(run_id, seq)
        if entry is None:
            raise RuntimeError(GONE)
        return entry

    async def entry(self, run_id: str, seq: int) -> Entry | None:
        query = "SELECT message, outcome FROM kernel.message WHERE run_id = %s AND seq = %s"
        async with self._pool.connection() as connection:
            row = await (await connection.execute(query, (run_id, seq))).fetchone()
        return None if row is None else Entry(message_from_json(row[0]), row[1])

    async def read(self, run_id: str, stop: int, start: int = 0) -> tuple[Message, ...]:
        query = "SELECT seq, message FROM kernel.message WHERE run_id = %s AND seq >= %s AND seq < %s ORDER BY seq"
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(query, (run_id, start, stop))).fetchall()
        for found, seq in enumerate(range(start, stop)):
            if found >= len(rows) or rows[found][0] != seq:
                raise _gap(run_id, start, found)
        return tuple(message_from_json(text) for _, text in rows)

    async def begin_call(self, run_id: str, seq: int) -> bool:
        query = "INSERT INTO kernel.begun_call (run_id, seq) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        async with self._pool.connection() as connection:
            return (await connection.execute(query, (run_id, seq))).rowcount == 1

    async def save_run(self, run_id: str, record: str) -> str:
        insert = "INSERT INTO kernel.run (run_id, record) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        async with self._pool.connection() as connection:
            await connection.execute(insert, (run_id, _ascii(record)))
        kept = await self.run_record(run_id)
        if kept is None:
            raise RuntimeError(GONE)
        return kept

    async def run_record(self, run_id: str) -> str | None:
        async with self._pool.connection() as connection:
            cursor = await connection.execute("SELECT record FROM kernel.run WHERE run_id = %s", (run_id,))
            row = await cursor.fetchone()
        return None if row is None else str(row[0])

    async def close(self) -> None:
        await self._pool.close()


def outcome_text(outcome: object) -> str:
    """Return an activity's result as JSON text that kernel.core.codec reads back to an equal value."""
    try:
        return orjson.dumps(outcome).decode()
    except TypeError:  # half a surrogate pair, which JSON text can hold and UTF-8 cannot
        return to_json(outcome)


def message_to_json(message: Message) -> str:
    """Return the message as ASCII JSON text, whatever characters it holds."""
    return json.dumps(asdict(message))


def message_from_json(text: str) -> Message:
    """Return the message kept as `text`."""
    value: dict[str, Any] = json.loads(text)
    calls = tuple(ToolCall(**call) for call in value["calls"])
    how = value.get("status", ""), value.get("code", "")
    return Message(value["role"], value["text"], value["origin"], calls, value["call_id"], *how)


def _ascii(text: str) -> str:
    """Return JSON text without characters a text column refuses."""
    return text if text.isascii() else json.dumps(json.loads(text))
