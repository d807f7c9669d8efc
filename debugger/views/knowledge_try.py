"""The page that tries a query on a project's knowledge: what is offered, what is held back and why, what is not found.

Nothing of a query is written anywhere; a short one without secrets has an address that can be shared. (Seed 001 §7.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django.views.decorators.vary import vary_on_headers

from contract import stages
from contract.events import ID_LIMIT
from contract.hint_api import DEFAULT_HINTS, MAX_HINTS, QUERY_LIMIT, TOOL_RESULT_LIMIT
from contract.redaction import redact
from debugger.access import get_project_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.knowledge_list import has_items
from debugger.queries.knowledge_measured import operating_point
from debugger.queries.knowledge_try import try_query, why_not
from ingest.models import Project
from knowledge.find_hints import VERSIONS
from knowledge.find_hints.findings import HintQuery

ENTRIES_LIMIT: Final = 50  # entities or topics
SHARED_LIMIT: Final = 1_800  # characters of an address that is worth sharing
BAD_REQUEST: Final = 400
TEXTS: Final[Mapping[str, int]] = {
    "trigger": stages.TRIGGER_LIMIT,
    "tool": ID_LIMIT,
    "mcp_server": ID_LIMIT,
    "error_class": ID_LIMIT,
    "query": QUERY_LIMIT,
    "tool_result": TOOL_RESULT_LIMIT,
    "knowledge_id": ID_LIMIT,
}
LISTS: Final = ("entities", "topics")
DEFAULTS: Final = {"trigger": "tool.failed", "limit": str(DEFAULT_HINTS), "gate": "on"}


@dataclass(slots=True)
class TryForm:
    """A query as typed, by field, what is wrong with each, and whether anything was asked at all."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    is_asked: bool = False

    @property
    def has_more(self) -> bool:
        """Whether one of the fields that are folded away is filled or wrong."""
        return any(self.values[name] or name in self.errors for name in (*LISTS, "error_class"))

    @property
    def is_gated(self) -> bool:
        return self.values["gate"] != "off"

    def query(self) -> HintQuery:
        """Return the question to FindHints. It belongs to no run."""
        given = self.values
        return HintQuery(
            run_id="",
            activation_id="",
            trigger=given["trigger"],
            query=given["query"],
            tool=given["tool"],
            mcp_server=given["mcp_server"],
            tool_result=given["tool_result"],
            error_class=given["error_class"],
            entities=_lines(given["entities"]),
            topics=_lines(given["topics"]),
            limit=int(given["limit"]),
        )


@person_only
@never_cache
@require_http_methods(["GET", "POST"])
@vary_on_headers("HX-Request")
def try_knowledge(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The form and, once something was asked, the answer; for htmx the answer alone."""
    found = get_project_for(request.user, project)
    form = read_try(request.GET if request.method == "GET" else request.POST)
    context = _context(request, found, form)
    if not wants_fragment(request):
        return render(request, "knowledge_try.html", context, status=BAD_REQUEST if form.errors else 200)
    response = render(request, "_knowledge_tried.html", context)
    response["HX-Replace-Url"] = context["share"] or reverse("knowledge-try", args=[found.slug])
    return response


def read_try(given: Mapping[str, str]) -> TryForm:
    """Return the query as it was asked, each value judged at its field."""
    form = TryForm({name: given.get(name, DEFAULTS.get(name, "")).replace("\r\n", "\n").strip() for name in NAMES})
    form.is_asked = any(form.values[name] for name in ASKING)
    values = form.values
    values["version"] = values["version"] or settings.HINTS_ALGORITHM
    for name, most in TEXTS.items():
        if len(values[name]) > most:
            form.errors[name] = f"{len(values[name]):,} characters; the limit is {most:,}, shorten it"
        elif "\x00" in values[name]:
            form.errors[name] = "holds a NUL; take it out"
    for name in LISTS:
        entries = _lines(values[name])
        if len(entries) > ENTRIES_LIMIT or any(len(entry) > ID_LIMIT or "\x00" in entry for entry in entries):
            form.errors[name] = f"at most {ENTRIES_LIMIT} lines of at most {ID_LIMIT} characters"
    if (problem := stages.trigger_problem(values["trigger"])) is not None:
        form.errors["trigger"] = problem
    limit = values["limit"]
    if not (limit.isascii() and limit.isdigit() and len(limit) < 3 and 1 <= int(limit) <= MAX_HINTS):  # noqa: PLR2004
        form.errors["limit"] = f"a whole number from 1 to {MAX_HINTS}"
    if values["version"] not in VERSIONS:
        form.errors["version"] = f"one of: {', '.join(VERSIONS)}"
    return form


NAMES: Final = (*TEXTS, *LISTS, "limit", "version", "gate")
ASKING: Final = ("query", "tool_result", "tool", "mcp_server", "error_class", *LISTS)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _context(request: HtmxHttpRequest, project: Project, form: TryForm) -> dict[str, Any]:
    tried, absence = None, None
    if form.is_asked and not form.errors:
        query, version = form.query(), form.values["version"]
        tried = try_query(project.pk, query, version, gated=form.is_gated)
        if form.values["knowledge_id"]:
            absence = why_not(project.pk, query, version, form.values["knowledge_id"], tried)
    return {
        "project": project,
        "may_act": may_act(request.user, project),
        "form": form,
        "tried": tried,
        "absence": absence,
        "share": _share(project, form) if tried else "",
        "versions": list(VERSIONS),
        "default_version": settings.HINTS_ALGORITHM,
        "triggers": stages.TRIGGERS,
        "limits": TEXTS,
        "point": operating_point(form.values["version"]) if form.values["version"] in VERSIONS else "",
        "has_items": has_items(project.pk) if tried is None or not tried.offered else True,
    }


def _share(project: Project, form: TryForm) -> str:
    """Return the address that asks the same again, "" for what is long or holds a secret."""
    if any(redact(value)[1] for value in form.values.values()):
        return ""
    usual = {**DEFAULTS, "version": settings.HINTS_ALGORITHM}
    asked = {name: value for name, value in form.values.items() if value and value != usual.get(name)}
    address = f"{reverse('knowledge-try', args=[project.slug])}?{urlencode(asked)}"
    return address if len(address) <= SHARED_LIMIT else ""
