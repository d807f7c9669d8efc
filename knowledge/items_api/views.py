"""`/v1/knowledge/items`: items listed, read whole, made, revised, moved, suspended, given evidence."""

from typing import Any, Final

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from contract import stages
from ingest import openapi
from ingest.errors import IngestError
from ingest.machine_view import MachineView, key_of
from ingest.models import ApiKey
from ingest.parameters import Parameters
from knowledge import items
from knowledge.drafts import KINDS, KnowledgeUnknown
from knowledge.item_history import item_page
from knowledge.item_queries import PAGE_SIZE, ItemFilter, item_list
from knowledge.items_api.bodies import detail_body, row_body
from knowledge.items_api.requests import read_item, read_object, read_text, telling_refusals, value

LARGEST_PAGE: Final = 200
WORDS: Final = ("q", "state", "kind", "topic", "tool", "mcp_server", "trigger")
KNOWLEDGE_ID: Final = openapi.path_id("knowledge_id", "the id of the item")
FILTERS: Final = [
    openapi.query("q", openapi.SHORT_TEXT, "part of the id or of the rule, in any case of letters"),
    OpenApiParameter("state", str, enum=list(stages.ITEM_STATES)),
    OpenApiParameter("kind", str, enum=list(KINDS)),
    openapi.query("topic", openapi.SHORT_TEXT, "has this topic"),
    openapi.query("tool", openapi.SHORT_TEXT, "is meant for this tool"),
    openapi.query("mcp_server", openapi.SHORT_TEXT, "is meant for this server"),
    openapi.query("trigger", openapi.SHORT_TEXT, "is meant for this trigger"),
    openapi.query("suspended", bool, "kept from runtime triggers, or not"),
    openapi.query("never_fires", bool, "true: confirmed a while ago, and no search has ever met it"),
    openapi.query("cursor", str, "the `next` of the answer before"),
    openapi.query("limit", openapi.whole(1, LARGEST_PAGE), f"items, {PAGE_SIZE} without it"),
]
REFUSED: Final = openapi.errors(400, 401, 403, 404, 409, 413, 422, 503)
ABOUT: Final = ("reason", "by", "expected_revision", "run_id")


