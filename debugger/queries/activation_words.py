"""What the row of an activation says: from its chain, else from the events that have come so far. Pure.

Explanations of words come from contract.stages; a word outside the vocabularies is shown as it is. (Seed 001 §14.)
"""

from collections.abc import Mapping
from typing import Any, Final

from contract import stages
from debugger.queries.grouping import Group
from debugger.queries.pieces import Piece, counted, said
from debugger.queries.words import Words, data_of
from knowledge.models import Activation
from knowledge.span_searches import AGENT_SEARCH
from knowledge.spans import is_open, is_whole

TWIN: Final = "twin"  # tone of an activation id that the timeline replaces by its time


def activation_words(group: Group, activation: Activation | None) -> Words:
    """Return what an activation's row says: from its chain, else from the events that have come so far."""
    told = _told(group, activation)
    if activation is None or not activation.inferred_trigger:
        return told
    return Words((*told.pieces, Piece(f"inferred: {activation.inferred_trigger}", "inferred")), told.state)


def _told(group: Group, activation: Activation | None) -> Words:
    trigger = activation.trigger if activation else _first_said(group, "trigger")
    badge = Piece(trigger or "trigger unknown", "badge hint")
    skip = group.first("activation.skipped")
    reason = activation.skip_reason if activation else said(data_of(skip), "skip_reason")
    deferred = (Piece("put off to the next boundary", "soft"),) if group.first("activation.deferred") else ()
    if reason:
        return _skipped(badge, reason, activation.skip_detail if activation else data_of(skip), deferred)
    result = activation.result if activation else _first_said(group, "result", *_answering(group))
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


def _answering(group: Group) -> tuple[str, ...]:
    """Return the types whose result is the answer; the span of an application's own search is its answer too."""
    whole = group.events[0].type == "hint.query" and is_whole(group.events[0]) and not is_open(group.events[0])
    return ("activation.completed", "hint.query") if whole else ("activation.completed",)


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
    data = data_of(group.first("activation.completed"))
    if activation is None:
        selected = counted(data, "n_selected") or 0
        found, offered, dropped = (counted(data, name) or 0 for name in ("n_retrieved", "n_offered", "n_dropped"))
        chosen = Piece(f"{selected:,} selected", "soft")
    else:
        found, offered, dropped = activation.n_retrieved, activation.n_offered, activation.n_dropped
        injected = activation.n_injected
        chosen = Piece(f"{injected:,} injected", "b hint" if injected else "soft keep")
    if activation is None and len(_answering(group)) > 1:
        return (Piece(f"{counted(group.events[0].data, 'n_retrieved') or 0:,} found", "keep"),)
    if activation is not None and activation.trigger == AGENT_SEARCH and not activation.n_injected:
        # What became of what the application found for itself is nobody's report.
        counts: tuple[Piece, ...] = (Piece(f"{found:,} found", "keep"),)
    else:
        counts = (Piece(f"{found:,} found, {offered:,} offered,", "keep"), chosen)
    told = (*counts, Piece(f"{dropped:,} dropped", "soft")) if dropped else counts
    kept_back = _kept_back(data)
    return (*told, Piece(kept_back, "warn")) if kept_back else told


def _kept_back(completed: Mapping[str, Any]) -> str:
    """Return why nothing went in on purpose, or an empty string."""
    draw = completed.get("holdout")
    if isinstance(draw, dict) and draw.get("arm") == "withheld":
        return "withheld on purpose"
    return "shadow mode" if counted(completed, "shadow_tokens") is not None else ""
