"""Reads the neighbours of one message of a request, as `requests.place_block` shows them, and of the others nothing."""

from typing import Any, Final

from debugger.access import GuardedRun
from debugger.queries.pieces import counted, said
from debugger.queries.request_reading import read_steps
from debugger.queries.request_told import hashes_of, size_told, told_window
from debugger.queries.requests import NEIGHBOURS
from ingest.messages import RebuiltRequest, load_messages

MOST: Final = 100_000  # messages a request is believed to have


def read_near(run: GuardedRun, event_id: str, position: int) -> RebuiltRequest | None:
    """Return a request with the messages around `position` whole and the others empty, None where it is not there.

    `missing` names what lacks among those around it. At most two queries, whatever the size of the request.
    """
    near = range(max(0, position - NEIGHBOURS), max(0, position) + NEIGHBOURS + 1)
    steps = read_steps(run, event_id, near.start, near.stop)
    own = next((step.data for step in steps if step.event_id == event_id), None)
    told = told_window(steps, event_id, 0, near)
    if own is None or told is None or (size := size_told(own)) > MOST:
        return None
    shown = {place: entry for place, entry in told.placed() if place in near}
    bodies = load_messages(run.project.pk, hashes_of(shown.values())) if shown else {}
    n_kept = max(0, counted(own, "n_kept") or 0)
    messages: list[dict[str, Any]] = [{"is_new": place >= n_kept} for place in range(size)]
    for place, entry in shown.items():
        if place < size:
            messages[place] = {**entry, **bodies.get(said(entry, "hash"), {"text": ""})}
    lost = [name for entry in shown.values() if (name := said(entry, "hash")) not in bodies]
    missing = (*told.missing, *lost, *(f"message {place + 1}" for place in near if place < size and place not in shown))
    return RebuiltRequest(tuple(messages), tuple(dict.fromkeys(missing)))
