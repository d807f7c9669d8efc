"""The events of a row in full, and one event's data as a file."""

import json

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.text import get_valid_filename
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from debugger.access import get_run_for, person_only
from debugger.exports import file_headers
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.event_detail import messages_of, with_messages
from debugger.queries.opening import open_run
from debugger.views.panel import event_panel
from ingest.journal import read_named_events
from ingest.messages import load_messages


@person_only
@require_GET
@vary_on_headers("HX-Request")
def event_detail(request: HtmxHttpRequest, project: str, run_id: str, event_id: str) -> HttpResponse:
    """The page, for htmx the panel."""
    loaded = open_run(get_run_for(request.user, project, run_id)).about_event(event_id)
    if all(event.event_id != event_id for event in loaded.events):
        raise Http404("no such event")
    context = event_panel(loaded, event_id)
    context |= {"project": loaded.run.project, "run_id": run_id, "run": loaded.run, "timeline": loaded.timeline}
    return render(request, "_event.html" if wants_fragment(request) else "panel_page.html", context)


@person_only
@require_GET
def event_data(request: HtmxHttpRequest, project: str, run_id: str, event_id: str) -> HttpResponse:
    """One event's data, whole, with the messages it names, as a file: never shown by the browser as a page."""
    run = get_run_for(request.user, project, run_id)
    event = read_named_events(run.project.pk, run.registry.run_day, run_id, [event_id]).get(event_id)
    if event is None:
        raise Http404("no such event")
    name = get_valid_filename(f"{event_id[:80]}.json".replace("/", "_")) if event_id.strip("./ ") else "event.json"
    hashes = messages_of(event)
    bodies = load_messages(run.project.pk, hashes) if hashes else {}
    text = json.dumps(with_messages(event.data, bodies), ensure_ascii=False, indent=2)
    return HttpResponse(text, content_type="application/json; charset=utf-8", headers=file_headers(name))
