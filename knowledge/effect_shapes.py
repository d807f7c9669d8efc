"""What the OpenAPI document says of the reports of effects."""

from typing import Any, Final

from contract import stages
from ingest.openapi import COUNT, MOMENT
from knowledge.contributions import COUNTS
from knowledge.effect_report import GROUPS

NUMBER: Final = {"type": "number"}
MAYBE: Final = {"type": "number", "nullable": True}
DAY: Final = {"type": "string", "format": "date"}
TEXT: Final = {"type": "string"}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _list(shape: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": shape}


RATE: Final = _object({"count": COUNT, "n": COUNT, "value": MAYBE, "low": MAYBE, "high": MAYBE})
TALLY: Final = _object({"n_success": COUNT, "n": COUNT})
ARM: Final = _object({"n_points": COUNT, "near": TALLY, "far": TALLY})
VERDICT: Final = _object(
    {
        "verdict": {"type": "string", "enum": list(stages.VERDICTS)},
        "because": {"type": "string", "description": "name of the number that decided"},
        "value": NUMBER,
        "limit": NUMBER,
        "words": TEXT,
        "warning": {"type": "string", "description": "what to be careful about, empty without any"},
        "effect": _object({"value": NUMBER, "low": NUMBER, "high": NUMBER}, nullable=True),
        "anytime": _object({"low": NUMBER, "high": NUMBER}, nullable=True),
        "p_mismatch": MAYBE,
        "p_unknown": MAYBE,
    }
)
COUNTED: Final = _object(dict.fromkeys(COUNTS, COUNT))
STEP: Final = _object({"stage": TEXT, "of_previous": RATE, "of_first": RATE})
OF_GROUP: Final = {
    "counts": COUNTED,
    "words": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": COUNT}},
    "waited_ms": _object({"p50": MAYBE, "p95": MAYBE}),
    "funnel": _list(STEP),
    "resolved": RATE,
    "tokens_per_resolved": MAYBE,
    "offered": ARM,
    "withheld": ARM,
    "near": VERDICT,
    "far": VERDICT,
}


def components() -> dict[str, Any]:
    """Return the shapes by name."""
    return {"Effects": _effects(), "ItemEffects": _items()}


def _effects() -> dict[str, Any]:
    return _object(
        {
            "since": DAY,
            "until": DAY,
            "group": {"type": "string", "enum": list(GROUPS)},
            "filters": {"type": "object", "additionalProperties": TEXT},
            "as_of": {**MOMENT, "nullable": True},
            "n_runs_waiting": COUNT,
            "n_runs": COUNT,
            "n_runs_searching": COUNT,
            "n_runs_injected": COUNT,
            "total": _object(OF_GROUP),
            "groups": _list(_object({"value": TEXT, **OF_GROUP})),
            "n_groups_left_out": COUNT,
        }
    )


def _items() -> dict[str, Any]:
    item = {
        "knowledge_id": TEXT,
        "state": {"type": "string", "description": "empty when it is no item of the project (any more)"},
        "is_suspended": {"type": "boolean"},
        "counts": COUNTED,
        "offered": ARM,
        "withheld": ARM,
        "near": {**VERDICT, "nullable": True},
        "p_adjusted": MAYBE,
        "shrunk": MAYBE,
        "suspension_proposed": {"type": "string", "description": "why, empty when it is not proposed"},
    }
    days = {"since": DAY, "until": DAY, "n_runs_waiting": COUNT, "n_items": COUNT, "n_judged": COUNT}
    return _object({**days, "items": _list(_object(item))})
