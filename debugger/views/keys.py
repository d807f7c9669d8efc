"""A project's API keys: made, shown once, revoked."""

from typing import Any

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from debugger.access import get_project_for, person_only
from debugger.htmx import HtmxHttpRequest
from ingest.authentication import SCOPES, create_key, revoke_key
from ingest.models import ApiKey, Project

SCOPE_WORDS = {
    "ingest": "send events",
    "observe": "ask for hints",
    "read": "read runs and chains",
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
    form = KeyForm(request.POST)
    if not form.is_valid():
        return render(request, "keys.html", _context(request, found, form), status=400)
    key, raw = create_key(found, form.cleaned_data["name"], form.cleaned_data["scopes"])
    context = {**_context(request, found, KeyForm(initial={"scopes": ["ingest"]})), "made": key, "raw_key": raw}
    return render(request, "keys.html", context)


@person_only
@require_POST
def revoke(request: HtmxHttpRequest, project: str, key_id: int) -> HttpResponse:
    found = get_project_for(request.user, project)
    key = ApiKey.objects.filter(project=found, pk=key_id).first()
    if key is None:
        raise Http404("no such key")
    revoke_key(key)
    return redirect("keys", project=found.slug)


def _context(request: HtmxHttpRequest, project: Project, form: KeyForm) -> dict[str, Any]:
    listed = ApiKey.objects.filter(project=project).order_by("revoked_at", "-created_at")
    return {
        "project": project,
        "form": form,
        "keys": sorted(listed, key=lambda key: (key.revoked_at is not None, -key.pk)),
        "scope_words": SCOPE_WORDS,
        "events_url": request.build_absolute_uri(reverse("api-events")),
    }
