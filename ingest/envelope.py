"""Decides whether one value of a batch is an event and what exactly is stored of it. Pure.

The order is fixed: digest of what was sent, repair, check, redact, cut to size. Redaction comes before cutting,
so that no secret survives by being cut in half. (Seed 001 §7.3, §13.)
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from contract.events import ENVELOPE_FIELDS, ID_FIELDS, ID_LIMIT, INTEGER_FIELDS, REQUIRED_FIELDS, check_data
from contract.integers import INT64_MAX
from contract.redaction import PLAIN_LENGTH, holds_secret, plain_texts, redact, redact_value
from contract.redaction_rules import ExtraRules
from ingest.errors import IngestError
from ingest.model_requests import MESSAGE_TYPES, MessageBody, split_messages
from ingest.repair import Repairs, clean_text, clean_value, cut_to_size
from ingest.times import NS_PER_SECOND, parse_rfc3339, parse_unix_nano
from ingest.wire import WireLimits

# What a draft brings for the journal, in order. Project, partition day and arrival are known only in the transaction.
DRAFT_COLUMNS: Final = (*ID_FIELDS, *INTEGER_FIELDS, "occurred_ns", "ended_ns", "repairs", "data", "digest")

_KNOWN_FIELDS: Final = frozenset((*ENVELOPE_FIELDS, "occurred_at_unix_nano", "ended_at_unix_nano"))
_FAR_FUTURE_NS: Final = 86_400 * NS_PER_SECOND
_FAR_PAST_NS: Final = parse_rfc3339("2000-01-01T00:00:00Z")
_MIN_DATA_BYTES: Final = 1024
_ID_BYTES: Final = len(ID_FIELDS) * ID_LIMIT * 4  # the most that all ids of an event take


@dataclass(slots=True)
class SentEvent:
    """An event with its fields read and nothing repaired yet, whichever endpoint it came by.

    `index` is its place in the request, `ids` has a value or None for each of ID_FIELDS in their order, `integers` is
    (seq, turn), times are Unix nanoseconds, `digest` tells a repeat from another copy. `messages` are bodies that
    `data` names by hash.
    """

    index: int
    ids: dict[str, str | None]
    integers: tuple[int | None, int | None]
    occurred_ns: int
    ended_ns: int | None
    data: dict[str, Any]
    digest: bytes
    repairs: Repairs = field(default_factory=Repairs)
    messages: tuple[MessageBody, ...] = ()


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event ready to be stored: `columns` in the order of DRAFT_COLUMNS, `digest` of the event as sent."""

    index: int
    run_id: str
    event_id: str
    digest: bytes
    columns: tuple[Any, ...]
    repairs: tuple[str, ...]
    messages: tuple[MessageBody, ...]


def parse_event(
    value: object, index: int, received_ns: int, limits: WireLimits, extra: ExtraRules | None = None
) -> EventDraft:
    """Return the draft of the value at `index` of a batch received at `received_ns` (Unix nanoseconds).

    Raises IngestError (status 400) naming the field, the limit and the fix.
    """
    if not isinstance(value, dict):
        raise _bad("invalid_event", "an event must be a JSON object", "events")
    ids = _read_ids(value)
    for name in REQUIRED_FIELDS[:3]:
        if ids[name] is None:
            raise _bad("missing_field", f"{name} is required: text of 1 to {ID_LIMIT} characters", name)
    integers = _read_integer(value, "seq"), _read_integer(value, "turn")
    occurred_ns = _read_time(value, "occurred_at")
    if occurred_ns is None:
        detail = "occurred_at is required: RFC 3339 text, or whole nanoseconds as occurred_at_unix_nano"
        raise _bad("missing_field", detail, "occurred_at")
    repairs = Repairs()
    ended_ns = _read_time(value, "ended_at")
    data = _read_data(value, repairs)
    digest = _digest(value, limits)
    sent = SentEvent(index, ids, integers, occurred_ns, ended_ns, data, digest, repairs)
    return make_draft(sent, received_ns, limits, extra)


