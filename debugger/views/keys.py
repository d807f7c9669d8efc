"""A project's API keys: made, shown once, given a quota, revoked; and what each of them delivered."""

from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from contract.integers import INT64_MAX
from debugger.access import get_project_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest
from debugger.queries.deliveries import DAYS, describe_deliveries
from debugger.views.refusals import looking_on
from ingest.authentication import SCOPES, create_key, revoke_key, set_events_per_minute
from ingest.models import ApiKey, Project
from ingest.parameters import INT32_MAX

SCOPE_WORDS = {
    "ingest": "send events",
    "observe": "ask for hints",
    "read": "read runs and chains",
    "curate": "change knowledge items",
}


class KeyForm(forms.Form):
    """What a new key is to be called and may do."""

    name = forms.CharField(max_length=100, strip=True)
    scopes = forms.MultipleChoiceField(choices=[(scope, SCOPE_WORDS[scope]) for scope in SCOPES])


@person_only
@never_cache
@require_http_methods(["GET", "POST"])
def keys(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """List the keys; a POST makes one and is the only answer that ever shows it: its raw text is kept nowhere."""
    found = get_project_for(request.user, project)
    if request.method == "GET":
        return render(request, "keys.html", _context(request, found, KeyForm(initial={"scopes": ["ingest"]})))
    if not may_act(request.user, found):
        return _refused(request, found)
    form = KeyForm(request.POST)
    if not form.is_valid():
        return render(request, "keys.html", _context(request, found, form), status=400)
    key, raw = create_key(found, form.cleaned_data["name"], form.cleaned_data["scopes"])
    context = {**_context(request, found, KeyForm(initial={"scopes": ["ingest"]})), "made": key, "raw_key": raw}
    return render(request, "keys.html", context)


@person_only
@require_POST
def revoke(request: HtmxHttpRequest, project: str, key_id: int) -> HttpResponse:
    key = key_of(get_project_for(request.user, project), key_id)
    if not may_act(request.user, key.project):
        return _refused(request, key.project)
    revoke_key(key)
    return redirect("keys", project=key.project.slug)


class QuotaForm(forms.Form):
    """How many events a minute a key may send; nothing means the setting's number, 0 no quota."""

    events_per_minute = forms.IntegerField(min_value=0, max_value=INT32_MAX, required=False)


@person_only
@require_GET
def key_deliveries(request: HtmxHttpRequest, project: str, key_id: int) -> HttpResponse:
    """Show what became of what a key sent, so that a sender whose SDK only logs the answers finds out."""
    key = key_of(get_project_for(request.user, project), key_id)
    return render(request, "deliveries.html", _deliveries(request, key, QuotaForm()))


@person_only
@require_POST
def set_quota(request: HtmxHttpRequest, project: str, key_id: int) -> HttpResponse:
    key = key_of(get_project_for(request.user, project), key_id)
    if not may_act(request.user, key.project):
        return _refused(request, key.project)
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return render(request, "deliveries.html", _deliveries(request, key, form), status=400)
    set_events_per_minute(key, form.cleaned_data["events_per_minute"])
    return redirect("key-deliveries", project=key.project.slug, key_id=key.pk)


def _refused(request: HtmxHttpRequest, project: Project) -> HttpResponse:
    said = f"You look on in {project.name}; members who act make, change and revoke its keys."
    return looking_on(request, project, said, reverse("keys", args=[project.slug]))


def _deliveries(request: HtmxHttpRequest, key: ApiKey, form: QuotaForm) -> dict[str, Any]:
    return {
        "project": key.project,
        "may_act": may_act(request.user, key.project),
        "key": key,
        "form": form,
        "deliveries": describe_deliveries(key, timezone.now()),
        "n_days": DAYS,
        "default_quota": settings.INGEST_EVENTS_PER_MINUTE,
    }


def key_of(project: Project, key_id: int) -> ApiKey:
    """Return a key of the project. Raises Http404, also for another project's."""
    key = ApiKey.objects.select_related("project").filter(project=project, pk=min(key_id, INT64_MAX)).first()
    if key is None:
        raise Http404("no such key")
    return key


def _context(request: HtmxHttpRequest, project: Project, form: KeyForm) -> dict[str, Any]:
    listed = ApiKey.objects.filter(project=project).order_by("revoked_at", "-created_at")
    return {
        "project": project,
        "may_act": may_act(request.user, project),
        "form": form,
        "default_quota": settings.INGEST_EVENTS_PER_MINUTE,
        "keys": sorted(listed, key=lambda key: (key.revoked_at is not None, -key.pk)),
        "scope_words": SCOPE_WORDS,
        "otlp_url": request.build_absolute_uri("/").rstrip("/"),
    }
