"""Which candidates of a boundary are searched for, which are put off or skipped and why, and what is asked.

All searches of a boundary go out in one command. (Seed 001 §7, §9, §11, §12.)
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from contract.text import clip
from kernel.core.situations import with_situation
from kernel.core.state import (
    DEFERRED_LIMIT,
    DEFERRED_TEXT,
    PROCESSED_LIMIT,
    ActivationState,
    Asked,
    Candidate,
    RunState,
)
from kernel.core.step import Step
from kernel.core.triggers import RUNTIME_TRIGGERS
from kernel.core.triggers.facts import Happened, Trigger, TurnFacts
from kernel.messages import FetchHints, HintAnswer, HintRequest, HintsArrived

QUERY_LIMIT: Final = 4_096  # code points
TOOL_RESULT_LIMIT: Final = 8_192  # code points
PRIMING: Final = "task.priming"
OFFER_LIMIT: Final = 8  # hints Observation may offer in one answer


def search_at_boundary(
    step: Step, at_ns: int, happened: Sequence[Happened], triggers: Sequence[Trigger] = RUNTIME_TRIGGERS
) -> None:
    """Judge the candidates of a turn, deferred ones first, and ask for those that pass. Sets `asked`."""
    activation = step.state.activation
    facts = TurnFacts(tuple(happened), activation.met_servers)
    found = [(place, index, trigger) for index, trigger in enumerate(triggers) for place in trigger.candidates(facts)]
    found.sort(key=lambda entry: (entry[0][0], entry[1]))
    fresh = [(with_situation(candidate), trigger) for (_, candidate), _, trigger in found]
    deferred = activation.deferred
    step.set(activation=replace(activation, deferred=(), met_servers=_met(facts)))
    taken: list[Candidate] = []
    for candidate in deferred:
        _judge(step, at_ns, candidate, taken, _refusal(step.state, candidate))
    for candidate, trigger in fresh:
        numbered = _number(step, candidate)
        off = "" if trigger.is_on(step.state.spec.switches) else "trigger_off"
        _judge(step, at_ns, numbered, taken, _first_refusal(step.state, numbered, off))
    _ask(step, at_ns, taken)


def ask_for_priming(step: Step, at_ns: int, source_event_id: str) -> None:
    """Ask for knowledge about the task itself; the same path, a budget of its own."""
    _ask(step, at_ns, [_number(step, Candidate(PRIMING, source_event_id))])


def skip_deferred(step: Step, at_ns: int) -> None:
    """Report the candidates that were put off and can no longer be searched for, because the run ends."""
    for candidate in step.state.activation.deferred:
        _skip(step, at_ns, candidate, "run_ended")
    step.set(activation=replace(step.state.activation, deferred=()))


def _met(facts: TurnFacts) -> tuple[str, ...]:
    met = list(facts.met_servers)
    for happened in facts.happened:
        if happened.executed and happened.mcp_server and happened.mcp_server not in met:
            met.append(happened.mcp_server)
    return tuple(met)


def _number(step: Step, candidate: Candidate) -> Candidate:
    activation = step.state.activation
    step.set(activation=replace(activation, next_id=activation.next_id + 1))
    return replace(candidate, activation_id=f"{step.state.spec.run_id}:a{activation.next_id}")


def _first_refusal(state: RunState, candidate: Candidate, trigger_off: str) -> str:
    """Return why a candidate seen for the first time is not searched for, or an empty string."""
    if not state.spec.switches.activation:
        return "activation_off"
    if trigger_off:
        return trigger_off
    if candidate.trigger == "tool.failed" and not candidate.tool_result.strip():
        return "no_diagnostic"
    if handled_by(state.activation, candidate):
        return "duplicate_situation"
    return _refusal(state, candidate)


def _refusal(state: RunState, candidate: Candidate) -> str:
    """Return which limit stands against a candidate, or an empty string. The turn's cap is judged by the caller."""
    limits, activation = state.spec.limits, state.activation
    if state.turn + 1 >= limits.max_turns:
        return "final_turn"
    if activation.count >= limits.activations_per_run:
        return "run_cap"
    if dict(activation.used_by).get(scope_of(candidate), 0) >= limits.activations_per_tool:
        return "tool_cap"
    if activation.tokens_used >= limits.tokens_per_run:
        return "budget_spent"
    return ""


def scope_of(candidate: Candidate) -> str:
    """Return whose share of the run's activations a candidate spends: its server's, else its tool's."""
    return candidate.mcp_server or candidate.tool or ""


def handled_by(activation: ActivationState, candidate: Candidate) -> str:
    """Return the activation that handled the same situation in this run, or an empty string."""
    return dict(activation.processed).get(candidate.situation_key, "")


def _judge(step: Step, at_ns: int, candidate: Candidate, taken: list[Candidate], refusal: str) -> None:
    limits = step.state.spec.limits
    deferred_before = handled_by(step.state.activation, candidate) == candidate.activation_id
    if refusal:
        _skip(step, at_ns, candidate, refusal)
    elif len(taken) < limits.activations_per_turn:
        _take(step, candidate)
        taken.append(candidate)
    elif deferred_before or len(step.state.activation.deferred) >= DEFERRED_LIMIT:
        _skip(step, at_ns, candidate, "turn_cap")
    else:
        _defer(step, at_ns, candidate)


