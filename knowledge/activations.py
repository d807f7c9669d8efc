"""What the events of activations and hints say: who searched for what, what was found, how far each hint came.

Each stage is a fact of its own with its own report: offered by Observation, selected, injected and dropped by the
runtime. No report of one stage stands in for another. (Seed 001 §10.3, §13.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.events import ID_LIMIT
from ingest.journal import JournalEvent
from knowledge import event_data as read
from knowledge.chain_facts import UNKNOWN_ITEM
from knowledge.event_data import fill
from knowledge.spans import is_span, is_whole, kind_of

UNKNOWN_ACTIVATION: Final = ""  # where deliveries stand whose activation nothing names
STAMPS: Final = {"selected": "selected_ns", "injected": "injected_ns", "dropped": "dropped_ns"}
# Whose word comes first about what an activation is: what asked before what answered.
ACTIVATION_TYPES: Final = (
    "activation.requested",
    "activation.skipped",
    "activation.deferred",
    "activation.completed",
    "hint.query",
)
TRIGGERING: Final = ("tool", "model")  # kinds of work that set off a search reported by the runtime itself
PLACED_TYPES: Final = ("hint.offered", "hint.delivery", "hint.used", "hint.ignored", "hint.outcome")

Row = dict[str, Any]
Place = tuple[str, str]  # activation_id, knowledge_id


@dataclass(slots=True)
class ChainRows:
    """Activations and candidates while they are put together: field name -> value, absent while unknown."""

    activations: dict[str, Row]
    candidates: dict[Place, Row]
    events: dict[Place, list[JournalEvent]]  # reports of use and outcome, in order


def collect_rows(events: Sequence[JournalEvent]) -> ChainRows:
    """Return the rows of a run, given its events in order. What a row lacks was not reported."""
    typed = read.by_type(events)
    by_id = {event.event_id: event for event in events}
    rows = ChainRows({}, {}, {})
    for kind in ACTIVATION_TYPES:
        for event in typed.get(kind, []):
            _take_activation(rows, event, by_id)
    placer = Placer(typed)
    for kind in PLACED_TYPES:
        for event in typed.get(kind, []):
            place = placer.place(event)
            if place is not None:
                _take_hint(rows, event, place)
    for event in typed.get("hint.query", []):
        _take_candidates(rows, event)
    return rows


def _take_activation(rows: ChainRows, event: JournalEvent, by_id: Mapping[str, JournalEvent]) -> None:
    activation_id = event.activation_id or event.event_id
    row = rows.activations.setdefault(activation_id, {})
    data = event.data
    source = source_of(event, by_id)
    fill(
        row,
        trigger=read.identity(data, "trigger"),
        source_event_id=source,
        tool=event.tool,
        mcp_server=event.mcp_server,
        call_id=event.call_id,
        turn=event.turn,
        situation_key=read.text(data, "situation_key"),
        situation_class=read.text(data, "situation_class"),
        fingerprint=read.text(data, "fingerprint"),
    )
    READERS[event.type](row, event)
    origin = by_id.get(source or "")
    if origin is not None:
        fill(row, tool=origin.tool, mcp_server=origin.mcp_server, call_id=origin.call_id, turn=origin.turn)


def source_of(event: JournalEvent, by_id: Mapping[str, JournalEvent]) -> str | None:
    """Return the id of the event that triggered an activation: the first cause that is no activation event."""
    cause = read.identity(event.data, "source_event_id") or (event.caused_by if _is_named(event, by_id) else None)
    seen: set[str] = set()
    while cause is not None and cause not in seen and cause in by_id and by_id[cause].type in ACTIVATION_TYPES:
        seen.add(cause)
        cause = by_id[cause].caused_by
    # What answers is caused by what asked: while that has not arrived, the cause is not known to be the trigger.
    unsure = event.type == "activation.completed" and cause not in by_id
    return None if unsure or cause in seen else cause


def _is_named(event: JournalEvent, by_id: Mapping[str, JournalEvent]) -> bool:
    """Say whether `caused_by` names a trigger. That of a span is the span around it, which set off nothing."""
    if not is_span(event):
        return True
    around = by_id.get(event.caused_by or "")
    return not is_whole(event) and around is not None and kind_of(around) in TRIGGERING


def _take_requested(row: Row, event: JournalEvent) -> None:
    data = event.data
    fill(row, requested_ns=event.occurred_ns, requested_event_id=event.event_id)
    fill(row, query=read.text(data, "query"), budget=read.mapping(data, "budget"))


def _take_skipped(row: Row, event: JournalEvent) -> None:
    detail = {"same_as": read.identity(event.data, "same_as"), "limit": read.whole(event.data, "limit")}
    fill(
        row,
        skipped_ns=event.occurred_ns,
        skipped_event_id=event.event_id,
        skip_reason=read.identity(event.data, "skip_reason"),
        skip_detail={name: value for name, value in detail.items() if value is not None},
    )


def _take_deferred(row: Row, event: JournalEvent) -> None:
    fill(row, deferred_ns=event.occurred_ns, deferred_limit=read.whole(event.data, "limit"))


def _take_completed(row: Row, event: JournalEvent) -> None:
    data = event.data
    fill(
        row,
        completed_ns=event.occurred_ns,
        completed_event_id=event.event_id,
        answered=read.identity(data, "result"),
        duration_ms=read.number(data, "duration_ms"),
        error=read.text(data, "error", read.TEXT_LIMIT),
        block=read.text(data, "block"),
        block_tokens=read.whole(data, "tokens"),
        tokens_left=read.whole(data, "tokens_left"),
        algorithm_version=read.text(data, "algorithm_version", ID_LIMIT),
        said_retrieved=read.whole(data, "n_retrieved"),
        shadow_tokens=read.whole(data, "shadow_tokens"),
    )
    _take_draw(row, read.mapping(data, "holdout"))


def _take_draw(row: Row, draw: Mapping[str, Any]) -> None:
    """Keep the draw of a holdout, of both arms alike; without an arm there was none."""
    arm, share = read.identity(draw, "arm"), read.number(draw, "share")
    if arm is not None:
        fill(row, arm=arm, experiment=read.identity(draw, "experiment"), holdout_tokens=read.whole(draw, "tokens"))
        fill(row, share=share if share is not None and share <= 1 else None)


def _take_query(row: Row, event: JournalEvent) -> None:
    data = event.data
    fill(
        row,
        queried_ns=event.occurred_ns,
        query_result=read.identity(data, "result"),
        search_ms=read.number(data, "duration_ms"),
        algorithm_version=read.text(data, "algorithm_version", ID_LIMIT),
        matcher=read.text(data, "matcher", ID_LIMIT),
        query_diagnostics=read.mapping(data, "query_diagnostics"),
        found_retrieved=read.whole(data, "n_retrieved"),
    )


READERS: Final = {
    "activation.requested": _take_requested,
    "activation.skipped": _take_skipped,
    "activation.deferred": _take_deferred,
    "activation.completed": _take_completed,
    "hint.query": _take_query,
}


class Placer:
    """Finds the activation and the item of a hint's events when only some of them name both."""

    def __init__(self, typed: Mapping[str, Sequence[JournalEvent]]) -> None:
        self._by_hint: dict[str, Row] = {}
        self._by_item: dict[str, str] = {}
        for kind in PLACED_TYPES:
            for event in typed.get(kind, []):
                self._learn(event)

    def _learn(self, event: JournalEvent) -> None:
        hint_id = hint_id_of(event)
        if hint_id:
            known = self._by_hint.setdefault(hint_id, {})
            fill(known, activation_id=event.activation_id, knowledge_id=event.knowledge_id)
        if event.knowledge_id and event.activation_id:
            self._by_item.setdefault(event.knowledge_id, event.activation_id)

    def place(self, event: JournalEvent) -> Place | None:
        """Return where the event belongs, or None when it names neither a hint nor an item."""
        hint_id = hint_id_of(event)
        known = self._by_hint.get(hint_id or "", {})
        knowledge_id = event.knowledge_id or known.get("knowledge_id")
        activation_id = event.activation_id or known.get("activation_id") or self._by_item.get(knowledge_id or "")
        if not knowledge_id and not hint_id:
            return None
        return activation_id or UNKNOWN_ACTIVATION, knowledge_id or f"{UNKNOWN_ITEM}{hint_id}"[:ID_LIMIT]


