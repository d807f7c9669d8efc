"""Starting a run from a page, of a scenario, a free task or again with other settings; waiting for its first event.

What a form starts is named by the form: sent twice it starts one run. (Seed 001 §14.)
"""

import time
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HTMX_STOP_POLLING

from contract.text import storable
from debugger.access import get_project_for, get_run_for, may_act, person_only
from debugger.grants import granted_to
from debugger.htmx import HtmxHttpRequest, go_to, wants_fragment
from debugger.kernel_client import NoAnswer, NotDrivenHere, RunAddress
from debugger.launching import LaunchError, Runtime
from debugger.run_bases import FREE, Scenario, earlier_base, reported_base, scenario_base, scenarios
from debugger.run_settings import ID_LIMIT, LOCALES, Base, run_id_of, spec_of
from debugger.run_starts import is_over, start
from debugger.views.refusals import looking_on
from debugger.views.run_form import RunForm, budget_rows, tool_rows, trigger_rows
from ingest.accept import rules_of
from ingest.models import Project, Run

NOTHING_NEW: Final = 204
BAD_REQUEST: Final = 400
UNAVAILABLE: Final = 503
SOON_SECONDS: Final = 30  # a run that reported nothing so long is waited for more slowly, and the page says why
PATIENCE_SECONDS: Final = 300  # and after this no more
KEPT_LISTS: Final = {
    "mcp_servers": "MCP servers",
    "members": "Members",
    "approval_tools": "Asked first",
    "blocked_tools": "Blocked tools",
    "skills": "Skills",
}
FORM_ERRORS: Final = ("key",)  # fields that nobody sees: what is wrong with them stands above the form


