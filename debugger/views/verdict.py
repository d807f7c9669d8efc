"""What a person says of a hint, from the panel that explains its search: helpful, harmful, neutral, or taken back.

htmx puts only answers of 2xx into a page, so the panel that tells of a refusal has status 200; as a page of its own it
has the status of what happened. (Seed 001 §13, §14.)
"""

from typing import Any, Final

from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.decorators.vary import vary_on_headers

from debugger.access import GuardedRun, get_run_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.opening import open_run
from debugger.queries.waiting import read_written
from debugger.views.panel import why_panel
from ingest.accept import rules_of
from knowledge.chains import fold_again, refresh_run
from knowledge.models import Candidate
from knowledge.signals import tell_folded
from knowledge.verdicts import REASON_LIMIT, VerdictError, say

UNSAID: Final = "none"  # what no button sends
FOLDED_AT_ONCE: Final = 5_000  # events of a run that is folded while the person waits; longer ones the sweep folds


@person_only
@require_POST
@vary_on_headers("HX-Request")
def give_verdict(request: HtmxHttpRequest, project: str, run_id: str, activation_id: str) -> HttpResponse:
    """Keep a verdict on one hint and show the panel with it. 404 for a hint that the chain does not know."""
    run = get_run_for(request.user, project, run_id)
    about: dict[str, Any] = {"project_id": run.project.pk, "run_id": run_id, "activation_id": activation_id}
    knowledge_id = _meant(Candidate.objects.filter(**about), request.POST.get("knowledge_id", ""))
    if not may_act(request.user, run.project):
        return _panel(
            request, run, activation_id, f"You may look at the runs of {project}, not judge their hints.", 403
        )
    written = read_written(request.POST.get("reason", ""), "Reason", REASON_LIMIT, rules=rules_of(run.project.pk))
    if written.error:
        return _panel(request, run, activation_id, written.error, 400)
    outcome, by = request.POST.get("outcome", UNSAID), request.user.get_username()
    try:
        say(**about, knowledge_id=knowledge_id, outcome=outcome, reason=written.text, by=by)
    except VerdictError as error:
        return _panel(request, run, activation_id, f"{str(error)[0].upper()}{str(error)[1:]}.", 400)
    fold_again(run.project.pk, run_id)
    if run.registry.last_arrival <= FOLDED_AT_ONCE and refresh_run(run.project.pk, run_id):
        tell_folded(run.project.pk, run_id)
    if wants_fragment(request):
        return _panel(request, get_run_for(request.user, project, run_id), activation_id)
    return HttpResponseRedirect(reverse("why", args=[project, run_id, activation_id]))


def _meant(candidates: QuerySet[Candidate], given: str) -> str:
    """Return the id of the hint that a form names; a browser sends the line ends of an id as it likes."""
    known = list(candidates.values_list("knowledge_id", flat=True))
    alike = [one for one in known if one.splitlines() == given.splitlines()]
    if not alike:
        raise Http404("no such hint")
    return given if given in alike else alike[0]


def _panel(
    request: HtmxHttpRequest, run: GuardedRun, activation_id: str, problem: str = "", status: int = 200
) -> HttpResponse:
    """Return the panel of the activation, with what kept the verdict from being taken."""
    run_id = run.registry.run_id
    loaded = open_run(run).about_activation(activation_id)
    context = why_panel(loaded, activation_id)
    context |= {"project": run.project, "run_id": run_id, "run": run, "timeline": loaded.timeline}
    context |= {"verdict_problem": problem, "may_judge": may_act(request.user, run.project)}
    if wants_fragment(request):
        return render(request, "_why.html", context)
    return render(request, "panel_page.html", context, status=status)