def make_draft(event: SentEvent, received_ns: int, limits: WireLimits, extra: ExtraRules | None = None) -> EventDraft:
    """Return what is stored of an event: repaired, checked against its type, without secrets, within the size limit.

    `extra` are the project's own patterns of secrets. Nearly every event comes out as it was, so its JSON text, made to
    see whether PostgreSQL can hold it, is the one that is stored.

    Raises IngestError (status 400) naming the field, the limit and the fix.
    """
    ids, data, messages, repairs = event.ids, event.data, event.messages, event.repairs
    _note_clocks(event.occurred_ns, event.ended_ns, received_ns, repairs)
    text = _text_as_it_is(ids, data, limits, extra)
    if text is None:
        data = _repaired(ids, data, limits, repairs)
    kind = ids["type"] or ""
    problem = check_data(kind, data)
    if problem is not None:
        raise _bad("invalid_data", problem, "data")
    if text is None:
        data = _redacted(ids, data, repairs, extra)
    if kind in MESSAGE_TYPES and data.get("new_messages"):
        data, own = _split(data, limits.max_event_bytes, repairs)
        messages, text = messages + own, None
    if text is None:
        text = orjson.dumps(data)
    if len(text) > limits.max_event_bytes - _ID_BYTES:
        text = orjson.dumps(_within_size(ids, data, limits.max_event_bytes, repairs))
    words = orjson.dumps(repairs.words).decode() if repairs.words else None
    columns = (*ids.values(), *event.integers, event.occurred_ns, event.ended_ns, words, text.decode(), event.digest)
    run_id, event_id = ids["run_id"] or "", ids["event_id"] or ""
    return EventDraft(event.index, run_id, event_id, event.digest, columns, tuple(repairs.words), messages)


def shown_id(value: object, name: str, extra: ExtraRules | None = None) -> str | None:
    """Return the id in field `name` of a refused event, safe to store and show, or None when it has none."""
    text = value.get(name) if isinstance(value, dict) else None
    if not isinstance(text, str) or not 0 < len(text) <= ID_LIMIT:
        return None
    return redact(clean_text(text, Repairs()), extra)[0][:ID_LIMIT]


def _bad(code: str, detail: str, field: str, **extra: object) -> IngestError:
    return IngestError(code, 400, detail, field=field, **extra)


