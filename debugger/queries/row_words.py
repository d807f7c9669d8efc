"""What a timeline row of any kind but an activation says: its sentence and its state. Pure. (Seed 001 §14.)"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from debugger.queries.envelope_words import ENVELOPE_WORDS
from debugger.queries.grouping import PLAN, Group
from debugger.queries.path_words import (
    about_operation,
    approval_words,
    delegate_words,
    human_words,
    operation_words,
    plan_words,
)
from debugger.queries.pieces import Piece, arguments_gist, counted, diagnostic_gist, one_line, plural, said
from debugger.queries.span_words import log_row, span_row
from debugger.queries.words import Words, data_of, ending_words, open_words
from ingest.journal import JournalEvent

HINT_ORIGINS: Final = ("hints", "priming")


def group_words(group: Group) -> Words:
    """Return what the row of any group but an activation says."""
    if group.whole is not None:
        return span_row(group)
    return WORDS_OF.get(group.kind, _other)(group)


def _model(group: Group) -> Words:
    asked, answered = data_of(group.opener), data_of(group.ender)
    pieces = [Piece("Model", "b")]
    size = _request_size(asked)
    if size:
        pieces.append(Piece(size, "keep"))
    if asked.get("finale") is True:
        pieces.append(Piece("the last, without tools", "warn keep"))
    new = [message for message in asked.get("new_messages") or [] if isinstance(message, dict)]
    n_blocks = sum(message.get("origin") in HINT_ORIGINS for message in new)
    if n_blocks:
        pieces.append(Piece(plural(n_blocks, "hint message"), "hint"))
    if group.ender is None:
        return open_words(group, pieces, "no answer yet", "no answer was reported")
    if group.ender.type == "model.failed":
        reason = said(answered, "error") or said(answered, "error_class") or "failed"
        return Words((*pieces, Piece(diagnostic_gist(reason), "bad")), "bad")
    n_calls, text = counted(answered, "n_calls"), said(answered, "text")
    if n_calls:
        pieces.append(Piece(f"→ {plural(n_calls, 'call')}", "soft keep"))
    if n_dropped := counted(answered, "n_dropped"):
        pieces.append(Piece(f"{plural(n_dropped, 'call')} dropped", "warn"))
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
    arguments = arguments_gist(said(data_of(group.opener), "arguments"))
    if arguments and group.other(PLAN) is None:
        pieces.append(Piece(arguments, "mono"))
    if last is None:
        return open_words(group, pieces, "no result yet", "no result was reported")
    ending = ending_words(last)
    return Words((*pieces, *ending.pieces, *about_operation(group)), ending.state)


def _family(event: JournalEvent) -> Iterator[Piece]:
    """Yield whose child a run is and which run its team began with, where that is another one."""
    if event.parent_run_id:
        yield Piece("by", "soft")
        yield Piece(event.parent_run_id, "mono")
    if event.team_root and event.team_root not in (event.run_id, event.parent_run_id):
        yield Piece("in the team of", "soft")
        yield Piece(event.team_root, "mono")


def _started(group: Group) -> Words:
    data = group.events[0].data
    agent, n_tools = said(data, "agent"), len(data.get("tools") or [])
    pieces = [Piece("Run started", "b"), *_family(group.events[0])]
    if agent:
        pieces.append(Piece(f"agent {agent}", "soft"))
    if n_tools:
        pieces.append(Piece(plural(n_tools, "tool"), "soft"))
    failed = data.get("failed_servers")
    if isinstance(failed, dict) and failed:
        names = ", ".join(sorted(map(str, failed)))
        return Words((*pieces, Piece(f"could not use MCP server {one_line(names)}", "warn")), "warn")
    return Words(tuple(pieces))


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
    "operation": operation_words,
    "approval": approval_words,
    "human": human_words,
    "delegate": delegate_words,
    PLAN: plan_words,
    "run.started": _started,
    "run.outcome": _outcome,
    "log": log_row,
    **ENVELOPE_WORDS,
}
