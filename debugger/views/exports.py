"""The tables of the pages as files, CSV or JSON: who may see the page may have its table. (Seed 001 §14.)"""

from pathlib import Path
from typing import cast

from django.conf import settings
from django.http import Http404, HttpResponse
from django.views.decorators.http import require_GET

from debugger.access import get_project_for, get_run_for, person_only
from debugger.exports import Table, as_file
from debugger.htmx import HtmxHttpRequest
from debugger.queries import export_tables as tables
from debugger.queries import knowledge_list, runs
from debugger.queries.conformance import read_report
from debugger.queries.escalations import SHOWN
from debugger.queries.report_file import ReportProblem
from debugger.views.keys import key_of
from ingest.errors import IngestError

CSV = "csv"


def table_file(request: HtmxHttpRequest, table: Table) -> HttpResponse:
    """Return a table in the form that is asked for, CSV unless it is said. Raises Http404 for another form."""
    return cast(HttpResponse, as_file(table, request.GET.get("form", CSV)))  # headers are set on both alike


def refused_file(said: str, status: int) -> HttpResponse:
    """Return why there is no file, as plain text."""
    return HttpResponse(f"{said}\n", status=status, content_type="text/plain; charset=utf-8")


@person_only
@require_GET
def run_list_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The run list with its filters, from the newest run on whatever page is shown."""
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    try:
        asked = runs.read_filter({name: value for name, value in params.items() if name != "form"})
    except IngestError as error:
        return refused_file(error.detail, error.status)
    return table_file(request, tables.runs_table(found, asked, tables.asked_of(params)))


@person_only
@require_GET
def knowledge_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The list of knowledge with its filters and in its order; what imports take is another file."""
    found = get_project_for(request.user, project)
    params = request.GET.dict()
    try:
        wanted = knowledge_list.read_filter(params)
    except IngestError as error:
        return refused_file(error.detail, error.status)
    return table_file(request, tables.items_table(found, wanted, tables.asked_of(params)))


@person_only
@require_GET
def candidates_file(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """A run's searches with all their candidates: what came how far, and why no further."""
    return table_file(request, tables.candidates_table(get_run_for(request.user, project, run_id)))


@person_only
@require_GET
def escalations_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The escalations that the page lists."""
    found = get_project_for(request.user, project)
    asked = request.GET.get("show", "")
    return table_file(request, tables.escalations_table(found, asked if asked in SHOWN else "open"))


@person_only
@require_GET
def rejects_file(request: HtmxHttpRequest, project: str, key_id: int) -> HttpResponse:
    """What was not stored of what a key sent, as far as it is listed."""
    return table_file(request, tables.rejects_table(key_of(get_project_for(request.user, project), key_id)))


@person_only
@require_GET
def conformance_file(request: HtmxHttpRequest) -> HttpResponse:
    """The matrix, a row for each cell. Raises Http404 without a report that can be shown."""
    try:
        report = read_report(Path(settings.CONFORMANCE_REPORT))
    except ReportProblem:
        report = None
    if report is None:
        raise Http404("no report")
    return table_file(request, tables.conformance_table(report))
