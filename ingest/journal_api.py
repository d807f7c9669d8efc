"""Machine API of one run's journal: its events page by page, and any model request put together again."""

from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from contract.events import ID_LIMIT
from contract.integers import INT64_MAX
from ingest import openapi
from ingest.errors import IngestError
from ingest.event_pages import read_page
from ingest.machine_view import MachineView, key_of
from ingest.messages import rebuild_request
from ingest.models import Run
from ingest.parameters import Parameters, is_text

PAGE_SIZE: Final = 500  # events of one answer unless the caller asks for fewer
MOST_TYPES: Final = 50
RUN_ID: Final = openapi.path_id("run_id", "the sender's id of the run")


class RunEventsView(MachineView):
    """A run's events in order of arrival. `content=false` lists them without their data."""

    required_scope = "read"

    @extend_schema(
        parameters=[
            RUN_ID,
            openapi.query("after", openapi.whole(0, INT64_MAX), "arrival; the `next` of the answer before"),
            openapi.query("limit", openapi.whole(1, PAGE_SIZE), f"events, {PAGE_SIZE} without it"),
            openapi.query("type", str, f"only these event types, at most {MOST_TYPES}, with commas between"),
            openapi.query("content", bool, "false: without data", default=True),
            openapi.RETRY_AFTER,
        ],
        responses={
            200: openapi.answer("StoredEvents", "a page; it ends early where its data grows large"),
            **openapi.errors(400, 401, 403, 404, 503),
        },
        operation_id="list_events",
        summary="List a run's events",
        tags=["read"],
    )
    def get(self, request: Request, run_id: str) -> Response:
        given = Parameters(request, ("after", "limit", "type", "content"))
        after = given.number("after", 0, 0, INT64_MAX)
        limit = given.number("limit", PAGE_SIZE, 1, PAGE_SIZE)
        types = _types(given)
        with_data = given.flag("content", True)
        run = get_run(key_of(request).project_id, run_id)
        events, more = read_page(
            run, after, limit, max_bytes=settings.READ_MAX_PAGE_BYTES, types=types, with_data=with_data
        )
        return Response({"results": events, "next": more})


class ModelRequestView(MachineView):
    """One model request, message for message as it was sent, put together from the journal and the message store."""

    required_scope = "read"

    @extend_schema(
        parameters=[RUN_ID, openapi.path_id("event_id", "of a model.requested event"), openapi.RETRY_AFTER],
        responses={
            200: openapi.answer("ModelRequest", "the messages in order, and what is missing"),
            **openapi.errors(400, 401, 403, 404, 503),
        },
        operation_id="read_model_request",
        summary="Read a model request",
        tags=["read"],
    )
    def get(self, request: Request, run_id: str, event_id: str) -> Response:
        Parameters(request, ())
        run = get_run(key_of(request).project_id, run_id)
        try:
            rebuilt = rebuild_request(run.project_id, run.run_id, event_id)
        except KeyError:
            raise IngestError("event_unknown", 404, "this run has no model.requested event of that id") from None
        messages: list[dict[str, Any]] = [
            {"position": place, **message} for place, message in enumerate(rebuilt.messages)
        ]
        return Response(
            {
                "run_id": run.run_id,
                "event_id": event_id,
                "n_messages": len(messages),
                "messages": messages,
                "missing": list(rebuilt.missing),
                "is_complete": not rebuilt.missing,
            }
        )


def get_run(project_id: int, run_id: str) -> Run:
    """Return the run. Raises IngestError 404; a run of another project looks like one that is not there."""
    return one_run(Run.objects.filter(project_id=project_id), run_id)


def one_run(runs: QuerySet[Run], run_id: str) -> Run:
    """Return the run of that id among a project's `runs`. Raises IngestError 404."""
    run = runs.filter(run_id=run_id).first() if is_text(run_id) else None
    if run is None:
        raise IngestError("run_unknown", 404, "this project has no run of that id")
    return run


def _types(given: Parameters) -> list[str]:
    raw = given.values.pop("type", "")
    types = [name for name in raw.split(",") if name]
    if len(types) > MOST_TYPES or not all(is_text(name) for name in types):
        detail = f"type must be at most {MOST_TYPES} event types of at most {ID_LIMIT} characters, commas between"
        raise IngestError("invalid_parameter", 400, detail, field="type")
    return types
