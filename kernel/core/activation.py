"""Which candidates are searched for, which are put off or skipped and why, and what is asked.

All searches of a boundary go out in one command. (Seed 001 §7, §9, §11, §12.)
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernel.core.bounds import (
    DEFERRED_ARGUMENTS,
    DEFERRED_BYTES,
    DEFERRED_LIMIT,
    DEFERRED_SHOWN,
    bounded,
    clip_bytes,
    clip_middle,
)
from kernel.core.hint_request import activation_id, hint_request
from kernel.core.refusals import (
    fair_order,
    first_refusal,
    handled_by,
    limit_behind,
    limit_refusal,
    processed_key,
    spender_of,
)
from kernel.core.situations import situation_data
from kernel.core.state import ActivationState, Asked, Candidate, RunState
from kernel.core.step import Step
from kernel.core.triggers import RUNTIME_TRIGGERS, START_TRIGGERS
from kernel.core.triggers.facts import Facts, Happened, Reason, Trigger
from kernel.messages import FetchHints, HintAnswer, HintsArrived


def search_at_start(step: Step, at_ns: int, started_event_id: str) -> None:
    """Ask for knowledge about the task itself: the same path, a budget of its own. Sets `asked`."""
    facts = Facts(started_event_id=started_event_id)
    on = [trigger for trigger in START_TRIGGERS if trigger.name not in step.state.spec.switches.off]
    _ask(step, at_ns, [_number(step, reason.candidate) for reason, _ in _reasons(on, facts)])


def search_at_boundary(
    step: Step, at_ns: int, happened: Sequence[Happened], triggers: Sequence[Trigger] = RUNTIME_TRIGGERS
) -> None:
    """Judge the candidates of a turn, deferred ones first, and ask for those that pass. Sets `asked`."""
    activation = step.state.activation
    facts = Facts(tuple(happened), activation.met_servers)
    deferred, met = activation.deferred, _met(facts)
    if deferred or met != activation.met_servers:
        step.set(activation=replace(activation, deferred=(), met_servers=met))
    taken: list[Candidate] = []
    waiting: list[Candidate] = []
    for candidate in deferred:
        refusal = limit_refusal(step.state, candidate)
        if not refusal and _takes_one_more(step, taken):
            _take(step, candidate, taken)
        else:
            _skip(step, at_ns, candidate, refusal or "turn_cap")
            _forget(step, candidate)
    for reason, trigger in _reasons(triggers, facts):
        candidate = _number(step, reason.candidate)
        refusal = first_refusal(step.state, trigger, candidate)
        if refusal:
            _skip(step, at_ns, candidate, refusal)
        elif _takes_one_more(step, taken):
            _take(step, candidate, taken)
        else:
            waiting.append(candidate)
            _remember(step, candidate)
    _defer(step, at_ns, waiting)
    _ask(step, at_ns, taken)


def skip_deferred(step: Step, at_ns: int) -> None:
    """Report the candidates that were put off and can no longer be searched for, because the run ends."""
    for candidate in step.state.activation.deferred:
        _skip(step, at_ns, candidate, "run_ended")
    step.set(activation=replace(step.state.activation, deferred=()))


def unanswered(command: FetchHints, requested_ns: int, at_ns: int, result: str, error: str) -> HintsArrived:
    """Return the observation of a retrieval that was lost: `result` is timeout or error for every activation."""
    answers = tuple(HintAnswer(request.activation_id, result, error=error) for request in command.requests)
    return HintsArrived(at_ns, requested_ns, answers)


def event_ids(state: RunState, candidate: Candidate) -> dict[str, Any]:
    """Return the envelope ids of an event about an activation."""
    return {
        "activation_id": activation_id(state, candidate.number),
        "caused_by": candidate.source_event_id,
        "tool": candidate.tool,
        "mcp_server": candidate.mcp_server,
        "call_id": candidate.call_id,
        "operation_id": candidate.operation_id,
    }


def _reasons(triggers: Sequence[Trigger], facts: Facts) -> list[tuple[Reason, Trigger]]:
    """Return what the triggers see, in the order it happened; at one place in the order of the triggers."""
    seen = [(reason, trigger) for trigger in triggers for reason in trigger.reasons(facts)]
    return sorted(seen, key=lambda entry: entry[0].place)


def _met(facts: Facts) -> tuple[str, ...]:
    met = list(facts.met_servers)
    for happened in facts.happened:
        if happened.executed and happened.mcp_server and happened.mcp_server not in met:
            met.append(happened.mcp_server)
    return tuple(met)


def _number(step: Step, candidate: Candidate) -> Candidate:
    activation = step.state.activation
    step.set(activation=replace(activation, next_id=activation.next_id + 1))
    return replace(candidate, number=activation.next_id)


def _takes_one_more(step: Step, taken: Sequence[Candidate]) -> bool:
    return len(taken) < step.state.spec.limits.activations_per_turn


def _take(step: Step, candidate: Candidate, taken: list[Candidate]) -> None:
    activation = step.state.activation
    used = dict(activation.used_by)
    used[spender_of(candidate)] = used.get(spender_of(candidate), 0) + 1
    step.set(activation=replace(activation, count=activation.count + 1, used_by=tuple(used.items())))
    _remember(step, candidate)
    taken.append(candidate)


def _remember(step: Step, candidate: Candidate) -> None:
    """Count the situation as handled by this candidate, also while it waits."""
    others = _others(step.state.activation, candidate)
    processed = (*others, (processed_key(candidate), candidate.number))
    step.set(activation=bounded(replace(step.state.activation, processed=processed)))


def _forget(step: Step, candidate: Candidate) -> None:
    """Let the situation be searched for when it comes again: it waited and was not."""
    step.set(activation=replace(step.state.activation, processed=_others(step.state.activation, candidate)))


def _others(activation: ActivationState, candidate: Candidate) -> tuple[tuple[str, int], ...]:
    key = processed_key(candidate)
    return tuple(entry for entry in activation.processed if entry[0] != key)


def _defer(step: Step, at_ns: int, waiting: Sequence[Candidate]) -> None:
    """Put off what is over the turn's limit, first in line at the next boundary; tools take turns in the line."""
    if not waiting:
        return
    line = fair_order(waiting)
    for candidate in line[:DEFERRED_LIMIT]:
        limit = step.state.spec.limits.activations_per_turn
        data = {"trigger": candidate.trigger, "limit": limit, **situation_data(candidate.situation)}
        step.emit("activation.deferred", at_ns, data, **event_ids(step.state, candidate))
    for candidate in line[DEFERRED_LIMIT:]:
        _skip(step, at_ns, candidate, "turn_cap")
        _forget(step, candidate)
    kept = tuple(_shortened(candidate) for candidate in line[:DEFERRED_LIMIT])
    step.set(activation=bounded(replace(step.state.activation, deferred=kept)))


