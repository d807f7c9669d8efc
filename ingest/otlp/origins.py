"""Keeps what is said once for many spans: the resource goes to the message store, spans name it by hash. Pure.

A body in the message store is redacted here, where it is made: the write path looks at the events only.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from contract.redaction import redact_value
from contract.redaction_rules import ExtraRules
from ingest.model_requests import MessageBody
from ingest.otlp.records import Origin
from ingest.repair import Repairs, clean_value

# Bounds of what is kept beside the events, whatever is set for these.
MAX_NESTING = 60  # levels of a resource's attributes
MAX_KEY_BYTES = 512


@dataclass(frozen=True, slots=True)
class ToldOrigin:
    """How the events of one scope name it: the scope itself, the hash of the resource, and the body behind it.

    `words` are the repairs of the resource; the first event that names it takes them.
    """

    scope: dict[str, Any]
    resource_hash: str | None
    messages: tuple[MessageBody, ...]
    words: list[str]


class Origins:
    """The origins of one request, each turned into what its events carry once; `extra` are the project's secrets."""

    def __init__(self, extra: ExtraRules | None = None) -> None:
        self._extra = extra
        self._told: dict[int, tuple[Origin, ToldOrigin]] = {}

    def told(self, origin: Origin) -> ToldOrigin:
        """Return what the events of `origin` carry; the same object is answered from memory."""
        known = self._told.get(id(origin))
        if known is None:
            known = self._told[id(origin)] = (origin, _tell(origin, self._extra))
        return known[1]


def _tell(origin: Origin, extra: ExtraRules | None) -> ToldOrigin:
    scope: dict[str, Any] = {"name": origin.scope_name, "version": origin.scope_version}
    if origin.scope_attributes:
        scope["attributes"] = origin.scope_attributes
    if not origin.resource:
        return ToldOrigin(scope, None, (), [])
    repairs = Repairs()
    cleaned = clean_value(origin.resource, repairs, max_nesting=MAX_NESTING, max_key_bytes=MAX_KEY_BYTES)
    redacted, n_found = redact_value(cleaned, extra)
    if n_found:
        repairs.add("redacted")
    body = orjson.dumps({"role": "resource", "attributes": redacted}, option=orjson.OPT_SORT_KEYS)
    kept = MessageBody(hashlib.sha256(body).hexdigest(), body.decode())
    return ToldOrigin(scope, kept.hash, (kept,), repairs.words)
