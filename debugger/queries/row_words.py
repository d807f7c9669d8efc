"""What a timeline row says: the sentence and the state of each kind of group. Pure.

Explanations of words come from contract.stages; a word outside the vocabularies is shown as it is. (Seed 001 §14.)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract import stages
from contract.events import TERMINAL_TYPES
from debugger.queries.grouping import Group
from debugger.queries.pieces import (
    Piece,
    arguments_gist,
    counted,
    diagnostic_gist,
    one_line,
    plural,
    said,
)
from ingest.journal import JournalEvent
from knowledge.models import Activation

HINT_ORIGINS: Final = ("hints", "priming")
TWIN: Final = "twin"  # tone of an activation id that the timeline replaces by its time
STATE_OF_STATUS: Final = {
    "completed": "ok",
    "failed": "bad",
    "cancelled": "warn",
    "escalated": "warn",
    "limit_reached": "warn",
    "running": "open",
}


@dataclass(frozen=True, slots=True)
class Words:
    """A row's sentence and its state: ok, bad, warn, hint, open, muted, plain."""

    pieces: tuple[Piece, ...]
    state: str = "plain"


def group_words(group: Group) -> Words:
    """Return what the row of any group but an activation says."""
    return WORDS_OF.get(group.kind, _other)(group)


def _data(event: JournalEvent | None) -> Mapping[str, Any]:
    return event.data if event is not None else {}


def _model(group: Group) -> Words:
    asked, answered = _data(group.opener), _data(group.ender)
    pieces = [Piece("Model", "b")]
    size = _request_size(asked)
    if size:
        pieces.append(Piece(size, "keep"))
    new = [message for message in asked.get("new_messages") or [] if isinstance(message, dict)]
    n_blocks = sum(message.get("origin") in HINT_ORIGINS for message in new)
    if n_blocks:
        pieces.append(Piece(plural(n_blocks, "hint message"), "hint"))
    if group.ender is None:
        return Words((*pieces, Piece("no answer yet", "soft")), "open")
    if group.ender.type == "model.failed":
        reason = said(answered, "error") or said(answered, "error_class") or "failed"
        return Words((*pieces, Piece(diagnostic_gist(reason), "bad")), "bad")
    n_calls, text = counted(answered, "n_calls"), said(answered, "text")
    if n_calls:
        pieces.append(Piece(f"→ {plural(n_calls, 'call')}", "soft keep"))
    if text:
        pieces.append(Piece(f"“{one_line(text)}”", "quiet"))
    return Words(tuple(pieces), "model")


def _request_size(asked: Mapping[str, Any]) -> str:
    n_messages, tokens = counted(asked, "n_messages"), counted(asked, "tokens")
    n_new = len(asked.get("new_messages") or []) if asked.get("follows") else None
    parts = []
    if n_new is not None and n_messages is not None:
        parts.append(f"{n_messages:,} messages (+{n_new:,})")
    elif n_messages is not None:
        parts.append(plural(n_messages, "message"))
    if tokens is not None:
        parts.append(plural(tokens, "token"))
    return ", ".join(parts)


def _tool(group: Group) -> Words:
    first, last = group.opener or group.events[0], group.ender
    name = [Piece(first.mcp_server, "b")] if first.mcp_server else []
    tool = first.tool or "tool"
    bare = tool.removeprefix(f"mcp__{first.mcp_server}__").removeprefix(f"{first.mcp_server}__")
    pieces = [*name, Piece(bare if name else tool, "keep" if name else "b")]
    arguments = arguments_gist(said(_data(group.opener), "arguments"))
    if arguments:
        pieces.append(Piece(arguments, "mono"))
    ending = _ending(last)
    return Words((*pieces, *ending.pieces), ending.state)


