"""Foreign spans as the events they are stored as: for the fold as journal rows, for the pages as wire events."""

from collections.abc import Iterable
from typing import Any

from ingest.journal import JournalEvent
from tests.knowledge.streams import arrive, from_wire

START_NS = 1_795_921_928_000_000_000  # 2026-11-29, within a day of when the tests say events were received
MS = 1_000_000
TRACE = "5b8aa5a2d2c872e8321cf37308d69df2"
TYPES = {"model": "model", "tool": "tool", "agent": "run", "chain": "run"}


def span(
    number: int,
    kind: str = "span",
    *,
    parent: int | str | None = None,
    start: int = 0,
    ms: int | None = 10,
    error: str = "",
    data: dict[str, Any] | None = None,
    name: str = "",
    run_id: str = TRACE,
    **envelope: Any,
) -> dict[str, Any]:
    """Return span `number` as a wire event: `start` in ms after START_NS, `ms` its length (None while it runs)."""
    span_id, is_open = f"{number:016x}", ms is None
    caused_by = f"{parent:016x}" if isinstance(parent, int) else parent
    begun = START_NS + start * MS
    ended = {} if ms is None else {"ended_at_unix_nano": begun + ms * MS}
    told = {
        "name": name or f"{kind} {number}", "kind": kind, "span_kind": "internal", "trace_id": TRACE,
        "status": "error" if error else "unset", "status_message": error, "attributes": {}, "moved": {},
    }  # fmt: skip
    ids = {"call_id": span_id, "tool": "search_docs"} if kind == "tool" else {}
    if kind == "retriever":
        ids = {"activation_id": span_id}
    return {
        "event_id": span_id + (":open" if is_open else ""), "run_id": run_id, "caused_by": caused_by,
        "type": type_of(kind, is_open=is_open, failed=bool(error), is_root=parent is None),
        "occurred_at_unix_nano": begun, **ended, **ids, **envelope,
        "data": {**DATA.get(kind, {}), **(data or {}), "span": told},
    }  # fmt: skip


DATA: dict[str, dict[str, Any]] = {
    "model": {"n_kept": 0, "n_messages": 0, "new_messages": []},
    "retriever": {"trigger": "agent.search", "algorithm_version": "store 1.0"},
}


def type_of(kind: str, *, is_open: bool, failed: bool, is_root: bool) -> str:
    if kind == "retriever":
        return "hint.query"
    prefix = TYPES.get(kind, "")
    if not prefix or (prefix == "run" and not is_root):
        return "span"
    opened = "run.started" if prefix == "run" else f"{prefix}.requested"
    return opened if is_open else f"{prefix}.failed" if failed else f"{prefix}.completed"


def journal(events: Iterable[dict[str, Any]]) -> list[JournalEvent]:
    """Return wire events as the journal reads them back, numbered in this order."""
    return arrive([from_wire(event) for event in events])


def agent_run() -> list[dict[str, Any]]:
    """Return an agent that asks a model, calls a tool that fails, searches, reranks and asks again."""
    found = [
        {"id": "doc-1", "text": "Run `git init` first.", "score": 0.91},
        {"id": "doc-2", "text": "Set user.name.", "score": 0.55},
        {"id": "doc-2", "text": "Set user.email.", "score": 0.5},
    ]
    asked = {"model": "gpt-x", "input_tokens": 100, "output_tokens": 20}
    return [
        span(1, "agent", ms=1000, data={"task": "Release it", "answer": "Released.", "agent": "planner"}),
        span(2, "model", parent=1, start=10, ms=100, data={**asked, "text": "I will commit.", "calls": [{}]}),
        span(3, "tool", parent=1, start=120, ms=30, error="fatal: not a git repository", tool="bash"),
        span(4, "retriever", parent=1, start=160, ms=20, data={"query": "not a git repository", "documents": found}),
        span(5, "reranker", parent=1, start=190, ms=5, data={
            "input_documents": found, "output_documents": [{"id": "doc-1", "score": 0.99}]}),
        span(6, "model", parent=1, start=200, ms=700, data={**asked, "text": "Done."}),
    ]  # fmt: skip
