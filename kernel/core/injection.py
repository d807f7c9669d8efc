"""What becomes of the hints that arrived: selected, placed in the history, dropped; and proof that they were sent.

A hint counts as issued when its block is placed; `hint.delivery` says injected only when the code that built the
request reports where it stood. (Seed 001 §10.)
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from contract.hint_block import render_hint_block
from kernel.core.activation import event_ids
from kernel.core.bounds import bounded
from kernel.core.budget import Drop, Selection, select, withheld
from kernel.core.hint_request import activation_id, is_priming, room_of
from kernel.core.holdout import is_withheld, takes_part
from kernel.core.situations import situation_data
from kernel.core.state import Asked, Placed, PlacedHint, RunState, Suppressed
from kernel.core.step import Step
from kernel.messages import Append, Hint, HintAnswer, HintsArrived, Message, Origin, SentMessage

# Already there, or withheld without regard to the item: neither says that it would not fit another time.
NOT_SUPPRESSED: Final = ("already_issued", "holdout")


def take_answers(step: Step, observed: HintsArrived) -> None:
    """Select from each answer and place the blocks of this boundary as one message after the last reply."""
    asked = step.state.asked
    step.set(asked=())
    blocks: list[str] = []
    placed: list[Placed] = []
    for index, waiting in enumerate(asked):
        answer = _answer_to(step, waiting, observed, index)
        wanted = _fitting(step, waiting, answer)
        selection = _withheld(step.state, waiting, wanted)
        if not step.state.spec.switches.shadow:
            _spend(step, waiting, selection)
        _report(step, observed, waiting, answer, selection, wanted)
        if selection.block:
            blocks.append(selection.block)
            placed.append(_placed(step, waiting, selection))
    if blocks:
        origin: Origin = "priming" if is_priming(asked[0].candidate) else "hints"
        append_message(step, Message("context", "".join(blocks), origin))
        step.set(placed=(*step.state.placed, *placed))


def append_message(step: Step, message: Message) -> int:
    """Put a message at the end of the history, to be written with the next request; return its position."""
    seq = step.state.next_seq
    step.set(appends=(*step.state.appends, Append(seq, message)), next_seq=seq + 1)
    return seq


def _answer_to(step: Step, waiting: Asked, observed: HintsArrived, index: int) -> HintAnswer:
    """Return the answer to one request, with a result that is what its hints say. Nonsense is an error."""
    asked_id = activation_id(step.state, waiting.candidate.number)
    answer = observed.answers[index] if index < len(observed.answers) else None
    if answer is None or answer.activation_id != asked_id:
        return HintAnswer(asked_id, "error", error="the answer is not about this activation")
    if answer.result in ("timeout", "error"):
        return replace(answer, hints=())
    if answer.result not in ("success", "empty"):
        return HintAnswer(asked_id, "error", error="the answer names no known result")
    return replace(answer, result="success" if answer.hints else "empty")


def _fitting(step: Step, waiting: Asked, answer: HintAnswer) -> Selection:
    """Return what the budgets allow of an answer."""
    state, candidate = step.state, waiting.candidate
    render = partial(render_hint_block, candidate.trigger, candidate.found_for, answer.activation_id)
    return select(answer.hints, room_of(state, candidate), state.activation.issued, render)


def _withheld(state: RunState, waiting: Asked, wanted: Selection) -> Selection:
    """Return what goes in: nothing in shadow mode and in the withheld arm of an experiment."""
    spec, candidate = state.spec, waiting.candidate
    if spec.switches.shadow:
        return withheld(wanted, "shadow")
    if wanted.selected and takes_part(spec, candidate) and is_withheld(spec, candidate.situation.key):
        return withheld(wanted, "holdout")
    return wanted


def _spend(step: Step, waiting: Asked, selection: Selection) -> None:
    """Count what goes in as issued and spent, and what does not fit as kept back."""
    activation = step.state.activation
    changed = replace(
        activation,
        issued=(*activation.issued, *(hint.knowledge_id for hint in selection.selected)),
        tokens_used=activation.tokens_used + (0 if is_priming(waiting.candidate) else selection.tokens),
        suppressed=_suppressed(activation.suppressed, selection),
    )
    step.set(activation=bounded(changed))


def _suppressed(before: Iterable[Suppressed], selection: Selection) -> tuple[Suppressed, ...]:
    """Return what is kept back from now on; an item offered again is judged by what became of it now."""
    selected = [hint.knowledge_id for hint in selection.selected]
    dropped = {
        drop.hint.knowledge_id: Suppressed(drop.hint.knowledge_id, drop.hint.revision, drop.reason, drop.alone or 0)
        for drop in selection.drops
        if drop.reason not in NOT_SUPPRESSED and drop.hint.knowledge_id not in selected
    }
    kept = (entry for entry in before if entry.knowledge_id not in dropped and entry.knowledge_id not in selected)
    return (*kept, *dropped.values())


def _placed(step: Step, waiting: Asked, selection: Selection) -> Placed:
    pairs = zip(selection.selected, selection.cue_tokens, strict=True)
    hints = tuple(PlacedHint(hint.hint_id, hint.knowledge_id, tokens) for hint, tokens in pairs)
    return Placed(step.state.next_seq, activation_id(step.state, waiting.candidate.number), hints)


def _report(
    step: Step, observed: HintsArrived, waiting: Asked, answer: HintAnswer, selection: Selection, wanted: Selection
) -> None:
    candidate, room = waiting.candidate, room_of(step.state, waiting.candidate)
    data = {
        "trigger": candidate.trigger,
        "result": answer.result,
        "n_retrieved": answer.n_retrieved,
        "n_offered": len(answer.hints),
        "n_selected": len(selection.selected),
        "n_dropped": len(selection.drops),
        "tokens": selection.tokens,
        "tokens_left": None if is_priming(candidate) else room.run_tokens,
        "duration_ms": (observed.at_ns - observed.requested_ns) / 1e6,
        "error": answer.error or None,
        "algorithm_version": answer.algorithm_version or None,
        "block": selection.block or None,
        "holdout": _draw(step.state, waiting, selection, wanted),
        "shadow_tokens": wanted.tokens if step.state.spec.switches.shadow else None,
        **situation_data(candidate.situation),
    }
    ids = {**event_ids(step.state, candidate), "caused_by": waiting.event_id}
    event_id = step.emit("activation.completed", observed.at_ns, data, **ids)
    for hint, tokens in zip(selection.selected, selection.cue_tokens, strict=True):
        selected = {"stage": "selected", "tokens": tokens}
        _deliver(step, observed.at_ns, answer.activation_id, hint, selected, event_id)
    for drop in selection.drops:
        numbers = {
            "needed": drop.needed,
            "left": drop.left,
            "limit": drop.limit,
            "probability": _share(step.state, drop),
        }
        dropped = {"stage": "dropped", "drop_reason": drop.reason, **numbers}
        _deliver(step, observed.at_ns, answer.activation_id, drop.hint, dropped, event_id)


def _share(state: RunState, drop: Drop) -> float | None:
    """Return with which probability a hint was withheld on purpose."""
    return state.spec.holdout.share if drop.reason == "holdout" else None


def _draw(state: RunState, waiting: Asked, selection: Selection, wanted: Selection) -> dict[str, Any] | None:
    """Return the draw that was made, in both arms with the tokens that were at stake; None when there was none."""
    spec = state.spec
    if spec.switches.shadow or not wanted.selected or not takes_part(spec, waiting.candidate):
        return None
    arm = "offered" if selection.selected else "withheld"
    given = spec.holdout
    return {"experiment": given.experiment or None, "arm": arm, "share": given.share, "tokens": wanted.tokens}


def _deliver(
    step: Step, at_ns: int, activation: str, hint: Hint | PlacedHint, data: dict[str, Any], caused_by: str | None
) -> None:
    ids: dict[str, Any] = {"activation_id": activation, "hint_id": hint.hint_id, "knowledge_id": hint.knowledge_id}
    step.emit("hint.delivery", at_ns, data, caused_by=caused_by, **ids)


def confirm_sent(step: Step, at_ns: int, sent: Iterable[SentMessage]) -> None:
    """Report as injected every placed hint whose message stood in the request that was just sent."""
    by_seq = {message.seq: message for message in sent}
    waiting, request = step.state.placed, step.state.request_event_id
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
                "request_event_id": request,
            }
            _deliver(step, at_ns, placed.activation_id, hint, data, request)


def drop_unsent(step: Step, at_ns: int) -> None:
    """Report as dropped what was placed and is not known to have been sent, because the run ends."""
    for placed in step.state.placed:
        for hint in placed.hints:
            _deliver(step, at_ns, placed.activation_id, hint, {"stage": "dropped", "drop_reason": "run_ended"}, None)
    step.set(placed=())
