"""How a model request is told as what it adds to the one before it, and put together again. Pure.

The journal of a run names messages and the message store holds their texts, so a run grows with what was said and
not with the square of its turns. (Seed 001 §10.3, §16.3.)
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ingest.errors import IngestError
from ingest.repair import Repairs, cut_to_size

REQUEST_TYPE: Final = "model.requested"
# A foreign span tells of request and answer in one event.
MESSAGE_TYPES: Final = (REQUEST_TYPE, "model.completed", "model.failed")
MOST_MESSAGES: Final = 10_000  # named by one event
# Said about a message by the request that carries it; everything else is the message itself.
_ABOUT: Final = ("hash", "tokens", "position")
_REPEATED: Final = ("role", "origin", "tokens", "call_id", "position")


@dataclass(frozen=True, slots=True)
class MessageBody:
    """One message to be kept: SHA-256 (hex) of its canonical JSON (keys sorted, no spaces, UTF-8), and that JSON.

    `body` is None for a message that is only named: what is kept of it is needed for longer.
    """

    hash: str
    body: str | None


def split_messages(
    data: dict[str, Any], max_bytes: int, repairs: Repairs
) -> tuple[dict[str, Any], tuple[MessageBody, ...]]:
    """Return the data of a request with references in place of its new messages, and their bodies.

    A reference is {hash, role, origin, tokens, call_id, position} plus `sent_hash`, the sender's own. A message that
    is nothing but a hash refers to one sent before. A body over `max_bytes` has its longest texts cut. Raises
    IngestError for a message that is no object, ValueError for one that cannot be cut to size.
    """
    entries = data.get("new_messages")
    if not entries or not isinstance(entries, list):
        return data, ()
    if len(entries) > MOST_MESSAGES:
        detail = f"data.new_messages has {len(entries)} messages; the limit is {MOST_MESSAGES}, tell what is new only"
        raise IngestError("too_many_messages", 400, detail, field="data.new_messages", limit=MOST_MESSAGES)
    references: list[dict[str, Any]] = []
    bodies: list[MessageBody] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise IngestError("invalid_data", 400, f"data.new_messages[{index}] must be an object", field="data")
        about = {name: entry[name] for name in _REPEATED if entry.get(name) is not None}
        body = {name: value for name, value in entry.items() if name not in _ABOUT and value is not None}
        sent_hash = entry.get("hash")
        if not body and isinstance(sent_hash, str):
            bodies.append(MessageBody(sent_hash, None))
            references.append({"hash": sent_hash, **about})
            continue
        text = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        if len(text) > max_bytes:
            text = orjson.dumps(cut_to_size(body, max_bytes, repairs), option=orjson.OPT_SORT_KEYS)
        kept = MessageBody(hashlib.sha256(text).hexdigest(), text.decode())
        bodies.append(kept)
        references.append({"hash": kept.hash, **about, **({"sent_hash": sent_hash} if sent_hash else {})})
    return {**data, "new_messages": references}, tuple(bodies)


def follow_requests(
    requests: Mapping[str, Mapping[str, Any]], event_id: str
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the message references of request `event_id` in order, and the event ids its chain lacks.

    `requests` maps event ids to data of `model.requested`. Each reference says by `is_new` whether this very request
    added it. The walk goes from the request back to the first; a cycle ends it like a lost request.
    """
    pieces: list[list[dict[str, Any]]] = []
    seen: set[str] = set()
    current: Any = event_id
    wanted: int | None = None  # how many messages of `current`, from its start, the request after it kept
    while current is not None:
        data = requests.get(current) if isinstance(current, str) else None
        if data is None or current in seen:
            return _joined(pieces), (str(current),)
        seen.add(current)
        n_kept, added = _told(data)
        if wanted is not None:
            added = added[: max(0, wanted - n_kept)]
        pieces.append([{**entry, "is_new": current == event_id} for entry in added])
        wanted = n_kept if wanted is None else min(n_kept, wanted)
        current = data.get("follows") if wanted > 0 else None
    return _joined(pieces), ()


def _told(data: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """Return (n_kept, new_messages) of a request, as far as they have the shape of one."""
    n_kept, entries = data.get("n_kept"), data.get("new_messages")
    added = entries if isinstance(entries, list) else []
    return (
        max(0, n_kept) if isinstance(n_kept, int) else 0,
        [entry for entry in added if isinstance(entry, dict) and isinstance(entry.get("hash"), str)],
    )


def _joined(pieces: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [entry for piece in reversed(pieces) for entry in piece]
