"""A model request as it was sent, beside the timeline, as a page of its own, and as files. (Seed 001 §14, §16.3.)"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.text import get_valid_filename
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from debugger.access import GuardedRun, get_run_for, person_only
from debugger.exports import file_headers
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.opening import open_run
from debugger.queries.pieces import said
from debugger.queries.request_opening import open_request
from debugger.queries.request_reading import read_steps
from debugger.queries.request_told import Told, told_whole, told_window
from ingest.messages import load_messages

LONGEST_START: Final = 6  # digits of a position
AT_ONCE: Final = 100  # messages of a file that are read together
JSON: Final = "application/json; charset=utf-8"


@person_only
@require_GET
@vary_on_headers("HX-Request")
def request_detail(request: HtmxHttpRequest, project: str, run_id: str, event_id: str) -> HttpResponse:
    """The page, for htmx the panel. 404 for an event that is no request to a model.

    `from` is the position the window begins at; `whole` has a request of many messages read whole.
    """
    run = get_run_for(request.user, project, run_id)
    is_asked = request.GET.get("whole") == "1"
    opened = open_request(open_run(run), event_id, _position(request.GET.get("from", "")), whole=is_asked)
    if opened is None:
        raise Http404("no such request")
    context: dict[str, Any] = {"panel": "_request.html", "sent": opened.view, "row": opened.row, "run": run}
    context |= {"before_id": opened.before_id, "project": run.project, "run_id": run_id}
    context["whole_query"] = "&whole=1" if is_asked else ""
    context["is_side"] = is_side = wants_fragment(request)
    return render(request, "_request.html" if is_side else "panel_page.html", context)


@person_only
@require_GET
def request_data(request: HtmxHttpRequest, project: str, run_id: str, event_id: str) -> HttpResponse:
    """All messages of a request, whole, as a file: never shown by the browser as a page. It is read part by part."""
    run = get_run_for(request.user, project, run_id)
    told = _told(run, event_id)
    name = _file_name(event_id, "request")
    whole = StreamingHttpResponse(_written(run, told), content_type=JSON, headers=file_headers(name))
    return cast(HttpResponse, whole)  # both are answers; only the type of every view is the narrower one


@person_only
@require_GET
def request_message(request: HtmxHttpRequest, project: str, run_id: str, event_id: str, number: int) -> HttpResponse:
    """One message of a request, whole, as a file; `number` is its place from 1. 404 where there is none."""
    run = get_run_for(request.user, project, run_id)
    place = number - 1
    steps = read_steps(run, event_id, max(0, place), place + 1) if "\0" not in event_id else ()
    told = told_window(steps, event_id, number, range(place, number))
    entry = next((entry for position, entry in told.placed() if position == place), None) if told else None
    if entry is None:
        raise Http404("no such message")
    body = load_messages(run.project.pk, [entry["hash"]]).get(entry["hash"], {"text": None})
    text = json.dumps({**entry, **body}, ensure_ascii=False, indent=2)
    return HttpResponse(text, content_type=JSON, headers=file_headers(_file_name(event_id, f"message-{number}")))


def _told(run: GuardedRun, event_id: str) -> Told:
    told = told_whole(read_steps(run, event_id), event_id) if "\0" not in event_id else None
    if told is None:
        raise Http404("no such request")
    return told


def _written(run: GuardedRun, told: Told) -> Iterator[str]:
    """Yield the file: one object whose messages are read a few at a time."""
    head = json.dumps({"event_id": told.event_id, "missing": told.missing}, ensure_ascii=False, indent=2)
    yield head.removesuffix("\n}") + ',\n  "messages": ['
    for first in range(0, len(told.entries), AT_ONCE):
        yield ",\n" if first else "\n"
        yield ",\n".join(_texts(run, told.entries[first : first + AT_ONCE]))
    yield "\n]}\n"


def _texts(run: GuardedRun, entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    bodies = load_messages(run.project.pk, {said(entry, "hash") for entry in entries})
    for entry in entries:
        yield json.dumps({**entry, **bodies.get(entry["hash"], {"text": None})}, ensure_ascii=False, indent=2)


def _file_name(event_id: str, what: str) -> str:
    return get_valid_filename(f"{event_id[:80]}-{what}.json".replace("/", "_"))


def _position(given: str) -> int | None:
    """Return the position that the address names, or None for one that cannot be."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= LONGEST_START else None