class ItemsView(MachineView):
    """The project's items."""

    required_scope = "read"
    write_scope = "curate"

    @extend_schema(
        parameters=[*FILTERS, openapi.RETRY_AFTER],
        responses={
            200: openapi.answer("Items", "a page, in the order of the ids"),
            **openapi.errors(400, 401, 403, 503),
        },
        operation_id="list_items",
        summary="List knowledge items",
        tags=["knowledge"],
    )
    def get(self, request: Request) -> Response:
        given = Parameters(request, [parameter.name for parameter in FILTERS])
        words = {name: given.text(name) for name in WORDS}
        for name, known in (("state", stages.ITEM_STATES), ("kind", KINDS)):
            if words[name] and words[name] not in known:
                detail = f"{name} must be one of: {', '.join(known)}"
                raise IngestError("invalid_parameter", 400, detail, field=name)
        suspended = given.flag("suspended", False) if given.values.get("suspended") else None
        filters = ItemFilter(**words, suspended=suspended, never_fires=given.flag("never_fires", False))
        limit = given.number("limit", PAGE_SIZE, 1, LARGEST_PAGE)
        cursor = given.values.get("cursor", "")
        page = item_list(key_of(request).project_id, filters, cursor, limit, timezone.now())
        return Response({"results": [row_body(row) for row in page.rows], "next": page.next})

    @extend_schema(
        request={"application/json": openapi.ref("NewItem")},
        parameters=[openapi.RETRY_AFTER],
        responses={
            201: openapi.answer("ItemDetail", "made, with revision 1"),
            **openapi.errors(400, 401, 403, 409, 413, 422, 503),
        },
        operation_id="create_item",
        summary="Make a knowledge item",
        tags=["knowledge"],
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        body = read_object(request, ("item", "reason", "by"), ("item", "reason"))
        with telling_refusals():
            draft = read_item(body)
            items.create_item(key.project, draft, by=_by(body, key), reason=value(body, "reason", "text", ""))
        return Response(_detail(key, draft.knowledge_id), status=201)


class ItemView(MachineView):
    """One item."""

    required_scope = "read"

    @extend_schema(
        parameters=[KNOWLEDGE_ID, openapi.RETRY_AFTER],
        responses={
            200: openapi.answer("ItemDetail", "the item with its revisions and history, newest first"),
            **openapi.errors(400, 401, 403, 404, 503),
        },
        operation_id="read_item",
        summary="Read one knowledge item with its revisions and history",
        tags=["knowledge"],
    )
    def get(self, request: Request, knowledge_id: str) -> Response:
        Parameters(request, ())
        with telling_refusals():
            return Response(_detail(key_of(request), knowledge_id))


class RevisionsView(MachineView):
    """Revise an item: its whole text anew. Its state stays."""

    required_scope = "curate"

    @extend_schema(
        request={"application/json": openapi.ref("ItemRevision")},
        parameters=[KNOWLEDGE_ID, openapi.RETRY_AFTER],
        responses={200: openapi.answer("ItemDetail", "revised"), **REFUSED},
        operation_id="revise_item",
        summary="Give a knowledge item a new revision",
        tags=["knowledge"],
    )
    def post(self, request: Request, knowledge_id: str) -> Response:
        key = key_of(request)
        body = read_object(request, ("item", *ABOUT), ("item", "reason"))
        with telling_refusals():
            items.revise_item(key.project, read_text(body, knowledge_id), **_about(body, key))
            return Response(_detail(key, knowledge_id))


class StateView(MachineView):
    """Move an item along its lifecycle."""

    required_scope = "curate"

    @extend_schema(
        request={"application/json": openapi.ref("ItemMove")},
        parameters=[KNOWLEDGE_ID, openapi.RETRY_AFTER],
        responses={200: openapi.answer("ItemDetail", "moved"), **REFUSED},
        operation_id="change_item_state",
        summary="Confirm, challenge or retire a knowledge item",
        tags=["knowledge"],
    )
    def post(self, request: Request, knowledge_id: str) -> Response:
        key = key_of(request)
        body = read_object(request, ("state", "replaced_by", *ABOUT), ("state", "reason"))
        to_state = value(body, "state", "text", "")
        replaced_by = value(body, "replaced_by", "text")
        with telling_refusals():
            items.change_state(key.project, knowledge_id, to_state, replaced_by=replaced_by, **_about(body, key))
            return Response(_detail(key, knowledge_id))


class SuspensionView(MachineView):
    """Keep an item from runtime triggers, or let it be offered again. Its state stays."""

    required_scope = "curate"

    @extend_schema(
        request={"application/json": openapi.ref("ItemSuspension")},
        parameters=[KNOWLEDGE_ID, openapi.RETRY_AFTER],
        responses={200: openapi.answer("ItemDetail", "as asked for; twice is once"), **REFUSED},
        operation_id="suspend_item",
        summary="Suspend a knowledge item at runtime triggers, or resume it",
        tags=["knowledge"],
    )
    def post(self, request: Request, knowledge_id: str) -> Response:
        key = key_of(request)
        body = read_object(request, ("suspended", *ABOUT), ("suspended", "reason"))
        suspended = _flag(body, "suspended")
        with telling_refusals():
            items.suspend_item(key.project, knowledge_id, suspended, **_about(body, key))
            return Response(_detail(key, knowledge_id))


class EvidenceView(MachineView):
    """Name a run that speaks for an item or against it. It moves nothing."""

    required_scope = "curate"

    @extend_schema(
        request={"application/json": openapi.ref("ItemEvidence")},
        parameters=[KNOWLEDGE_ID, openapi.RETRY_AFTER],
        responses={200: openapi.answer("ItemDetail", "kept in the history; twice is once"), **REFUSED},
        operation_id="add_item_evidence",
        summary="Add a run as evidence for or against a knowledge item",
        tags=["knowledge"],
    )
    def post(self, request: Request, knowledge_id: str) -> Response:
        key = key_of(request)
        known = ("run_id", "supports", "note", "by", "expected_revision")
        body = read_object(request, known, ("run_id", "supports", "note"))
        supports = _flag(body, "supports")
        with telling_refusals():
            items.add_evidence(
                key.project, knowledge_id, value(body, "run_id", "text", ""), supports,
                note=value(body, "note", "text", ""), by=_by(body, key),
                expected_revision=value(body, "expected_revision", "number"),
            )  # fmt: skip
            return Response(_detail(key, knowledge_id))


def _flag(body: dict[str, Any], name: str) -> bool:
    if not isinstance(body[name], bool):
        raise IngestError("invalid_field", 400, f"{name} must be true or false", field=name)
    return bool(body[name])


def _by(body: dict[str, Any], key: ApiKey) -> str:
    """Return who is named in the history: as said, else the key by its name."""
    return str(value(body, "by", "text", "") or f"key {key.name}")


def _about(body: dict[str, Any], key: ApiKey) -> dict[str, Any]:
    return {
        "by": _by(body, key),
        "reason": value(body, "reason", "text", ""),
        "expected_revision": value(body, "expected_revision", "number"),
        "run_id": value(body, "run_id", "text"),
    }


def _detail(key: ApiKey, knowledge_id: str) -> dict[str, Any]:
    page = item_page(key.project_id, knowledge_id, timezone.now())
    if page is None:
        raise KnowledgeUnknown("this project has no item of that id", field="knowledge_id")
    return detail_body(page)
