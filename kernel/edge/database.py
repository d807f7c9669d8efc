"""Opens the kernel's own schema in PostgreSQL: its tables are made where they are absent, by one process at a time."""

from typing import Final

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

SCHEMA_LOCK: Final = 0x7465_6D70  # any number, the same in every worker
WAIT_SECONDS: Final = 20.0  # for a free connection

Pool = AsyncConnectionPool[AsyncConnection[TupleRow]]


async def open_pool(database_url: str, schema: str, max_connections: int) -> Pool:
    """Make the tables of `schema` (SQL that may run again) and return an open pool.

    Raises psycopg.Error at once when the database cannot be used.
    """
    async with await AsyncConnection.connect(database_url) as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
        await connection.execute(schema.encode())
    pool: Pool = AsyncConnectionPool(
        database_url, min_size=1, max_size=max_connections, open=False, timeout=WAIT_SECONDS
    )
    await pool.open()
    return pool
