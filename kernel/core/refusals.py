"""Why a candidate is not searched for: switches, the same situation, limits; and who waits when a turn has too many.

(Seed 001 §9.2, §9.3.)
"""

from collections.abc import Sequence

from kernel.core.bounds import PROCESSED_KEY
from kernel.core.state import ActivationState, Candidate, RunState
from kernel.core.triggers.facts import Trigger, scope_of
from kernel.messages import Limits


def first_refusal(state: RunState, trigger: Trigger, candidate: Candidate) -> str:
    """Return the skip reason of a candidate seen for the first time, or an empty string."""
    switches = state.spec.switches
    if not switches.activation:
        return "activation_off"
    if trigger.name in switches.off:
        return "trigger_off"
    if trigger.needs_text and not candidate.tool_result.strip():
        return "no_diagnostic"
    if handled_by(state.activation, candidate):
        return "duplicate_situation"
    return limit_refusal(state, candidate)


def limit_refusal(state: RunState, candidate: Candidate) -> str:
    """Return which limit of the run stands against a candidate, or an empty string.

    The limit of a turn is not judged here: what is over it waits instead.
    """
    limits, activation = state.spec.limits, state.activation
    if state.limit:
        return "final_turn"
    if activation.count >= limits.activations_per_run:
        return "run_cap"
    if dict(activation.used_by).get(spender_of(candidate), 0) >= limits.activations_per_tool:
        return "tool_cap"
    if activation.tokens_used >= limits.tokens_per_run:
        return "budget_spent"
    return ""


def limit_behind(limits: Limits, reason: str) -> int | None:
    """Return the number behind a skip reason, None for one that is no limit."""
    return {
        "turn_cap": limits.activations_per_turn,
        "run_cap": limits.activations_per_run,
        "tool_cap": limits.activations_per_tool,
        "budget_spent": limits.tokens_per_run,
        "final_turn": limits.max_turns,
    }.get(reason)


def spender_of(candidate: Candidate) -> str:
    """Return whose share of the run's activations a candidate spends."""
    return scope_of(candidate.tool or "", candidate.mcp_server)


def fair_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates with the tools taking turns, so that many of one tool keep none of another waiting."""
    seen: dict[str, int] = {}
    rounds: list[tuple[int, Candidate]] = []
    for candidate in candidates:
        spender = spender_of(candidate)
        seen[spender] = seen.get(spender, 0) + 1
        rounds.append((seen[spender], candidate))
    return [candidate for _, candidate in sorted(rounds, key=lambda entry: entry[0])]


def handled_by(activation: ActivationState, candidate: Candidate) -> int:
    """Return the number of the activation that handled the same situation in this run, or 0."""
    key = processed_key(candidate)
    return next((number for known, number in activation.processed if known == key), 0)


def processed_key(candidate: Candidate) -> str:
    return candidate.situation.key[:PROCESSED_KEY]
