"""What a telemetry event is: its envelope, the types the chain is derived from, and a schema for each type's `data`.

One table (`EVENT_TYPES`) is the source of the check made at the door (`check_data`), of the published JSON
Schema (`json_schema`) and of the examples in the docs. Unknown types and unknown `data` keys are allowed:
they are kept and shown, and nothing is derived from them. (Seed 001 §7.2, §13.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract import stages
from contract.event_fields import Field, check_fields, may, need, schema_of

# Envelope fields that are short text, in wire order. Each is an indexed or displayed column of at most ID_LIMIT
# code points.
ID_FIELDS: Final = (
    "event_id", "run_id", "type", "caused_by", "task_id", "actor_id", "parent_run_id", "team_root",
    "call_id", "operation_id", "activation_id", "hint_id", "knowledge_id", "tool", "mcp_server",
)  # fmt: skip
REQUIRED_FIELDS: Final = ("event_id", "run_id", "type", "occurred_at")
INTEGER_FIELDS: Final = ("seq", "turn")
TIME_FIELDS: Final = ("occurred_at", "ended_at")
ENVELOPE_FIELDS: Final = (*ID_FIELDS, *INTEGER_FIELDS, *TIME_FIELDS, "data")
ID_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class EventType:
    """One event type: a sentence on what it records, its `data` fields, an example of `data`."""

    doc: str
    fields: Mapping[str, Field]
    example: Mapping[str, Any]
    terminal_status: str | None = None


_DURATION = may("number", "how long it took, in milliseconds")
_TRIGGER = need(
    "str", f"what caused the search: {', '.join(stages.TRIGGERS)} or another name of that form", is_trigger=True
)
_ERROR = may("str", "what went wrong, redacted")
_COUNTS = {
    "n_retrieved": may("int", "candidates considered"),
    "n_offered": may("int", "hints offered by Observation"),
    "n_selected": may("int", "hints chosen by the kernel"),
    "n_injected": may("int", "hints placed in the history"),
}
_SITUATION = {
    "situation_key": may("str", "hash of trigger, server or tool, error class and exact fingerprint"),
    "situation_class": may("str", "the same hash over the class fingerprint, for statistics"),
    "fingerprint": may("str", "the normalised diagnostic text behind the key"),
}
_HOLDOUT = {
    "experiment": may("str", "name of the experiment, may be empty"),
    "arm": need("str", "what was drawn", stages.HOLDOUT_ARMS),
    "share": need("number", "share of situations that are withheld", lowest=0, highest=1),
    "tokens": may("int", "tokens of the block that was drawn for", lowest=0),
}
# A sender of spans tells of the request in the event of its answer.
_REQUEST = {
    "n_kept": may("int", "as in model.requested, where the request is told with its answer", lowest=0),
    "n_messages": may("int", "messages of the request", lowest=0),
    "new_messages": may("array", "messages of the request, as in model.requested"),
}
_TERMINAL = {
    "reason": may("str", "why it ended"),
    "error": _ERROR,
    "n_turns": may("int", "turns taken"),
    "answer": may("str", "the final text, bounded"),
    "limit": may("str", "name of the limit that was reached: tool_rounds, time or tokens"),
    "metadata": may("object", "what the driver gave with its ending"),
}
_STEP = {"step": may("int", "the step that the driver claimed for the call, from 0", lowest=0)}


def _type(doc: str, fields: Mapping[str, Field], example: Mapping[str, Any], terminal: str | None = None) -> EventType:
    return EventType(doc, fields, example, terminal)


EVENT_TYPES: Final[dict[str, EventType]] = {
    "run.started": _type(
        "A run began; carries the task, the agent and the limits it runs under.",
        {
            "task": may("str", "the task as given"),
            "agent": may("str", "name of the driver"),
            "model": may("str", "model behind the driver"),
            "conversation_id": may("str", "the conversation of which this run is one turn, where it is one"),
            "limits": may("object", "activation and turn limits, by name"),
            "switches": may("object", "which triggers and modes are on"),
            "tools": may("array", "names of the tools offered"),
            "mcp_servers": may("array", "keys of the MCP servers that answered"),
            "failed_servers": may("object", "MCP server key -> why it could not be used"),
        },
        {"task": "Release the parser package", "agent": "scripted", "tools": ["shell"]},
    ),
    "run.continued": _type(
        "The run went on in a new workflow run (continue-as-new).",
        {"continuation": may("int", "how many times so far"), "n_messages": may("int", "messages carried over")},
        {"continuation": 1, "n_messages": 42},
    ),
    "run.completed": _type("The agent gave its answer.", _TERMINAL, {"answer": "Done.", "n_turns": 6}, "completed"),
    "run.failed": _type("The run ended in an error.", _TERMINAL, {"error": "model: 401"}, "failed"),
    "run.cancelled": _type(
        "A person or caller stopped the run.", _TERMINAL, {"reason": "stopped by owner"}, "cancelled"
    ),
    "run.escalated": _type(
        "The agent asked for a person to decide; nothing resumes this run.",
        {
            **_TERMINAL,
            "reviewer": may("str", "who the ask is put to"),
            "call_id": may("str", "the call that was the ask"),
            "n_denied": may("int", "calls after the ask, none of which was executed", lowest=0),
        },
        {"reason": "needs a key", "reviewer": "owner", "n_denied": 1},
        "escalated",
    ),
    "run.limit_reached": _type(
        "A budget of the run was spent before the agent finished.", _TERMINAL, {"limit": "tool_rounds"}, "limit_reached"
    ),
    "turn.started": _type("A turn began.", {}, {}),
    "turn.completed": _type(
        "All that answers one model request is there.", {"n_calls": may("int", "tool calls")}, {"n_calls": 2}
    ),
    "turn.failed": _type(
        "The turn could not be finished.",
        {"code": may("str", "error code"), "source": may("str", "envelope or runtime"), "error": _ERROR},
        {"code": "invalid_driver_decision", "source": "runtime"},
    ),
    "model.requested": _type(
        "A request was built and sent to the model. Message texts travel once: a request is the first `n_kept` "
        "messages of `follows` and then `new_messages`.",
        {
            "follows": may("str", "event_id of the previous model.requested of this run, absent for the first"),
            "n_kept": may("int", "messages taken unchanged from that request, from its start"),
            "n_messages": need("int", "messages in this request"),
            "new_messages": may(
                "array", "messages added: role, text, calls, call_id, status, code, origin, hash, tokens"
            ),
            "tokens": may("int", "estimated tokens of the whole request"),
            "n_tools": may("int", "tools offered"),
            "finale": may("bool", "the last request of the run, sent without tools"),
        },
        {"n_messages": 2, "new_messages": [{"role": "user", "text": "Release it", "origin": "task"}], "tokens": 12},
    ),
    "model.completed": _type(
        "The model answered.",
        {
            "duration_ms": _DURATION,
            "n_calls": may("int", "tool calls in the answer"),
            "text": may("str", "answer text, bounded"),
            "input_tokens": may("int", "as reported by the provider"),
            "output_tokens": may("int", "as reported by the provider"),
            "model": may("str", "model that answered"),
            "finish_reason": may("str", "why the model stopped, in its provider's word"),
            "n_dropped": may("int", "calls of a last reply, none of which was executed", lowest=0),
            **_REQUEST,
        },
        {"duration_ms": 1310, "n_calls": 1, "text": ""},
    ),
    "model.failed": _type(
        "The model request failed.",
        {"duration_ms": _DURATION, "error": _ERROR, "error_class": may("str", "its class"), **_REQUEST},
        {"error": "timeout", "duration_ms": 30000},
    ),
    "tool.requested": _type(
        "The model asked for a tool call.",
        {"arguments": may("str", "arguments as given, bounded and redacted"), **_STEP},
        {"arguments": '{"command": "git init"}'},
    ),
    "tool.completed": _type(
        "A tool call ended well.",
        {
            "duration_ms": _DURATION,
            "result": may("str", "result text, bounded and redacted"),
            "effect": may("str", "what was changed", stages.EFFECTS),
            "duplicate_of": may("str", "call_id of the identical call that was executed in its place"),
            **_STEP,
        },
        {"duration_ms": 63, "result": "Initialized empty Git repository", "effect": "applied"},
    ),
    "tool.failed": _type(
        "A tool was executed and ended in an error.",
        {
            "duration_ms": _DURATION,
            "status": may("str", "failed or timed_out", stages.TOOL_STATUSES),
            "error_class": may("str", "class of the error"),
            "effect": may("str", "what was changed", stages.EFFECTS),
            "detail": may("str", "diagnostic text, bounded and redacted"),
            **_STEP,
            **_SITUATION,
        },
        {
            "error_class": "exit_nonzero",
            "effect": "uncertain",
            "detail": "fatal: not a git repository",
            "duration_ms": 41,
        },
    ),
    "tool.blocked": _type(
        "A call was refused before it was executed.",
        {
            "status": may("str", "blocked, denied or cancelled", stages.TOOL_STATUSES),
            "code": may("str", "refusal code, for example tool_unavailable"),
            "detail": may("str", "the refusal as the model read it"),
            **_STEP,
        },
        {"status": "denied", "code": "tool_unavailable", "detail": "no tool named deploy is offered"},
    ),
    "approval.requested": _type(
        "A person was asked to approve a call.", {"question": may("str", "text")}, {"question": "Run rm?"}
    ),
    "approval.decided": _type(
        "The approval was answered.",
        {
            "approved": need("bool", "the decision"),
            "by": may("str", "who"),
            "note": may("str", "why"),
            "timed_out": may("bool", "nobody answered in time, which counts as refused"),
        },
        {"approved": False, "by": "owner"},
    ),
    "human.asked": _type(
        "A person was asked a question.", {"question": may("str", "text")}, {"question": "Which branch?"}
    ),
    "human.answered": _type(
        "The question was answered, or nobody answered it in time.",
        {
            "answer": may("str", "text"),
            "by": may("str", "who"),
            "timed_out": may("bool", "nobody answered in time; there is no answer then"),
        },
        {"answer": "main", "by": "owner"},
    ),
    "operation.started": _type(
        "A background operation began. The call that started it has its `call_id`; a later call that waits for it "
        "names it by `operation_id`.",
        {"detail": may("str", "what it does")},
        {"detail": "build"},
    ),
    "operation.completed": _type(
        "A background operation ended well.",
        {"duration_ms": _DURATION, "result": may("str", "bounded")},
        {"result": "ok"},
    ),
    "operation.failed": _type(
        "A background operation ended in an error, was stopped at its time limit, or because the run ended.",
        {
            "duration_ms": _DURATION,
            "status": may("str", "failed, timed_out or cancelled", stages.TOOL_STATUSES),
            "error_class": may("str", "class of the error"),
            "effect": may("str", "what was changed", stages.EFFECTS),
            "detail": may("str", "diagnostic text, bounded and redacted"),
            **_SITUATION,
        },
        {"status": "failed", "error_class": "exit_nonzero", "detail": "build failed"},
    ),
    "delegate.started": _type(
        "A child run was started.",
        {
            "child_run_id": may("str", "its run"),
            "member": may("str", "who was named to do it"),
            "task": may("str", "what it was given to do, bounded"),
        },
        {"child_run_id": "r-42.1", "member": "reviewer", "task": "Review the release notes"},
    ),
    "delegate.finished": _type(
        "A child run ended.",
        {
            "child_run_id": may("str", "its run"),
            "status": may("str", "run status", stages.RUN_STATUSES),
            "answer": may("str", "its answer, bounded"),
            "reason": may("str", "why it ended without one"),
        },
        {"child_run_id": "r-42.1", "status": "completed", "answer": "Two notes are missing."},
    ),
    "plan.updated": _type(
        "The agent changed its plan.",
        {"plan": may("array", "steps in order: texts, or objects with step and status")},
        {"plan": ["build", "publish"]},
    ),
    "activation.requested": _type(
        "The kernel asked Observation for knowledge.",
        {
            "trigger": _TRIGGER,
            "query": may("str", "the bounded, redacted query"),
            **_SITUATION,
            "budget": may("object", "activation_tokens and run_tokens left, hint_limit"),
        },
        {"trigger": "tool.failed", "query": "Release the parser package"},
    ),
    "activation.completed": _type(
        "The search was answered and the kernel made its choice.",
        {
            "trigger": _TRIGGER,
            "result": need("str", "how the search ended", stages.ACTIVATION_RESULTS),
            **_COUNTS,
            "n_dropped": may("int", "hints offered and not injected"),
            "tokens": may("int", "tokens of the injected block"),
            "duration_ms": may("number", "time of the search, in milliseconds"),
            "error": _ERROR,
            **_SITUATION,
            "block": may("str", "the hint block as it stands in the history"),
            "tokens_left": may("int", "runtime tokens left in the run after this activation"),
            "algorithm_version": may("str", "version of FindHints as answered"),
            "holdout": may("object", "the draw, present in both arms whenever one was made", keys=_HOLDOUT),
            "shadow_tokens": may("int", "tokens of the block that would have gone in without shadow mode", lowest=0),
        },
        {
            "trigger": "tool.failed",
            "result": "success",
            "n_offered": 3,
            "n_selected": 1,
            "tokens": 96,
            "duration_ms": 18,
        },
    ),
    "activation.skipped": _type(
        "An activation was due and no search was made.",
        {
            "trigger": _TRIGGER,
            "skip_reason": need("str", "why", stages.SKIP_REASONS),
            "same_as": may("str", "activation_id that handled the same situation"),
            "limit": may("int", "the limit that was reached"),
            **_SITUATION,
        },
        {"trigger": "tool.failed", "skip_reason": "duplicate_situation"},
    ),
    "activation.deferred": _type(
        "An activation was put off to the next boundary.",
        {"trigger": _TRIGGER, "limit": may("int", "activations allowed in a turn"), **_SITUATION},
        {"trigger": "tool.failed", "limit": 2},
    ),
    "hint.query": _type(
        "A search was made: by Observation, or by the application itself.",
        {
            "trigger": _TRIGGER,
            "source_event_id": may("str", "what caused the search"),
            "algorithm_version": need("str", "version of FindHints"),
            "matcher": may("str", "legs that took part"),
            **_COUNTS,
            "result": may("str", "success, empty or error", stages.ACTIVATION_RESULTS),
            "duration_ms": _DURATION,
            "query_diagnostics": may("object", "lengths, term count and fingerprint of the query; never its text"),
            "gate": may("number", "confidence below which a candidate is held back, absent where there is no gate"),
            "notes": may("array", "sentences about how was searched, such as an embedding that was not used"),
            "budget": may("object", "what the asking side said it has left, by name"),
            "candidates": may(
                "array",
                "every candidate: knowledge_id, revision, rank, state, proposition, matched_by, "
                "scores, tokens, hold_reason (absent for an offered one), value and bound (the number that held it "
                "back and what it was held against, where there is one)",
            ),
            "n_unlisted": may("int", "candidates held back beyond those listed"),
        },
        {"trigger": "tool.failed", "algorithm_version": "lexical-entity-topic.v2", "n_retrieved": 5, "n_offered": 3},
    ),
    "hint.offered": _type(
        "Observation offered one hint; its event_id is the hint_id.",
        {
            "trigger": _TRIGGER,
            "source_event_id": may("str", "what caused the search"),
            "revision": need("int", "revision of the item"),
            "proposition": need("str", "the rule as offered"),
            "state": may("str", "lifecycle state", stages.ITEM_STATES),
            "matched_by": may("array", "match reasons"),
            "scores": may("object", "score per signal"),
            "rank": may("int", "1 is best"),
            "tokens": may("int", "estimated size"),
            "algorithm_version": need("str", "version of FindHints"),
            "matcher": may("str", "legs that took part"),
        },
        {
            "trigger": "tool.failed",
            "revision": 1,
            "proposition": "Run git init first",
            "algorithm_version": "lexical-entity-topic.v2",
        },
    ),
    "hint.delivery": _type(
        "The kernel selected, injected or dropped an offered hint.",
        {
            "stage": need("str", "what happened", stages.DELIVERY_STAGES),
            "drop_reason": may("str", "why it was dropped", stages.DROP_REASONS),
            "tokens": may("int", "tokens its cue takes in the finished block"),
            "needed": may("int", "tokens or hints it would have needed"),
            "left": may("int", "tokens or hints that were left"),
            "limit": may("int", "the limit that decided"),
            "position": may("int", "0-based place of the block in the request that carried it"),
            "message_hash": may("str", "hash of the message that carried it, as sent"),
            "request_event_id": may("str", "event_id of the model.requested that carried it"),
            "probability": may("number", "holdout share in force", lowest=0, highest=1),
        },
        {"stage": "dropped", "drop_reason": "activation_tokens", "needed": 212, "left": 188, "limit": 400},
    ),
    "hint.used": _type(
        "The runtime saw the hint acted on.", {"evidence": may("str", "what shows it")}, {"evidence": "ran git init"}
    ),
    "hint.ignored": _type("The runtime saw the hint not acted on.", {"evidence": may("str", "what shows it")}, {}),
    "hint.outcome": _type(
        "The effect of a hint was judged.",
        {
            "outcome": need("str", "the verdict", stages.OUTCOMES),
            "by": may("str", "who or what judged"),
            "note": may("str", "why"),
        },
        {"outcome": "helpful", "by": "owner"},
    ),
    "memory.read.failed": _type("Reading knowledge failed.", {"error": _ERROR}, {"error": "503"}),
    "thinking": _type(
        "The runtime shows a step of its own.",
        {
            "kind": may("str", "for example safe_completion"),
            "detail": may("str", "text"),
            "limit": may("str", "the limit that was spent: tool_rounds, time or tokens"),
            "n_receipts": may("int", "results of calls the answer may rest on", lowest=0),
        },
        {"kind": "safe_completion", "detail": "8 tool rounds are spent", "limit": "tool_rounds"},
    ),
    "time.receipt": _type(
        "The current time was read: one instant in three forms.",
        {
            "utc": may("str", "RFC 3339"),
            "zoned": may("str", "RFC 3339 with the offset of `zone`"),
            "zone": may("str", "IANA name"),
            "unix": may("int", "whole seconds since 1970"),
        },
        {"utc": "2026-11-30T03:00:00Z", "zoned": "2026-11-30T11:00:00+08:00", "zone": "Asia/Shanghai"},
    ),
    "answer.heard": _type(
        "How much of a spoken answer was heard.",
        {"prefix": may("str", "heard part"), "record_id": may("str", "the answer's record")},
        {"prefix": "The build"},
    ),
    "answer.cut": _type(
        "The answer before this turn was not heard whole.",
        {
            "prefix": may("str", "heard part, of a long one its end"),
            "heard": may("str", "prefix, nothing, no_answer or unknown"),
            "record_id": may("str", "the answer's record"),
        },
        {"prefix": "The bu", "heard": "prefix"},
    ),
    "run.outcome": _type(
        "The result of the run was judged.",
        {"success": may("bool", "task solved"), "score": may("number", "0 to 1"), "by": may("str", "who")},
        {"success": True, "by": "checker"},
    ),
    "span": _type("A foreign span with no better name.", {"name": may("str", "span name")}, {"name": "GET /"}),
}


def check_data(event_type: str, data: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an event's `data`, or None. Unknown types and unknown keys are fine.

    The sentence names the field, what it must be, and never repeats the value.
    """
    known = EVENT_TYPES.get(event_type)
    if known is None:
        return None
    return check_fields(event_type, known.fields, data, "data")


def json_schema(event_type: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one type's `data`. Raises KeyError for an unknown type."""
    known = EVENT_TYPES[event_type]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": event_type,
        "description": known.doc,
        **schema_of(known.fields),
        "examples": [dict(known.example)],
    }


TERMINAL_TYPES: Final[dict[str, str]] = {
    name: known.terminal_status for name, known in EVENT_TYPES.items() if known.terminal_status is not None
}
