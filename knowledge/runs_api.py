"""`GET /v1/runs`, `/v1/runs/{id}` and its `/activations`: runs and their chains for machines."""

from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from contract import stages
from ingest.authentication import HasScope
from ingest.errors import IngestError
from ingest.models import Run
from ingest.views import key_of
from knowledge.models import Activation, Candidate
from knowledge.run_bodies import RunDetailBody, RunListBody, activation_body, run_body, run_detail_body
from knowledge.run_filters import all_runs, filter_runs, page_of, parse_filter

PAGE_SIZE: Final = 50  # rows of one answer unless the caller asks for others
LARGEST_PAGE: Final = 200
INT32_MAX: Final = 2**31 - 1
TRIGGER: Final = {
    "type": "string",
    "pattern": f"^{stages.TRIGGER_PATTERN}$",
    "maxLength": stages.TRIGGER_LIMIT,
}
FILTERS: Final = [
    OpenApiParameter("status", str, enum=list(stages.RUN_STATUSES)),
    OpenApiParameter("trigger", TRIGGER, description="has such an activation; known are " + ", ".join(stages.TRIGGERS)),
    OpenApiParameter("drop_reason", str, enum=list(stages.DROP_REASONS), description="has a hint dropped so"),
    OpenApiParameter("tool", str, description="has a call of the tool"),
    OpenApiParameter("mcp_server", str, description="has a call of the MCP server's tools"),
    OpenApiParameter("knowledge_id", str, description="the item was a candidate in it"),
    OpenApiParameter("agent", str),
    OpenApiParameter("text", str, description="part of the task, in any case of letters"),
    OpenApiParameter("has_injection", bool),
    OpenApiParameter("since", OpenApiTypes.DATETIME, description="first received at or after"),
    OpenApiParameter("until", OpenApiTypes.DATETIME, description="first received before"),
    OpenApiParameter("cursor", str, description="the `next` of the answer before"),
    OpenApiParameter("limit", int, description=f"1 to {LARGEST_PAGE}, {PAGE_SIZE} without it"),
]


class RunsView(APIView):
    """The project's runs, newest first, from their first event on."""

    required_scope = "read"
    permission_classes = [HasScope]

    @extend_schema(parameters=FILTERS, responses=RunListBody, summary="List runs")
    def get(self, request: Request) -> Response:
        params = _params(request)
        cursor = params.pop("cursor", "")
        limit = _number("limit", params.pop("limit", ""), PAGE_SIZE, 1, LARGEST_PAGE)
        page = page_of(filter_runs(key_of(request).project_id, parse_filter(params)), cursor, limit)
        return Response({"results": [run_body(run) for run in page.rows], "next": page.next})


class RunView(APIView):
    """One run."""

    required_scope = "read"
    permission_classes = [HasScope]

    @extend_schema(responses=RunDetailBody, summary="Read one run")
    def get(self, request: Request, run_id: str) -> Response:
        return Response(run_detail_body(_get_run(key_of(request).project_id, run_id)))


class ActivationsView(APIView):
    """A run's chain: its activations in order, made and skipped, each with every candidate and what became of it."""

    required_scope = "read"
    permission_classes = [HasScope]

    @extend_schema(
        parameters=[OpenApiParameter("after", int, description="ordinal; -1 for all"), OpenApiParameter("limit", int)],
        responses=OpenApiTypes.OBJECT,
        summary="Read a run's activations with their candidates",
    )
    def get(self, request: Request, run_id: str) -> Response:
        params = _params(request)
        after = _number("after", params.pop("after", ""), -1, -1, INT32_MAX)
        limit = _number("limit", params.pop("limit", ""), PAGE_SIZE, 1, LARGEST_PAGE)
        if params:
            raise _unknown(next(iter(params)))
        run = _get_run(key_of(request).project_id, run_id)
        activations = _activations(run, after, limit)
        bodies = [activation_body(activation, candidates) for activation, candidates in activations]
        more = bodies[-1]["ordinal"] if len(bodies) == limit else None
        as_of = run_body(run)
        return Response({"results": bodies, "next": more, "as_of": as_of["as_of"], "n_unfolded": as_of["n_unfolded"]})


def _activations(run: Run, after: int, limit: int) -> list[tuple[Activation, list[Candidate]]]:
    """Return a page of activations, each with its candidates by rank. Two queries."""
    of_run = {"project_id": run.project_id, "run_id": run.run_id}
    activations = list(Activation.objects.filter(**of_run, ordinal__gt=after).order_by("ordinal")[:limit])
    found: dict[str, list[Candidate]] = {activation.activation_id: [] for activation in activations}
    candidates = Candidate.objects.filter(**of_run, activation_id__in=list(found))
    for candidate in sorted(candidates, key=lambda one: (one.rank is None, one.rank or 0, one.knowledge_id)):
        found[candidate.activation_id].append(candidate)
    return [(activation, found[activation.activation_id]) for activation in activations]


def _get_run(project_id: int, run_id: str) -> Run:
    run = None if "\x00" in run_id else all_runs(project_id).filter(run_id=run_id).first()
    if run is None:
        raise IngestError("run_unknown", 404, "this project has no run of that id")
    return run


def _params(request: Request) -> dict[str, str]:
    """Return the query parameters. Raises IngestError for one given twice, which would be half ignored."""
    for name, values in request.query_params.lists():
        if len(values) > 1:
            raise IngestError("repeated_parameter", 400, f"{name[:50]} is given more than once", field=name)
    return {name: values[0] for name, values in request.query_params.lists()}


def _number(name: str, raw: str, default: int, lowest: int, highest: int) -> int:
    if not raw:
        return default
    try:
        value = int(raw[:20])
    except ValueError:
        value = lowest - 1
    if not lowest <= value <= highest:
        raise IngestError(
            "invalid_parameter", 400, f"{name} must be a whole number from {lowest} to {highest}", field=name
        )
    return value


def _unknown(name: str) -> IngestError:
    return IngestError("unknown_parameter", 400, f"unknown parameter {name[:50]!r}; known are after, limit", field=name)
