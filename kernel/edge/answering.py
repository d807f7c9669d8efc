"""Keeps what a run of a conversation answered as a record of that conversation, once.

The whole answer is kept, whatever of it was heard, and nothing beside it: no mark of an interruption, no empty row.
Copied labels and retired tags go before it is written, so that a row that is read again is clean. (Seed 002.)
"""

from collections.abc import Callable
from datetime import UTC, datetime

from kernel.conversation.labels import answer_text
from kernel.conversation.records import ASSISTANT, Record
from kernel.edge.preparation import SECOND, answer_id, moment_of
from kernel.edge.records import RecordStore
from kernel.edge.transcript import TranscriptStore
from kernel.messages import KeepAnswer


async def keep_answer(
    store: TranscriptStore, records: RecordStore, clock_ns: Callable[[], int], command: KeepAnswer
) -> None:
    """Write the answer; repeated, or for an answer without a word, write nothing."""
    talk = command.conversation
    view = await records.view(talk.conversation_id)
    sources = {talk.owner, ASSISTANT, *(record.source for record in view.records)}
    text = answer_text(await _whole(store, command), sources)
    if not text:
        return
    # The row's own offset is that of the place the conversation is held at.
    zone = moment_of(talk, clock_ns).tzinfo or UTC
    at = datetime.fromtimestamp(clock_ns() // SECOND, zone).isoformat(timespec="seconds")
    await records.add(talk.conversation_id, Record(answer_id(command.run_id), at, ASSISTANT, text))


async def _whole(store: TranscriptStore, command: KeepAnswer) -> str:
    """Return the answer as the transcript has it; what travels through the run's state may be cut short."""
    entry = await store.entry(command.run_id, command.seq) if command.seq is not None else None
    return command.answer if entry is None else entry.message.text
