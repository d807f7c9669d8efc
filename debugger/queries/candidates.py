"""A candidate of an activation as one row: how far it came, why no further, whether it was used. Pure.

Every explanation of a word comes from contract.stages, every number from the events. (Seed 001 §13, §14.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract import stages
from debugger.queries.pieces import Piece, counted, one_line, plural, said
from debugger.queries.rows import NS, Row
from knowledge.chain_facts import UNKNOWN_ITEM
from knowledge.draws import would_have_taken
from knowledge.models import Candidate
from knowledge.usage import PERSON

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
    is_dropped: bool
    is_injected: bool
    verdict: str  # what a person said of it, which counts over all else
    times: tuple[str, ...]

    @property
    def is_item(self) -> bool:
        """Whether the id is one of an item: where only the hint is known, it is not."""
        return not self.knowledge_id.startswith(UNKNOWN_ITEM)


def describe_candidate(candidate: Candidate, rows: Mapping[str, Row], origin_ns: int) -> CandidateLine:
    """Return a candidate's row of the table; `rows` are the timeline's by event id, `origin_ns` is the run's start."""
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
        stages=_stages(candidate, origin_ns),
        happened=_happened(candidate, rows),
        is_held=candidate.offered_ns is None and bool(candidate.hold_reason),
        is_dropped=candidate.dropped_ns is not None and candidate.injected_ns is None,
        is_injected=candidate.injected_ns is not None,
        verdict=candidate.outcome if candidate.outcome_source == PERSON else "",
        times=_times(candidate, origin_ns),
    )


def _times(candidate: Candidate, origin: int) -> tuple[str, ...]:
    """Return when each stage was reached, in the order of the chain."""
    stamps = (
        ("offered", candidate.offered_ns),
        ("selected", candidate.selected_ns),
        ("dropped", candidate.dropped_ns),
        ("injected", candidate.injected_ns),
        ("used", candidate.used_ns),
        ("judged not acted on", candidate.ignored_ns),
    )
    return tuple(f"{name} {(stamp - origin) / NS:+,.2f} s" for name, stamp in stamps if stamp is not None)


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
    unsaid = "offered; the kernel has not said" if candidate.hint_id else "found; nobody reported"
    return tuple(pieces) or (Piece(f"{unsaid} what became of it", "soft"),)


def _dropped(candidate: Candidate) -> tuple[Piece, ...]:
    meaning = stages.DROP_REASONS.get(candidate.drop_reason, candidate.drop_reason or "no reason was reported")
    needed, left = counted(candidate.drop_detail, "needed"), counted(candidate.drop_detail, "left")
    limit = counted(candidate.drop_detail, "limit")
    if candidate.drop_reason in HINT_COUNTS:
        numbers = f"{left:,} left of {limit:,}" if left is not None and limit is not None else ""
    elif needed is not None and left is not None:
        numbers = f"needed {plural(needed, 'token')}, {left:,} left" + (f" of {limit:,}" if limit is not None else "")
    elif needed is not None:
        numbers = would_have_taken(needed)
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
        note = said(outcome, "note")
        if note:
            pieces.append(Piece(f"“{one_line(note, 200)}”", "soft"))
    sources = dict.fromkeys(source for source in (candidate.usage_source, candidate.outcome_source) if source)
    if sources and pieces:
        pieces.append(Piece(f"({', '.join(sources)})", "soft"))
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
