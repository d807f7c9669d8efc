"""Reads the documents that a search or a reranker names, flattened or as a JSON list. Pure.

A document is {id?, text?, score?, metadata?, more?}, in the order sent; long texts are cut with a marker.
(Seed 001 §7.3.)
"""

import re
from functools import lru_cache
from typing import Any, Final

from contract.redaction import redact
from contract.text import clip
from ingest.otlp.messages import MAX_INDEX_DIGITS
from ingest.otlp.semconv import Taking, as_text, from_json

TEXT_LIMIT: Final = 4_000  # code points of one document's text
_MARGIN: Final = 8_192  # code points read beyond it, where a secret across the cut may end
_FIELDS: Final = {"id": "id", "content": "text", "score": "score", "metadata": "metadata"}
_FLAT: Final = re.compile(
    r"(retrieval\.documents|reranker\.input_documents|reranker\.output_documents)"
    rf"\.(0|[1-9]\d{{0,{MAX_INDEX_DIGITS - 1}}})\.document\.(id|content|score|metadata)",
    re.ASCII,
)
_LONGEST_KEY: Final = 80
_JSON_LISTS: Final = ("gen_ai.retrieval.documents", "gen_ai.memory.records")
_NAMES: Final = {
    "id": ("id", "document_id", "record_id"),
    "text": ("content", "text", "page_content"),
    "score": ("score",),
    "metadata": ("metadata",),
}


def take_documents(taking: Taking, group: str, name: str) -> list[dict[str, Any]]:
    """Take the flattened list `group` out of the attributes; `name` is the field it is moved to."""
    found: dict[int, dict[str, Any]] = {}
    for key in [key for key in taking.attributes if key.startswith(group)]:
        place = _place(key) if len(key) <= _LONGEST_KEY else None
        if place is None or place[0] != group:
            continue
        found.setdefault(place[1], {})[place[2]] = _told(place[2], taking.attributes.pop(key))
        taking.moved[name] = group
    return [found[index] for index in sorted(found)]


def take_listed(taking: Taking, name: str) -> list[dict[str, Any]]:
    """Take the documents of a GenAI attribute that holds them as a list or as JSON text."""
    for key in _JSON_LISTS:
        entries = from_json(taking.attributes.get(key))
        if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
            del taking.attributes[key]
            taking.moved[name] = key
            return [_listed(entry) for entry in entries]
    return []


@lru_cache(maxsize=4_096)
def _place(key: str) -> tuple[str, int, str] | None:
    match = _FLAT.fullmatch(key)
    return None if match is None else (match[1], int(match[2]), _FIELDS[match[3]])


def _listed(entry: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    rest = dict(entry)
    for field, names in _NAMES.items():
        name = next((name for name in names if entry.get(name) is not None), None)
        if name is not None:
            told[field] = _told(field, rest.pop(name))
    return {**told, "more": rest} if rest else told


def _told(field: str, value: Any) -> Any:
    if field == "id":
        return as_text(value)
    if field == "text":
        return _clipped(as_text(value))
    if field == "metadata":
        parsed = from_json(value)
        return value if parsed is None else parsed
    return value


def _clipped(text: str) -> str:
    """Return the text within the limit. A secret across the cut goes first: nothing would know its first half."""
    if len(text) <= TEXT_LIMIT:
        return text
    cut = clip(text, TEXT_LIMIT)
    clean, n_secrets = redact(text[: TEXT_LIMIT + _MARGIN])
    if not n_secrets or redact(cut)[1] == n_secrets:
        return cut  # what it holds is whole, and goes and is flagged with the event's other secrets
    return clip(clean + text[TEXT_LIMIT + _MARGIN :], TEXT_LIMIT)
