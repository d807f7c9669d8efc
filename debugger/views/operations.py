"""A project's operations page: what comes in, what waits, what is kept, and how the parts of the site are."""

from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from debugger.access import get_project_for, person_only
from debugger.bounded import Bounded, TooSlow
from debugger.embedded.temporal import temporal_problem
from debugger.health import Part, readiness
from debugger.htmx import HtmxHttpRequest
from debugger.queries.operations import (
    days_section,
    intake_section,
    lag_section,
    partitions_section,
    vectors_section,
)
from debugger.versions import versions
from ingest.retention import first_kept_day

WORRYING_SECONDS: Final = 60.0  # a run that waits longer is said to be behind

_temporal_look: Final = Bounded()


@person_only
@require_GET
def operations(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The page. What is counted over the whole site would tell of other projects, so it is for staff only."""
    found = get_project_for(request.user, project)
    now = datetime.now(UTC)
    sees_site = request.user.is_authenticated and request.user.is_staff
    lag, intake = lag_section(found.pk), intake_section(found.pk, now)
    vectors = vectors_section(found.pk)
    days, partitions = days_section(found.pk, now), partitions_section() if sees_site else None
    context = {
        "project": found,
        "now": now,
        "lag": lag,
        "vectors": vectors,
        "compares_meaning": settings.HINTS_EMBEDDINGS,
        "intake": intake,
        "days": days,
        "partitions": partitions,
        "problems": [section for section in (intake, lag, vectors, days, partitions) if section and section.problem],
        "is_behind": lag.value is not None and lag.value.oldest_seconds > WORRYING_SECONDS,
        "first_kept": first_kept_day(found.retention_days, now.date()) if found.retention_days else None,
        "parts": [*readiness(), _temporal_part()],
        "versions": versions(),
    }
    return render(request, "operations.html", context)


def _temporal_part() -> Part:
    """Temporal runs the agents of ours; events are taken without it."""
    address, namespace = settings.TEMPORAL_ADDRESS, settings.TEMPORAL_NAMESPACE
    try:
        problem = _temporal_look.run(lambda: temporal_problem(address, namespace), settings.READY_SECONDS)
    except TooSlow:
        return Part("temporal", "too_slow", is_required=False)
    return Part("temporal", "unreachable" if problem else "", is_required=False)
