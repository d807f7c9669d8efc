"""The timeline of one run, and its rows alone for filters, windows and following a run in progress. (Seed 001 §14.)"""

from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET
from django_htmx.http import HTMX_STOP_POLLING, trigger_client_event

from debugger.access import GuardedRun, get_run_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest
from debugger.queries.conversation import talk_of
from debugger.queries.drawing import Drawing, read_drawing, read_place, span_of
from debugger.queries.live import Changes, Cursor, Shown, Window
from debugger.queries.opening import BuiltRun, open_run
from debugger.queries.stored import StoredRun
from debugger.queries.strip import gaps_of, paths_of, redrawn, start_at
from debugger.queries.timeline import FILTERS
from debugger.views.panel import panel_of

NOTHING_NEW: Final = 204
ENDED: Final = "run-ended"  # the name of the page's event; templates/_run_panel.html listens for it
TEXT_LIMIT: Final = 200  # code points of the filter text


@person_only
@require_GET
def run_detail(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """The page. `event` names the event whose row and panel are shown, `again` the run that this one does again.

    `zoom` is a part of the strip, as places on it; the answer leads to the address of that part in milliseconds.
    """
    opened = open_run(get_run_for(request.user, project, run_id))
    shown, drawing = _shown(request), read_drawing(request.GET, opened.timeline.axis)
    if "zoom" in request.GET:
        return HttpResponseRedirect(_page_url(opened.run, _shown_in(opened, shown, drawing), drawing))
    event_id = request.GET.get("event", "")
    if event_id:
        shown = Shown(shown.show, shown.text, opened.start_of_event(shown, event_id))
    panel = panel_of(opened.about_panel(event_id), event_id)
    context = {**_context(opened, shown, drawing), **panel, "selected_event": event_id}
    context["may_act"] = may_act(request.user, opened.run.project)
    again = request.GET.get("again", "")[:TEXT_LIMIT]
    context["again"] = again if again != opened.run.registry.run_id else ""
    return render(request, "run_detail.html", context)


@person_only
@require_GET
def run_rows(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """The rows: without `after` a window of them; with it what is new since, 204 for nothing, 286 after the end.

    `from` is the window's first row, or `at` a place on the strip that it is to begin with.

    The end is also an event of the page, on which a panel that shows the run's status asks for it again.
    """
    run = get_run_for(request.user, project, run_id)
    shown = _shown(request)
    if "after" not in request.GET:
        opened = open_run(run)
        drawing = read_drawing(request.GET, opened.timeline.axis)
        place = read_place(request.GET.get("at", ""))
        if place is not None:
            shown = _shown_at(opened, shown, drawing.whole(opened.timeline.axis).time_at(place))
        response = render(request, "_timeline.html", _context(opened, shown, drawing))
        response["HX-Replace-Url"] = _page_url(run, shown, drawing)
        return response
    cursor = Cursor(*(_number(request.GET.get(name, "")) for name in ("after", "folded", "axis")))
    if (run.registry.last_arrival, run.registry.folded_arrival) == (cursor.arrival, cursor.folded):
        return HttpResponse(status=NOTHING_NEW)
    opened = open_run(run)
    drawing = read_drawing(request.GET, opened.timeline.axis)
    context = _context(opened, shown, drawing)
    plain = drawing.is_plain
    context["changes"] = opened.changes(context["window"], cursor) if plain else Changes(anew=True)
    response = render(request, "_changes.html", context, status=200 if context["is_live"] else HTMX_STOP_POLLING)
    return response if context["is_live"] else trigger_client_event(response, ENDED)


def _page_url(run: GuardedRun, shown: Shown, drawing: Drawing) -> str:
    """Return the address of the page that shows the same rows, for the address bar."""
    address = reverse("run-detail", args=[run.project.slug, run.registry.run_id])
    asked = {"show": shown.show if shown.show != "all" else "", "q": shown.text, "from": shown.start or ""}
    query = urlencode({name: value for name, value in asked.items() if value} | dict(drawing.query))
    return f"{address}?{query}" if query else address


def _shown(request: HtmxHttpRequest) -> Shown:
    show = request.GET.get("show", "all")
    return Shown(
        show if show in FILTERS else "all", request.GET.get("q", "")[:TEXT_LIMIT], _number(request.GET.get("from", ""))
    )


def _shown_at(opened: BuiltRun | StoredRun, shown: Shown, time_ns: int) -> Shown:
    """Return the window of all rows that begins at a time; a filter's rows are shown from their first."""
    if shown.show != "all" or shown.text.split():
        return shown
    place, _ = opened.timeline.axis.place(time_ns, None)
    return Shown(shown.show, shown.text, start_at(opened.starts, place))


def _shown_in(opened: BuiltRun | StoredRun, shown: Shown, drawing: Drawing) -> Shown:
    return _shown_at(opened, shown, drawing.axis(opened.timeline.axis).start_ns) if drawing.part else shown


def _number(raw: str) -> int:
    """Return a whole number of a URL; what is none counts as 0, which shows the run from its beginning."""
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 18 else 0  # noqa: PLR2004


def _context(opened: BuiltRun | StoredRun, shown: Shown, drawing: Drawing) -> dict[str, Any]:
    run, timeline = opened.run, opened.timeline
    window = opened.window(shown)
    return {
        "project": run.project,
        "run_id": run.registry.run_id,
        "header": opened.header(timezone.now()),
        "talk": talk_of(run),
        "escalation": opened.escalation(),
        "timeline": timeline,
        "window": drawing.window(window, timeline.axis),
        **_drawn(opened, window, drawing),
        "filters": [(word, label, timeline.counts[word], word == shown.show) for word, label in FILTERS.items()],
        "cursor": opened.cursor,
        "is_live": timeline.is_running or run.registry.folded_arrival < opened.cursor.arrival,
    }


def _drawn(opened: BuiltRun | StoredRun, window: Window, drawing: Drawing) -> dict[str, Any]:
    """Return what the strip, the axis and the links between ways to draw them need."""
    axis, shown = opened.timeline.axis, window.shown
    whole, part = drawing.whole(axis), drawing.axis(axis)
    rows = span_of(window, axis) if window.n_rows < opened.timeline.counts["all"] else None

    def address(way: Drawing) -> str:
        return _page_url(opened.run, shown, way)

    return {
        "drawing": drawing,
        "drawn_query": "".join(f"&{name}={value}" for name, value in drawing.query.items()),
        "strip": paths_of(redrawn(opened.strip, axis, whole) if drawing.in_full else opened.strip),
        "strip_gaps": gaps_of(axis, whole),
        "strip_part": whole.place(part.start_ns, part.end_ns) if drawing.part else None,
        "axis": part,
        "part_ns": (part.start_ns - axis.start_ns, part.end_ns - axis.start_ns),
        "zoom_address": address(replace(drawing, part=rows)) if rows and rows != drawing.part else "",
        "whole_address": address(replace(drawing, part=None)),
        "idle_address": address(replace(drawing, in_full=not drawing.in_full)),
    }
