"""What the OpenAPI document says of hints, items, chains and reports, made from the tables they are read from."""

from collections.abc import Iterable
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db import models

from contract import stages
from ingest.openapi import COUNT, MOMENT, NULLABLE_TEXT, page_of, ref
from knowledge import effect_shapes
from knowledge.effectiveness import BROKEN_DOWN, REACHED
from knowledge.hints_api import shapes as hint_shapes
from knowledge.items_api import openapi as item_shapes
from knowledge.models import Activation, Candidate
from knowledge.run_bodies import ACTIVATION, ACTIVATION_TIMES, CANDIDATE, CANDIDATE_TIMES, MEANINGS

KINDS: Final[tuple[tuple[type, dict[str, Any]], ...]] = (
    (models.BooleanField, {"type": "boolean"}),
    (models.IntegerField, {"type": "integer"}),
    (models.FloatField, {"type": "number"}),
    (ArrayField, {"type": "array", "items": {"type": "string"}}),
    (models.TextField, {"type": "string"}),
    (models.JSONField, {}),
)


def _row(model: type[models.Model], names: Iterable[str], stamps: Iterable[str], **beside: Any) -> dict[str, Any]:
    """Return the shape of `run_bodies._fields` of a model."""
    properties: dict[str, Any] = {}
    for name in names:
        field = model._meta.get_field(name)
        shape = dict(next(shape for kind, shape in KINDS if isinstance(field, kind)))
        if shape and getattr(field, "null", False):
            shape["nullable"] = True
        if help_text := getattr(field, "help_text", ""):
            shape["description"] = str(help_text)
        properties[name] = shape
        if name in MEANINGS:
            properties[f"{name}_meaning"] = {"type": "string"}
    for stamp in stamps:
        properties[f"{stamp}_at"] = {**NULLABLE_TEXT, "description": "sender's clock, nine digits of a second"}
    properties |= beside
    return {"type": "object", "properties": properties, "required": list(properties)}


def components() -> dict[str, Any]:
    """Return the shapes of hints, items, chains and reports by name."""
    candidates = {"type": "array", "items": ref("Candidate")}
    told = {"as_of": {**MOMENT, "nullable": True}, "n_unfolded": COUNT}
    after = {"type": "integer", "nullable": True, "description": "`after` of the next page, null at the end"}
    return {
        **hint_shapes.components(),
        **item_shapes.components(),
        "Activation": _row(
            Activation, ACTIVATION, ACTIVATION_TIMES, arm_meaning={"type": "string"}, candidates=candidates
        ),
        "Candidate": _row(Candidate, CANDIDATE, CANDIDATE_TIMES),
        "Activations": page_of("Activation", next=after, **told),
        "TriggerCounts": _trigger_counts(),
        "Effectiveness": _report(),
        **effect_shapes.components(),
    }


def _trigger_counts() -> dict[str, Any]:
    counts = {"type": "object", "additionalProperties": COUNT}
    properties: dict[str, Any] = {"trigger": {"type": "string"}, "meaning": {"type": "string"}}
    properties |= {"n_activations": {**COUNT, "description": "searches made"}, "n_skipped": COUNT}
    properties |= {name: {**COUNT, "description": stages.STAGES.get(name[2:], "hints")} for name in REACHED}
    properties |= {"tokens": COUNT, "n_timed": {**COUNT, "description": "searches whose time is known"}}
    properties |= {"waited_us": {**COUNT, "description": "sum of their times, microseconds"}}
    properties |= dict.fromkeys((*BROKEN_DOWN, "arms", "followed_by", "outcomes"), counts)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _report() -> dict[str, Any]:
    properties = {
        "since": MOMENT,
        "until": MOMENT,
        "first_day": {"type": "string", "format": "date", "description": "counted are whole days, UTC"},
        "last_day": {"type": "string", "format": "date"},
        "as_of": {**MOMENT, "nullable": True, "description": "when the newest run's chain was derived"},
        "computed_at": MOMENT,
        "n_runs": COUNT,
        "n_runs_behind": {**COUNT, "description": "runs of which events are not derived yet"},
        "n_runs_waiting": {**COUNT, "description": "runs whose newest counts are not in the sums yet"},
        "n_unfolded": {**COUNT, "description": "events that are not derived yet"},
        "triggers": {"type": "array", "items": ref("TriggerCounts")},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Complete the document with the shapes by name."""
    result.setdefault("components", {}).setdefault("schemas", {}).update(components())
    return result