def _digest(value: dict[Any, Any], limits: WireLimits) -> bytes:
    """Return the hash that tells a repeat from a different copy.

    It is over the event as sent; what JSON in UTF-8 cannot express is hashed in its repaired form.
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        repaired = clean_value(value, Repairs(), max_nesting=limits.max_nesting + 1, max_key_bytes=limits.max_key_bytes)
        text = orjson.dumps(repaired, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).digest()


def _read_ids(event: Mapping[str, Any]) -> dict[str, str | None]:
    ids: dict[str, str | None] = {}
    for name in ID_FIELDS:
        text = event.get(name)
        ids[name] = text if text is None else _checked_id(text, name)
    return ids


def _checked_id(text: object, name: str) -> str | None:
    if text == "":
        return None
    if not isinstance(text, str):
        raise _bad("invalid_field", f"{name} must be text", name)
    if len(text) > ID_LIMIT:
        detail = f"{name} has {len(text)} characters; the limit is {ID_LIMIT}, shorten it"
        raise _bad("field_too_long", detail, name, limit=ID_LIMIT)
    return text


def _read_integer(event: Mapping[str, Any], name: str) -> int | None:
    number = event.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT64_MAX:
        raise _bad("invalid_field", f"{name} must be a whole number from 0 to {INT64_MAX}", name)
    return number


def _read_time(event: Mapping[str, Any], name: str) -> int | None:
    """Return Unix nanoseconds; the integer form is exact and wins when both are given."""
    field = f"{name}_unix_nano"
    value = event.get(field)
    try:
        if value is not None:
            return parse_unix_nano(value)
        field = name
        text = event.get(name)
        if text is None:
            return None
        return parse_rfc3339(text if isinstance(text, str) else "")
    except ValueError as error:
        raise _bad("invalid_time", f"{field} {error}", field) from None


def _note_clocks(occurred_ns: int, ended_ns: int | None, received_ns: int, repairs: Repairs) -> None:
    last = occurred_ns if ended_ns is None else max(occurred_ns, ended_ns)
    if occurred_ns < _FAR_PAST_NS or last > received_ns + _FAR_FUTURE_NS:
        repairs.add("clock_far")
    if ended_ns is not None and ended_ns < occurred_ns:
        repairs.add("end_before_start")


def _read_data(event: Mapping[str, Any], repairs: Repairs) -> dict[str, Any]:
    """Return `data`; what stands beside the envelope's own fields is kept in it, out of the way of the type's."""
    data = event.get("data")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise _bad("invalid_field", "data must be an object", "data")
    strangers = event.keys() - _KNOWN_FIELDS
    if strangers:
        repairs.add("unknown_field")
        data = {**data, "unknown_fields": {name: event[name] for name in sorted(strangers)}}
    return data


def _text_as_it_is(
    ids: dict[str, str | None], data: dict[str, Any], limits: WireLimits, extra: ExtraRules | None
) -> bytes | None:
    """Return `data` as JSON when nothing of the event needs a change, as is nearly always; None may only mean doubt."""
    if limits.max_key_bytes < 4 * PLAIN_LENGTH:
        return None
    texts = plain_texts(data, named=extra is not None)
    if texts is None:
        return None
    shown = [text for text in ids.values() if text is not None]
    try:
        text = orjson.dumps(data)
        told = "\n".join(shown).encode()
    except (TypeError, UnicodeEncodeError):  # half a surrogate pair, nesting
        return None
    if b"\\u0000" in text or b"\0" in told or text.count(b"{") + text.count(b"[") >= limits.max_nesting:
        return None
    return None if holds_secret(shown + texts, extra) else text


def _repaired(ids: dict[str, str | None], data: dict[str, Any], limits: WireLimits, repairs: Repairs) -> dict[str, Any]:
    """Return a copy of `data` that PostgreSQL can hold; ids are made so in place."""
    for name, text in ids.items():
        if text is not None:
            ids[name] = clean_text(text, repairs)
    levels = limits.max_nesting - 1  # the event around it is one
    return dict(clean_value(data, repairs, max_nesting=levels, max_key_bytes=limits.max_key_bytes))


def _redacted(
    ids: dict[str, str | None], data: dict[str, Any], repairs: Repairs, extra: ExtraRules | None
) -> dict[str, Any]:
    """Return `data` without secrets; ids are cleaned in place. One look tells that none of them holds a secret."""
    if redact("\n".join(text for text in ids.values() if text), extra)[1]:
        for name, text in ids.items():
            if text:
                cleaned, found = redact(text, extra)
                ids[name] = cleaned[:ID_LIMIT]
                if found:
                    repairs.add("redacted")
    kept, found = redact_value(data, extra)
    if found:
        repairs.add("redacted")
    return kept if isinstance(kept, dict) else {}


def _split(data: dict[str, Any], max_bytes: int, repairs: Repairs) -> tuple[dict[str, Any], tuple[MessageBody, ...]]:
    """Move the messages out of `data`; each is held to the size limit of its own, so a long history stays whole."""
    try:
        return split_messages(data, max_bytes, repairs)
    except ValueError:
        detail = f"a message in new_messages is over {max_bytes} bytes in many small parts and cannot be cut"
        raise _bad("event_too_large", detail, "data.new_messages", limit=max_bytes) from None


def _within_size(
    ids: Mapping[str, str | None], data: dict[str, Any], max_bytes: int, repairs: Repairs
) -> dict[str, Any]:
    """Return `data` cut to the limit. What names the messages of a request is bounded apart and is not counted."""
    named = data.get("new_messages") if ids["type"] in MESSAGE_TYPES else None
    if not isinstance(named, list):
        return _cut(ids, data, max_bytes, repairs)
    rest = {name: value for name, value in data.items() if name != "new_messages"}
    return {**_cut(ids, rest, max_bytes, repairs), "new_messages": named}


def _cut(ids: Mapping[str, str | None], data: dict[str, Any], max_bytes: int, repairs: Repairs) -> dict[str, Any]:
    room = max_bytes - sum(len(text.encode()) for text in ids.values() if text)
    try:
        return dict(cut_to_size(data, max(room, _MIN_DATA_BYTES), repairs))
    except ValueError:
        detail = f"the event is over {max_bytes} bytes in many small parts and cannot be cut; send less in data"
        raise _bad("event_too_large", detail, "data", limit=max_bytes) from None
