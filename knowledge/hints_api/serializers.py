"""The shape of a hints request: strict, so that a misspelt field is an error and not a silent default."""

from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from contract import stages
from knowledge.find_hints.findings import HintQuery

QUERY_LIMIT: Final = 4_096  # code points
TOOL_RESULT_LIMIT: Final = 8_192  # code points
ID_LIMIT: Final = 200  # code points
ACTIVATION_ID_LIMIT: Final = 190  # code points; the ids of its events are a little longer
LIST_LIMIT: Final = 1_000  # entries of one list
REVISIONS_LIMIT: Final = 200  # entries of suppressed_revisions
BATCH_LIMIT: Final = 20  # activations of one boundary
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


TRIGGER_SCHEMA: Final = {
    "type": "string",
    "pattern": f"^{stages.TRIGGER_PATTERN}$",
    "maxLength": stages.TRIGGER_LIMIT,
    "default": "task.priming",
    "description": f"known are {', '.join(stages.TRIGGERS)}; any other name of this form is searched as well",
}
REVISIONS_SCHEMA: Final = {
    "type": "object",
    "additionalProperties": {"type": "integer", "minimum": 1},
    "maxProperties": REVISIONS_LIMIT,
    "nullable": True,
    "description": "knowledge_id -> the revision that was suppressed; an item of suppressed_knowledge_ids whose "
    "current revision is newer is not suppressed any more. Ids that are not in that list have no effect.",
    "example": {"git-init": 1},
}


@extend_schema_field(TRIGGER_SCHEMA)
class TriggerField(serializers.Field[str, Any, str, Any]):
    """The name of a trigger, known here or not."""

    def to_internal_value(self, data: Any) -> str:
        problem = stages.trigger_problem(data) if isinstance(data, str) else "must be a string"
        if problem is not None:
            raise serializers.ValidationError(problem, code="invalid")
        return str(data)

    def to_representation(self, value: str) -> str:
        return value


@extend_schema_field(REVISIONS_SCHEMA)
class RevisionsField(serializers.Field[dict[str, int], Any, dict[str, int], Any]):
    """An object knowledge_id -> revision. Each refusal says what is allowed."""

    def to_internal_value(self, data: Any) -> dict[str, int]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("must be an object of knowledge ids and revisions", code="invalid")
        if len(data) > REVISIONS_LIMIT:
            problem = f"must have at most {REVISIONS_LIMIT} entries, it has {len(data)}: leave out the oldest"
            raise serializers.ValidationError(problem, code="invalid")
        for name, revision in data.items():
            if not 0 < len(name) <= ID_LIMIT:
                problem = f"must have knowledge ids of 1 to {ID_LIMIT} characters as its keys"
                raise serializers.ValidationError(problem, code="invalid")
            if not isinstance(revision, int) or isinstance(revision, bool) or revision < 1:
                problem = "must be a revision: an integer, 1 or more"
                raise serializers.ValidationError({name: [problem]}, code="invalid")
        return data

    def to_representation(self, value: dict[str, int]) -> dict[str, int]:
        return value


class BudgetSerializer(StrictSerializer):
    """What the kernel has left; reported, not enforced here: the kernel selects."""

    activation_tokens = serializers.IntegerField(min_value=0, required=False)
    run_tokens = serializers.IntegerField(min_value=0, required=False)
    hint_limit = serializers.IntegerField(min_value=0, required=False)


class HintRequestSerializer(StrictSerializer):
    """`POST /v1/observations/hints`. Requests made before runtime triggers existed stay valid. (Seed 001 §7.1.)"""

    project = _id(help_text="slug of the key's own project, or absent")
    run = serializers.CharField(min_length=1, max_length=ID_LIMIT, trim_whitespace=False)
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
    suppressed_revisions = RevisionsField(required=False, allow_null=True)
    team_root = _id()
    trigger = TriggerField(required=False, default="task.priming")
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
            suppressed_revisions=given.get("suppressed_revisions") or {},
            limit=given["limit"] or DEFAULT_HINTS,
        )


class HintBatchSerializer(serializers.Serializer[Any]):
    """Describes the body of `POST /v1/observations/hints/batch`; its entries are checked one by one."""

    requests = serializers.ListField(child=HintRequestSerializer(), min_length=1, max_length=BATCH_LIMIT)
