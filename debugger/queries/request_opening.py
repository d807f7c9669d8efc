"""Opens a request for its page: its place, its chain, what it is compared with, and previews of what is shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.conversation import run_before, talk_of
from debugger.queries.opening import BuiltRun
from debugger.queries.pieces import counted, said
from debugger.queries.request_message import HINT_ORIGINS, activations_in_blocks
from debugger.queries.request_place import find_request, last_request
from debugger.queries.request_reading import (
    ALL,
    read_kept,
    read_outlines,
    read_previews,
    read_receipts,
    read_steps,
)
from debugger.queries.request_told import (
    READ_WHOLE,
    Place,
    Step,
    Told,
    arrived_before,
    hashes_of,
    same_prefix,
    size_told,
    told_whole,
    told_window,
)
from debugger.queries.request_view import Around, Before, RequestView, build_request, window_of
from debugger.queries.rows import Row
from debugger.queries.stored import StoredRun
from ingest.models import Event
from knowledge.models import Activation

BEHIND: Final = 20  # messages ahead of a window that are read too: the calls that it answers
SPEAKS: Final = ("system", "developer", "user", "tool", "function", "context")  # roles that make no calls


@dataclass(frozen=True, slots=True)
class Opened:
    """A request's page. `before_id` is the request it is compared with, "" for none, be it here or not."""

    view: RequestView
    row: Row
    before_id: str


def open_request(opened: BuiltRun | StoredRun, event_id: str, start: int | None, *, whole: bool) -> Opened | None:
    """Return the page of the request that an event belongs to, None where it is none.

    One of more than READ_WHOLE messages is read whole only if `whole` says so, or if the window is not there.
    """
    found = find_request(opened, event_id) if "\0" not in event_id else None
    if found is None:
        return None
    steps = read_steps(opened.run, found.row.event_id, ALL - 1)
    told = told_whole(steps, found.row.event_id)
    if told is None:
        return None
    steps, told = _read(opened, steps, told, start, whole=whole)
    before_id = said(told.data, "follows") or found.place.previous_id
    befores = (_before(opened, steps, told, before_id), _of_run_before(opened, told, found.place))
    around = _around(opened, steps, told, befores, window_of(told.n_messages, start))
    return Opened(build_request(told, befores, found.place, around, start), found.row, before_id)


def _read(
    opened: BuiltRun | StoredRun, steps: tuple[Step, ...], told: Told, start: int | None, *, whole: bool
) -> tuple[tuple[Step, ...], Told]:
    """Return the steps and messages of a request of which its own step is known: all, or those of the window."""
    size = size_told(told.data)
    if not whole and size > READ_WHOLE:
        window = window_of(size, start)
        near = range(max(0, window.start - BEHIND), min(window.stop, ALL))
        held = read_steps(opened.run, told.event_id, near.start, near.stop)
        part = told_window(held, told.event_id, size, near)
        if part is not None and set(window) <= set(part.positions):
            return held, part
    if counted(told.data, "n_kept"):
        steps = read_steps(opened.run, told.event_id)
    return steps, told_whole(steps, told.event_id) or told


def _before(opened: BuiltRun | StoredRun, steps: Sequence[Step], told: Told, before_id: str) -> Before | None:
    """Return the request to compare with; it is read unless the chain of `told` holds all of it."""
    if not before_id:
        return None
    if not told.is_whole:
        own = read_steps(opened.run, before_id, ALL - 1)
        before = told_whole(own, before_id)
        known = told_window(own, before_id, size_told(before.data), range(0)) if before else None
        return Before(known) if known else None
    held = told_whole(steps, before_id)
    if held is None or said(told.data, "follows") != before_id or (counted(told.data, "n_kept") or 0) < held.n_messages:
        held = told_whole(read_steps(opened.run, before_id), before_id)
    return Before(held) if held else None


def _of_run_before(opened: BuiltRun | StoredRun, told: Told, place: Place) -> Before | None:
    """Return the last request of the conversation's run before, for the first request of a run that was read whole."""
    talk = talk_of(opened.run) if place.number == 1 and told.is_whole else None
    run = run_before(opened.run, talk) if talk else None
    event_id = last_request(run.project.pk, run.registry.run_day, run.registry.run_id) if run else ""
    if run is None or not event_id:
        return None
    before = told_whole(read_steps(run, event_id), event_id)
    return Before(before, run.registry.run_id) if before else None


def _around(
    opened: BuiltRun | StoredRun, steps: Sequence[Step], told: Told, befores: Iterable[Before | None], window: range
) -> Around:
    """Read what is shown beside the references: previews in the window, of the others only what is counted."""
    project_id = opened.run.project.pk
    entries = [entry for position, entry in told.placed() if position in window or not told.is_whole]
    shared = [same_prefix(told, before.told) for before in befores if before is not None]
    parted = [entry for one in shared if one is not None for entry in (one.was, one.now) if entry is not None]
    shown = hashes_of(entries) | hashes_of(parted)
    others = [entry for entry in told.entries if said(entry, "hash") not in shown]
    counted_ones = hashes_of(one for one in others if said(one, "role") not in SPEAKS or one.get("tokens") is None)
    previews = read_previews(project_id, shown)
    bodies = {**read_outlines(project_id, counted_ones), **previews}
    kept = read_kept(project_id, hashes_of(others) - counted_ones)
    call_ids = {call_id for entry in entries if (call_id := said(entry, "call_id"))}
    since = arrived_before(steps, window.start)
    return Around(
        bodies=bodies,
        kept=frozenset(bodies) | kept,
        receipts=read_receipts(opened.run, call_ids, since, told.arrival),
        activations=_activations(opened, previews.values()),
        tools=_tools(opened),
    )


def _activations(opened: BuiltRun | StoredRun, messages: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the activations of the run by how they stand in a block; not read where no message holds hints."""
    if not any(said(message, "origin") in HINT_ORIGINS for message in messages):
        return {}
    key = {"project_id": opened.run.project.pk, "run_id": opened.run.registry.run_id}
    return activations_in_blocks(Activation.objects.filter(**key).values_list("activation_id", flat=True))


def _tools(opened: BuiltRun | StoredRun) -> tuple[str, ...]:
    """Return the tools that the run named when it started."""
    if isinstance(opened, BuiltRun):
        data = next((event.data for event in opened.loaded.events if event.type == "run.started"), {})
    elif opened.timeline.foreign is not None:
        data = {}
    else:
        registry = opened.run.registry
        events = Event.objects.filter(
            project_id=opened.run.project.pk, run_day=registry.run_day, run_id=registry.run_id
        )
        started = events.filter(type="run.started").order_by("arrival").values_list("data", flat=True).first()
        data = started or {}
    names = data.get("tools")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
