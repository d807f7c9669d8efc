"""Why an activation gave what it gave: its chain put into words, candidate by candidate. Pure.

Every explanation of a word comes from contract.stages, every number from the events. (Seed 001 §13, §14.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract import stages
from debugger.queries.candidates import CandidateLine, describe_candidate
from debugger.queries.missed_hints import Missed, what_followed
from debugger.queries.pieces import Piece, counted, diagnostic_gist, one_line, plural, said
from debugger.queries.rows import NS, Row
from debugger.queries.timeline import Timeline
from ingest.journal import JournalEvent
from knowledge.draws import draw_in_words, would_have_taken
from knowledge.models import Activation, Candidate
from knowledge.span_searches import AGENT_SEARCH

UNEXPLAINED: Final = "a trigger that is not explained here; it is searched for and reported like any other"


@dataclass(frozen=True, slots=True)
class LaterCall:
    """A later call of the same tool or server, and how it ended."""

    row: Row | None
    status: str
    state: str
    is_deciding: bool


@dataclass(frozen=True, slots=True)
class Why:
    """Everything the panel shows of one activation but the request it went into."""

    activation: Activation
    sentence: tuple[Piece, ...]
    trigger_meaning: str
    source: Row | None
    inferred: Row | None
    source_event: JournalEvent | None
    source_text: str
    situation: tuple[str, ...]
    skip_meaning: str
    twin: Row | None
    result_meaning: str
    budget: tuple[str, ...]
    draw: str
    deferral: str
    offered: tuple[CandidateLine, ...]
    held: tuple[CandidateLine, ...]
    later: tuple[LaterCall, ...]
    verdict: str
    missed: Missed | None

    @property
    def around_ms(self) -> float | None:
        """What was waited for beside the search itself; None where one of the two is not known."""
        waited, searched = self.activation.duration_ms, self.activation.search_ms
        return waited - searched if waited is not None and searched is not None and waited >= searched else None

    @property
    def is_foreign(self) -> bool:
        return self.activation.trigger == AGENT_SEARCH

    @property
    def has_scores(self) -> bool:
        return any(line.score is not None for line in (*self.offered, *self.held))

    @property
    def listed(self) -> int:
        return len(self.offered) + len(self.held)

    @property
    def unlisted(self) -> int:
        """How many candidates were found and are not in the list that was reported."""
        return max(0, self.activation.n_retrieved - self.listed)


def explain(
    activation: Activation, candidates: Sequence[Candidate], timeline: Timeline, events: Mapping[str, JournalEvent]
) -> Why:
    """Return why `activation` gave what it gave; `events` are the run's, by id."""
    rows = {event_id: row for row in timeline.rows for event_id in row.event_ids}
    lines = [describe_candidate(candidate, rows, timeline.axis.start_ns) for candidate in candidates]
    source_id = activation.source_event_id or ""
    source_event = events.get(source_id)
    return Why(
        activation=activation,
        sentence=_sentence(activation, candidates, source_event),
        trigger_meaning=stages.TRIGGERS.get(activation.trigger, UNEXPLAINED if activation.trigger else ""),
        source=rows.get(source_id),
        inferred=rows.get(activation.inferred_event_id or ""),
        source_event=source_event,
        source_text=_source_text(source_event),
        situation=_situation(activation, source_event),
        skip_meaning=stages.SKIP_REASONS.get(activation.skip_reason, activation.skip_reason),
        twin=_twin(activation, timeline),
        result_meaning=stages.ACTIVATION_RESULTS.get(activation.result, activation.result),
        budget=_budget(activation),
        draw=_draw(activation),
        deferral=_deferral(activation, timeline.axis.start_ns),
        offered=tuple(line for line in lines if not line.is_held),
        held=tuple(line for line in lines if line.is_held),
        later=tuple(_later(call, activation, rows) for call in activation.later_calls if isinstance(call, dict)),
        verdict=_verdict(activation),
        missed=what_followed(activation, candidates, events, rows),
    )


def _sentence(
    activation: Activation, candidates: Iterable[Candidate], source: JournalEvent | None
) -> tuple[Piece, ...]:
    """Return the one line in words: what happened, what was searched, what came of it."""
    happened = _what_happened(activation, source)
    who = "The application" if activation.trigger == AGENT_SEARCH else "Temporality"
    if activation.skip_reason:
        meaning = stages.SKIP_REASONS.get(activation.skip_reason, activation.skip_reason)
        return (*happened, Piece("No search was made:"), Piece(f"{meaning}.", "b"))
    if activation.result in ("timeout", "error"):
        return (
            *happened,
            Piece(f"{who} searched:"),
            Piece(f"{stages.ACTIVATION_RESULTS[activation.result]}.", "warn"),
        )
    if activation.result == "empty":
        return (*happened, Piece(f"{who} searched and found {_found(activation)}; nothing was offered."))
    if not activation.result:
        waits = activation.deferred_ns is not None and activation.requested_ns is None
        state = "The search was put off to the next boundary." if waits else "The search has not been answered yet."
        return (*happened, Piece(state))
    if activation.trigger == AGENT_SEARCH and not activation.n_injected:
        found = plural(activation.n_retrieved, "document") if activation.n_retrieved else "nothing"
        left = (Piece(f"{activation.n_dropped:,} left out by its reranker.", "soft"),) if activation.n_dropped else ()
        return (Piece(f"{who} searched and found"), Piece(f"{found}.", "b"), *left)
    counts = (
        Piece(f"{who} searched, found"), Piece(f"{activation.n_retrieved:,}", "b"),
        Piece("and offered"), Piece(f"{activation.n_offered:,}", "b"), Piece("·"),
        Piece(f"{activation.n_injected:,} injected", "b hint" if activation.n_injected else "soft"),
    )  # fmt: skip
    dropped = (Piece(f"· {activation.n_dropped:,} dropped", "soft"),) if activation.n_dropped else ()
    return (*happened, *counts, *dropped, *_kept_back(activation), *_what_came(candidates))