def hint_id_of(event: JournalEvent) -> str | None:
    """Return the hint an event is about; an offer is its hint."""
    return event.hint_id or (event.event_id if event.type == "hint.offered" else None)


def _take_hint(rows: ChainRows, event: JournalEvent, place: Place) -> None:
    activation = rows.activations.setdefault(place[0], {})
    row = rows.candidates.setdefault(place, {})
    fill(row, hint_id=hint_id_of(event))
    if event.type == "hint.offered":
        fill(row, offered_ns=event.occurred_ns, **_description(event.data))
        fill(
            activation,
            trigger=read.identity(event.data, "trigger"),
            source_event_id=read.identity(event.data, "source_event_id"),
            algorithm_version=read.text(event.data, "algorithm_version", ID_LIMIT),
            tool=event.tool,
            mcp_server=event.mcp_server,
        )
    elif event.type == "hint.delivery":
        _take_delivery(activation, row, event)
    else:
        rows.events.setdefault(place, []).append(event)


def _take_delivery(activation: Row, row: Row, event: JournalEvent) -> None:
    data = event.data
    stage = read.text(data, "stage")
    if stage not in STAMPS:
        return
    fill(row, **{STAMPS[stage]: event.occurred_ns}, delivered_tokens=read.whole(data, "tokens"))
    if stage == "dropped":
        numbers = {name: read.number(data, name) for name in ("needed", "left", "limit", "probability")}
        detail = {name: _plain(value) for name, value in numbers.items() if value is not None}
        fill(row, drop_reason=read.identity(data, "drop_reason"), drop_detail=detail)
    if stage == "injected":
        where = {
            "position": read.whole(data, "position"),
            "request_event_id": read.identity(data, "request_event_id"),
        }
        fill(row, injected_event_id=event.event_id, message_hash=read.identity(data, "message_hash"), **where)
        fill(activation, injected_event_id=event.event_id, **where)


def _plain(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _take_candidates(rows: ChainRows, event: JournalEvent) -> None:
    activation_id = event.activation_id or event.event_id
    for entry in read.entries(event.data, "candidates"):
        knowledge_id = read.identity(entry, "knowledge_id")
        if knowledge_id is not None:
            row = rows.candidates.setdefault((activation_id, knowledge_id), {})
            fill(row, hold_reason=read.identity(entry, "hold_reason"), **_description(entry))


def _description(data: Mapping[str, Any]) -> Row:
    return {
        "revision": read.whole(data, "revision"),
        "rank": read.whole(data, "rank"),
        "proposition": read.text(data, "proposition"),
        "state": read.identity(data, "state"),
        "matched_by": read.words(data, "matched_by"),
        "scores": read.mapping(data, "scores"),
        "item_tokens": read.whole(data, "tokens"),
    }
