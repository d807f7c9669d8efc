"""Which offered hints fit: greedy in Observation's order, measured on the finished block. (Seed 001 §11.)"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contract.text import estimate_tokens
from kernel.messages import Hint

Estimate = Callable[[str], int]
Render = Callable[[Sequence[Hint]], str]


@dataclass(frozen=True, slots=True)
class Room:
    """What is left for one activation: hints, tokens of its block, tokens of the run."""

    hints: int
    activation_tokens: int
    run_tokens: int


@dataclass(frozen=True, slots=True)
class Drop:
    """A hint that does not go on, and the numbers that decided: `needed` against `left` of `limit`."""

    hint: Hint
    reason: str
    needed: int = 0
    left: int = 0
    limit: int = 0


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
        known = {*issued, *(other.knowledge_id for other in chosen)}
        if hint.knowledge_id in known:
            drops.append(Drop(hint, "already_issued"))
            continue
        if len(chosen) >= room.hints:
            drops.append(Drop(hint, "hint_limit", len(chosen) + 1, 0, room.hints))
            continue
        grown = _size(render, (*chosen, hint), estimate)
        drop = _too_large(hint, grown, size, room)
        if drop is not None or grown is None:
            drops.append(drop or Drop(hint, "estimate_failed"))
            continue
        chosen.append(hint)
        cue_tokens.append(grown - size)
        size = grown
    return Selection(tuple(chosen), tuple(cue_tokens), tuple(drops), render(chosen), size)


def _size(render: Render, hints: Sequence[Hint], estimate: Estimate) -> int | None:
    try:
        size = estimate(render(hints))
    except Exception:  # noqa: BLE001 - the estimator is pluggable and must not let the prompt grow unmeasured
        return None
    return size if isinstance(size, int) and size >= 0 else None


def _too_large(hint: Hint, grown: int | None, size: int, room: Room) -> Drop | None:
    if grown is None:
        return Drop(hint, "estimate_failed")
    for reason, limit in (("activation_tokens", room.activation_tokens), ("run_tokens", room.run_tokens)):
        if grown > limit:
            return Drop(hint, reason, grown - size, max(0, limit - size), limit)
    return None
