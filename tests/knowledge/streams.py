"""Recorded runs and hand-made events as the fold takes them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contract.events import ID_FIELDS
from ingest.journal import JournalEvent

RECORDED = Path(__file__).parent.parent / "events"
RECEIVED = datetime(2026, 11, 30, 3, tzinfo=UTC)


def recorded_names() -> list[str]:
    return sorted(path.stem for path in RECORDED.glob("*.json"))


def wire_of(name: str) -> list[dict[str, Any]]:
    """Return a recorded run as it was sent to `POST /v1/events`."""
    events: list[dict[str, Any]] = json.loads((RECORDED / f"{name}.json").read_text())["events"]
    return events


def recorded(name: str) -> list[JournalEvent]:
    """Return a recorded run as journal rows, numbered in the order it was sent."""
    return arrive([from_wire(event) for event in wire_of(name)])


def from_wire(event: dict[str, Any]) -> JournalEvent:
    ids = {field: event.get(field) for field in ID_FIELDS}
    return JournalEvent(
        **ids,  # type: ignore[arg-type]
        arrival=0,
        seq=event.get("seq"),
        turn=event.get("turn"),
        occurred_ns=event["occurred_at_unix_nano"],
        ended_ns=event.get("ended_at_unix_nano"),
        received_at=RECEIVED,
        repairs=(),
        data=event.get("data") or {},
    )


def arrive(events: Iterable[JournalEvent]) -> list[JournalEvent]:
    """Return the events numbered as the journal does when they come in this order."""
    return [replace(event, arrival=number) for number, event in enumerate(events, 1)]


def run_of(*events: tuple[str, dict[str, Any]]) -> list[JournalEvent]:
    """Return a run `r-1` of (type, envelope fields and `data`) in order, a millisecond and a `seq` apart."""
    made = []
    for number, (kind, fields) in enumerate(events, 1):
        base = {"event_id": f"r-1:{number}", "run_id": "r-1", "type": kind, "seq": number}
        made.append(from_wire({**base, "occurred_at_unix_nano": number * 1_000_000, **fields}))
    return arrive(made)


def ids(events: Sequence[JournalEvent]) -> list[str]:
    return [event.event_id for event in events]
