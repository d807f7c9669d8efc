"""Why an activation gave what it gave: its chain put into words, candidate by candidate. Pure.

Every explanation of a word comes from contract.stages, every number from the events. (Seed 001 §13, §14.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract import stages
from debugger.queries.pieces import Piece, counted, diagnostic_gist, one_line, plural, said
from debugger.queries.timeline import NS, Row, Timeline
from ingest.journal import JournalEvent
from knowledge.models import Activation, Candidate

STAGE_NAMES: Final = tuple(stages.STAGES)
# What the numbers of a drop are counted in.
HINT_COUNTS: Final = ("hint_limit",)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the stage bar: reached, stopped (the chain broke here) or empty; with its offset when it has one."""

    name: str
    meaning: str
    state: str
    offset: str


@dataclass(frozen=True, slots=True)
class CandidateLine:
    """One row of the candidate table. `score` is what the search ranked by, if it says so; `signals` are its parts."""

    knowledge_id: str
    revision: int | None
    rank: int | None
    proposition: str
    item_state: str
    score: float | None
    signals: tuple[tuple[str, float], ...]
    matched_by: tuple[str, ...]
    tokens: int | None
    stages: tuple[Stage, ...]
    happened: tuple[Piece, ...]
    is_held: bool


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
    source_event: JournalEvent | None
    source_text: str
    situation: tuple[str, ...]
    skip_meaning: str
    twin: Row | None
    result_meaning: str
    budget: tuple[str, ...]
    offered: tuple[CandidateLine, ...]
    held: tuple[CandidateLine, ...]
    later: tuple[LaterCall, ...]
    verdict: str

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
    lines = [_line(candidate, rows, timeline) for candidate in candidates]
    source_id = activation.source_event_id or ""
    source_event = events.get(source_id)
    return Why(
        activation=activation,
        sentence=_sentence(activation, candidates, source_event),
        trigger_meaning=stages.TRIGGERS.get(activation.trigger, ""),
        source=rows.get(source_id),
        source_event=source_event,
        source_text=_source_text(source_event),
        situation=_situation(activation, source_event),
        skip_meaning=stages.SKIP_REASONS.get(activation.skip_reason, activation.skip_reason),
        twin=_twin(activation, timeline),
        result_meaning=stages.ACTIVATION_RESULTS.get(activation.result, activation.result),
        budget=_budget(activation),
        offered=tuple(line for line in lines if not line.is_held),
        held=tuple(line for line in lines if line.is_held),
        later=tuple(_later(call, activation, rows) for call in activation.later_calls if isinstance(call, dict)),
        verdict=_verdict(activation),
    )


def _sentence(
    activation: Activation, candidates: Iterable[Candidate], source: JournalEvent | None
) -> tuple[Piece, ...]:
    """Return the one line in words: what happened, what was searched, what came of it."""
    happened = _what_happened(activation, source)
    if activation.skip_reason:
        meaning = stages.SKIP_REASONS.get(activation.skip_reason, activation.skip_reason)
        return (*happened, Piece("No search was made:"), Piece(f"{meaning}.", "b"))
    if activation.result in ("timeout", "error"):
        return (
            *happened,
            Piece("Temporality searched:"),
            Piece(f"{stages.ACTIVATION_RESULTS[activation.result]}.", "warn"),
        )
    if activation.result == "empty":
        return (*happened, Piece(f"Temporality searched and found {_found(activation)}; nothing was offered."))
    if not activation.result:
        return (*happened, Piece("The search has not been answered yet."))
    counts = (
        Piece("Temporality searched, found"), Piece(f"{activation.n_retrieved:,}", "b"),
        Piece("and offered"), Piece(f"{activation.n_offered:,}", "b"), Piece("·"),
        Piece(f"{activation.n_injected:,} injected", "b hint" if activation.n_injected else "soft"),
    )  # fmt: skip
    dropped = (Piece(f"· {activation.n_dropped:,} dropped", "soft"),) if activation.n_dropped else ()
    return (*happened, *counts, *dropped, *_what_came(candidates))


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
    return (Piece(f"{activation.trigger or 'An unknown trigger'}.", "b"),)


def _what_came(candidates: Iterable[Candidate]) -> tuple[Piece, ...]:
    injected = [candidate for candidate in candidates if candidate.injected_ns is not None]
    used = [candidate for candidate in injected if candidate.used_ns is not None]
    if used:
        outcomes = sorted({candidate.outcome for candidate in used if candidate.outcome})
        verdict = f", {' and '.join(outcomes)}" if outcomes else ""
        which = "The agent acted on it" if len(injected) == 1 else f"The agent acted on {len(used)} of {len(injected)}"
        return (Piece("·"), Piece(f"{which}{verdict}.", "ok" if "helpful" in outcomes else ""))
    if injected and all(candidate.ignored_ns is not None for candidate in injected):
        return (Piece("· The agent did not act on it.", "soft"),)
    return ()


def _source_text(source: JournalEvent | None) -> str:
    if source is None:
        return ""
    return next((text for name in ("detail", "result", "task") if (text := said(source.data, name))), "")


def _situation(activation: Activation, source: JournalEvent | None) -> tuple[str, ...]:
    error_class = said(source.data, "error_class") if source else ""
    parts = (activation.mcp_server, activation.tool, error_class, activation.fingerprint)
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


