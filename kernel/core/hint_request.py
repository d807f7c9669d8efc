"""What Observation is asked for one activation: the original task, never text that already holds a hint block.

(Seed 001 §7.1, §7.3.)
"""

from contract.hint_api import DEFAULT_HINTS, QUERY_LIMIT, TOOL_ARGUMENTS_LIMIT, TOOL_RESULT_LIMIT
from contract.text import clip
from kernel.core.budget import Room
from kernel.core.state import Candidate, RunState, Suppressed
from kernel.core.triggers.priming import Priming
from kernel.messages import HintRequest, SuppressedItem


def activation_id(state: RunState, number: int) -> str:
    return f"{state.spec.run_id}:a{number}"


def is_priming(candidate: Candidate) -> bool:
    """Return whether a candidate has the budget of the start, apart from that of the turns."""
    return candidate.trigger == Priming.name


def room_of(state: RunState, candidate: Candidate) -> Room:
    """Return what is left for an activation of this candidate."""
    limits = state.spec.limits
    if is_priming(candidate):
        tokens = limits.priming_tokens
        return Room(limits.priming_hints, tokens, tokens, tokens)
    left = max(0, limits.tokens_per_run - state.activation.tokens_used)
    return Room(limits.hints_per_activation, limits.tokens_per_activation, left, limits.tokens_per_run)


def hint_request(state: RunState, candidate: Candidate) -> HintRequest:
    """Return the request, within the limits of the hints API."""
    spec, activation, room = state.spec, state.activation, room_of(state, candidate)
    return HintRequest(
        activation_id=activation_id(state, candidate.number),
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
        suppressed=tuple(
            SuppressedItem(one.knowledge_id, one.revision) for one in activation.suppressed if stays(one, room)
        ),
        limit=DEFAULT_HINTS,
        activation_tokens=room.activation_tokens,
        run_tokens=room.run_tokens,
        hint_limit=room.hints,
        tool_arguments=clip(candidate.tool_arguments, TOOL_ARGUMENTS_LIMIT),
    )


def stays(suppressed: Suppressed, room: Room) -> bool:
    """Return whether a suppressed hint stays so: lifted is what would fit now, alone in its block.

    What could not be measured has no size that could fit.
    """
    fits = min(room.activation_tokens, room.run_tokens)
    return suppressed.reason == "estimate_failed" or suppressed.tokens > fits
