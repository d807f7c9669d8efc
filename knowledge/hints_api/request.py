"""The fields of a hints request and the question to FindHints they make; strict, so that a misspelt one is an error.

Requests made before runtime triggers existed stay valid: all but `run` may be left out. (Seed 001 §7.1.)
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from contract.events import ID_LIMIT
from contract.hint_api import (
    ACTIVATION_ID_LIMIT,
    DEFAULT_HINTS,
    MAX_HINTS,
    QUERY_LIMIT,
    REVISIONS_LIMIT,
    RUN_PART,
    TOOL_ARGUMENTS_LIMIT,
    TOOL_RESULT_LIMIT,
)
from ingest.errors import IngestError, shown_name
from knowledge.find_hints.findings import HintQuery
from knowledge.hints_api import fields
from knowledge.hints_api.fields import RequestField

LIST_LIMIT: Final = 1_000  # entries of one list
BATCH_LIMIT: Final = 20  # activations of one boundary
DEFAULT_TRIGGER: Final = "task.priming"
EMBEDDING_LIMIT: Final = 4_096  # numbers

# What the kernel has left; reported in hint.query, not enforced here: the kernel selects.
BUDGET: Final[Mapping[str, RequestField]] = {
    "activation_tokens": fields.whole(0, fields.INT64),
    "run_tokens": fields.whole(0, fields.INT64),
    "hint_limit": fields.whole(0, fields.INT64),
}
FIELDS: Final[Mapping[str, RequestField]] = {
    "project": fields.text(ID_LIMIT, description="slug of the key's own project, or absent"),
    "run": fields.text(ID_LIMIT, required=True, description="id of the run that asks"),
    "task": fields.text(ID_LIMIT),
    "actor": fields.text(ID_LIMIT),
    "query": fields.text(QUERY_LIMIT, description="the task, in words; characters are code points everywhere"),
    "tool": fields.text(ID_LIMIT, description="name of the tool that was called"),
    "tool_result": fields.text(TOOL_RESULT_LIMIT, description="an excerpt of what the call gave or how it failed"),
    "tool_arguments": fields.text(
        TOOL_ARGUMENTS_LIMIT,
        description="what the tool was called with: the command line of a shell, else the JSON of the arguments, which "
        "may be cut",
    ),
    "entities": fields.texts(LIST_LIMIT, ID_LIMIT),
    "topics": fields.texts(LIST_LIMIT, ID_LIMIT),
    "limit": fields.whole(
        0, MAX_HINTS, default=DEFAULT_HINTS, description=f"most hints to offer; 0 means {DEFAULT_HINTS}"
    ),
    "active_skills": fields.texts(LIST_LIMIT, ID_LIMIT, description="what they cover is not offered"),
    "issued_knowledge_ids": fields.texts(
        LIST_LIMIT, ID_LIMIT, description="knowledge that stands in the run's history already"
    ),
    "suppressed_knowledge_ids": fields.texts(LIST_LIMIT, ID_LIMIT, description="knowledge dropped before in this run"),
    "suppressed_revisions": fields.revisions(
        REVISIONS_LIMIT,
        ID_LIMIT,
        description="knowledge_id -> the revision that was suppressed; an item of suppressed_knowledge_ids whose "
        "current revision is newer is not suppressed any more. Ids that are not in that list have no effect.",
        example={"git-init": 1},
    ),
    "team_root": fields.text(ID_LIMIT),
    "trigger": fields.trigger(DEFAULT_TRIGGER),
    "mcp_server": fields.text(ID_LIMIT, description="stable key of the MCP server"),
    "error_class": fields.text(ID_LIMIT),
    "activation_source_id": fields.text(ID_LIMIT, description="id of the event that caused the search"),
    "activation_id": fields.text(
        ACTIVATION_ID_LIMIT,
        description="the same one asked again in the same run gets the same answer; made here when absent",
    ),
    "embedding": fields.numbers(
        EMBEDDING_LIMIT, description="of what happened; one that the items cannot be compared with is not used"
    ),
    "embedding_model": fields.text(ID_LIMIT, description="name of the model that made it"),
    "budget": fields.group(BUDGET, description="what the asking side has left; reported, not enforced here"),
}
ATTRIBUTES: Final = {
    "run": "run_id",
    "task": "task_id",
    "actor": "actor_id",
    "activation_source_id": "source_event_id",
    "issued_knowledge_ids": "issued",
    "suppressed_knowledge_ids": "suppressed",
}


def parse_request(raw: Any, slug: str, prefix: str = "") -> HintQuery:
    """Return one request of the project `slug` as a question; `prefix` stands before the names of its fields.

    Raises IngestError naming the field: 422 with the limit that was passed, 403 for a foreign project, else 400.
    """
    given = fields.read_object(FIELDS, raw, prefix)
    named = given.pop("project", None)
    if named and named != slug:
        detail = "project must be the key's own; use a key of that project or leave the field out"
        raise IngestError("wrong_project", 403, f"{prefix}{detail}", field=f"{prefix}project")
    given["limit"] = given.get("limit") or DEFAULT_HINTS
    given["activation_id"] = given.get("activation_id") or f"{given['run'][:RUN_PART]}:{uuid.uuid4()}"
    return HintQuery(**{ATTRIBUTES.get(name, name): value for name, value in given.items()})


def parse_batch(body: Mapping[str, Any], slug: str) -> list[HintQuery]:
    """Return the requests of a batch in order: all of them, or IngestError with the path to the first wrong field."""
    unknown = sorted(set(body) - {"requests"})
    if unknown:
        name = shown_name(unknown[0])
        raise IngestError("unknown_field", 400, f"{name}: unknown field; known is requests", field=name)
    requests = body.get("requests")
    if not isinstance(requests, list) or not 1 <= len(requests) <= BATCH_LIMIT:
        told = f"; it has {len(requests)}" if isinstance(requests, list) else ""
        detail = f"requests must be a list of 1 to {BATCH_LIMIT} hint requests{told}"
        raise IngestError("invalid_batch", 400, detail, field="requests", limit=BATCH_LIMIT)
    queries = [parse_request(entry, slug, f"requests[{place}].") for place, entry in enumerate(requests)]
    first: dict[tuple[str, str], int] = {}
    for place, query in enumerate(queries):
        before = first.setdefault((query.run_id, query.activation_id), place)
        if before != place:
            path = f"requests[{place}].activation_id"
            raise fields.invalid(path, f"is that of requests[{before}]; each activation of a run has its own")
    return queries
