"""How the fold reads events: in one order whatever the order of arrival, and never trusting what `data` holds.

The order is the page's: the sender's `seq` where there is one, then `occurred_ns`. Event ids settle ties, so that
the order, and all that is derived in it, depends on the events alone. (Seed 001 §13.)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from contract.events import ID_LIMIT
from contract.text import clip
from ingest.journal import JournalEvent

INT32_MAX: Final = 2**31 - 1
LARGEST_NUMBER: Final = 1e15  # durations and probabilities beyond are nonsense, and would ruin sums
TEXT_LIMIT: Final = 4_000  # code points kept of a task, an answer, an error


def in_order(events: Iterable[JournalEvent]) -> list[JournalEvent]:
    """Return the events in reading order, each id once: the copy that arrived first."""
    first: dict[str, JournalEvent] = {}
    for event in sorted(events, key=lambda event: event.arrival):
        first.setdefault(event.event_id, event)
    return sorted(first.values(), key=place)


def place(event: JournalEvent) -> tuple[bool, int, int, str]:
    """Return where an event stands among the others of its run."""
    return event.seq is None, event.seq or 0, event.occurred_ns, event.event_id


def by_type(events: Sequence[JournalEvent]) -> dict[str, list[JournalEvent]]:
    """Return the events of each type, in the order given."""
    found: dict[str, list[JournalEvent]] = {}
    for event in events:
        found.setdefault(event.type, []).append(event)
    return found


def text(data: Mapping[str, Any], key: str, limit: int | None = None) -> str:
    """Return a text of `data` within `limit` code points, or "" when there is none."""
    value = data.get(key)
    if not isinstance(value, str):
        return ""
    return value if limit is None else clip(value, limit)


def identity(data: Mapping[str, Any], key: str) -> str | None:
    """Return an id or word of `data`, cut at the limit of ids, or None when there is none."""
    return text(data, key)[:ID_LIMIT] or None


def whole(data: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number from 0 to 2^31 - 1, or None for anything else."""
    value = data.get(key)
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX
    return value if fits else None


def number(data: Mapping[str, Any], key: str) -> float | None:
    """Return a number from 0 to 10^15, or None for anything else."""
    value = data.get(key)
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST_NUMBER
    return float(value) if fits else None  # type: ignore[arg-type]


def flag(data: Mapping[str, Any], key: str) -> bool | None:
    value = data.get(key)
    return value if isinstance(value, bool) else None


def mapping(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def entries(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list of `data`; whatever else stands in it is passed over."""
    value = data.get(key)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def words(data: Mapping[str, Any], key: str) -> list[str]:
    """Return the texts of a list of `data`."""
    value = data.get(key)
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def fill(row: dict[str, Any], **values: Any) -> None:
    """Set each value the row does not have yet; None and what is empty say nothing and are passed over."""
    for name, value in values.items():
        if name not in row and value is not None and value not in ("", [], {}):
            row[name] = value
