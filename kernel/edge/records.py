"""Owns the records of conversations: rows, summaries and reports of what was heard, each written once, in one order.

Everything carries a number of one sequence, so that what was known when a turn began can be read again as it was. A
conversation sees its own rows only. Texts are redacted before they are kept. (Seed 002.)
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Final, Protocol

from contract.text import storable
from kernel.conversation.records import ConversationView, Heard, Record, Summary
from kernel.edge.clean_text import clean
from kernel.edge.database import Pool, open_pool

SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS kernel;
CREATE SEQUENCE IF NOT EXISTS kernel.record_ordinal;
CREATE TABLE IF NOT EXISTS kernel.record (
    conversation_id text NOT NULL, record_id text NOT NULL,
    ordinal bigint NOT NULL DEFAULT nextval('kernel.record_ordinal'),
    at text NOT NULL, source text NOT NULL, body text NOT NULL,
    PRIMARY KEY (conversation_id, record_id));
CREATE INDEX IF NOT EXISTS record_in_order ON kernel.record (conversation_id, ordinal);
CREATE TABLE IF NOT EXISTS kernel.record_summary (
    conversation_id text NOT NULL, anchor text NOT NULL,
    ordinal bigint NOT NULL DEFAULT nextval('kernel.record_ordinal'),
    body text NOT NULL, PRIMARY KEY (conversation_id, anchor));
CREATE TABLE IF NOT EXISTS kernel.record_heard (
    conversation_id text NOT NULL, report_key text NOT NULL,
    ordinal bigint NOT NULL DEFAULT nextval('kernel.record_ordinal'),
    record_id text NOT NULL, kind text NOT NULL, at text NOT NULL, body text NOT NULL, text_sha256 text NOT NULL,
    PRIMARY KEY (conversation_id, report_key));
"""
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 2))"
ADD_RECORD: Final = (
    "INSERT INTO kernel.record (conversation_id, record_id, at, source, body) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT DO NOTHING"
)
ADD_SUMMARY: Final = (
    "INSERT INTO kernel.record_summary (conversation_id, anchor, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
)
ADD_HEARD: Final = (
    "INSERT INTO kernel.record_heard (conversation_id, report_key, record_id, kind, at, body, text_sha256)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
BEFORE: Final = "WHERE conversation_id = %s AND ordinal < %s ORDER BY ordinal"
READ_RECORDS: Final = f"SELECT record_id, at, source, body FROM kernel.record {BEFORE}"
READ_SUMMARY: Final = f"SELECT anchor, body FROM kernel.record_summary {BEFORE} DESC LIMIT 1"
READ_HEARD: Final = f"SELECT record_id, kind, at, body, text_sha256 FROM kernel.record_heard {BEFORE}"
READ_PLACE: Final = "SELECT ordinal FROM kernel.record WHERE conversation_id = %s AND record_id = %s"
LAST: Final = 2**63 - 1

Part = Record | Summary | Heard


class RecordStore(Protocol):
    """Where conversations are kept. What was written stays, in the order it was written."""

    async def add(self, conversation: str, part: Part) -> bool:
        """Write a record, a summary or a report; False when it, or another under its id, was there before."""

    async def view(self, conversation: str, before: str = "") -> ConversationView:
        """Return what was known of a conversation, or what was when the record with the id `before` was written."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Kept:
    key: tuple[str, str, str]
    part: Part


class MemoryRecords:
    """The records of one process, for conversations that need not outlive it."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    async def add(self, conversation: str, part: Part) -> bool:
        part = _storable(part)
        key = (conversation, type(part).__name__, part_key(part))
        if any(one.key == key for one in self._kept):
            return False
        self._kept.append(_Kept(key, part))
        return True

    async def view(self, conversation: str, before: str = "") -> ConversationView:
        stop = (conversation, Record.__name__, before)
        places = (place for place, one in enumerate(self._kept) if one.key == stop)
        parts = [one.part for one in self._kept[: next(places, None)] if one.key[0] == conversation]
        summaries = [part for part in parts if isinstance(part, Summary)]
        return ConversationView(
            tuple(part for part in parts if isinstance(part, Record)),
            summaries[-1] if summaries else None,
            tuple(part for part in parts if isinstance(part, Heard)),
        )

    async def close(self) -> None:
        """Nothing is held open."""


class PostgresRecords:
    """The records in PostgreSQL, in the kernel's own schema. Make it with `open`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, database_url: str, *, max_connections: int = 4) -> "PostgresRecords":
        """Connect and make the tables where absent. Raises psycopg.Error at once when that is not possible."""
        return cls(await open_pool(database_url, SCHEMA, max_connections))

    async def add(self, conversation: str, part: Part) -> bool:
        insert, values = _insertion(_storable(part))
        async with self._pool.connection() as connection:
            # One writer at a time: numbers are then committed in their order, and no reader misses a lower one.
            await connection.execute(LOCK, (conversation,))
            return (await connection.execute(insert, (conversation, *values))).rowcount == 1

    async def view(self, conversation: str, before: str = "") -> ConversationView:
        async with self._pool.connection() as connection:
            place = await (await connection.execute(READ_PLACE, (conversation, before))).fetchone()
            scope = (conversation, LAST if place is None else place[0])
            records = await (await connection.execute(READ_RECORDS, scope)).fetchall()
            summary = await (await connection.execute(READ_SUMMARY, scope)).fetchone()
            heard = await (await connection.execute(READ_HEARD, scope)).fetchall()
        return ConversationView(
            tuple(Record(*row) for row in records),
            None if summary is None else Summary(*summary),
            tuple(Heard(*row) for row in heard),
        )

    async def close(self) -> None:
        await self._pool.close()


def part_key(part: Part) -> str:
    """Return what tells a part from the others of its kind: a second one under it is not written."""
    if isinstance(part, Record):
        return part.record_id
    if isinstance(part, Summary):
        return part.anchor
    return hashlib.sha256(json.dumps(asdict(part)).encode()).hexdigest()


def _insertion(part: Part) -> tuple[str, tuple[str, ...]]:
    if isinstance(part, Record):
        return ADD_RECORD, (part.record_id, part.at, part.source, part.text)
    if isinstance(part, Summary):
        return ADD_SUMMARY, (part.anchor, part.text)
    return ADD_HEARD, (part_key(part), part.record_id, part.kind, part.at, part.text, part.text_sha256)


def _storable(part: Part) -> Part:
    """Return the part redacted, without the characters a text column refuses."""
    return replace(part, text=storable(clean(part.text)))
