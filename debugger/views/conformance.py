"""The conformance matrix: what each way of driving a turn keeps of the protocol, as the last report says.

It is of the kernel's code and of no project; whoever is signed in may read it. (Seed 003.)
"""

from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from debugger.access import person_only
from debugger.htmx import HtmxHttpRequest
from debugger.queries.conformance import Report, read_report
from debugger.queries.report_file import ReportProblem


@person_only
@require_GET
def conformance(request: HtmxHttpRequest, condition: str = "", column: str = "") -> HttpResponse:
    """The page; with a condition and a column beside it what is known of that cell. Raises Http404 for no such cell."""
    path = Path(settings.CONFORMANCE_REPORT)
    report: Report | None = None
    problem = ""
    try:
        report = read_report(path)
    except ReportProblem as error:
        problem = str(error)
    selected = report.find(condition, column) if report is not None and condition else None
    if report is not None and condition and selected is None:
        raise Http404("no such cell")
    sees_site = request.user.is_authenticated and request.user.is_staff
    context = {"report": report, "problem": problem, "selected": selected, "path": path if sees_site else ""}
    return render(request, "conformance.html", context)
