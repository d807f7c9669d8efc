"""Machine API of what became of deliveries: the rejects and the requests of a sender, newest first.

A key that may read sees the project's. A key that may only send sees its own, so that a sender whose SDK merely logs
answers still finds out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi, rejects
from ingest.cursors import make_cursor, read_cursor
from ingest.errors import IngestError
from ingest.machine_view import MachineView, key_of
from ingest.models import ApiKey, Batch, Reject
from ingest.parameters import Parameters
from ingest.repair import REPAIRS

PAGE_SIZE: Final = 100  # rows of one answer unless the caller asks for others
LARGEST_PAGE: Final = 500
MOST_COUNTED: Final = 100_000  # newest rejects that the counts by code look at
COUNTED: Final = timedelta(days=1)  # looked at for what is not listed, unless `since` says another time
REJECT_FIELDS: Final = ("id", "received_at", "code", "detail", "run_id", "event_id")
BATCH_FIELDS: Final = (
    "id", "received_at", "source", "n_accepted", "n_duplicates", "n_conflicts", "n_rejected", "repairs",
)  # fmt: skip
PAGING: Final = [
    openapi.query("since", openapi.MOMENT_PARAMETER, "received at or after"),
    openapi.query("cursor", str, "the `next` of the answer before"),
    openapi.query("limit", openapi.whole(1, LARGEST_PAGE), f"rows, {PAGE_SIZE} without it"),
]
FILTERS: Final = [
    openapi.query(
        "code", str, "why it was rejected, as in the answer to the sender; conflict: another copy came first"
    ),
    openapi.query("run_id", str),
]


class RejectsView(MachineView):
    """What was not stored and why, newest first. Never what was in it."""

    required_scope = ("read", "ingest")

    @extend_schema(
        parameters=[*FILTERS, *PAGING, openapi.RETRY_AFTER],
        responses={
            200: openapi.answer("Rejects", "a page, and counts by code"),
            **openapi.errors(400, 401, 403, 503),
        },
        operation_id="list_rejects",
        summary="List rejects",
        tags=["deliveries"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request, ("code", "run_id", "since", "cursor", "limit"))
        key, since = key_of(request), given.moment("since")
        seen = seen_by(key) & _from(since)
        only = Q(**{name: value for name in ("code", "run_id") if (value := given.text(name))})
        rows = Reject.objects.filter(seen & only)
        results, more = _page(rows, given, REJECT_FIELDS)
        counts = counts_by_code(rows)
        counted_from = since or timezone.now() - COUNTED
        not_listed = 0 if only else rejects.count_not_listed(seen_by(key) & _from(counted_from))
        return Response({"results": results, "next": more, "counts": counts, "not_listed": not_listed})


class BatchesView(MachineView):
    """The requests that were answered with a 2xx: what became of their events, and which repairs they needed."""

    required_scope = ("read", "ingest")

    @extend_schema(
        parameters=[*PAGING, openapi.RETRY_AFTER],
        responses={200: openapi.answer("Batches", "a page"), **openapi.errors(400, 401, 403, 503)},
        operation_id="list_batches",
        summary="List requests",
        tags=["deliveries"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request, ("since", "cursor", "limit"))
        rows = Batch.objects.filter(seen_by(key_of(request)) & _from(given.moment("since")))
        results, more = _page(rows, given, BATCH_FIELDS)
        bodies = [{**row, "repairs": repairs_in_words(row["repairs"])} for row in results]
        return Response({"results": bodies, "next": more})


def seen_by(key: ApiKey) -> Q:
    """Return whose deliveries a key may see."""
    own = Q() if "read" in key.scopes else Q(api_key=key)
    return Q(project_id=key.project_id) & own


def counts_by_code(rows: QuerySet[Reject]) -> dict[str, int]:
    """Return code -> rows, most frequent first, of the newest MOST_COUNTED rows."""
    newest = rows.order_by("-received_at", "-id").values("pk")[:MOST_COUNTED]
    counted = Reject.objects.filter(pk__in=newest).values("code").annotate(n=Count("pk")).order_by("-n", "code")
    return dict(counted.values_list("code", "n"))


def repairs_in_words(repairs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the repairs of a batch, each with what its word means."""
    return {word: {**about, "meaning": REPAIRS.get(word, word)} for word, about in repairs.items()}


def _from(moment: datetime | None) -> Q:
    return Q() if moment is None else Q(received_at__gte=moment)


def _page(rows: QuerySet[Any], given: Parameters, fields: tuple[str, ...]) -> tuple[list[dict[str, Any]], str | None]:
    limit = given.number("limit", PAGE_SIZE, 1, LARGEST_PAGE)
    cursor = given.values.pop("cursor", "")
    if cursor:
        moment, row_id = read_cursor(cursor)
        if not row_id.isascii() or not row_id.isdigit() or len(row_id) > 18:  # noqa: PLR2004
            raise IngestError("bad_cursor", 400, "cursor must be the next of an earlier answer", field="cursor")
        rows = rows.filter(Q(received_at__lt=moment) | Q(received_at=moment, id__lt=int(row_id)))
    found = list(rows.order_by("-received_at", "-id").values(*fields, key=F("api_key__prefix"))[: limit + 1])
    more = make_cursor(found[limit - 1]["received_at"], str(found[limit - 1]["id"])) if len(found) > limit else None
    return [{name: value for name, value in row.items() if name != "id"} for row in found[:limit]], more
