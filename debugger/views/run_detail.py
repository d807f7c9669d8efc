"""The timeline of one run, and its rows alone for filters, windows and following a run in progress. (Seed 001 §14.)"""

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET
from django_htmx.http import HTMX_STOP_POLLING, trigger_client_event

from debugger.access import GuardedRun, get_run_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest
from debugger.queries.live import Cursor, Shown
from debugger.queries.opening import BuiltRun, open_run
from debugger.queries.stored import StoredRun
from debugger.queries.timeline import FILTERS, WINDOW
from debugger.views.panel import panel_of

NOTHING_NEW: Final = 204
ENDED: Final = "run-ended"  # the name of the page's event; templates/_run_panel.html listens for it
TEXT_LIMIT: Final = 200  # code points of the filter text


@person_only
@require_GET
def run_detail(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """The page. `event` names the event whose row and panel are shown, `again` the run that this one does again."""
    opened = open_run(get_run_for(request.user, project, run_id))
    shown = _shown(request)
    event_id = request.GET.get("event", "")
    if event_id:
        shown = Shown(shown.show, shown.text, opened.start_of_event(shown, event_id))
    panel = panel_of(opened.about_panel(event_id), event_id)
    context = {**_context(opened, shown), **panel, "selected_event": event_id}
    context["may_act"] = may_act(request.user, opened.run.project)
    again = request.GET.get("again", "")[:TEXT_LIMIT]
    context["again"] = again if again != opened.run.registry.run_id else ""
    return render(request, "run_detail.html", context)


@person_only
@require_GET
def run_rows(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """The rows: without `after` a window of them; with it what is new since, 204 for nothing, 286 after the end.

    The end is also an event of the page, on which a panel that shows the run's status asks for it again.
    """
    run = get_run_for(request.user, project, run_id)
    shown = _shown(request)
    if "after" not in request.GET:
        response = render(request, "_timeline.html", _context(open_run(run), shown))
        response["HX-Replace-Url"] = _page_url(run, shown)
        return response
    cursor = Cursor(*(_number(request.GET.get(name, "")) for name in ("after", "folded", "axis")))
    if (run.registry.last_arrival, run.registry.folded_arrival) == (cursor.arrival, cursor.folded):
        return HttpResponse(status=NOTHING_NEW)
    opened = open_run(run)
    context = _context(opened, shown)
    context["changes"] = opened.changes(context["window"], cursor)
    response = render(request, "_changes.html", context, status=200 if context["is_live"] else HTMX_STOP_POLLING)
    return response if context["is_live"] else trigger_client_event(response, ENDED)


def _page_url(run: GuardedRun, shown: Shown) -> str:
    """Return the address of the page that shows the same rows, for the address bar."""
    address = reverse("run-detail", args=[run.project.slug, run.registry.run_id])
    asked = {"show": shown.show if shown.show != "all" else "", "q": shown.text, "from": shown.start or ""}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{address}?{query}" if query else address


def _shown(request: HtmxHttpRequest) -> Shown:
    show = request.GET.get("show", "all")
    return Shown(
        show if show in FILTERS else "all", request.GET.get("q", "")[:TEXT_LIMIT], _number(request.GET.get("from", ""))
    )


def _number(raw: str) -> int:
    """Return a whole number of a URL; what is none counts as 0, which shows the run from its beginning."""
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 18 else 0  # noqa: PLR2004


def _context(opened: BuiltRun | StoredRun, shown: Shown) -> dict[str, Any]:
    run, timeline = opened.run, opened.timeline
    return {
        "project": run.project,
        "run_id": run.registry.run_id,
        "header": opened.header(timezone.now()),
        "escalation": opened.escalation(),
        "timeline": timeline,
        "window": opened.window(shown),
        "strip": opened.strip,
        "strip_starts": opened.starts,
        "strip_step": WINDOW,
        "filters": [(word, label, timeline.counts[word], word == shown.show) for word, label in FILTERS.items()],
        "cursor": opened.cursor,
        "is_live": timeline.is_running or run.registry.folded_arrival < opened.cursor.arrival,
    }
