"""The shape of a hints request: strict, so that a misspelt field is an error and not a silent default."""

from typing import Any, Final

from rest_framework import serializers

from contract import stages
from knowledge.find_hints.findings import HintQuery

QUERY_LIMIT: Final = 4_096  # code points
TOOL_RESULT_LIMIT: Final = 8_192  # code points
ID_LIMIT: Final = 200  # code points
ACTIVATION_ID_LIMIT: Final = 190  # code points; the ids of its events are a little longer
LIST_LIMIT: Final = 1_000  # entries of one list
MAX_HINTS: Final = 20
DEFAULT_HINTS: Final = 8
EMBEDDING_LIMIT: Final = 4_096  # numbers


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields it does not know, by name."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(str(name) for name in set(data) - set(self.fields))
            if unknown:
                known = ", ".join(sorted(self.fields))
                raise serializers.ValidationError(
                    {unknown[0]: [f"unknown field; known are {known}"]}, code="unknown_field"
                )
        return super().to_internal_value(data)


def _id(limit: int = ID_LIMIT, **options: Any) -> serializers.CharField:
    return serializers.CharField(
        max_length=limit, allow_blank=True, allow_null=True, trim_whitespace=False, required=False, **options
    )


def _ids() -> serializers.ListField:
    child = serializers.CharField(max_length=ID_LIMIT, trim_whitespace=False)
    return serializers.ListField(child=child, max_length=LIST_LIMIT, required=False, default=list)


def _text(limit: int) -> serializers.CharField:
    return serializers.CharField(
        max_length=limit, allow_blank=True, allow_null=True, trim_whitespace=False, required=False, default=""
    )


class BudgetSerializer(StrictSerializer):
    """What the kernel has left; reported, not enforced here: the kernel selects."""

    activation_tokens = serializers.IntegerField(min_value=0, required=False)
    run_tokens = serializers.IntegerField(min_value=0, required=False)
    hint_limit = serializers.IntegerField(min_value=0, required=False)


class HintRequestSerializer(StrictSerializer):
    """`POST /v1/observations/hints`. Requests made before runtime triggers existed stay valid. (Seed 001 §7.1.)"""

    project = _id(help_text="slug of the key's own project, or absent")
    run = serializers.CharField(max_length=ID_LIMIT, trim_whitespace=False)
    task = _id()
    actor = _id()
    query = _text(QUERY_LIMIT)
    tool = _id()
    tool_result = _text(TOOL_RESULT_LIMIT)
    entities = _ids()
    topics = _ids()
    limit = serializers.IntegerField(min_value=0, max_value=MAX_HINTS, required=False, default=DEFAULT_HINTS)
    active_skills = _ids()
    issued_knowledge_ids = _ids()
    suppressed_knowledge_ids = _ids()
    team_root = _id()
    trigger = serializers.ChoiceField(choices=list(stages.TRIGGERS), required=False, default="task.priming")
    mcp_server = _id()
    error_class = _id()
    activation_source_id = _id()
    activation_id = _id(ACTIVATION_ID_LIMIT)
    embedding = serializers.ListField(
        child=serializers.FloatField(), max_length=EMBEDDING_LIMIT, required=False, allow_null=True
    )
    budget = BudgetSerializer(required=False, allow_null=True)

    def to_query(self, new_activation_id: str) -> HintQuery:
        """Return the validated request as a question to FindHints; `limit` 0 means the default."""
        given = self.validated_data

        def text(name: str) -> str:
            return given.get(name) or ""

        return HintQuery(
            run_id=given["run"],
            activation_id=text("activation_id") or new_activation_id,
            trigger=given["trigger"],
            query=text("query"),
            tool=text("tool"),
            mcp_server=text("mcp_server"),
            tool_result=text("tool_result"),
            error_class=text("error_class"),
            source_event_id=text("activation_source_id"),
            task_id=text("task"),
            actor_id=text("actor"),
            team_root=text("team_root"),
            entities=tuple(given["entities"]),
            topics=tuple(given["topics"]),
            active_skills=tuple(given["active_skills"]),
            issued=tuple(given["issued_knowledge_ids"]),
            suppressed=tuple(given["suppressed_knowledge_ids"]),
            limit=given["limit"] or DEFAULT_HINTS,
        )