def _ending(last: JournalEvent | None) -> Words:
    """Return how a call or operation ended."""
    if last is None:
        return Words((Piece("no result yet", "soft"),), "open")
    data = last.data
    if last.type.endswith(".completed"):
        copied = said(data, "duplicate_of")
        note = (Piece(f"answered by the identical call {copied}", "soft"),) if copied else ()
        return Words(note, "ok")
    if last.type == "tool.blocked":
        why = said(data, "code") or said(data, "status") or "blocked"
        return Words((Piece("not executed", "warn"), Piece(_with_detail(why, said(data, "detail")), "soft")), "warn")
    error_class = said(data, "error_class") or said(data, "status") or "failed"
    return Words((Piece(_with_detail(error_class, said(data, "detail")), "bad"),), "bad")


def _with_detail(word: str, detail: str) -> str:
    """Return what a failure said and then its word: the text is what tells two failures apart."""
    gist = diagnostic_gist(detail)
    return f"{gist} · {word}" if gist and gist != word else word


def _operation(group: Group) -> Words:
    first = group.opener or group.events[0]
    ending = _ending(group.ender)
    pieces = (Piece("Operation", "b"), Piece(first.tool or first.operation_id or "", "mono"))
    detail = said(_data(group.opener), "detail")
    told = (Piece(one_line(detail), "soft"),) if detail else ()
    running = (Piece("still running", "soft"),) if group.ender is None else ending.pieces
    return Words((*pieces, *told, *running), ending.state)


def _approval(group: Group) -> Words:
    question, decision = said(_data(group.opener), "question"), _data(group.ender)
    pieces = (Piece("Approval", "b"), Piece(one_line(question)))
    if group.ender is None:
        return Words((*pieces, Piece("waits for a person", "warn")), "open")
    approved = decision.get("approved") is True
    by = said(decision, "by")
    answer = ("approved" if approved else "refused") + (f" by {by}" if by else "")
    return Words((*pieces, Piece(answer, "ok" if approved else "warn")), "ok" if approved else "warn")


def _human(group: Group) -> Words:
    pieces = (Piece("Question", "b"), Piece(one_line(said(_data(group.opener), "question"))))
    if group.ender is None:
        return Words((*pieces, Piece("waits for a person", "warn")), "open")
    return Words((*pieces, Piece(f"“{one_line(said(group.ender.data, 'answer'))}”", "soft")), "ok")


def _delegate(group: Group) -> Words:
    child = said(_data(group.opener), "child_run_id") or group.subject
    status = said(_data(group.ender), "status")
    pieces = (Piece("Delegate", "b"), Piece(child, "mono"))
    if group.ender is None:
        return Words((*pieces, Piece("still running", "soft")), "open")
    return Words((*pieces, Piece(status, "soft")), STATE_OF_STATUS.get(status, "plain"))


def _started(group: Group) -> Words:
    data = group.events[0].data
    agent, n_tools = said(data, "agent"), len(data.get("tools") or [])
    pieces = [Piece("Run started", "b")]
    if agent:
        pieces.append(Piece(f"agent {agent}", "soft"))
    if n_tools:
        pieces.append(Piece(plural(n_tools, "tool"), "soft"))
    failed = data.get("failed_servers")
    if isinstance(failed, dict) and failed:
        names = ", ".join(sorted(map(str, failed)))
        return Words((*pieces, Piece(f"could not use MCP server {one_line(names)}", "warn")), "warn")
    return Words(tuple(pieces))


def _terminal(group: Group) -> Words:
    event = group.events[0]
    status = TERMINAL_TYPES[event.type]
    state = STATE_OF_STATUS.get(status, "plain")
    why = said(event.data, "error") or said(event.data, "reason") or said(event.data, "limit")
    answer = said(event.data, "answer")
    pieces = [Piece("Run", "b"), Piece(status.replace("_", " "), state)]
    if why:
        pieces.append(Piece(one_line(why), "soft"))
    if answer and not why:
        pieces.append(Piece(f"“{one_line(answer)}”", "quiet"))
    return Words(tuple(pieces), state)


def _outcome(group: Group) -> Words:
    data = group.events[0].data
    success = data.get("success")
    verdict = {True: "solved", False: "not solved"}.get(success) if isinstance(success, bool) else None
    by = said(data, "by")
    pieces = [Piece("Outcome", "b"), Piece(verdict or "not said", "ok" if success is True else "soft")]
    return Words((*pieces, *((Piece(f"by {by}", "soft"),) if by else ())), "ok" if success is True else "plain")


