"""`GET /v1/runs`, `/v1/runs/{id}` and its `/activations`: runs and their chains for machines."""

from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from contract import stages
from ingest import openapi
from ingest.journal_api import one_run
from ingest.machine_view import MachineView, key_of
from ingest.models import Run
from ingest.parameters import INT32_MAX, Parameters
from knowledge.models import Activation, Candidate
from knowledge.run_bodies import RunDetailBody, RunListBody, activation_body, run_body, run_detail_body
from knowledge.run_filters import WAITING, parse_filter
from knowledge.run_pages import all_runs, page_of

PAGE_SIZE: Final = 50  # rows of one answer unless the caller asks for others
LARGEST_PAGE: Final = 200
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
    OpenApiParameter("outcome", str, enum=list(stages.OUTCOMES), description="has a hint of which this came"),
    OpenApiParameter("arm", str, enum=list(stages.HOLDOUT_ARMS), description="has a search drawn so for a holdout"),
    OpenApiParameter("experiment", str, description="has a search of the experiment"),
    OpenApiParameter("version", str, description="has a search answered by this version of FindHints"),
    OpenApiParameter("search_tool", str, description="has a search that was about this tool, called or not"),
    OpenApiParameter("search_server", str, description="has a search that was about this MCP server"),
    OpenApiParameter("waiting", str, enum=list(WAITING), description="waits for a person"),
    OpenApiParameter("conversation", str, description="is a turn of the conversation"),
    OpenApiParameter("agent", str),
    OpenApiParameter("text", str, description="part of the task in any case of letters, or the id of the run"),
    OpenApiParameter("has_injection", bool),
    OpenApiParameter("since", OpenApiTypes.DATETIME, description="first received at or after"),
    OpenApiParameter("until", OpenApiTypes.DATETIME, description="first received before"),
    openapi.query("cursor", str, "the `next` of the answer before"),
    openapi.query("limit", openapi.whole(1, LARGEST_PAGE), f"runs, {PAGE_SIZE} without it"),
    openapi.RETRY_AFTER,
]
RUN_ID: Final = openapi.path_id("run_id", "the sender's id of the run")


class RunsView(MachineView):
    """The project's runs, newest first, from their first event on."""

    required_scope = "read"

    @extend_schema(
        parameters=FILTERS,
        responses={200: RunListBody, **openapi.errors(400, 401, 403, 503)},
        operation_id="list_runs",
        summary="List runs",
        tags=["read"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request)
        cursor = given.values.pop("cursor", "")
        limit = given.number("limit", PAGE_SIZE, 1, LARGEST_PAGE)
        page = page_of(key_of(request).project_id, parse_filter(given.values), cursor, limit)
        return Response({"results": [run_body(run) for run in page.rows], "next": page.next})


class RunView(MachineView):
    """One run."""

    required_scope = "read"

    @extend_schema(
        parameters=[RUN_ID, openapi.RETRY_AFTER],
        responses={200: RunDetailBody, **openapi.errors(400, 401, 403, 404, 503)},
        operation_id="read_run",
        summary="Read one run",
        tags=["read"],
    )
    def get(self, request: Request, run_id: str) -> Response:
        Parameters(request, ())
        return Response(run_detail_body(one_run(all_runs(key_of(request).project_id), run_id)))


class ActivationsView(MachineView):
    """A run's chain: its activations in order, made and skipped, each with every candidate and what became of it."""

    required_scope = "read"

    @extend_schema(
        parameters=[
            RUN_ID,
            openapi.query("after", openapi.whole(-1, INT32_MAX), "ordinal; the `next` of the answer before"),
            openapi.query("limit", openapi.whole(1, LARGEST_PAGE), f"activations, {PAGE_SIZE} without it"),
            openapi.RETRY_AFTER,
        ],
        responses={
            200: openapi.answer("Activations", "a page, each activation with all its candidates"),
            **openapi.errors(400, 401, 403, 404, 503),
        },
        operation_id="list_activations",
        summary="Read a run's activations with their candidates",
        tags=["read"],
    )
    def get(self, request: Request, run_id: str) -> Response:
        given = Parameters(request, ("after", "limit"))
        after = given.number("after", -1, -1, INT32_MAX)
        limit = given.number("limit", PAGE_SIZE, 1, LARGEST_PAGE)
        run = one_run(all_runs(key_of(request).project_id), run_id)
        activations = _activations(run, after, limit + 1)
        bodies = [activation_body(activation, candidates) for activation, candidates in activations[:limit]]
        more = bodies[-1]["ordinal"] if len(activations) > limit else None
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
