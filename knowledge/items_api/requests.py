"""Reads what is sent about items: strict JSON, each refusal by its field; and tells what the write path refuses."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.conf import settings
from rest_framework.request import Request

from ingest.bodies import read_body
from ingest.errors import IngestError, shown_name
from ingest.json_body import parse
from ingest.parameters import INT32_MAX
from knowledge.drafts import ItemDraft, KnowledgeConflict, KnowledgeError, KnowledgeUnknown, parse_draft
from knowledge.exchange.places import ImportFault
from knowledge.items import LIFECYCLE_FIELDS

KINDS_OF_VALUES: Final = {"text": str, "flag": bool, "number": int}
SAID: Final = {"text": "a string", "flag": "true or false", "number": f"a whole number from 1 to {INT32_MAX}"}


@contextmanager
def telling_refusals() -> Iterator[None]:
    """Turn what the write path refuses into an answer: 404, 409, 422 for a limit, else 400; it repeats nothing."""
    try:
        yield
    except KnowledgeError as error:
        extra: dict[str, Any] = {"field": error.field} if error.field else {}
        if error.limit is not None:
            extra["limit"] = error.limit
        if isinstance(error, ImportFault):
            extra |= {"file": error.file, "line": error.line}
        code, status = _code_of(error)
        raise IngestError(code, status, str(error), **extra) from None


def _code_of(error: KnowledgeError) -> tuple[str, int]:
    if isinstance(error, KnowledgeUnknown):
        return "item_unknown", 404
    if isinstance(error, KnowledgeConflict):
        return "item_conflict", 409
    return ("limit_exceeded", 422) if error.limit is not None else ("invalid_item", 400)


def read_object(request: Request, known: Collection[str], required: Collection[str]) -> dict[str, Any]:
    """Return the request's JSON object. Raises IngestError 400 naming the field, 413 for a body over its limit."""
    body = parse(read_body(request, settings.KNOWLEDGE_MAX_BODY_BYTES))
    if not isinstance(body, dict):
        raise IngestError("bad_body", 400, "the body must be a JSON object", field="body")
    unknown = sorted(set(body) - set(known))
    if unknown:
        shown = shown_name(unknown[0])
        detail = f"unknown field {shown}; known are {', '.join(sorted(known))}"
        raise IngestError("unknown_field", 400, detail, field=shown)
    missing = sorted(set(required) - set(body))
    if missing:
        raise IngestError("missing_field", 400, f"{missing[0]} is required", field=missing[0])
    return body


def value(body: dict[str, Any], name: str, kind: str, default: Any = None) -> Any:
    """Return a field of a body; null and a field left out mean the default. Raises IngestError 400."""
    given = body.get(name)
    if given is None:
        return default
    fits = isinstance(given, KINDS_OF_VALUES[kind]) and (kind != "number" or not isinstance(given, bool))
    if not fits or (kind == "number" and not 1 <= given <= INT32_MAX):
        raise IngestError("invalid_field", 400, f"{name} must be {SAID[kind]}", field=name)
    return given


def read_item(body: dict[str, Any]) -> ItemDraft:
    """Return the draft of a new item."""
    return parse_draft(body["item"])


def read_text(body: dict[str, Any], knowledge_id: str) -> ItemDraft:
    """Return the draft of a revision: the whole new text, without what a revision does not touch."""
    item = body["item"]
    if isinstance(item, dict):
        for name in LIFECYCLE_FIELDS:
            if name in item:
                detail = f"item.{name} is not changed by a revision; leave it out and use the item's own address for it"
                raise IngestError("unknown_field", 400, detail, field=f"item.{name}")
        if item.setdefault("knowledge_id", knowledge_id) != knowledge_id:
            detail = "item.knowledge_id must be that of the address, or be left out"
            raise IngestError("invalid_field", 400, detail, field="item.knowledge_id")
    return parse_draft(item)
