"""A request as its events tell it: references of its messages in order, what is missing, what two requests share. Pure.

(Seed 001 §16.3.)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.pieces import counted, said
from ingest.model_requests import follow_requests
from knowledge import event_data as read

READ_WHOLE: Final = 2_000  # messages up to which a request is read whole without being asked for it


@dataclass(frozen=True, slots=True)
class Step:
    """A request of a chain: `wanted` counts the messages, from its start, that the one after it kept.

    `kind` is the event's type. `data` is None where no such request is there, and `arrival` then 0.
    """

    event_id: str
    wanted: int
    arrival: int
    kind: str
    data: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Place:
    """A request among those of its run; `number` counts from 1. What does not exist is ""."""

    number: int
    n_requests: int
    previous_id: str
    next_id: str


@dataclass(frozen=True, slots=True)
class Told:
    """A request. `entries` are the references of its messages, all of them if `is_whole`, else those at `positions`.

    `missing` names the requests of its chain that are not there, `arrival` is when it came.
    """

    event_id: str
    kind: str
    arrival: int
    data: dict[str, Any]
    entries: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]
    n_messages: int
    positions: tuple[int, ...] = ()
    is_whole: bool = True

    def placed(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each position with its entry."""
        return zip(self.positions if not self.is_whole else range(len(self.entries)), self.entries, strict=True)


@dataclass(frozen=True, slots=True)
class Shared:
    """How many messages, from the first on, two requests share; the entries of both where they part, if known."""

    n_messages: int
    n_before: int
    was: dict[str, Any] | None = None
    now: dict[str, Any] | None = None


def size_told(data: dict[str, Any]) -> int:
    """Return how many messages a request says it has: those it keeps and those it adds."""
    return max(0, counted(data, "n_kept") or 0) + len(read.entries(data, "new_messages"))


def told_whole(steps: Sequence[Step], event_id: str) -> Told | None:
    """Return a request from all steps of its chain, None when it is not among them."""
    found = next((step for step in steps if step.event_id == event_id and step.data is not None), None)
    if found is None or found.data is None:
        return None
    entries, missing = follow_requests({step.event_id: step.data for step in steps if step.data is not None}, event_id)
    return Told(event_id, found.kind, found.arrival, found.data, tuple(entries), missing, len(entries))


def told_window(steps: Sequence[Step], event_id: str, n_messages: int, window: range) -> Told | None:
    """Return a request of which only the window is known, from the steps that hold it and what the request adds."""
    found = next((step for step in steps if step.event_id == event_id and step.data is not None), None)
    if found is None or found.data is None:
        return None
    placed = {
        position: {**entry, "is_new": step.event_id == event_id}
        for step in steps
        for position, entry in _added(step)
        if position in window or step.event_id == event_id
    }
    positions = tuple(sorted(placed))
    missing = tuple(step.event_id for step in steps if step.data is None)
    entries = tuple(placed[position] for position in positions)
    return Told(
        event_id, found.kind, found.arrival, found.data, entries, missing, n_messages, positions, is_whole=False
    )


def arrived_before(steps: Iterable[Step], position: int) -> int:
    """Return the arrival of the last request that has no message from `position` on, 0 where none is known."""
    ends = ((step.arrival, max((place for place, _ in _added(step)), default=-1)) for step in steps)
    return max((arrival for arrival, end in ends if end < position), default=0)


def _added(step: Step) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield position and reference of the messages a step gives to the request."""
    if step.data is None:
        return
    kept = max(0, counted(step.data, "n_kept") or 0)
    added = (entry for entry in read.entries(step.data, "new_messages") if isinstance(entry.get("hash"), str))
    for position, entry in enumerate(added, kept):
        if position < step.wanted:
            yield position, entry


def same_prefix(told: Told, before: Told) -> Shared | None:
    """Return what two requests share, None where one is not here as far as that takes.

    Messages are the same when their sender says so by their hashes, which do not depend on where a message came from;
    a sender that gives none is taken by the messages themselves. A request that was not read whole is believed.
    """
    if not told.is_whole or not before.is_whole:
        follows = said(told.data, "follows") == before.event_id
        n_kept = counted(told.data, "n_kept")
        return Shared(n_kept, before.n_messages) if follows and n_kept is not None and n_kept >= 0 else None
    if told.missing or before.missing or not told.entries or not before.entries:
        return None
    pairs = zip(told.entries, before.entries, strict=False)
    shortest = min(len(told.entries), len(before.entries))
    n_shared = next((place for place, pair in enumerate(pairs) if _sent(pair[0]) != _sent(pair[1])), shortest)
    was = before.entries[n_shared] if n_shared < len(before.entries) else None
    now = told.entries[n_shared] if was is not None and n_shared < len(told.entries) else None
    return Shared(n_shared, len(before.entries), was, now)


def _sent(entry: dict[str, Any]) -> str:
    return said(entry, "sent_hash") or said(entry, "hash")


def hashes_of(entries: Iterable[dict[str, Any]]) -> set[str]:
    return {said(entry, "hash") for entry in entries}
