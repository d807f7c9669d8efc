"""Keeps what a run of a conversation answered as a record of that conversation, once.

The whole answer is kept, whatever of it was heard, and nothing beside it: no mark of an interruption, no empty row.
Copied labels and retired tags go before it is written, so that a row that is read again is clean. (Seed 002.)
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta

from kernel.conversation.labels import answer_text
from kernel.conversation.records import ASSISTANT, Record, read_time
from kernel.edge.preparation import answer_id
from kernel.edge.records import RecordStore
from kernel.edge.transcript import TranscriptStore
from kernel.messages import KeepAnswer
from kernel.tools.clock import SECOND, utc_now


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
    at = (await _answered_at(store, clock_ns, command)).isoformat(timespec="seconds")
    await records.add(talk.conversation_id, Record(answer_id(command.run_id), at, ASSISTANT, text))


async def _answered_at(store: TranscriptStore, clock_ns: Callable[[], int], command: KeepAnswer) -> datetime:
    """Return when the answer was there by the conversation's own clock: as long after what was said as the run took."""
    said_at, kept = command.conversation.said_at, await store.run_record(command.run_id)
    if not said_at or kept is None:
        return utc_now(clock_ns)
    took = (clock_ns() - json.loads(kept)["prepared"]["at_ns"]) // SECOND
    try:
        return read_time(said_at) + timedelta(seconds=max(0, took))
    except OverflowError:  # said at the end of the calendar
        return read_time(said_at)


async def _whole(store: TranscriptStore, command: KeepAnswer) -> str:
    """Return the answer as the transcript has it; what travels through the run's state may be cut short."""
    entry = await store.entry(command.run_id, command.seq) if command.seq is not None else None
    return command.answer if entry is None else entry.message.text
