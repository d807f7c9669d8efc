"""What stands beside the timeline: the why of an activation, the detail of an event, or the run itself."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from debugger.queries.event_detail import EventDetail, describe
from debugger.queries.loading import Loaded
from debugger.queries.request_near import read_near
from debugger.queries.requests import Placement, place_block
from debugger.queries.span_detail import SpanDetail, describe_span, hashes_of
from debugger.queries.why import explain
from ingest.journal import JournalEvent
from ingest.messages import load_messages
from knowledge.models import Activation


def panel_of(loaded: Loaded, event_id: str) -> dict[str, Any]:
    """Return the context of the panel for the row that holds `event_id`; that of the run when no row does."""
    row = next((row for row in loaded.timeline.rows if event_id in row.event_ids), None) if event_id else None
    if row is None:
        return run_panel(loaded, is_lost=bool(event_id))
    if row.activation_id:
        return why_panel(loaded, row.activation_id)
    return event_panel(loaded, event_id)


def run_panel(loaded: Loaded, *, is_lost: bool = False) -> dict[str, Any]:
    """Return the context of the panel while no row is open; `is_lost` when the row asked for is not there."""
    summary = loaded.run.summary
    stated = {**summary.switches, **summary.limits} if summary else {}
    settings = [(str(name), str(value).lower() if isinstance(value, bool) else value) for name, value in stated.items()]
    return {"panel": "_run_panel.html", "is_lost": is_lost, "settings": settings}


def why_panel(loaded: Loaded, activation_id: str) -> dict[str, Any]:
    """Return the context of an activation's panel. Before it is folded there is only what its events say."""
    activation = next((one for one in loaded.activations if one.activation_id == activation_id), None)
    row = next((row for row in loaded.timeline.rows if row.activation_id == activation_id), None)
    events = {event.event_id: event for event in loaded.events}
    in_time = sorted((events[one] for one in row.event_ids) if row else (), key=lambda event: event.occurred_ns)
    own = _described(loaded, in_time)
    context: dict[str, Any] = {"panel": "_why.html", "activation_id": activation_id, "row": row, "own_events": own}
    if activation is None:
        return context
    candidates = [one for one in loaded.candidates if one.activation_id == activation_id]
    candidates.sort(key=lambda one: (one.rank is None, one.rank or 0, one.knowledge_id))
    context["why"] = explain(activation, candidates, loaded.timeline, events)
    context["placement"] = _placement(loaded, activation)
    return context


def _placement(loaded: Loaded, activation: Activation) -> Placement | None:
    if not activation.request_event_id or activation.position is None:
        return None
    request = read_near(loaded.run, activation.request_event_id, activation.position)
    if request is None:
        return Placement((), activation.position, 0, activation.block, "the request that carried it has not arrived")
    return place_block(request, activation.position, activation.block)


def _described(loaded: Loaded, events: Sequence[JournalEvent]) -> list[tuple[EventDetail, SpanDetail | None]]:
    """Return the events of a row, those made of foreign spans with what the span said. One query if there are any."""
    hashes = {name for event in events for name in hashes_of(event)}
    bodies = load_messages(loaded.run.project.pk, hashes) if hashes else {}
    return [(describe(event), describe_span(event, bodies)) for event in events]


def event_panel(loaded: Loaded, event_id: str) -> dict[str, Any]:
    """Return the context of the panel of any other event: all events of its row, and the activations it set off."""
    events = {event.event_id: event for event in loaded.events}
    rows = loaded.timeline.rows
    place = next((index for index, row in enumerate(rows) if event_id in row.event_ids), None)
    if place is None:  # a turn's frame has no row of its own
        return {"panel": "_event.html", "row": None, "details": _described(loaded, [events[event_id]]), "children": []}
    details = _described(loaded, [events[one] for one in rows[place].event_ids])
    children = list(takewhile(lambda row: row.is_child and not row.is_span, rows[place + 1 :]))
    return {"panel": "_event.html", "row": rows[place], "details": details, "children": children}
