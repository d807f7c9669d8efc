"""Which offered hints fit: greedy in Observation's order, measured on the finished block. (Seed 001 §11.)"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from contract.text import estimate_tokens
from kernel.messages import Hint

Estimate = Callable[[str], int]
Render = Callable[[Sequence[Hint]], str]


@dataclass(frozen=True, slots=True)
class Room:
    """What one activation may take: hints, tokens of its block, tokens left in the run of the run's limit."""

    hints: int
    activation_tokens: int
    run_tokens: int
    run_limit: int


@dataclass(frozen=True, slots=True)
class Drop:
    """A hint that does not go on. `needed` against `left` of `limit` decided, in tokens or, for hint_limit, hints;
    `alone` is the size of a block with this hint only, None when it cannot be measured."""

    hint: Hint
    reason: str
    needed: int | None = None
    left: int | None = None
    limit: int | None = None
    alone: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes in, with the tokens each cue adds; what does not; the finished block and its size."""

    selected: tuple[Hint, ...]
    cue_tokens: tuple[int, ...]
    drops: tuple[Drop, ...]
    block: str
    tokens: int


def select(
    hints: Sequence[Hint], room: Room, issued: Sequence[str], render: Render, estimate: Estimate = estimate_tokens
) -> Selection:
    """Choose hints for one block. An estimate that fails counts as "does not fit", never as free."""
    chosen: list[Hint] = []
    cue_tokens: list[int] = []
    drops: list[Drop] = []
    size = 0
    for hint in hints:
        grown = _size(render, (*chosen, hint), estimate)
        drop = _drop(hint, room, (*issued, *(other.knowledge_id for other in chosen)), len(chosen), size, grown)
        if drop is not None or grown is None:
            drops.append(replace(drop or Drop(hint, "estimate_failed"), alone=_size(render, (hint,), estimate)))
            continue
        chosen.append(hint)
        cue_tokens.append(grown - size)
        size = grown
    return Selection(tuple(chosen), tuple(cue_tokens), tuple(drops), render(chosen), size)


def withheld(selection: Selection, reason: str) -> Selection:
    """Return the selection with all that would have gone in dropped for `reason` instead."""
    pairs = zip(selection.selected, selection.cue_tokens, strict=True)
    kept_back = tuple(Drop(hint, reason, needed=tokens) for hint, tokens in pairs)
    return Selection((), (), (*kept_back, *selection.drops), "", 0)


def _size(render: Render, hints: Sequence[Hint], estimate: Estimate) -> int | None:
    try:
        size = estimate(render(hints))
    except Exception:  # noqa: BLE001 - the estimator is pluggable and must not let the prompt grow unmeasured
        return None
    return size if type(size) is int and size >= 0 else None


def _drop(hint: Hint, room: Room, known: Sequence[str], n_chosen: int, size: int, grown: int | None) -> Drop | None:
    """Return why the hint does not go on, or None. `size` is that of the block so far, `grown` with the hint."""
    if hint.knowledge_id in known:
        return Drop(hint, "already_issued")
    if n_chosen >= room.hints:
        return Drop(hint, "hint_limit", 1, 0, room.hints)
    if grown is None:
        return Drop(hint, "estimate_failed")
    if grown > room.activation_tokens:
        left = max(0, room.activation_tokens - size)
        return Drop(hint, "activation_tokens", grown - size, left, room.activation_tokens)
    if grown > room.run_tokens:
        return Drop(hint, "run_tokens", grown - size, max(0, room.run_tokens - size), room.run_limit)
    return None
