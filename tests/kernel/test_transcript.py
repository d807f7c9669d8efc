"""The transcript store, in memory and in PostgreSQL: first write wins, nothing a tool prints is refused."""

import asyncio

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.edge.transcript import (
    Entry,
    PostgresTranscript,
    TranscriptGap,
    TranscriptStore,
    append_all,
    message_from_json,
    message_to_json,
)
from kernel.messages import Append, Message, ToolCall

ODD = "NUL \x00, half a pair \ud800, emoji 🧵, Ω, \u2028"


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    """A run of the test's own, as the database is shared."""
    return f"r/{request.node.name}"


def tool(text: str) -> Message:
    return Message("tool", text, "tool", call_id="c1")


async def test_first_write_wins(store: TranscriptStore, run_id: str) -> None:
    """A position keeps what was first written there, with its outcome; the writer learns what stands."""
    first = await store.write(run_id, 0, tool("first"), '{"n": 1}')
    second = await store.write(run_id, 0, tool("second"), '{"n": 2}')
    assert first == second == Entry(tool("first"), '{"n": 1}')
    assert await store.entry(run_id, 0) == first
    assert await store.entry(run_id, 1) is None


async def test_racing_writers_agree(store: TranscriptStore, run_id: str) -> None:
    """Of many writers at once one wins, and all learn which."""
    entries = await asyncio.gather(*(store.write(run_id, 0, tool(str(number))) for number in range(20)))
    assert len(set(entries)) == 1


async def test_every_text_is_kept(store: TranscriptStore, run_id: str) -> None:
    """What no text column takes as it is comes back as it was."""
    message = Message("assistant", ODD, "model", (ToolCall(ODD, "shell", ODD),))
    await store.write(run_id, 0, message, '"' + "Ω" + '"')
    entry = await store.entry(run_id, 0)
    assert entry is not None
    assert entry.message == message


async def test_a_gap_is_named(store: TranscriptStore, run_id: str) -> None:
    """Reading past what was written names the position that is missing."""
    await store.write(run_id, 0, tool("a"))
    await store.write(run_id, 2, tool("c"))
    assert await store.read(run_id, 1) == (tool("a"),)
    assert await store.read(run_id, 3, 2) == (tool("c"),)
    for stop, start, missing in ((3, 0, 1), (4, 2, 3), (1 + 9, 9, 9)):
        with pytest.raises(TranscriptGap, match=f"position {missing}$"):
            await store.read(run_id, stop, start)


async def test_appends_copy_the_reply_they_repeat(store: TranscriptStore, run_id: str) -> None:
    """A copied reply has the other's text and its own call id; repeated, the appends change nothing."""
    await store.write(run_id, 0, tool("the text"))
    copied = Message("tool", "", "tool", call_id="c2")
    appends = (Append(1, copied, copy_of=0), Append(2, Message("context", "a hint", "hints")))
    for _ in range(2):
        await append_all(store, run_id, appends)
    messages = await store.read(run_id, 3)
    assert [(message.text, message.call_id) for message in messages] == [
        ("the text", "c1"),
        ("the text", "c2"),
        ("a hint", None),
    ]
    with pytest.raises(TranscriptGap):
        await append_all(store, run_id, (Append(4, copied, copy_of=3),))


async def test_a_call_begins_once(store: TranscriptStore, run_id: str) -> None:
    """Only the first attempt at a call is told to go on."""
    assert [await store.begin_call(run_id, 5) for _ in range(3)] == [True, False, False]
    assert await store.begin_call(run_id, 6)


async def test_a_run_record_is_kept_once(store: TranscriptStore, run_id: str) -> None:
    """What preparation found first is what stays."""
    assert await store.run_record(run_id) is None
    assert await store.save_run(run_id, '{"a": "Ω"}') == await store.save_run(run_id, '{"b": 2}')
    record = await store.run_record(run_id)
    assert record is not None and '"a"' in record


async def test_runs_do_not_see_each_other(store: TranscriptStore, run_id: str) -> None:
    """The same position of another run is another message."""
    await store.write(run_id, 0, tool("mine"))
    assert await store.entry(f"{run_id}-other", 0) is None


async def test_workers_starting_together_make_the_tables_once(postgres_url: str) -> None:
    """Several workers may open a database without the kernel's tables at the same moment."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as admin:
        await admin.execute("DROP DATABASE IF EXISTS kernel_fresh")
        await admin.execute("CREATE DATABASE kernel_fresh")
    fresh = psycopg.conninfo.make_conninfo(postgres_url, dbname="kernel_fresh")
    stores = await asyncio.gather(*(PostgresTranscript.open(fresh) for _ in range(5)))
    await stores[0].write("r", 0, tool("a"))
    assert await stores[4].read("r", 1) == (tool("a"),)
    await asyncio.gather(*(store.close() for store in stores))


@given(st.text(), st.text())
def test_messages_survive_json(text: str, arguments: str) -> None:
    """Any message reads back as it was, and its kept form is plain ASCII."""
    message = Message("assistant", text, "model", (ToolCall("c", "shell", arguments),))
    kept = message_to_json(message)
    assert kept.isascii() and "\x00" not in kept
    assert message_from_json(kept) == message