def _kept_back(activation: Activation) -> tuple[Piece, ...]:
    """Say that nothing went in on purpose: by the draw of a holdout, or in shadow mode."""
    if activation.arm == "withheld" or (activation.shadow_tokens is not None and not activation.n_injected):
        return (Piece("·"), Piece(f"{_draw(activation)}.", "b"))
    return ()


def _draw(activation: Activation) -> str:
    """Return the draw of a holdout in words, else what shadow mode kept out; "" when neither took part."""
    if activation.arm:
        return draw_in_words(activation.arm, activation.experiment, activation.share, activation.holdout_tokens)
    if activation.shadow_tokens is None:
        return ""
    return f"shadow mode, nothing is injected: {would_have_taken(activation.shadow_tokens)}"


def _deferral(activation: Activation, origin_ns: int) -> str:
    """Return when and why an activation was put off, and how long it then waited; "" when it was not."""
    since = activation.deferred_ns
    if since is None:
        return ""
    limit = activation.deferred_limit
    why = "" if limit is None else f", because a turn has at most {plural(limit, 'activation')}"
    goes_on = activation.requested_ns if activation.requested_ns is not None else activation.completed_ns
    what = "searched" if activation.requested_ns is not None else "skipped"
    later = f"; {what} {(goes_on - since) / NS:,.2f} s later" if goes_on is not None and goes_on >= since else ""
    return f"at {(since - origin_ns) / NS:+,.2f} s to the next boundary{why}{later}"


def _found(activation: Activation) -> str:
    return plural(activation.n_retrieved, "candidate") if activation.n_retrieved else "nothing that fits"


def _what_happened(activation: Activation, source: JournalEvent | None) -> tuple[Piece, ...]:
    name = activation.mcp_server if activation.trigger == "mcp.first_call" else activation.tool
    if activation.trigger == "tool.failed":
        text = diagnostic_gist(said(source.data, "detail")) if source else ""
        why = (Piece("failed with"), Piece(f"“{one_line(text, 120)}”.", "")) if text else (Piece("failed."),)
        return (Piece(name or "A tool", "b"), *why)
    if activation.trigger == "mcp.first_call":
        return (Piece("The MCP server"), Piece(name or "", "b"), Piece("answered for the first time in this run."))
    if activation.trigger == "task.priming":
        return (Piece("The run started.", ""),)
    if not activation.trigger:
        return (Piece("An unknown trigger.", "b"),)
    if activation.trigger == AGENT_SEARCH:
        return ()
    where = activation.mcp_server or activation.tool
    about = (Piece("was seen in"), Piece(where, "b")) if where else (Piece("was seen."),)
    return (Piece(activation.trigger, "b"), *about, Piece("·")) if where else (Piece(activation.trigger, "b"), *about)


def _what_came(candidates: Iterable[Candidate]) -> tuple[Piece, ...]:
    injected = [candidate for candidate in candidates if candidate.injected_ns is not None]
    used = [candidate for candidate in injected if candidate.used_ns is not None]
    if used:
        outcomes = sorted({candidate.outcome for candidate in used if candidate.outcome})
        verdict = f", {' and '.join(outcomes)}" if outcomes else ""
        which = "The agent acted on it" if len(injected) == 1 else f"The agent acted on {len(used)} of {len(injected)}"
        tone = {"helpful": "ok", "harmful": "bad"}.get(outcomes[0], "") if len(outcomes) == 1 else ""
        return (Piece("·"), Piece(f"{which}{verdict}.", tone))
    if injected and all(candidate.ignored_ns is not None for candidate in injected):
        return (Piece("· The agent did not act on it.", "soft"),)
    return ()


def _source_text(source: JournalEvent | None) -> str:
    if source is None:
        return ""
    return next((text for name in ("detail", "result", "task") if (text := said(source.data, name))), "")


def _situation(activation: Activation, source: JournalEvent | None) -> tuple[str, ...]:
    error_class = said(source.data, "error_class") if source else ""
    parts = (activation.mcp_server, activation.tool, error_class)
    return tuple(one_line(part, 300) for part in parts if part)


def _twin(activation: Activation, timeline: Timeline) -> Row | None:
    same_as = said(activation.skip_detail, "same_as")
    return next((row for row in timeline.rows if row.activation_id == same_as), None) if same_as else None


def _budget(activation: Activation) -> tuple[str, ...]:
    here, run = counted(activation.budget, "activation_tokens"), counted(activation.budget, "run_tokens")
    hints = counted(activation.budget, "hint_limit")
    parts = []
    if here is not None:
        parts.append(f"{activation.tokens:,} of {here:,} tokens here")
    if run is not None:
        parts.append(f"{run:,} were left in the run")
    if activation.tokens_left is not None:
        parts.append(f"{activation.tokens_left:,} after it")
    if hints is not None:
        parts.append(f"at most {plural(hints, 'hint')}")
    return tuple(parts)


def _later(call: Mapping[str, Any], activation: Activation, rows: Mapping[str, Row]) -> LaterCall:
    ended = said(call, "ended_event_id") or said(call, "event_id")
    row = rows.get(ended) or rows.get(said(call, "requested_event_id"))
    status = said(call, "status")
    state = {"ok": "ok", "failed": "bad", "timed_out": "bad"}.get(status, "plain")
    return LaterCall(row, status, state, bool(ended) and ended == activation.resolved_event_id)


def _verdict(activation: Activation) -> str:
    if activation.resolved is None:
        return ""
    return "The situation was resolved." if activation.resolved else "The situation came back."
