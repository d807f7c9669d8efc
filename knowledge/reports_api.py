"""`GET /v1/reports/…`: how far knowledge came and what offering it did, for machines, in the words of the pages."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi
from ingest.errors import IngestError
from ingest.machine_view import MachineView, key_of
from ingest.parameters import Parameters, parse_day
from knowledge import effectiveness
from knowledge.effect_bodies import items_body, report_body
from knowledge.effect_report import DAYS_MOST, FILTERS, GROUPS, Asked, make_report
from knowledge.item_effects import make_item_report

DAYS: Final = 30  # covered unless the caller says otherwise


class EffectivenessView(MachineView):
    """Counts by trigger and stage, of whole days (UTC), forgotten runs too. What cannot be told is counted so."""

    required_scope = "read"

    @extend_schema(
        parameters=[
            openapi.query("since", openapi.MOMENT_PARAMETER, f"runs of this moment's day and later; {DAYS} days back"),
            openapi.query("until", openapi.MOMENT_PARAMETER, "runs of days that begin before; now"),
            openapi.RETRY_AFTER,
        ],
        responses={200: openapi.answer("Effectiveness", "counts"), **openapi.errors(400, 401, 403, 503)},
        operation_id="report_effectiveness",
        summary="Count how far knowledge came",
        tags=["read"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request, ("since", "until"))
        until = given.moment("until") or timezone.now()
        since = given.moment("since") or until - timedelta(days=DAYS)
        if since > until:
            raise IngestError("invalid_parameter", 400, "since must not be later than until", field="since")
        return Response(effectiveness.report(key_of(request).project_id, since, until))


DAY_FORM: Final = "a day such as 2026-01-31"
OF_DAYS: Final = (
    openapi.query("since", openapi.DAY_PARAMETER, f"first day (UTC); {DAYS} days back"),
    openapi.query("until", openapi.DAY_PARAMETER, "last day (UTC), included; today"),
    *(openapi.query(name, str, f"only what has this {name}") for name in FILTERS),
    openapi.RETRY_AFTER,
)


def read_days(given: Parameters) -> tuple[date, date]:
    """Return the days asked for. Raises IngestError 400 naming the parameter, its limit and what would do."""
    until = _day(given, "until") or datetime.now(UTC).date()
    since = _day(given, "since") or until - timedelta(days=DAYS - 1)
    if since > until:
        raise IngestError("invalid_parameter", 400, "since must not be later than until", field="since")
    if (until - since).days >= DAYS_MOST:
        detail = f"since and until must be at most {DAYS_MOST} days apart"
        raise IngestError("invalid_parameter", 400, detail, field="since")
    return since, until


def _day(given: Parameters, name: str) -> date | None:
    raw = given.text(name)
    day = parse_day(raw)
    if raw and day is None:
        raise IngestError("invalid_parameter", 400, f"{name} must be {DAY_FORM}", field=name)
    return day


def _filters(given: Parameters) -> dict[str, str]:
    return {name: value for name in FILTERS if (value := given.text(name))}


class EffectsView(MachineView):
    """What offering hints did, by one dimension; a verdict holds however often it is read."""

    required_scope = "read"

    @extend_schema(
        parameters=[openapi.query("group", str, f"one of: {', '.join(GROUPS)}; trigger"), *OF_DAYS],
        responses={200: openapi.answer("Effects", "the report"), **openapi.errors(400, 401, 403, 503)},
        operation_id="report_effects",
        summary="Estimate what offering hints did",
        tags=["read"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request, ("group", "since", "until", *FILTERS))
        group = given.text("group") or GROUPS[0]
        if group not in GROUPS:
            raise IngestError("invalid_parameter", 400, f"group must be one of: {', '.join(GROUPS)}", field="group")
        since, until = read_days(given)
        report = make_report(key_of(request).project_id, Asked(since, until, group, _filters(given)))
        return Response(report_body(report))


class ItemEffectsView(MachineView):
    """What single items did, those proposed for suspension first."""

    required_scope = "read"

    @extend_schema(
        parameters=list(OF_DAYS),
        responses={200: openapi.answer("ItemEffects", "the report"), **openapi.errors(400, 401, 403, 503)},
        operation_id="report_item_effects",
        summary="Estimate what single items did",
        tags=["read"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request, ("since", "until", *FILTERS))
        since, until = read_days(given)
        return Response(items_body(make_item_report(key_of(request).project_id, since, until, _filters(given))))