def _shortened(candidate: Candidate) -> Candidate:
    situation = replace(candidate.situation, fingerprint=clip_bytes(candidate.situation.fingerprint, DEFERRED_SHOWN))
    return replace(
        candidate,
        tool_result=clip_middle(candidate.tool_result, DEFERRED_BYTES),
        tool_arguments=clip_bytes(candidate.tool_arguments, DEFERRED_ARGUMENTS),
        situation=situation,
    )


def _skip(step: Step, at_ns: int, candidate: Candidate, reason: str) -> None:
    state = step.state
    same_as = handled_by(state.activation, candidate) if reason == "duplicate_situation" else 0
    data = {
        "trigger": candidate.trigger,
        "skip_reason": reason,
        "same_as": activation_id(state, same_as) if same_as else None,
        "limit": limit_behind(state.spec.limits, reason),
        **situation_data(candidate.situation),
    }
    step.emit("activation.skipped", at_ns, data, **event_ids(state, candidate))


def _ask(step: Step, at_ns: int, candidates: Sequence[Candidate]) -> None:
    """Report each activation and ask Observation once for all of them; for none, not at all."""
    if not candidates:
        return
    asked, requests = [], []
    for candidate in candidates:
        request = hint_request(step.state, candidate)
        budget = {
            "activation_tokens": request.activation_tokens,
            "run_tokens": request.run_tokens,
            "hint_limit": request.hint_limit,
        }
        situation = situation_data(candidate.situation)
        data = {"trigger": candidate.trigger, "query": request.query, "budget": budget, **situation}
        event_id = step.emit("activation.requested", at_ns, data, **event_ids(step.state, candidate))
        asked.append(Asked(replace(candidate, tool_result="", tool_arguments=""), event_id))
        requests.append(request)
    step.set(asked=tuple(asked))
    step.do(FetchHints(step.state.spec.run_id, tuple(requests), step.state.spec.limits.retrieval_timeout_ms))