def _take(step: Step, candidate: Candidate) -> None:
    activation = step.state.activation
    used = dict(activation.used_by)
    used[scope_of(candidate)] = used.get(scope_of(candidate), 0) + 1
    step.set(
        activation=replace(
            activation,
            count=activation.count + 1,
            used_by=tuple(used.items()),
            processed=_remember(activation, candidate),
        )
    )


def _remember(activation: ActivationState, candidate: Candidate) -> tuple[tuple[str, str], ...]:
    entry = (candidate.situation_key, candidate.activation_id)
    return (*(other for other in activation.processed if other != entry), entry)[-PROCESSED_LIMIT:]


def _defer(step: Step, at_ns: int, candidate: Candidate) -> None:
    activation = step.state.activation
    kept = replace(candidate, tool_result=clip(candidate.tool_result, DEFERRED_TEXT))
    step.set(
        activation=replace(
            activation, deferred=(*activation.deferred, kept), processed=_remember(activation, candidate)
        )
    )
    limit = step.state.spec.limits.activations_per_turn
    data = {"trigger": candidate.trigger, "limit": limit, **situation_data(candidate)}
    step.emit("activation.deferred", at_ns, data, **event_ids(candidate))


def _skip(step: Step, at_ns: int, candidate: Candidate, reason: str) -> None:
    limits = step.state.spec.limits
    limit = {
        "turn_cap": limits.activations_per_turn,
        "run_cap": limits.activations_per_run,
        "tool_cap": limits.activations_per_tool,
        "budget_spent": limits.tokens_per_run,
        "final_turn": limits.max_turns,
    }.get(reason)
    data = {
        "trigger": candidate.trigger,
        "skip_reason": reason,
        "same_as": handled_by(step.state.activation, candidate) if reason == "duplicate_situation" else None,
        "limit": limit,
        **situation_data(candidate),
    }
    step.emit("activation.skipped", at_ns, data, **event_ids(candidate))


def situation_data(candidate: Candidate) -> dict[str, str | None]:
    return {
        "situation_key": candidate.situation_key or None,
        "situation_class": candidate.situation_class or None,
        "fingerprint": candidate.fingerprint or None,
    }


def event_ids(candidate: Candidate) -> dict[str, Any]:
    """Return the envelope ids of an event about an activation."""
    return {
        "activation_id": candidate.activation_id,
        "caused_by": candidate.source_event_id,
        "tool": candidate.tool,
        "mcp_server": candidate.mcp_server,
        "call_id": candidate.call_id,
        "operation_id": candidate.operation_id,
    }


def _ask(step: Step, at_ns: int, candidates: Sequence[Candidate]) -> None:
    """Report each activation and ask Observation once for all of them."""
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
        data = {"trigger": candidate.trigger, "query": request.query, "budget": budget, **situation_data(candidate)}
        event_id = step.emit("activation.requested", at_ns, data, **event_ids(candidate))
        asked.append(Asked(replace(candidate, tool_result=""), event_id))
        requests.append(request)
    step.set(asked=tuple(asked))
    step.do(FetchHints(step.state.spec.run_id, tuple(requests), step.state.spec.limits.retrieval_timeout_ms))


def hint_request(state: RunState, candidate: Candidate) -> HintRequest:
    """Return what Observation is asked: the original task, never text that already holds a hint block."""
    spec, activation = state.spec, state.activation
    room_tokens, room_run, room_hints = room_of(state, candidate)
    fits = min(room_tokens, room_run)
    suppressed = tuple(entry.knowledge_id for entry in activation.suppressed if entry.tokens > fits)
    return HintRequest(
        activation_id=candidate.activation_id,
        trigger=candidate.trigger,
        source_event_id=candidate.source_event_id,
        run_id=spec.run_id,
        task_id=spec.task_id,
        actor_id=spec.actor_id,
        team_root=spec.team_root,
        query=clip(spec.task, QUERY_LIMIT),
        tool=candidate.tool,
        mcp_server=candidate.mcp_server,
        tool_result=clip(candidate.tool_result, TOOL_RESULT_LIMIT),
        error_class=candidate.error_class,
        active_skills=spec.skills,
        issued_knowledge_ids=activation.issued,
        suppressed_knowledge_ids=suppressed,
        limit=OFFER_LIMIT,
        activation_tokens=room_tokens,
        run_tokens=room_run,
        hint_limit=room_hints,
    )


def room_of(state: RunState, candidate: Candidate) -> tuple[int, int, int]:
    """Return (tokens of this activation, tokens left in the run, hints of this activation)."""
    limits = state.spec.limits
    if candidate.trigger == PRIMING:
        return limits.priming_tokens, limits.priming_tokens, limits.priming_hints
    left = max(0, limits.tokens_per_run - state.activation.tokens_used)
    return limits.tokens_per_activation, left, limits.hints_per_activation


def unanswered(command: FetchHints, requested_ns: int, at_ns: int, result: str, error: str) -> HintsArrived:
    """Return the observation of a retrieval that was lost: `result` is timeout or error for every activation."""
    answers = tuple(HintAnswer(request.activation_id, result, error=error) for request in command.requests)
    return HintsArrived(at_ns, requested_ns, answers)