def _other(group: Group) -> Words:
    event = group.events[0]
    texts = [value for value in event.data.values() if isinstance(value, str) and value]
    is_failure = event.type.endswith(".failed")
    gist = (Piece(one_line(" · ".join(texts[:3])), "bad" if is_failure else "soft"),) if texts else ()
    about = (Piece(event.tool, "mono"),) if event.tool else ()
    return Words((Piece(event.type, "b"), *about, *gist), "bad" if is_failure else "plain")


WORDS_OF: Final[dict[str, Callable[[Group], Words]]] = {
    "model": _model,
    "tool": _tool,
    "operation": _operation,
    "approval": _approval,
    "human": _human,
    "delegate": _delegate,
    "run.started": _started,
    "run.outcome": _outcome,
    **dict.fromkeys(TERMINAL_TYPES, _terminal),
}


def activation_words(group: Group, activation: Activation | None) -> Words:
    """Return what an activation's row says: from its chain, else from the events that have come so far."""
    trigger = activation.trigger if activation else _first_said(group, "trigger")
    badge = Piece(trigger or "trigger unknown", "badge hint")
    skip = group.first("activation.skipped")
    reason = activation.skip_reason if activation else said(_data(skip), "skip_reason")
    deferred = (Piece("put off to the next boundary", "soft"),) if group.first("activation.deferred") else ()
    if reason:
        return _skipped(badge, reason, activation.skip_detail if activation else _data(skip), deferred)
    result = activation.result if activation else _first_said(group, "result", "activation.completed")
    if result in ("timeout", "error"):
        return Words(
            (Piece("Activation", "b"), badge, *deferred, Piece(stages.ACTIVATION_RESULTS[result], "warn")), "warn"
        )
    if result == "empty":
        return Words((Piece("Activation", "b"), badge, *deferred, Piece("nothing known fits", "soft")), "muted")
    if result == "success":
        return Words((Piece("Activation", "b"), badge, *deferred, *_chain_counts(group, activation)), "hint")
    if result:
        return Words((Piece("Activation", "b"), badge, *deferred, Piece(result, "soft")))
    waiting = () if deferred else (Piece("no answer yet", "soft"),)
    return Words((Piece("Activation", "b"), badge, *deferred, *waiting), "open")


def _first_said(group: Group, name: str, *types: str) -> str:
    return next(
        (word for event in group.events if (not types or event.type in types) and (word := said(event.data, name))), ""
    )


def _skipped(badge: Piece, reason: str, detail: Mapping[str, Any], deferred: tuple[Piece, ...]) -> Words:
    meaning = Piece(stages.SKIP_REASONS.get(reason, reason), "soft")
    same_as = said(detail, "same_as")
    limit = counted(detail, "limit")
    twin = (Piece(same_as, TWIN),) if same_as else ()
    number = (Piece(f"(limit {limit:,})", "soft"),) if limit is not None else ()
    return Words((Piece("No search", "soft keep"), badge, *deferred, meaning, *twin, *number), "muted")


def _chain_counts(group: Group, activation: Activation | None) -> tuple[Piece, ...]:
    if activation is None:
        data = _data(group.first("activation.completed"))
        selected = counted(data, "n_selected") or 0
        found, offered, dropped = (counted(data, name) or 0 for name in ("n_retrieved", "n_offered", "n_dropped"))
        chosen = Piece(f"{selected:,} selected", "soft")
    else:
        found, offered, dropped = activation.n_retrieved, activation.n_offered, activation.n_dropped
        injected = activation.n_injected
        chosen = Piece(f"{injected:,} injected", "b hint" if injected else "soft keep")
    counts = (Piece(f"{found:,} found, {offered:,} offered,", "keep"), chosen)
    return (*counts, Piece(f"{dropped:,} dropped", "soft")) if dropped else counts
