"""The list of a project's knowledge, its export as files, and the import of the shipped starter set. (Seed 001 §7.)"""

from typing import Any, Final, cast

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from contract import stages
from debugger.access import get_project_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.knowledge_list import SORTS, WORDS, has_items, list_items, read_filter
from debugger.queries.runs import Choice, choices
from debugger.views.refusals import looking_on
from ingest.errors import IngestError
from ingest.models import Project
from knowledge.exchange.downloads import FORMS, download
from knowledge.exchange.starter import starter_drafts
from knowledge.items import import_items

ANY: Final = {"state": "any state", "kind": "any kind", "suspended": "suspended?", "fires": "fires?"}
FLAG_WORDS: Final = {"true": "suspended", "false": "not suspended"}
FIRES_WORDS: Final = {"never": "never fires"}
TEXT_FILTERS: Final = {"topic": "topic", "tool": "tool", "mcp_server": "MCP server"}


@person_only
@require_GET
@vary_on_headers("HX-Request")
def knowledge_list(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The page; for htmx only the table, so that a filter changes nothing else."""
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    context = _context(request, found, params)
    try:
        items = list_items(found.pk, read_filter(params), params.get("cursor", ""))
    except IngestError as error:
        context |= {**_form(params), "problem": error.detail}
        return render(request, "knowledge_list.html", context, status=error.status)
    context |= {"items": items, "has_items": bool(items.lines) or has_items(found.pk)}
    if wants_fragment(request):
        return render(request, "_knowledge_table.html", context)
    return render(request, "knowledge_list.html", {**context, **_form(params)})


def _context(request: HtmxHttpRequest, project: Project, params: dict[str, str]) -> dict[str, Any]:
    kept = request.GET.copy()
    kept.pop("cursor", None)
    filters = [value for name, value in kept.items() if name != "sort"]
    return {
        "project": project,
        "may_act": may_act(request.user, project),
        "params": params,
        "query": kept.urlencode(),
        "is_filtered": any(filters),
        "is_first_page": not params.get("cursor"),
    }


def _form(params: dict[str, str]) -> dict[str, Any]:
    """Return what the filter form offers; only the whole page has it."""
    triggers = dict(stages.TRIGGERS) | ({params["trigger"]: ""} if params.get("trigger") else {})
    selects = {name: (label, choices(name, WORDS[name], params)) for name, label in ANY.items()}
    selects["suspended"] = (ANY["suspended"], choices("suspended", FLAG_WORDS, params))
    selects["fires"] = (ANY["fires"], choices("fires", FIRES_WORDS, params))
    selects["trigger"] = ("any trigger", choices("trigger", triggers, params))
    chosen = params.get("sort", "") or "id"
    return {
        "selects": selects,
        "texts": {name: (label, params.get(name, "")) for name, label in TEXT_FILTERS.items()},
        "sorts": [Choice(word, label, "", word == chosen) for word, (label, _, _) in SORTS.items()],
    }


@person_only
@require_GET
def export(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """All items as one file, in a form that an import takes: JSON Lines, or a zip with a Markdown file an item."""
    found = get_project_for(request.user, project)
    form = request.GET.get("form", "jsonl")
    if form not in FORMS:
        raise Http404("no such form")
    return cast(HttpResponse, download(found, form))  # what checks and sets headers treats both alike


@person_only
@require_POST
def import_starter(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Import the starter set that is shipped; a second time changes nothing."""
    found = get_project_for(request.user, project)
    back = reverse("knowledge-list", args=[found.slug])
    if not may_act(request.user, found):
        return looking_on(request, found, f"You look on in {found.name}; members who act import its knowledge.", back)
    import_items(found, starter_drafts(), by=request.user.get_username(), reason="the starter set")
    return redirect(back)