@person_only
@require_http_methods(["GET", "POST"])
def run_new(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The form; `scenario` or `again` in the address names what the run starts from. A POST starts the run."""
    found = get_project_for(request.user, project)
    if not may_act(request.user, found):
        said = f"You look on in {found.name}; members who act start its runs."
        return looking_on(request, found, said, reverse("run-list", args=[found.slug]))
    try:
        offered = scenarios()
    except LaunchError as error:
        return _page(request, found, [], RunForm(FREE), problem=f"The scenarios cannot be read: {error}.", status=500)
    base, problem = _base(request, found, offered)
    if request.method == "GET":
        return _page(request, found, offered, RunForm(base), problem=problem)
    form = RunForm(base, request.POST, rules=rules_of(found.pk))
    if problem:
        return _page(request, found, offered, form, problem=problem, status=UNAVAILABLE)
    if not _may_start_in(found) or not form.is_valid():
        return _page(request, found, offered, form, status=BAD_REQUEST)
    return _start(request, found, offered, form)


def _base(request: HtmxHttpRequest, project: Project, offered: list[Scenario]) -> tuple[Base, str]:
    """Return what the run starts from, and why it cannot be started from that now. Raises Http404 for what is not."""
    scenario, again = request.GET.get("scenario", ""), request.GET.get("again", "")
    if storable(again) != again:
        raise Http404("no run has such an id")
    if again:
        run = get_run_for(request.user, project.slug, again)
        try:
            return earlier_base(_runtime(), run), ""
        except NoAnswer as error:
            said = f"{error}, so it is not known how {again} was started. Try again when it does."
            return reported_base(run, error), said
    if not scenario:
        return FREE, ""
    chosen = next((one for one in offered if one.name == scenario), None)
    if chosen is None:
        raise Http404("no such scenario")
    return scenario_base(chosen), ""


def _start(request: HtmxHttpRequest, project: Project, offered: list[Scenario], form: RunForm) -> HttpResponse:
    base = form.base
    spec = spec_of(base, form.chosen())
    run_id = run_id_of(form.cleaned_data["name"], form.cleaned_data["key"], project.slug, spec)
    try:
        start(_runtime(), {**spec, "run_id": run_id}, project.slug, granted_to(spec, project.slug))
    except NoAnswer as error:
        said = f"{error}. Perhaps it was started all the same: sending this form again starts no second run."
        return _page(request, project, offered, form, problem=said, status=UNAVAILABLE)
    except LaunchError as error:
        return _page(request, project, offered, form, problem=f"Not started: {error}.", status=UNAVAILABLE)
    address = reverse("run-started", args=[project.slug, run_id])
    return redirect(f"{address}?{_again_query(base.key)}" if base.kind == "again" else address)


@person_only
@require_GET
@never_cache
@vary_on_headers("HX-Request")
def run_started(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """A run that was started and has reported nothing yet; from its first event on this leads to its timeline.

    As a fragment 204 while there is nothing to say, 286 when there is nothing to wait for. `since` is when the page
    began to wait, `state` what it says.
    """
    found = get_project_for(request.user, project)
    again = request.GET.get("again", "")[:ID_LIMIT]
    if Run.objects.filter(project_id=found.pk, run_id=run_id).exists():
        address = reverse("run-detail", args=[found.slug, run_id])
        address = f"{address}?{_again_query(again)}" if again else address
        return go_to(address) if wants_fragment(request) else redirect(address)
    since = _moment(request.GET.get("since", ""))
    context = {"project": found, "run_id": run_id, "again": again, "since": since, "state": _state(since)}
    if wants_fragment(request):
        if context["state"] == request.GET.get("state"):
            return HttpResponse(status=NOTHING_NEW)
        status = HTMX_STOP_POLLING if context["state"] == "over" else 200
        return render(request, "_run_started.html", context, status=status)
    try:
        context["has_ended"] = is_over(_runtime(), RunAddress(found.slug, run_id))
    except NotDrivenHere as error:
        raise Http404 from error
    except NoAnswer as error:
        context["problem"] = f"{error}."
    return render(request, "run_started.html", context)


def _state(since: int) -> str:
    waited = int(time.time()) - since
    return "soon" if waited < SOON_SECONDS else "late" if waited < PATIENCE_SECONDS else "over"


def _moment(raw: str) -> int:
    """Return when the page began to wait, in Unix seconds: now, when it does not say so."""
    now = int(time.time())
    return min(int(raw), now) if raw.isascii() and raw.isdigit() and len(raw) <= 12 else now  # noqa: PLR2004


def _again_query(run_id: str) -> str:
    return urlencode({"again": run_id})


def _may_start_in(project: Project) -> bool:
    return settings.RUN_PROJECT in ("", project.slug)


def _page(
    request: HtmxHttpRequest,
    project: Project,
    offered: list[Scenario],
    form: RunForm,
    *,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    base = form.base
    if form.is_bound:
        problem = problem or " ".join(
            f"The form {error}." for name in FORM_ERRORS for error in form.errors.get(name, ())
        )
    context: dict[str, Any] = {
        "project": project,
        "form": form,
        "base": base,
        "scenarios": offered,
        "remark": next((one.remark for one in offered if base.kind == "scenario" and one.name == base.key), ""),
        "problem": problem,
        "n_errors": len([name for name in form.errors if name not in FORM_ERRORS]),
        "task": form.shown("task"),
        "chosen_agent": form.shown("agent"),
        "chosen_locale": form.shown("locale"),
        "drivers": form.drivers,
        "can_start": any(not why for _, why in form.drivers.values()),
        "tools": tool_rows(form),
        "triggers": trigger_rows(form),
        "budgets": budget_rows(form),
        "locales": LOCALES,
        "granted": granted_to(base.spec, project.slug),
        "kept": _kept(base),
        "elsewhere": "" if _may_start_in(project) else settings.RUN_PROJECT,
    }
    return render(request, "run_new.html", context, status=status)


def _kept(base: Base) -> list[tuple[str, str]]:
    """Return what of the base the form does not show and the run is given all the same."""
    spec = base.spec
    lists = {label: spec.get(name) for name, label in KEPT_LISTS.items()}
    talk = spec.get("conversation")
    kept = [
        (label, ", ".join(_name(one) for one in listed))
        for label, listed in lists.items()
        if isinstance(listed, list | tuple) and listed
    ]
    kept += [("Setup", "its command makes the work folder ready")] if spec.get("setup") else []
    kept += [("Rules", "its own")] if spec.get("rules") else []
    kept += [("Task id", str(spec["task_id"]))] if spec.get("task_id") else []
    if isinstance(talk, dict):
        kept += [("Conversation", f"{talk.get('conversation_id')}: the run adds its turn to these records")]
    return kept


def _name(listed: object) -> str:
    """Return the name of a server, a member or a tool in a spec's list."""
    return str(listed.get("key") or listed.get("name")) if isinstance(listed, dict) else str(listed)


def _runtime() -> Runtime:
    return Runtime(settings.TEMPORAL_ADDRESS, settings.TEMPORAL_NAMESPACE, settings.TEMPORAL_TASK_QUEUE)
