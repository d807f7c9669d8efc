"""`GET /v1/reports/effectiveness`: how far knowledge came, for machines, in the words of the pages."""

from datetime import timedelta
from typing import Final

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi
from ingest.errors import IngestError
from ingest.machine_view import MachineView, key_of
from ingest.parameters import Parameters
from knowledge import effectiveness

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
