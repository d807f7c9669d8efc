"""`/v1/knowledge/import` and `/export`: items in files, for machines; idempotent, all of it or nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction
from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi
from ingest.at_once import reading
from ingest.bodies import read_body
from ingest.errors import IngestError
from ingest.machine_view import MachineView, key_of
from ingest.models import Project
from ingest.parameters import Parameters
from knowledge.drafts import ItemDraft
from knowledge.exchange import archive, json_lines, markdown
from knowledge.exchange.downloads import FORMS, download
from knowledge.exchange.places import ImportFault, Placed, drafts_of
from knowledge.items import ImportResult, import_items
from knowledge.items_api.requests import telling_refusals

YES_NO: Final[Mapping[str, bool]] = {"": False, "0": False, "false": False, "1": True, "true": True}
IDS_LISTED: Final = 1_000  # ids of one kind in an answer


@dataclass(frozen=True, slots=True)
class Form:
    """How a body of one media type is read. `name` is what its refusals call it."""

    name: str
    read: Callable[[bytes, str], list[Placed]]


def _read_archive(data: bytes, name: str) -> list[Placed]:
    most = settings.KNOWLEDGE_IMPORT_MAX_UNPACKED_BYTES
    return archive.read_archive(data, most_files=settings.KNOWLEDGE_IMPORT_MAX_ITEMS, most_bytes=most)


_LINES: Final = Form("body", json_lines.read_lines)
BY_TYPE: Final[Mapping[str, Form]] = {
    json_lines.MEDIA_TYPE: _LINES,
    "application/x-ndjson": _LINES,
    archive.MEDIA_TYPE: Form("zip", _read_archive),
    markdown.MEDIA_TYPE: Form("body", lambda data, name: [markdown.read_markdown(data, name)]),
}


class ImportView(MachineView):
    """Create what is new, revise what differs, leave the rest. All of it or nothing; a second time changes nothing."""

    required_scope = "curate"

    @extend_schema(
        request={
            (json_lines.MEDIA_TYPE): OpenApiTypes.STR,
            (archive.MEDIA_TYPE): OpenApiTypes.BINARY,
            (markdown.MEDIA_TYPE): OpenApiTypes.STR,
        },
        parameters=[
            openapi.query(
                "dry_run", {"type": "string", "enum": ["0", "1", "false", "true"]}, "1: say what would happen"
            ),
            openapi.query("by", openapi.SHORT_TEXT, "who is named in the history; the key without it"),
            openapi.query("reason", openapi.SHORT_TEXT, "why; `import` without it"),
            openapi.RETRY_AFTER,
        ],
        responses={
            200: openapi.answer("ItemImport", "what was done, or would be"),
            **openapi.errors(400, 401, 403, 409, 413, 415, 422, 503),
        },
        operation_id="import_items",
        summary="Import knowledge items: JSON Lines, a zip of Markdown files, or one Markdown file",
        tags=["knowledge"],
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        given = Parameters(request, ("dry_run", "by", "reason"))
        dry_run = given.values.pop("dry_run", "")
        if dry_run not in YES_NO:
            raise IngestError("invalid_parameter", 400, "dry_run must be 1 or 0", field="dry_run")
        form = _form_of(request)
        body = read_body(request, settings.KNOWLEDGE_IMPORT_MAX_BYTES)
        by, reason = given.text("by") or f"key {key.name}", given.text("reason") or "import"
        with reading(body), telling_refusals():
            drafts = drafts_of(form.read(body, form.name))
            _check_number(drafts, form.name)
            result = _import(key.project, drafts, by, reason, YES_NO[dry_run])
        return Response(_import_body(result, YES_NO[dry_run]))


class ExportView(MachineView):
    """All items of the project, in a form that import reads."""

    required_scope = "read"

    @extend_schema(
        parameters=[
            openapi.query("format", {"type": "string", "enum": list(FORMS)}, "JSON Lines without it; markdown: a zip"),
            openapi.RETRY_AFTER,
        ],
        responses={
            (200, json_lines.MEDIA_TYPE): OpenApiTypes.STR,
            (200, archive.MEDIA_TYPE): OpenApiTypes.BINARY,
            **openapi.errors(400, 401, 403, 503),
        },
        operation_id="export_items",
        summary="Export the project's knowledge items",
        tags=["knowledge"],
    )
    def get(self, request: Request) -> HttpResponseBase:
        form = Parameters(request, ("format",)).text("format") or "jsonl"
        if form not in FORMS:
            raise IngestError("invalid_parameter", 400, f"format must be one of: {', '.join(FORMS)}", field="format")
        return download(key_of(request).project, form)


def _form_of(request: Request) -> Form:
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    form = BY_TYPE.get(media_type)
    if form is None:
        detail = f"send items as Content-Type: {', '.join(BY_TYPE)}"
        raise IngestError("unsupported_type", 415, detail, field="Content-Type")
    return form


def _check_number(drafts: list[ItemDraft], name: str) -> None:
    limit = settings.KNOWLEDGE_IMPORT_MAX_ITEMS
    if len(drafts) > limit:
        raise ImportFault(name, 0, f"{len(drafts)} items in one import; the limit is {limit}, split them", limit=limit)


def _import(project: Project, drafts: list[ItemDraft], by: str, reason: str, dry_run: bool) -> ImportResult:
    """Import, or do so and take it all back: what would happen is found by what does happen."""
    with transaction.atomic():
        result = import_items(project, drafts, by=by, reason=reason)
        transaction.set_rollback(dry_run)
    return result


def _import_body(result: ImportResult, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "created": result.created,
        "revised": result.revised,
        "unchanged": result.unchanged,
        "created_ids": list(result.created_ids[:IDS_LISTED]),
        "revised_ids": list(result.revised_ids[:IDS_LISTED]),
    }
