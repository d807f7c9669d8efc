"""The JSON bodies of runs and their chains, and their description for the OpenAPI document.

Counts are null while nothing of a run was folded; `n_unfolded` says how many of its events the body does not show
yet. Reason words come with their meaning, so that a reader needs no table. (Seed 001 §13.)
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rest_framework import serializers

from contract import stages
from ingest.models import Run
from ingest.path_ids import segment
from ingest.times import LONGEST_NS, rfc3339
from knowledge.draws import draw_in_words
from knowledge.models import Activation, Candidate

LISTED: Final = (
    "status", "status_reason", "task", "agent", "model", "parent_run_id", "team_root",
    "conversation_id", "waiting_for", "n_turns", "n_tool_calls",
    "n_tools_failed", "n_activations", "n_skipped", "n_retrieved", "n_offered", "n_injected", "n_dropped",
    "hint_tokens", "priming_tokens", "model_tokens", "success", "fold_version",
)  # fmt: skip
DETAILED: Final = ("limits", "switches", "answer", "tools", "mcp_servers")
ACTIVATION: Final = (
    "activation_id", "ordinal", "trigger", "inferred_trigger", "inferred_event_id", "turn", "source_event_id", "tool",
    "mcp_server", "call_id", "situation_key",
    "situation_class", "fingerprint", "query", "duration_ms", "search_ms", "result", "skip_reason", "skip_detail",
    "error", "algorithm_version", "matcher", "n_retrieved", "n_offered", "n_selected", "n_injected", "n_dropped",
    "tokens", "tokens_left", "budget", "block", "experiment", "arm", "share", "holdout_tokens", "shadow_tokens",
    "deferred_limit", "request_event_id", "position", "query_diagnostics", "later_calls",
    "resolved", "resolved_event_id", "fold_version",
)  # fmt: skip
CANDIDATE: Final = (
    "knowledge_id", "revision", "rank", "proposition", "state", "matched_by", "scores", "tokens", "hold_reason",
    "hint_id", "drop_reason", "drop_detail", "position", "request_event_id", "message_hash", "usage_source",
    "evidence", "outcome", "outcome_source",
)  # fmt: skip
ACTIVATION_TIMES: Final = ("requested", "completed", "deferred")
CANDIDATE_TIMES: Final = ("offered", "selected", "injected", "dropped", "used", "ignored")
MEANINGS: Final = {
    "trigger": stages.TRIGGERS,
    "skip_reason": stages.SKIP_REASONS,
    "hold_reason": stages.HOLD_REASONS,
    "drop_reason": stages.DROP_REASONS,
}


def run_body(run: Run) -> dict[str, Any]:
    """Return the list body of a run of `run_filters.all_runs`."""
    body = {name: getattr(run, name) for name in LISTED}
    started, ended = getattr(run, "started_ns"), getattr(run, "ended_ns")  # noqa: B009 - annotated, not declared
    return {
        "run_id": run.run_id,
        "url": f"/v1/runs/{segment(run.run_id)}",
        **body,
        "started_at": _time(started),
        "ended_at": _time(ended),
        "duration_ms": duration_ms(started, ended),
        "first_received_at": run.first_received_at.isoformat(),
        "last_received_at": run.last_received_at.isoformat(),
        "as_of": _as_of(run),
        "n_events": run.last_arrival,
        "n_unfolded": run.last_arrival - run.folded_arrival,
        "n_conflicts": run.n_conflicts,
    }


def run_detail_body(run: Run) -> dict[str, Any]:
    """Return the body of one run: that of the list, and what it was given and answered."""
    return {**run_body(run), **{name: getattr(run, name) for name in DETAILED}}


def duration_ms(started_ns: int | None, ended_ns: int | None) -> float | None:
    """Return how long something took; None while it is open, and when its end cannot be."""
    if started_ns is None or ended_ns is None or not 0 <= ended_ns - started_ns <= LONGEST_NS:
        return None
    return (ended_ns - started_ns) / 1e6


def _as_of(run: Run) -> str | None:
    folded_at = getattr(run, "folded_at")  # noqa: B009 - annotated, not declared
    return folded_at.isoformat() if folded_at else None


def _time(nanos: int | None) -> str | None:
    return None if nanos is None else rfc3339(nanos)


def activation_body(activation: Activation, candidates: Iterable[Candidate]) -> dict[str, Any]:
    """Return one activation with its candidates, each with the stages it reached and why it went no further."""
    return {
        **_fields(activation, ACTIVATION, ACTIVATION_TIMES),
        "arm_meaning": draw_in_words(
            activation.arm, activation.experiment, activation.share, activation.holdout_tokens
        ),
        "candidates": [_fields(candidate, CANDIDATE, CANDIDATE_TIMES) for candidate in candidates],
    }


def _fields(row: Activation | Candidate, names: Iterable[str], stamps: Iterable[str]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name in names:
        body[name] = getattr(row, name)
        if name in MEANINGS:
            body[f"{name}_meaning"] = _meaning(MEANINGS[name], body[name])
    for stamp in stamps:
        body[f"{stamp}_at"] = _time(getattr(row, f"{stamp}_ns"))
    return body


def _meaning(words: Mapping[str, str], word: str) -> str:
    """Return what a reason means; a word outside the vocabulary speaks for itself."""
    return words.get(word, word)


class RunBody(serializers.Serializer[Run]):
    """Describes `run_body`."""

    run_id = serializers.CharField()
    url = serializers.CharField(help_text="where this run is read; /events and /activations go on from it")
    status = serializers.ChoiceField(choices=list(stages.RUN_STATUSES))
    status_reason = serializers.CharField(allow_null=True)
    task = serializers.CharField(allow_null=True, help_text="at most 4,000 characters")
    agent = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    parent_run_id = serializers.CharField(allow_null=True)
    team_root = serializers.CharField(allow_null=True)
    conversation_id = serializers.CharField(allow_null=True)
    waiting_for = serializers.CharField(allow_null=True, help_text="approval or question; empty while nobody is asked")
    n_turns = serializers.IntegerField(allow_null=True)
    n_tool_calls = serializers.IntegerField(allow_null=True)
    n_tools_failed = serializers.IntegerField(allow_null=True)
    n_activations = serializers.IntegerField(allow_null=True, help_text="searches made, priming included")
    n_skipped = serializers.IntegerField(allow_null=True, help_text="searches that were due and not made")
    n_retrieved = serializers.IntegerField(allow_null=True)
    n_offered = serializers.IntegerField(allow_null=True, help_text="hints Observation offered")
    n_injected = serializers.IntegerField(allow_null=True, help_text="hints reported as sent to the model")
    n_dropped = serializers.IntegerField(allow_null=True)
    hint_tokens = serializers.IntegerField(allow_null=True, help_text="of injected runtime hints, priming apart")
    priming_tokens = serializers.IntegerField(allow_null=True)
    model_tokens = serializers.IntegerField(allow_null=True)
    success = serializers.BooleanField(allow_null=True)
    fold_version = serializers.CharField(allow_null=True)
    started_at = serializers.CharField(allow_null=True, help_text="sender's clock, nanoseconds")
    ended_at = serializers.CharField(allow_null=True)
    duration_ms = serializers.FloatField(
        allow_null=True, help_text="null while open or when the end is before the start"
    )
    first_received_at = serializers.DateTimeField()
    last_received_at = serializers.DateTimeField()
    as_of = serializers.DateTimeField(allow_null=True, help_text="when the counts were derived")
    n_events = serializers.IntegerField(help_text="events stored")
    n_unfolded = serializers.IntegerField(help_text="events stored that the counts do not show yet")
    n_conflicts = serializers.IntegerField()


class RunDetailBody(RunBody):
    """Describes `run_detail_body`."""

    limits = serializers.DictField(allow_null=True)
    switches = serializers.DictField(allow_null=True)
    answer = serializers.CharField(allow_null=True)
    tools = serializers.ListField(child=serializers.CharField(), allow_null=True)
    mcp_servers = serializers.ListField(child=serializers.CharField(), allow_null=True)


class RunListBody(serializers.Serializer[Run]):
    """Describes the answer of the run list."""

    results = RunBody(many=True)
    next = serializers.CharField(allow_null=True, help_text="cursor of the next page")
