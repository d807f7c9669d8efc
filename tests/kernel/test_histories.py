"""What a process knows of its transcripts: true whoever wrote them, read once, counted once, bounded."""

import pytest

from kernel.core.history import ProtocolViolation, check_history
from kernel.drivers.rendering import message_hash
from kernel.edge.histories import Histories, message_tokens
from kernel.edge.transcript import Entry, MemoryTranscript, TranscriptGap, TranscriptStore
from kernel.messages import Message, SentMessage, ToolCall

RULES = Message("system", "be careful", "rules")
TASK = Message("user", "do it", "task")
HINT = Message("context", "remember", "hints")


def calls(*call_ids: str) -> Message:
    return Message("assistant", "", "model", tuple(ToolCall(call_id, "shell", "{}") for call_id in call_ids))


def reply(call_id: str, text: str = "fine") -> Message:
    return Message("tool", text, "tool", call_id=call_id)


TURNS = (RULES, TASK, calls("c1"), reply("c1"), HINT, calls("c2", "c3"), reply("c2"), reply("c3"))


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    """A run of the test's own, as the database is shared."""
    return f"h/{request.node.name}"


async def written(store: TranscriptStore, run_id: str, *messages: Message) -> None:
    for seq, message in enumerate(messages):
        await store.write(run_id, seq, message)


class Counting(MemoryTranscript):
    """A store that notes which positions were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []

    async def read(self, run_id: str, stop: int, start: int = 0) -> tuple[Message, ...]:
        self.reads.append((start, stop))
        return await super().read(run_id, stop, start)


async def test_another_workers_writes_are_seen(store: TranscriptStore, run_id: str) -> None:
    """Two workers on one store: each sees what the other wrote, and both tell the first write of a position."""
    here, there = Histories(store), Histories(store)
    await written(here, run_id, RULES, TASK)
    assert await there.entry(run_id, 2) is None
    assert await there.message(run_id, 2) is None
    assert await there.history(run_id, 2) == (RULES, TASK)
    await there.write(run_id, 2, calls("c1"), '{"n": 1}')
    lost = await here.write(run_id, 2, calls("other"), '{"n": 2}')
    assert lost == Entry(calls("c1"), '{"n": 1}')
    assert await here.message(run_id, 2) == calls("c1")
    await here.write(run_id, 3, reply("c1"))
    for worker in (here, there):
        assert await worker.history(run_id, 4) == [RULES, TASK, calls("c1"), reply("c1")]
        assert await worker.entry(run_id, 2) == lost


async def test_a_gap_is_named_until_it_is_filled(store: TranscriptStore, run_id: str) -> None:
    """A position nobody has written yet is not remembered as empty."""
    here, there = Histories(store), Histories(store)
    await written(here, run_id, RULES, TASK)
    await here.write(run_id, 3, reply("c1"))
    with pytest.raises(TranscriptGap, match="position 2$"):
        await here.history(run_id, 4)
    await there.write(run_id, 2, calls("c1"))
    assert await here.history(run_id, 4) == (RULES, TASK, calls("c1"), reply("c1"))


async def test_a_history_is_the_messages_at_one_moment() -> None:
    """A history does not grow with its run, reads like a tuple and counts what stands in it."""
    histories = Histories(MemoryTranscript())
    await written(histories, "r", *TURNS[:5])
    history = await histories.history("r", 5)
    await histories.write("r", 5, TURNS[5])
    assert len(history) == 5
    assert list(history) == list(TURNS[:5])
    assert (history[0], history[-1], history[1:3], history[::-1]) == (RULES, HINT, TURNS[1:3], TURNS[4::-1])
    for place in (5, -6):
        with pytest.raises(IndexError):
            history[place]
    assert history != TURNS[:4] and history != TURNS and history != "rules"
    assert history.tokens == sum(message_tokens(message) for message in TURNS[:5])
    assert [history.uses(call_id) for call_id in ("c1", "c2", "c9")] == [True, False, False]


async def test_only_what_is_new_in_a_request_is_told() -> None:
    """Context messages are named from the position asked for, with the hash of each."""
    histories = Histories(MemoryTranscript())
    await written(histories, "r", RULES, TASK, HINT, calls("c1"), reply("c1"), HINT)
    history = await histories.history("r", 6)
    old, new = (SentMessage(seq, seq, message_hash(HINT)) for seq in (2, 5))
    assert [history.sent_context(start) for start in (0, 2, 3, 5, 6)] == [(old, new), (old, new), (new,), (new,), ()]
    assert (await histories.history("r", 5)).sent_context(0) == (old,)


@pytest.mark.parametrize(
    "messages",
    [
        (RULES, TASK, calls("c1")),
        (RULES, TASK, calls("c1"), HINT, reply("c1")),
        (RULES, TASK, calls("c1"), reply("c1"), calls("c1"), reply("c1")),
        (RULES, TASK, TASK),
        (RULES, TASK, reply("c1")),
    ],
)
async def test_a_history_is_as_legal_as_its_messages(messages: tuple[Message, ...]) -> None:
    """Checked as it grows, turn by turn, a history is refused with the words the whole of it is refused with."""
    histories = Histories(MemoryTranscript())
    await written(histories, "r", *messages)
    (await histories.history("r", 2)).check()
    with pytest.raises(ProtocolViolation) as whole:
        check_history(messages)
    for _ in range(2):
        with pytest.raises(ProtocolViolation) as grown:
            (await histories.history("r", len(messages))).check()
        assert str(grown.value) == str(whole.value)
    (await histories.history("r", 2)).check()


async def test_what_is_known_is_not_read_again() -> None:
    """What was written here is never read; of what another wrote only the new part is."""
    store = Counting()
    here, there = Histories(store), Histories(store)
    await written(here, "r", *TURNS[:4])
    await here.history("r", 4)
    assert store.reads == []
    await there.history("r", 4)
    await here.write("r", 4, TURNS[4])
    await there.history("r", 5)
    await there.history("r", 3)
    assert store.reads == [(0, 4), (4, 5)]
    there.forget("r")
    assert await there.history("r", 5) == TURNS[:5]
    assert store.reads[2:] == [(0, 5)]


async def test_memory_is_bounded_in_runs_and_bytes() -> None:
    """The runs used longest ago are dropped; what is dropped is read again, and the run in use always stays."""
    for bounds in ({"max_runs": 3}, {"max_bytes": 40_000}):
        histories = Histories(MemoryTranscript(), **bounds)
        for number in range(8):
            await written(histories, f"r{number}", RULES, reply("c", "x" * 10_000))
            await histories.history("r0", 2)
        assert len(histories._runs) == 3
        assert "r0" in histories._runs
        assert histories._size == sum(known.size for known in histories._runs.values())
        assert await histories.history("r1", 2) == (RULES, reply("c", "x" * 10_000))
    histories = Histories(MemoryTranscript(), max_bytes=1)
    await written(histories, "r", *TURNS)
    assert len(histories._runs["r"].messages) == len(TURNS)


async def test_tools_of_an_unprepared_run_are_a_gap() -> None:
    """A run without a record has no tools, and is asked about again the next time."""
    histories = Histories(MemoryTranscript())
    with pytest.raises(TranscriptGap, match="not prepared"):
        await histories.tools("r")
    await histories.save_run("r", '{"catalogue": {"tools": [], "servers": []}}')
    assert (await histories.tools("r")).offers == ()
