"""Decides from a run's events whether it waits for a person, and for what. Pure.

An ask is open until its answer, or the end of the call it was about, stands after it; a run that ended waits for
nobody. (Seed 001 §14.)
"""

from collections.abc import Iterable
from typing import Final

from ingest.journal import JournalEvent
from knowledge.calls import TOOL_ENDS

ASKED: Final = {"approval.requested": "approval", "human.asked": "question"}
ANSWERED: Final = {"approval.decided": "approval", "human.answered": "question"}


def waiting_for(events: Iterable[JournalEvent]) -> str:
    """Return "approval", "question" or "" for a run in progress, from its events in reading order.

    A call that needs a yes comes before a question: nothing happens without it.
    """
    asked: set[tuple[str, str | None]] = set()
    for event in events:
        if event.type in ASKED:
            asked.add((ASKED[event.type], event.call_id))
        elif event.type in ANSWERED:
            asked.discard((ANSWERED[event.type], event.call_id))
        elif event.type in TOOL_ENDS and event.call_id is not None:
            asked -= {("approval", event.call_id), ("question", event.call_id)}
    return min((kind for kind, _ in asked), default="")
