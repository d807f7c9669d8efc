"""What a fold finds out about a run: one summary, its activations, their candidates. Plain values, no database.

Field names and units are those of `knowledge/models/chains.py`. (Seed 001 §10.3, §13.)
"""

from dataclasses import dataclass, field
from typing import Any, Final

UNKNOWN_ITEM: Final = "? "  # begins the id of a candidate of which only the hint is known


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. Tokens are estimates unless the provider reported them; times in the sender's Unix nanoseconds."""

    status: str = "running"
    status_reason: str = ""
    task: str = ""
    agent: str = ""
    model: str = ""
    parent_run_id: str | None = None
    team_root: str | None = None
    conversation_id: str | None = None
    waiting_for: str = ""
    started_ns: int | None = None
    ended_ns: int | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    switches: dict[str, Any] = field(default_factory=dict)
    answer: str = ""
    success: bool | None = None
    tools: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    n_events: int = 0
    n_turns: int = 0
    n_tool_calls: int = 0
    n_tools_failed: int = 0
    n_activations: int = 0
    n_skipped: int = 0
    n_retrieved: int = 0
    n_offered: int = 0
    n_injected: int = 0
    n_dropped: int = 0
    hint_tokens: int = 0
    priming_tokens: int = 0
    model_tokens: int = 0


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """A knowledge item in one activation. Each stage stamp comes from a report of that very stage."""

    activation_id: str
    knowledge_id: str
    revision: int | None = None
    rank: int | None = None
    proposition: str = ""
    state: str = ""
    matched_by: list[str] = field(default_factory=list)
    scores: dict[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    hold_reason: str = ""
    hint_id: str | None = None
    offered_ns: int | None = None
    selected_ns: int | None = None
    injected_ns: int | None = None
    dropped_ns: int | None = None
    drop_reason: str = ""
    drop_detail: dict[str, Any] = field(default_factory=dict)
    position: int | None = None
    request_event_id: str | None = None
    message_hash: str = ""
    used_ns: int | None = None
    ignored_ns: int | None = None
    usage_source: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""
    outcome_source: str = ""


@dataclass(frozen=True, slots=True)
class ActivationFacts:
    """One search for knowledge, or one that was due and not made."""

    activation_id: str
    ordinal: int = 0
    trigger: str = ""
    turn: int | None = None
    source_event_id: str | None = None
    inferred_trigger: str = ""
    inferred_event_id: str | None = None
    tool: str | None = None
    mcp_server: str | None = None
    call_id: str | None = None
    situation_key: str = ""
    situation_class: str = ""
    fingerprint: str = ""
    query: str = ""
    requested_ns: int | None = None
    completed_ns: int | None = None
    deferred_ns: int | None = None
    deferred_limit: int | None = None
    duration_ms: float | None = None
    search_ms: float | None = None
    result: str = ""
    skip_reason: str = ""
    skip_detail: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    algorithm_version: str = ""
    matcher: str = ""
    n_retrieved: int = 0
    n_offered: int = 0
    n_selected: int = 0
    n_injected: int = 0
    n_dropped: int = 0
    tokens: int = 0
    tokens_left: int | None = None
    budget: dict[str, Any] = field(default_factory=dict)
    block: str = ""
    experiment: str = ""
    arm: str = ""
    share: float | None = None
    holdout_tokens: int | None = None
    shadow_tokens: int | None = None
    request_event_id: str | None = None
    position: int | None = None
    query_diagnostics: dict[str, Any] = field(default_factory=dict)
    later_calls: list[dict[str, Any]] = field(default_factory=list)
    resolved: bool | None = None
    resolved_event_id: str | None = None
    near: bool | None = None
    calls_after: int = 0
    failed_after: int = 0
    turns_after: int = 0
    model_tokens_after: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person said of one hint; an empty outcome takes back what was said before. `said_at` in ISO 8601."""

    activation_id: str
    knowledge_id: str
    outcome: str
    reason: str
    by: str
    said_at: str


@dataclass(frozen=True, slots=True)
class RunChain:
    """All that is derived from one run's events: activations in order, candidates by activation and rank."""

    run: RunFacts
    activations: tuple[ActivationFacts, ...] = ()
    candidates: tuple[CandidateFacts, ...] = ()
