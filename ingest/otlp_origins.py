"""Keeps what is said once for many spans: the resource goes to the message store, spans name it by hash. Pure."""

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from contract.redaction import redact_value
from ingest.model_requests import MessageBody
from ingest.otlp_records import Origin
from ingest.repair import Repairs, clean_value

MAX_NESTING = 60  # levels of a resource's attributes
MAX_KEY_BYTES = 512


@dataclass(frozen=True, slots=True)
class ToldOrigin:
    """How the events of one scope name it: the scope itself, the hash of the resource, and the body behind it."""

    scope: dict[str, Any]
    resource_hash: str | None
    messages: tuple[MessageBody, ...]


class Origins:
    """The origins of one request, each turned into what its events carry once."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[Origin, ToldOrigin]] = {}

    def told(self, origin: Origin) -> ToldOrigin:
        """Return what the events of `origin` carry; the same object is answered from memory."""
        known = self._told.get(id(origin))
        if known is None:
            known = self._told[id(origin)] = (origin, _tell(origin))
        return known[1]


def _tell(origin: Origin) -> ToldOrigin:
    scope: dict[str, Any] = {"name": origin.scope_name, "version": origin.scope_version}
    if origin.scope_attributes:
        scope["attributes"] = origin.scope_attributes
    if not origin.resource:
        return ToldOrigin(scope, None, ())
    cleaned = clean_value(origin.resource, Repairs(), max_nesting=MAX_NESTING, max_key_bytes=MAX_KEY_BYTES)
    body = orjson.dumps({"role": "resource", "attributes": redact_value(cleaned)[0]}, option=orjson.OPT_SORT_KEYS)
    kept = MessageBody(hashlib.sha256(body).hexdigest(), body.decode())
    return ToldOrigin(scope, kept.hash, (kept,))
