"""A model request as it was sent, beside the timeline, as a page of its own and as a file. (Seed 001 §14, §16.3.)"""

import json
from typing import Any, Final

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.text import get_valid_filename
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from debugger.access import get_run_for, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.loading import Loaded, load
from debugger.queries.request_view import (
    build_request,
    hashes_wanted,
    model_rows,
    place_of,
    previous_of,
    told_request,
)
from ingest.messages import load_messages

LONGEST_START: Final = 6  # digits of a position


@person_only
@require_GET
@vary_on_headers("HX-Request")
def request_detail(request: HtmxHttpRequest, project: str, run_id: str, event_id: str) -> HttpResponse:
    """The page, for htmx the panel. 404 for an event that is no request to a model."""
    loaded = load(get_run_for(request.user, project, run_id))
    context = _panel(loaded, event_id, _start(request.GET.get("from", "")))
    is_side = wants_fragment(request)
    context |= {"project": loaded.run.project, "run_id": run_id, "run": loaded.run, "is_side": is_side}
    return render(request, "_request.html" if is_side else "panel_page.html", context)


@person_only
@require_GET
def request_data(request: HtmxHttpRequest, project: str, run_id: str, event_id: str) -> HttpResponse:
    """All messages of a request, whole, as a file: never shown by the browser as a page."""
    loaded = load(get_run_for(request.user, project, run_id))
    told = told_request({event.event_id: event for event in loaded.events}, event_id)
    if told is None:
        raise Http404("no such request")
    bodies = load_messages(loaded.run.project.pk, hashes_wanted(told, None))
    messages = [{**entry, **bodies.get(entry["hash"], {"text": None})} for entry in told.entries]
    told_whole = {"event_id": event_id, "missing": told.missing, "messages": messages}
    name = get_valid_filename(f"{event_id[:80]}-request.json".replace("/", "_"))
    return HttpResponse(
        json.dumps(told_whole, ensure_ascii=False, indent=2),
        content_type="application/json; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"},
    )


def _start(given: str) -> int | None:
    """Return the position that the address names, or None for one that cannot be."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= LONGEST_START else None


def _panel(loaded: Loaded, event_id: str, start: int | None) -> dict[str, Any]:
    """Return the context of a request's panel: one query for the messages, whatever their number."""
    events = {event.event_id: event for event in loaded.events}
    found = place_of(model_rows(loaded.timeline.rows), event_id)
    told = told_request(events, found[0]) if found is not None else None
    if found is None or told is None:
        raise Http404("no such request")
    place = found[1]
    before = told_request(events, previous_of(told, place))
    bodies = load_messages(loaded.run.project.pk, hashes_wanted(told, before))
    activation_ids = [one.activation_id for one in loaded.activations]
    row = next(row for row in loaded.timeline.rows if row.event_id == found[0])
    shown = build_request(told, before, place, bodies, loaded.events, activation_ids, start)
    return {
        "panel": "_request.html",
        "row": row,
        "sent": shown,
        "before_id": before.event.event_id if before is not None else previous_of(told, place),
    }
