"""What the OpenAPI document says of items: made from their fields and limits."""

from dataclasses import fields
from typing import Any, Final

from contract import stages
from contract.events import ID_LIMIT
from ingest.openapi import COUNT, MOMENT, NULLABLE_TEXT, page_of, ref
from ingest.parameters import INT32_MAX
from knowledge.drafts import (
    FLAG_FIELDS,
    KINDS,
    LANGUAGE_LIMIT,
    LIST_FIELDS,
    LIST_LIMIT,
    PROPOSITION_TOKENS,
    REQUIRED,
    SHORT_FIELDS,
    SHORT_LISTS,
    TEXT_LIMIT,
    ItemDraft,
)
from knowledge.item_history import Reached
from knowledge.item_rows import REVISED_FIELDS
from knowledge.items import LIFECYCLE_FIELDS
from knowledge.lifecycle import CHANGES
from knowledge.projection import COUNTS

TOLD: Final = {
    "proposition": f"the rule; holds the action itself; at most about {PROPOSITION_TOKENS} tokens",
    "trigger": "trigger it is meant for; empty: any",
    "tool": "tool it is meant for; empty: any",
    "mcp_server": "server it is meant for; empty: any",
    "evidence": "run ids",
    "suspended_dynamic": "kept, not offered at runtime triggers",
    "replaced_by": "of a superseded or corrected item: the id of the live one in its place",
}
TEXT: Final = {"type": "string"}
SAID: Final = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
SHORT: Final = {"type": "string", "minLength": 1, "maxLength": ID_LIMIT}
REVISION: Final = {"type": "integer", "minimum": 1, "maximum": INT32_MAX, "nullable": True}
ABOUT: Final = {
    "reason": {**SAID, "description": "why, for the history"},
    "by": {**SHORT, "nullable": True, "description": "who, for the history; the key without it"},
    "expected_revision": {**REVISION, "description": "the revision that was read; refused when it is not current"},
    "run_id": {**SHORT, "nullable": True, "description": "the run that is the reason's evidence"},
}


def components() -> dict[str, Any]:
    """Return the shapes of items by name."""
    counts = _object(dict.fromkeys(COUNTS, COUNT), "as runs reported, those that are forgotten included")
    reached = {field.name: COUNT for field in fields(Reached)}
    revised = {name: _written(name) for name in ("kind", "language", *REVISED_FIELDS)}
    return {
        "Item": _object(_item() | {"counts": counts}),
        "Items": page_of("Item"),
        "ItemDetail": _detail(counts, reached),
        "ItemText": _asked({name: _written(name) for name in _names()}, REQUIRED),
        "NewItem": _asked({"item": ref("ItemText"), "reason": ABOUT["reason"], "by": ABOUT["by"]}, ("item", "reason")),
        "ItemRevision": _asked({"item": _asked(revised, ("proposition",)), **ABOUT}, ("item", "reason")),
        "ItemMove": _asked(
            {
                "state": {"type": "string", "enum": list(stages.ITEM_STATES)},
                "replaced_by": {**SHORT, "nullable": True, "description": TOLD["replaced_by"]},
                **ABOUT,
            },
            ("state", "reason"),
        ),
        "ItemSuspension": _asked({"suspended": {"type": "boolean"}, **ABOUT}, ("suspended", "reason")),
        "ItemEvidence": _asked(
            {
                "run_id": SHORT,
                "supports": {"type": "boolean", "description": "whether the run speaks for the item"},
                "note": {**SAID, "description": "what the run shows"},
                "by": ABOUT["by"],
                "expected_revision": ABOUT["expected_revision"],
            },
            ("run_id", "supports", "note"),
        ),
        "ItemImport": _object(
            {
                "dry_run": {"type": "boolean"},
                **dict.fromkeys(("created", "revised", "unchanged"), COUNT),
                **dict.fromkeys(("created_ids", "revised_ids"), {"type": "array", "items": TEXT}),
            }
        ),
    }


def _names() -> list[str]:
    return [field.name for field in fields(ItemDraft)]


def _written(name: str) -> dict[str, Any]:
    """Return the shape of a field as it may be sent."""
    shape: dict[str, Any] = {"type": "string", "maxLength": ID_LIMIT if name in SHORT_FIELDS else TEXT_LIMIT}
    if name in LIST_FIELDS:
        entry = {"type": "string", "maxLength": ID_LIMIT if name in SHORT_LISTS else TEXT_LIMIT}
        shape = {"type": "array", "items": entry, "maxItems": LIST_LIMIT}
    elif name in FLAG_FIELDS:
        shape = {"type": "boolean"}
    elif name == "kind":
        shape = {"type": "string", "enum": list(KINDS)}
    elif name == "state":
        shape = {"type": "string", "enum": list(stages.ITEM_STATES)}
    elif name == "language":
        shape = {"type": "string", "maxLength": LANGUAGE_LIMIT}
    elif name == "trigger":
        shape = {"type": "string", "maxLength": stages.TRIGGER_LIMIT, "pattern": f"^({stages.TRIGGER_PATTERN})?$"}
    if name in REQUIRED:
        shape["minLength"] = 1
    return shape | ({"description": TOLD[name]} if name in TOLD else {})


def _told(name: str) -> dict[str, Any]:
    """Return the shape of a field as it is answered."""
    if name in LIST_FIELDS:
        return {"type": "array", "items": TEXT}
    return {"type": "boolean"} if name in FLAG_FIELDS else TEXT


def _item() -> dict[str, Any]:
    shape = {name: _told(name) for name in _names() if name not in LIFECYCLE_FIELDS}
    return {
        **shape,
        "url": TEXT,
        "state": TEXT,
        "state_meaning": TEXT,
        "revision": {"type": "integer", "minimum": 1},
        "suspended_dynamic": {"type": "boolean"},
        "replaced_by": NULLABLE_TEXT,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }


def _detail(counts: dict[str, Any], reached: dict[str, Any]) -> dict[str, Any]:
    revision = {name: _told(name) for name in REVISED_FIELDS}
    change = {
        "what": {"type": "string", "enum": list(CHANGES)},
        "what_meaning": TEXT,
        "from_state": NULLABLE_TEXT,
        "to_state": TEXT,
        "revision": {"type": "integer"},
        "replaced_by": NULLABLE_TEXT,
        "run_id": {**NULLABLE_TEXT, "description": "the run named as evidence"},
        "supports": {"type": "boolean", "nullable": True},
        "by": TEXT,
        "reason": TEXT,
        "at": MOMENT,
    }
    told = {"number": {"type": "integer"}, "author": TEXT, "reason": TEXT, "created_at": MOMENT, **revision}
    return _object(
        {
            **_item(),
            "counts": counts,
            "live_replacement": {**NULLABLE_TEXT, "description": "the live item at the end of its replacements"},
            "replaces": {"type": "array", "items": TEXT},
            "reached": _object(reached, "in the runs that are kept, as reported or judged"),
            "by_trigger": {"type": "array", "items": _object({"trigger": TEXT, **reached})},
            "never_fires": {"type": "boolean", "description": "confirmed a while ago, and no search has ever met it"},
            "revisions": {"type": "array", "items": _object(told)},
            "history": {"type": "array", "items": _object(change)},
        }
    )


def _object(properties: dict[str, Any], description: str = "") -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": properties, "required": list(properties)}
    return {**shape, "description": description} if description else shape


def _asked(properties: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
