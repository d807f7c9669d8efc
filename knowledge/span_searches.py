"""Searches that foreign spans report: a retriever's documents as candidates, what a reranker dropped of them.

What set such a search off nobody reported. A search right after a failed call of the same parent is told as inferred,
in fields of its own, and counted nowhere as reported. (Seed 001 §10.3, §13.)
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

from contract.events import ID_LIMIT
from ingest.journal import JournalEvent
from knowledge import event_data as read
from knowledge.activations import ChainRows, Row
from knowledge.event_data import fill
from knowledge.spans import Spans, end_of, failure_of, has_failed, is_open, kind_of

AGENT_SEARCH: Final = "agent.search"  # the application searched by itself, nobody said why
TOOL_FAILED: Final = "tool.failed"
RERANKED: Final = "reranked_out"
DOCUMENTS_LIMIT: Final = 1_000  # documents read of one search
STEPS: Final = ("tool", "model", "retriever", "agent")  # kinds between which "right after" is judged


def add_searches(rows: ChainRows, spans: Spans) -> None:
    """Add to the rows what searches made of spans found, what a reranker dropped, and what may have set them off."""
    searches = [spans.events[place] for place in spans.places if spans.events[place].type == "hint.query"]
    for event in searches:
        _take_search(rows, event)
    listed = _listed(rows, searches)
    for place in spans.of_kind("reranker"):
        _take_reranker(rows, spans.events[place], listed)
    _infer(rows, spans)


def _take_search(rows: ChainRows, event: JournalEvent) -> None:
    row = rows.activations.setdefault(event.activation_id or event.event_id, {})
    fill(row, query=read.text(event.data, "query"), requested_ns=event.occurred_ns, requested_event_id=event.event_id)
    if is_open(event) or event.ended_ns is None:
        return
    failed = has_failed(event)
    n_found = 0 if failed else _take_documents(rows, event)
    result = read.identity(event.data, "result") or ("error" if failed else "success" if n_found else "empty")
    fill(row, completed_ns=end_of(event), completed_event_id=event.event_id, answered=result)
    fill(row, search_ms=(end_of(event) - event.occurred_ns) / 1e6, error=failure_of(event) if failed else "")


def _take_documents(rows: ChainRows, event: JournalEvent) -> int:
    """Make a candidate of each document, in order; return how many there are."""
    activation_id = event.activation_id or event.event_id
    documents = read.entries(event.data, "documents")[:DOCUMENTS_LIMIT]
    for rank, (name, document) in enumerate(_named(documents), 1):
        row = rows.candidates.setdefault((activation_id, name), {})
        fill(row, rank=rank, proposition=read.text(document, "text"), offered_ns=end_of(event))
        fill(row, scores=_score(document, "score"))
    return len(documents)


def _named(documents: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Give each document a name of its own: its id, numbered when several pieces of it were found."""
    seen: dict[str, int] = {}
    named = []
    for place, document in enumerate(documents, 1):
        name = read.identity(document, "id") or f"document {place}"
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name[: ID_LIMIT - 12]} #{seen[name]}", document))
    return named


def _score(document: Mapping[str, Any], name: str) -> dict[str, float]:
    value = document.get("score")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= read.LARGEST_NUMBER
    return {name: float(value)} if is_number else {}  # type: ignore[arg-type]


def _listed(rows: ChainRows, searches: Iterable[JournalEvent]) -> dict[str, list[tuple[int, str]]]:
    """Return document -> (when its search began, activation), in order, of the searches made of spans."""
    begun = {event.activation_id or event.event_id: event.occurred_ns for event in searches}
    listed: dict[str, list[tuple[int, str]]] = {}
    for activation_id, name in rows.candidates:
        if activation_id in begun:
            listed.setdefault(name, []).append((begun[activation_id], activation_id))
    return {name: sorted(found) for name, found in listed.items()}


def _take_reranker(rows: ChainRows, event: JournalEvent, listed: Mapping[str, list[tuple[int, str]]]) -> None:
    """What went into a reranker and did not come out was dropped, in the latest search before it that found it."""
    if is_open(event) or has_failed(event):
        return
    given = _named(read.entries(event.data, "input_documents")[:DOCUMENTS_LIMIT])
    kept = dict(_named(read.entries(event.data, "output_documents")[:DOCUMENTS_LIMIT]))
    for name, _ in given:
        found = listed.get(name, [])
        place = bisect_right(found, event.occurred_ns, key=itemgetter(0))
        if not place:
            continue
        row = rows.candidates[found[place - 1][1], name]
        if name in kept:
            row["scores"] = {**_score(kept[name], "reranked"), **row.get("scores", {})}
        else:
            fill(row, dropped_ns=end_of(event), drop_reason=RERANKED, drop_detail={"event_id": event.event_id})


def _infer(rows: ChainRows, spans: Spans) -> None:
    """Note for each search without a reported cause the failed call it came right after, under the same parent."""
    last: dict[str, JournalEvent] = {}
    for place in spans.places:
        event = spans.events[place]
        if event.caused_by is None or kind_of(event) not in STEPS:
            continue
        before = last.get(event.caused_by)
        last[event.caused_by] = event
        if event.type != "hint.query" or before is None or before.type != TOOL_FAILED:
            continue
        row: Row = rows.activations.get(event.activation_id or event.event_id, {})
        unsaid = row.get("trigger", AGENT_SEARCH) == AGENT_SEARCH and "source_event_id" not in row
        if unsaid and end_of(before) <= event.occurred_ns:
            fill(row, inferred_trigger=TOOL_FAILED, inferred_event_id=before.event_id)
