"""What the row of a foreign span or log record says: its name, what it was given, how it went. Pure. (Seed 001 §14.)"""

from collections.abc import Mapping
from typing import Any, Final

from debugger.queries.grouping import Group
from debugger.queries.pieces import Piece, arguments_gist, counted, diagnostic_gist, one_line, plural, said
from debugger.queries.words import Words, open_words
from ingest.journal import JournalEvent
from knowledge.spans import failure_of, has_failed, kind_of, span_of

PLAIN: Final = ("span", "agent", "model", "tool")  # kinds that need no word beside the name
WARNS, FAILS = 13, 17  # severity numbers from which a log record is a warning, an error
SEVERITIES: Final = {"warn": "warn", "warning": "warn", "error": "bad", "fatal": "bad", "critical": "bad"}


def span_row(group: Group) -> Words:
    """Return what the row of a foreign span says."""
    event = group.whole or group.events[0]
    kind = kind_of(event)
    pieces = [*_name(event, kind), *SAYS.get(kind, _io)(event)]
    if group.ender is None:
        return open_words(group, pieces, "not ended yet", "no end was reported")
    if has_failed(event):
        reason = failure_of(event)
        error_class = said(event.data, "error_class")
        gist = diagnostic_gist(reason) or "failed"
        told = f"{gist} · {error_class}" if error_class and error_class not in gist else gist
        return Words((*pieces, Piece(told, "bad")), "bad")
    state = {"model": "model", "tool": "ok"}.get(kind, "ok" if event.type.startswith("run.") else "plain")
    return Words((*pieces, *_result(event, kind)), state)


def _name(event: JournalEvent, kind: str) -> list[Piece]:
    name = said(span_of(event), "name") or event.type
    if kind == "tool" and event.tool:
        server = (Piece(event.mcp_server, "b"),) if event.mcp_server else ()
        return [*server, Piece(event.tool, "keep" if server else "b")]
    word = () if kind in PLAIN or kind in name.casefold() else (Piece(kind, "soft"),)
    return [Piece(one_line(name), "b"), *word]


def _model(event: JournalEvent) -> list[Piece]:
    data, name = event.data, said(span_of(event), "name")
    model = said(data, "model")
    is_named = any(model.startswith(word) for word in name.split())  # a version of it may be what answered
    pieces = [Piece(model, "soft")] if model and not is_named else []
    given, made = counted(data, "input_tokens"), counted(data, "output_tokens")
    if given is not None or made is not None:
        pieces.append(Piece(f"{_number(given)} → {_number(made)} tokens", "soft keep"))
    return pieces


def _number(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"


def _tool(event: JournalEvent) -> list[Piece]:
    arguments = arguments_gist(said(event.data, "arguments"))
    return [Piece(arguments, "mono")] if arguments else []


def _reranker(event: JournalEvent) -> list[Piece]:
    given, kept = _listed(event.data, "input_documents"), _listed(event.data, "output_documents")
    if given is None and kept is None:
        return []
    counts = f"{_number(given)} in, {_number(kept)} kept"
    dropped = (given or 0) - (kept or 0)
    return [Piece(f"{counts}, {dropped:,} dropped" if given is not None and dropped > 0 else counts, "keep")]


def _listed(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    return len(value) if isinstance(value, list) else None


def _io(event: JournalEvent) -> list[Piece]:
    asked = said(event.data, "task") or said(event.data, "input")
    return [Piece(f"“{one_line(asked)}”", "quiet")] if asked else []


SAYS: Final = {"model": _model, "tool": _tool, "reranker": _reranker}


def _result(event: JournalEvent, kind: str) -> list[Piece]:
    data = event.data
    calls = data.get("calls")
    n_calls = len(calls) if isinstance(calls, list) else counted(data, "n_calls")
    text = said(data, "text") if kind == "model" else said(data, "answer")
    pieces = [Piece(f"→ {plural(n_calls, 'call')}", "soft keep")] if n_calls else []
    return [*pieces, Piece(f"“{one_line(text)}”", "quiet")] if text else pieces


def log_row(group: Group) -> Words:
    """Return what the row of a log record says."""
    event = group.events[0]
    data = event.data
    severity, body = said(data, "severity") or said(data, "severity_text"), data.get("body")
    level = counted(data, "severity_number") or counted(data, "severity") or 0
    state = SEVERITIES.get(severity.casefold(), "bad" if level >= FAILS else "warn" if level >= WARNS else "plain")
    tone = state if state != "plain" else "soft"
    word = (Piece(severity.lower(), tone),) if severity else ()
    text = body if isinstance(body, str) else ""
    gist = (Piece(one_line(text), "soft"),) if text else ()
    return Words((Piece(said(data, "event_name") or "Log", "b"), *word, *gist), state)
