"""The shapes the OpenAPI document names for hints: the request from its table of fields, the answer as it is made."""

from typing import Any, Final

from contract import stages
from contract.events import ID_LIMIT
from contract.hint_api import ACTIVATION_ID_LIMIT, MAX_HINTS
from ingest.openapi import COUNT, ref
from knowledge.hints_api.fields import object_shape
from knowledge.hints_api.request import BATCH_LIMIT, FIELDS

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "number"}
TEXTS: Final = {"type": "array", "items": TEXT}
REASONS: Final = "; ".join(f"{word}: {meaning}" for word, meaning in stages.HOLD_REASONS.items())

REQUEST_EXAMPLE: Final = {
    "run": "r-42",
    "trigger": "tool.failed",
    "tool": "shell",
    "tool_arguments": "git status",
    "tool_result": "fatal: not a git repository (or any of the parent directories): .git",
    "error_class": "exit_nonzero",
    "activation_id": "r-42:a1",
    "activation_source_id": "r-42:17",
}
BATCH_EXAMPLE: Final = [REQUEST_EXAMPLE, {"run": "r-42", "trigger": "mcp.first_call", "mcp_server": "git"}]
_HINT_EXAMPLE: Final = {
    "hint_id": "r-42:a1:h1",
    "caution": "",
    "knowledge_id": "git-init",
    "revision": 1,
    "rank": 1,
    "proposition": "Outside of a repository run `git init` first.",
    "state": "confirmed",
    "matched_by": ["entity:not a git repository", "terms:git, repository", "meaning:0.71"],
    "scores": {"score": 1.93, "confidence": 0.97, "lexical": 2.4, "share": 0.8, "overlap": 1.1, "cosine": 0.71},
    "tokens": 12,
}
ANSWER_EXAMPLE: Final = {
    "activation_id": "r-42:a1",
    "matcher": "exact+terms+meaning",
    "algorithm_version": "hybrid.v3",
    "gate": 0.5,
    "count": 1,
    "hints": [_HINT_EXAMPLE],
    "context_block": {"type": stages.HINT_TYPE, "activation_id": "r-42:a1", "items": [_HINT_EXAMPLE]},
    "counts": {
        "retrieved": 2,
        "offered": 1,
        "dropped": 1,
        "dropped_by_reason": {"gate": 1},
        "unlisted": 0,
    },
    "dropped": [{"knowledge_id": "git-worktree", "reason": "gate", "value": 0.31, "bound": 0.5}],
    "notes": [],
}


def _all_of(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _hint() -> dict[str, Any]:
    return _all_of(
        {
            "hint_id": {**TEXT, "description": "event_id of its hint.offered"},
            "caution": {**TEXT, "description": "what to mind; may be empty"},
            "knowledge_id": {**TEXT, "maxLength": ID_LIMIT},
            "revision": {"type": "integer", "minimum": 1},
            "rank": {"type": "integer", "minimum": 1, "description": "1 is best"},
            "proposition": {**TEXT, "description": "the rule; the action itself stands in it"},
            "state": {**TEXT, "enum": list(stages.ITEM_STATES)},
            "matched_by": {**TEXTS, "description": "match reasons"},
            "scores": {"type": "object", "additionalProperties": NUMBER, "description": "by signal of the version"},
            "tokens": {**COUNT, "description": "estimated size of the rule"},
        }
    )


def _answer() -> dict[str, Any]:
    hints = {"type": "array", "items": ref("Hint"), "maxItems": MAX_HINTS}
    activation_id = {**TEXT, "maxLength": ACTIVATION_ID_LIMIT}
    by_reason = {"type": "object", "additionalProperties": COUNT, "description": f"by reason. {REASONS}"}
    return _all_of(
        {
            "activation_id": activation_id,
            "matcher": {**TEXT, "description": "legs of the search that took part"},
            "algorithm_version": TEXT,
            "gate": {**NUMBER, "nullable": True, "description": "confidence below which a candidate is held back"},
            "count": {**COUNT, "description": "of hints"},
            "hints": hints,
            "context_block": _all_of(
                {
                    "type": {**TEXT, "enum": [stages.HINT_TYPE]},
                    "activation_id": activation_id,
                    "items": {**hints, "description": "the hints once more, as older kernels read them"},
                }
            ),
            "counts": _all_of(
                {
                    "retrieved": {**COUNT, "description": "candidates considered"},
                    "offered": COUNT,
                    "dropped": {**COUNT, "description": "held back"},
                    "dropped_by_reason": by_reason,
                    "unlisted": {**COUNT, "description": "held back and not in dropped, which names the best"},
                }
            ),
            "dropped": {"type": "array", "items": ref("HeldBack")},
            "notes": {**TEXTS, "description": "what the sender should know about how was searched"},
        }
    )


def components() -> dict[str, Any]:
    """Return the shapes of hints by name."""
    requests = {"type": "array", "items": ref("HintRequest"), "minItems": 1, "maxItems": BATCH_LIMIT}
    held = {
        "knowledge_id": {**TEXT, "maxLength": ID_LIMIT},
        "reason": {**TEXT, "enum": list(stages.HOLD_REASONS)},
        "value": {**NUMBER, "description": "the number that decided: gate: confidence; near_duplicate: similarity"},
        "bound": {**NUMBER, "description": "what it was held against: gate: the gate; limit: the limit"},
    }
    return {
        "HintRequest": {**object_shape(FIELDS), "example": REQUEST_EXAMPLE},
        "HintBatch": {**_all_of({"requests": requests}), "additionalProperties": False},
        "Hint": _hint(),
        "HeldBack": _all_of(held, "value", "bound"),
        "HintAnswer": {**_answer(), "example": ANSWER_EXAMPLE},
        "HintAnswers": _all_of({"answers": {"type": "array", "items": ref("HintAnswer"), "maxItems": BATCH_LIMIT}}),
    }
