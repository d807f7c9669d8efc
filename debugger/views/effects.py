"""The report of effects: which moment and which knowledge helped, as far as can be told. (Seed 001 §13, §17, §18.)"""

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from contract import stages
from debugger import benchmark
from debugger.access import get_project_for, may_act, person_only, projects_for
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.behaviour_page import behaviour_page
from debugger.queries.behaviour_reports import list_reports, read_behaviour
from debugger.queries.effect_items import items_page
from debugger.queries.effect_tables import effects_table, experiments_table, items_table
from debugger.queries.effects import GROUP_WORDS, PERIOD, PERIODS, AskedWrongly, effect_page, read_asked
from debugger.queries.experiments import read_experiments
from debugger.queries.report_file import ReportProblem
from debugger.queries.runs import Choice, choices
from debugger.tasks import queue_benchmark
from debugger.views.exports import refused_file, table_file
from debugger.views.knowledge_item import number_of, reason_problem
from debugger.views.refusals import looking_on, refused_page
from knowledge import items
from knowledge.drafts import KnowledgeError

TEXT_FILTERS = {"tool": "tool", "mcp_server": "MCP server", "experiment": "experiment", "knowledge_id": "knowledge id"}
BAD_REQUEST = 400


@person_only
@require_GET
@vary_on_headers("HX-Request")
def effects(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The page; for htmx only what stands under the filters."""
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    context = {"project": found, "params": params, "verdicts": stages.VERDICTS}
    form = {
        "groups": _labelled(GROUP_WORDS, params.get("group") or "trigger"),
        "periods": _labelled(PERIODS, params.get("days") or PERIOD),
        "triggers": choices("trigger", stages.TRIGGERS, params),
        "texts": {name: (label, params.get(name, "")) for name, label in TEXT_FILTERS.items()},
        "is_filtered": any(params.values()),
    }
    try:
        asked = read_asked(params, timezone.now().date())
    except AskedWrongly as error:
        return render(request, "effects.html", {**context, **form, "problem": str(error)}, status=BAD_REQUEST)
    context["page"] = effect_page(found.pk, found.slug, asked)
    if wants_fragment(request):
        return render(request, "_effects.html", context)
    return render(request, "effects.html", {**context, **form})


def _labelled(words: Mapping[str, str], chosen: str) -> list[Choice]:
    return [Choice(word, label, "", word == chosen) for word, label in words.items()]


@person_only
@require_GET
def effect_items(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Single items beside each other, those to suspend first."""
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    periods = _labelled(PERIODS, params.get("days") or PERIOD)
    context = {"project": found, "params": params, "periods": periods, "verdicts": stages.VERDICTS}
    context["triggers"] = choices("trigger", stages.TRIGGERS, params)
    try:
        asked = read_asked(params, timezone.now().date())
    except AskedWrongly as error:
        return render(request, "effect_items.html", {**context, "problem": str(error)}, status=BAD_REQUEST)
    context |= {"page": items_page(found.pk, found.slug, asked), "may_act": may_act(request.user, found)}
    context["query"] = request.GET.urlencode()
    return render(request, "effect_items.html", context)


@person_only
@require_POST
def suspend_item(request: HtmxHttpRequest, project: str, knowledge_id: str) -> HttpResponse:
    """Suspend an item, or take that back; the reason, which is the evidence, stands in its history."""
    found = get_project_for(request.user, project)
    back = f"{reverse('effect-items', args=[found.slug])}?{QueryDict(request.POST.get('query', '')).urlencode()}"
    if not may_act(request.user, found):
        said = f"You look on in {found.name}; members who act suspend its knowledge."
        return looking_on(request, found, said, back)
    reason = request.POST.get("reason", "").strip()
    if problem := reason_problem(reason):
        return refused_page(request, found, problem, back)
    seen = number_of(request.POST.get("revision", ""))
    by, suspended = request.user.get_username(), request.POST.get("suspended") == "true"
    try:
        items.suspend_item(found, knowledge_id, suspended, by=by, reason=reason, expected_revision=seen)
    except KnowledgeError as error:
        return refused_page(request, found, f"Nothing was changed: {error}.", back)
    return redirect(back)


@person_only
@require_GET
def experiments(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """What withholding on purpose showed, and the reports of the behavioural benchmark that were left here."""
    found = get_project_for(request.user, project)
    context = {
        "project": found,
        "page": read_experiments(found.pk, found.slug, timezone.now().date()),
        "reports": list_reports(Path(settings.EXPERIMENTS_DIR)),
        "running": benchmark.running(),
        "last_problem": benchmark.last_problem(),
        "may_run": request.user.is_staff and benchmark.is_possible(),
        "verdicts": stages.VERDICTS,
    }
    return render(request, "experiments.html", context)


@person_only
@require_POST
def start_benchmark(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Start the benchmark, which makes projects of its own: for those who keep the installation, one at a time."""
    found = get_project_for(request.user, project)
    back = reverse("experiments", args=[found.slug])
    if not request.user.is_staff:
        return looking_on(request, found, "The benchmark is started by those who keep this installation.", back)
    if not benchmark.is_possible():
        return refused_page(request, found, "Nothing was started: it runs beside a stack that `make up` started.", back)
    if not benchmark.claim(request.user.get_username()):
        return refused_page(request, found, "Nothing was started: a benchmark is under way already.", back)
    if not queue_benchmark():
        benchmark.release()
        return refused_page(request, found, "Nothing was started: the queue does not take tasks now.", back)
    return redirect(back)


@person_only
@require_GET
def behaviour(request: HtmxHttpRequest, project: str, name: str) -> HttpResponse:
    """One report of the benchmark. Raises Http404 for none of that name."""
    found = get_project_for(request.user, project)
    problem = ""
    page = None
    try:
        report = read_behaviour(Path(settings.EXPERIMENTS_DIR), name)
        if report is None:
            raise Http404("no such report")
        page = behaviour_page(report, {each.slug for each in projects_for(request.user)})
    except ReportProblem as error:
        problem = str(error)
    return render(request, "behaviour.html", {"project": found, "page": page, "name": name, "problem": problem})


@person_only
@require_GET
def effects_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The groups of a report as a file."""
    found = get_project_for(request.user, project)
    params = {name: value for name, value in request.GET.dict().items() if name != "form"}
    try:
        page = effect_page(found.pk, found.slug, read_asked(params, timezone.now().date()))
    except AskedWrongly as error:
        return refused_file(str(error), BAD_REQUEST)
    return table_file(request, effects_table(page, params))


@person_only
@require_GET
def effect_items_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The items of a report as a file."""
    found = get_project_for(request.user, project)
    params = {name: value for name, value in request.GET.dict().items() if name != "form"}
    try:
        page = items_page(found.pk, found.slug, read_asked(params, timezone.now().date()))
    except AskedWrongly as error:
        return refused_file(str(error), BAD_REQUEST)
    return table_file(request, items_table(page, params))


@person_only
@require_GET
def experiments_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The experiments as a file."""
    found = get_project_for(request.user, project)
    return table_file(request, experiments_table(read_experiments(found.pk, found.slug, timezone.now().date())))
