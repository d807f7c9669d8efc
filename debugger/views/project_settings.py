"""A project's settings: how long it keeps its days, its own patterns of secrets, who is in it, and deleting it."""

from datetime import UTC, date, datetime
from typing import Any, Final

from django import forms
from django.contrib.auth.models import Group
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from contract.redaction_rules import compile_rules
from debugger.access import VIEWERS, get_project_for, get_run_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest
from debugger.views.refusals import looking_on, refused_page
from ingest.deletion import begin_deletion, delete_run
from ingest.models import Project, Run
from ingest.retention import FEWEST_DAYS, MOST_DAYS, first_kept_day, n_runs_over

BLANK_ROWS: Final = 2  # empty rows for new patterns


class RetentionForm(forms.Form):
    """How many whole days are kept; nothing means all. `confirm` is asked for where runs go at once."""

    days = forms.IntegerField(min_value=FEWEST_DAYS, max_value=MOST_DAYS, required=False)
    confirm = forms.BooleanField(required=False)


@person_only
@require_GET
def project_settings(request: HtmxHttpRequest, project: str) -> HttpResponse:
    return _page(request, get_project_for(request.user, project))


@person_only
@require_POST
def set_retention(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Set the days; a limit that lets runs go at the next pass is saved only when that was confirmed."""
    found = get_project_for(request.user, project)
    if not may_act(request.user, found):
        return _refused(request, found)
    form = RetentionForm(request.POST)
    if not form.is_valid():
        return _page(request, found, status=400, retention=form)
    days = form.cleaned_data["days"]
    n_over = n_runs_over(found, days) if days is not None else 0
    if n_over and not form.cleaned_data["confirm"]:
        return _page(request, found, status=400, retention=form, n_over=n_over, asked_days=days)
    Project.objects.filter(pk=found.pk).update(retention_days=days)
    return redirect("project-settings", project=found.slug)


@person_only
@require_POST
def set_redaction(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Replace the project's patterns by those of the form; a row without a pattern is left out."""
    found = get_project_for(request.user, project)
    if not may_act(request.user, found):
        return _refused(request, found)
    rows = zip(request.POST.getlist("kind"), request.POST.getlist("pattern"), strict=False)
    patterns = [{"kind": kind.strip(), "pattern": pattern} for kind, pattern in rows if kind.strip() or pattern]
    try:
        compile_rules(patterns)
    except ValueError as error:
        return _page(request, found, status=400, patterns=patterns, redaction_problem=str(error))
    Project.objects.filter(pk=found.pk).update(redaction_patterns=patterns)
    return redirect("project-settings", project=found.slug)


@person_only
@require_POST
def remove_project(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Begin the deletion of the project when its slug was typed; beat finishes it."""
    found = get_project_for(request.user, project)
    if not may_act(request.user, found):
        return _refused(request, found)
    if request.POST.get("slug", "") != found.slug:
        return _page(request, found, status=400, delete_problem=_not_typed(found))
    n_runs = Run.objects.filter(project=found).count()
    begin_deletion(found)
    Group.objects.filter(name=VIEWERS.format(slug=found.slug)).delete()
    return render(request, "deleted.html", {"what": "project", "name": found.name, "n_runs": n_runs})


@person_only
@require_POST
def remove_run(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """Delete the run when the project's slug was typed; messages that only it used follow by beat."""
    run = get_run_for(request.user, project, run_id)
    if not may_act(request.user, run.project):
        return _refused(request, run.project)
    if request.POST.get("slug", "") != run.project.slug:
        back = reverse("run-detail", args=[run.project.slug, run_id])
        return refused_page(request, run.project, _not_typed(run.project), back)
    deleted = delete_run(run.project.pk, run_id)
    context = {"project": run.project, "what": "run", "name": run_id, "n_events": deleted.n_events if deleted else 0}
    return render(request, "deleted.html", context)


def _not_typed(project: Project) -> str:
    return f"Nothing was deleted: type {project.slug} to confirm."


def _refused(request: HtmxHttpRequest, project: Project) -> HttpResponse:
    said = f"You look on in {project.name}; members who act change its settings and delete what is in it."
    return looking_on(request, project, said, reverse("project-settings", args=[project.slug]))


def _page(
    request: HtmxHttpRequest,
    project: Project,
    *,
    status: int = 200,
    retention: RetentionForm | None = None,
    patterns: list[dict[str, str]] | None = None,
    **told: Any,
) -> HttpResponse:
    viewers = set(Group.objects.filter(name=VIEWERS.format(slug=project.slug)).values_list("user__pk", flat=True))
    members = project.memberships.select_related("user").order_by("user__username")
    days = project.retention_days
    shown = patterns if patterns is not None else project.redaction_patterns
    context = {
        "project": project,
        "may_act": request.user.pk not in viewers,
        "members": [(member.user, member.user_id in viewers) for member in members],
        "retention": retention or RetentionForm(initial={"days": days}),
        "oldest_kept": _oldest_kept(days),
        "asked_oldest": _oldest_kept(told.get("asked_days")),
        "most_days": MOST_DAYS,
        "patterns": [*shown, *({"kind": "", "pattern": "", "is_example": not blank} for blank in range(BLANK_ROWS))],
        **told,
    }
    return render(request, "project_settings.html", context, status=status)


def _oldest_kept(days: int | None) -> date | None:
    return None if days is None else first_kept_day(days, datetime.now(UTC).date())