def _line(candidate: Candidate, rows: Mapping[str, Row], timeline: Timeline) -> CandidateLine:
    scores = tuple(
        (str(name), float(value))
        for name, value in sorted(candidate.scores.items())
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    return CandidateLine(
        knowledge_id=candidate.knowledge_id,
        revision=candidate.revision,
        rank=candidate.rank,
        proposition=candidate.proposition,
        item_state=candidate.state,
        score=dict(scores).get("score"),
        signals=tuple(signal for signal in scores if signal[0] != "score"),
        matched_by=tuple(str(reason) for reason in candidate.matched_by),
        tokens=candidate.tokens,
        stages=_stages(candidate, timeline.axis.start_ns),
        happened=_happened(candidate, rows),
        is_held=candidate.offered_ns is None and bool(candidate.hold_reason),
    )


def _stages(candidate: Candidate, origin: int) -> tuple[Stage, ...]:
    stamps = {
        "retrieved": candidate.offered_ns,
        "offered": candidate.offered_ns,
        "selected": candidate.selected_ns,
        "injected": candidate.injected_ns,
        "used": candidate.used_ns,
    }
    reached = [name for name in STAGE_NAMES if name == "retrieved" or stamps[name] is not None]
    last = STAGE_NAMES.index(reached[-1])
    stopped = bool(candidate.hold_reason and candidate.offered_ns is None) or candidate.dropped_ns is not None
    made = []
    for index, name in enumerate(STAGE_NAMES):
        stamp = stamps[name]
        state = "used" if name == "used" and stamp is not None else "reached" if name in reached else ""
        if not state and stopped and index == last + 1:
            state = "stopped"
        if not state and name == "used" and candidate.ignored_ns is not None:
            state = "ignored"
        offset = f"{(stamp - origin) / NS:+.2f} s" if stamp is not None and name != "retrieved" else ""
        made.append(Stage(name, stages.STAGES[name], state, offset))
    return tuple(made)


def _happened(candidate: Candidate, rows: Mapping[str, Row]) -> tuple[Piece, ...]:
    if candidate.hold_reason and candidate.offered_ns is None:
        meaning = stages.HOLD_REASONS.get(candidate.hold_reason, candidate.hold_reason)
        return (Piece("not offered:", "soft"), Piece(meaning, "soft"))
    pieces: list[Piece] = []
    if candidate.injected_ns is not None:
        pieces.append(Piece("injected", "hint"))
    elif candidate.selected_ns is not None and candidate.dropped_ns is None:
        pieces.append(Piece("selected, not seen in a request yet", "soft"))
    if candidate.dropped_ns is not None:
        pieces += [Piece("dropped:", "bad"), *_dropped(candidate)]
    used = _used(candidate, rows)
    pieces += [Piece("·", "soft"), *used] if used and pieces else used
    return tuple(pieces) or (Piece("offered; the kernel has not said what became of it", "soft"),)


def _dropped(candidate: Candidate) -> tuple[Piece, ...]:
    meaning = stages.DROP_REASONS.get(candidate.drop_reason, candidate.drop_reason or "no reason was reported")
    needed, left = counted(candidate.drop_detail, "needed"), counted(candidate.drop_detail, "left")
    limit = counted(candidate.drop_detail, "limit")
    if candidate.drop_reason in HINT_COUNTS:
        numbers = f"{left:,} left of {limit:,}" if left is not None and limit is not None else ""
    elif needed is not None and left is not None:
        numbers = f"needed {plural(needed, 'token')}, {left:,} left" + (f" of {limit:,}" if limit is not None else "")
    else:
        numbers = ""
    return (Piece(meaning), Piece(f"({numbers})", "soft nums")) if numbers else (Piece(meaning),)


def _used(candidate: Candidate, rows: Mapping[str, Row]) -> list[Piece]:
    usage, outcome = _evidence(candidate, "usage"), _evidence(candidate, "outcome")
    pieces: list[Piece] = []
    if candidate.used_ns is not None:
        row = rows.get(said(usage, "event_id"))
        where = [Piece(f"at {row.offset_ns / NS:+.2f}", "mono", row.event_id)] if row else []
        pieces += [Piece("used", "ok"), *where, *_shown(usage)]
    elif candidate.ignored_ns is not None:
        pieces += [Piece("not acted on", "soft"), *_shown(usage)]
    if candidate.outcome:
        tone = {"helpful": "ok", "harmful": "bad"}.get(candidate.outcome, "soft")
        pieces += [Piece("·", "soft"), Piece(candidate.outcome, tone)] if pieces else [Piece(candidate.outcome, tone)]
        by = said(outcome, "by")
        if by:
            pieces.append(Piece(f"says {by}", "soft"))
    source = candidate.outcome_source or candidate.usage_source
    if source and pieces:
        pieces.append(Piece(f"({source})", "soft"))
    return pieces


def _shown(usage: Mapping[str, Any]) -> list[Piece]:
    """Return what shows that a hint was used, or was looked for in vain."""
    told = said(usage, "said")
    if told:
        return [Piece(f"“{one_line(told, 120)}”", "soft")]
    words = usage.get("words")
    if isinstance(words, list) and words:
        return [Piece(one_line(" ".join(map(str, words)), 120), "mono soft")]
    return []


def _evidence(candidate: Candidate, name: str) -> Mapping[str, Any]:
    value = candidate.evidence.get(name)
    return value if isinstance(value, dict) else {}


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
