"""Why an activation gave what it gave, beside the timeline and as a page of its own. (Seed 001 §14.)"""

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from debugger.access import get_run_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.opening import open_run
from debugger.views.panel import why_panel


@person_only
@require_GET
@vary_on_headers("HX-Request")
def why(request: HtmxHttpRequest, project: str, run_id: str, activation_id: str) -> HttpResponse:
    """The page, for htmx the panel. 404 for an activation that neither the journal nor the chain knows."""
    loaded = open_run(get_run_for(request.user, project, run_id)).about_activation(activation_id)
    context = why_panel(loaded, activation_id)
    if context["row"] is None and "why" not in context:
        raise Http404("no such activation")
    context |= {"project": loaded.run.project, "run_id": run_id, "run": loaded.run, "timeline": loaded.timeline}
    context["may_judge"] = may_act(request.user, loaded.run.project)
    return render(request, "_why.html" if wants_fragment(request) else "panel_page.html", context)
