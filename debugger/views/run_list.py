"""The live table of a project's runs, with its filters in the URL. (Seed 001 §14.)"""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRefresh

from contract import stages
from debugger.access import get_project_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.runs import (
    PAGE_PARAMETERS,
    WAITING,
    WITHIN,
    choices,
    has_runs,
    list_runs,
    n_before,
    read_filter,
    trigger_words,
)
from ingest.errors import IngestError
from ingest.models import Project

TEXT_FILTERS: Final = {
    "tool": "tool",
    "mcp_server": "MCP server",
    "knowledge_id": "knowledge id",
    "agent": "agent",
    "conversation": "conversation",
}
# Those that reports link with: there is a field for one that the address has, so that the form keeps it.
LINKED_FILTERS: Final = {
    "arm": "arm of a holdout",
    "experiment": "experiment",
    "version": "version of FindHints",
    "search_tool": "tool of a search",
    "search_server": "MCP server of a search",
    "since": "first received at or after",
    "until": "first received before",
}
WITHIN_WORDS: Final = {"hour": "last hour", "day": "last 24 hours", "week": "last 7 days"}
INJECTION_WORDS: Final = {"true": "with injected hints", "false": "without injected hints"}
NOTHING_NEW: Final = 204


@person_only
@require_GET
@vary_on_headers("HX-Request")
def run_list(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The page; for htmx only the table, so that a filter changes nothing else."""
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    try:
        runs = list_runs(found.pk, read_filter(params), params.get("cursor", ""))
    except IngestError as error:
        context = {**_context(request, found, params), **_form(found, params), "problem": error.detail}
        return render(request, "run_list.html", context, status=error.status)
    context = {
        **_context(request, found, params),
        "runs": runs,
        "lines": runs.lines,
        "seen": f"{runs.digest}-0",
        "has_runs": bool(runs.lines) or has_runs(found.pk),
    }
    if wants_fragment(request):
        return render(request, "_run_table.html", context)
    context["may_act"] = may_act(request.user, found)
    return render(request, "run_list.html", {**context, **_form(found, params)})


@person_only
@require_GET
def run_list_rows(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The first page's rows as they are now; 204 when the page shows them already.

    `newest` names the run shown first. Runs before it are only counted unless `fresh` says that nothing is being
    read or pointed at, so that no row moves away under a hand.
    """
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    if "first" in params:  # the page without runs waits for one
        return HttpResponseClientRefresh() if has_runs(found.pk) else HttpResponse(status=NOTHING_NEW)
    try:
        runs = list_runs(found.pk, read_filter(params))
    except IngestError as error:
        return HttpResponse(error.detail, status=error.status, content_type="text/plain")
    newest = params.get("newest", "")
    n_new = n_before(runs.lines, newest) if newest and "fresh" not in params else 0
    seen = f"{runs.digest}-{n_new}"
    if params.get("seen") == seen:
        return HttpResponse(status=NOTHING_NEW)
    lines = runs.lines[n_new:]
    context = {**_context(request, found, params), "runs": runs, "lines": lines, "n_new": n_new, "seen": seen}
    context |= {"is_update": True, "is_first_page": True}
    return render(request, "_run_rows.html", context)


def _context(request: HtmxHttpRequest, project: Project, params: dict[str, str]) -> dict[str, Any]:
    kept = request.GET.copy()
    for name in PAGE_PARAMETERS:
        if name != "within":
            kept.pop(name, None)
    return {
        "project": project,
        "params": params,
        "query": kept.urlencode(),
        "is_filtered": any(kept.values()),
        "is_first_page": not params.get("cursor"),
        "events_url": request.build_absolute_uri(reverse("api-events")),
        "otlp_url": request.build_absolute_uri("/").rstrip("/"),
    }


def _form(project: Project, params: dict[str, str]) -> dict[str, Any]:
    """Return what the filter form offers; only the whole page has it. One query."""
    injection = {"has_injection": params.get("has_injection", "")}
    triggers = trigger_words(project.pk, params.get("trigger", ""))
    return {
        "selects": {
            "status": ("any status", choices("status", stages.RUN_STATUSES, params)),
            "waiting": ("waiting or not", choices("waiting", WAITING, params)),
            "trigger": ("any trigger", choices("trigger", triggers, params)),
            "drop_reason": ("any drop reason", choices("drop_reason", stages.DROP_REASONS, params)),
            "outcome": ("any hint outcome", choices("outcome", stages.OUTCOMES, params)),
            "has_injection": ("any injection", choices("has_injection", INJECTION_WORDS, injection)),
            "within": ("any time", choices("within", {word: WITHIN_WORDS[word] for word in WITHIN}, params)),
        },
        "texts": {name: (label, params.get(name, "")) for name, label in _texts(params).items()},
    }


def _texts(params: dict[str, str]) -> dict[str, str]:
    return TEXT_FILTERS | {name: label for name, label in LINKED_FILTERS.items() if params.get(name)}
