"""What becomes of the hints that arrived: selected, placed in the history, dropped; and proof that they were sent.

A hint counts as issued when its block is placed; `hint.delivery` says injected only when the code that built the
request reports where it stood. (Seed 001 §10.)
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from contract.text import estimate_tokens
from kernel.core.activation import PRIMING, event_ids, room_of, situation_data
from kernel.core.budget import Drop, Room, Selection, select
from kernel.core.hint_block import render_hint_block
from kernel.core.state import SUPPRESSED_LIMIT, Asked, Placed, PlacedHint, Suppressed
from kernel.core.step import Step
from kernel.messages import Append, Hint, HintAnswer, HintsArrived, Message, SentMessage


def take_answers(step: Step, observed: HintsArrived) -> None:
    """Select from each answer and place the blocks of this boundary as one message after the last reply."""
    asked = step.state.asked
    step.set(asked=())
    blocks: list[str] = []
    placed: list[Placed] = []
    for index, waiting in enumerate(asked):
        answer = _answer_to(waiting, observed, index)
        selection = _select(step, waiting, answer)
        _report(step, observed, waiting, answer, selection)
        if selection.block:
            blocks.append(selection.block)
            placed.append(_placed(step.state.next_seq, waiting, selection))
    if blocks:
        priming = asked[0].candidate.trigger == PRIMING
        message = Message("context", "\n".join(blocks), "priming" if priming else "hints")
        append_message(step, message)
        step.set(placed=(*step.state.placed, *placed))


def append_message(step: Step, message: Message) -> int:
    """Put a message at the end of the history, to be written with the next request; return its position."""
    seq = step.state.next_seq
    step.set(appends=(*step.state.appends, Append(seq, message)), next_seq=seq + 1)
    return seq


def _answer_to(waiting: Asked, observed: HintsArrived, index: int) -> HintAnswer:
    activation_id = waiting.candidate.activation_id
    answer = observed.answers[index] if index < len(observed.answers) else None
    if answer is None or answer.activation_id != activation_id:
        return HintAnswer(activation_id, "error", error="the answer is not about this activation")
    return answer


def _select(step: Step, waiting: Asked, answer: HintAnswer) -> Selection:
    state, candidate = step.state, waiting.candidate
    render = partial(render_hint_block, candidate)
    if state.spec.switches.shadow:
        return Selection((), (), tuple(Drop(hint, "shadow") for hint in answer.hints), "", 0)
    tokens, run_tokens, hints = room_of(state, candidate)
    selection = select(answer.hints, Room(hints, tokens, run_tokens), state.activation.issued, render)
    spent = 0 if candidate.trigger == PRIMING else selection.tokens
    activation = state.activation
    step.set(
        activation=replace(
            activation,
            issued=(*activation.issued, *(hint.knowledge_id for hint in selection.selected)),
            tokens_used=activation.tokens_used + spent,
            suppressed=_suppressed(activation.suppressed, selection),
        )
    )
    return selection


def _suppressed(before: Iterable[Suppressed], selection: Selection) -> tuple[Suppressed, ...]:
    dropped = [
        Suppressed(drop.hint.knowledge_id, drop.hint.revision, drop.reason, needed_tokens(drop))
        for drop in selection.drops
        if drop.reason != "already_issued"
    ]
    again = {entry.knowledge_id for entry in dropped} | {hint.knowledge_id for hint in selection.selected}
    return (*(entry for entry in before if entry.knowledge_id not in again), *dropped)[-SUPPRESSED_LIMIT:]


def needed_tokens(drop: Drop) -> int:
    """Return the tokens a dropped hint would take: as measured, else those of its rule text."""
    measured = drop.reason in ("activation_tokens", "run_tokens")
    return drop.needed if measured else estimate_tokens(drop.hint.proposition)


def _placed(seq: int, waiting: Asked, selection: Selection) -> Placed:
    pairs = zip(selection.selected, selection.cue_tokens, strict=True)
    hints = tuple(PlacedHint(hint.hint_id, hint.knowledge_id, tokens) for hint, tokens in pairs)
    return Placed(seq, waiting.candidate.activation_id, hints)


def _report(step: Step, observed: HintsArrived, waiting: Asked, answer: HintAnswer, selection: Selection) -> None:
    candidate, limits = waiting.candidate, step.state.spec.limits
    priming = candidate.trigger == PRIMING
    data = {
        "trigger": candidate.trigger,
        "result": answer.result,
        "n_retrieved": answer.n_retrieved,
        "n_offered": len(answer.hints),
        "n_selected": len(selection.selected),
        "n_dropped": len(selection.drops),
        "tokens": selection.tokens,
        "tokens_left": None if priming else max(0, limits.tokens_per_run - step.state.activation.tokens_used),
        "duration_ms": (observed.at_ns - observed.requested_ns) / 1e6,
        "error": answer.error or None,
        "block": selection.block or None,
        **situation_data(candidate),
    }
    step.emit("activation.completed", observed.at_ns, data, **{**event_ids(candidate), "caused_by": waiting.event_id})
    for hint, tokens in zip(selection.selected, selection.cue_tokens, strict=True):
        _deliver(step, observed.at_ns, candidate.activation_id, hint, {"stage": "selected", "tokens": tokens})
    for drop in selection.drops:
        numbers = {"needed": drop.needed, "left": drop.left, "limit": drop.limit} if drop.limit else {}
        data = {"stage": "dropped", "drop_reason": drop.reason, **numbers}
        _deliver(step, observed.at_ns, candidate.activation_id, drop.hint, data)


def _deliver(step: Step, at_ns: int, activation_id: str, hint: Hint | PlacedHint, data: dict[str, Any]) -> None:
    ids: dict[str, Any] = {"activation_id": activation_id, "hint_id": hint.hint_id, "knowledge_id": hint.knowledge_id}
    step.emit("hint.delivery", at_ns, data, **ids)


def confirm_sent(step: Step, at_ns: int, sent: Iterable[SentMessage]) -> None:
    """Report as injected every placed hint whose message stood in the request that was just sent."""
    by_seq = {message.seq: message for message in sent}
    waiting = step.state.placed
    step.set(placed=tuple(placed for placed in waiting if placed.seq not in by_seq))
    for placed in waiting:
        message = by_seq.get(placed.seq)
        if message is None:
            continue
        for hint in placed.hints:
            data = {
                "stage": "injected",
                "tokens": hint.tokens,
                "position": message.position,
                "message_hash": message.message_hash,
                "request_event_id": step.state.request_event_id,
            }
            _deliver(step, at_ns, placed.activation_id, hint, data)


def drop_unsent(step: Step, at_ns: int) -> None:
    """Report as dropped what was placed and never sent, because the run ends."""
    for placed in step.state.placed:
        for hint in placed.hints:
            _deliver(step, at_ns, placed.activation_id, hint, {"stage": "dropped", "drop_reason": "run_ended"})
    step.set(placed=())
