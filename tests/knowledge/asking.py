"""What tests of the hints API share: projects with items, keys, requests as a kernel sends them, counts of failures."""

import json
from typing import Any

from django.apps import apps
from django.db import connection
from django.test import Client

from ingest import metrics
from ingest.authentication import create_key
from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item

URL = "/v1/observations/hints"
BATCH = f"{URL}/batch"
ERROR = "fatal: not a git repository (or any of the parent directories): .git"


def make_project(slug: str) -> Project:
    return Project.objects.create(slug=slug, name=slug)


def add_item(project: Project, knowledge_id: str, **fields: Any) -> None:
    fields = {"state": "confirmed", **fields}
    draft = ItemDraft(knowledge_id, fields.pop("proposition", f"Rule {knowledge_id}: run `{knowledge_id}`."), **fields)
    create_item(project, draft, by="tester", reason="test")


def key_for(project: Project, *scopes: str, **fields: Any) -> str:
    key, raw = create_key(project, "kernel", scopes or ("observe",))
    for name, value in fields.items():
        setattr(key, name, value)
    key.save()
    return raw


def post(key: str, body: Any, url: str = URL, *, content_type: str = "application/json", **headers: str) -> Any:
    """Send a body, raw or to be made JSON; what the application raises is raised here."""
    content = body if isinstance(body, bytes | str) else json.dumps(body)
    sent = {"Authorization": f"Bearer {key}", **headers}
    return Client().post(url, content, content_type=content_type, headers=sent)


def failed(**fields: Any) -> dict[str, Any]:
    """Return the request of a failed call."""
    base = {
        "run": "r-1",
        "trigger": "tool.failed",
        "tool": "shell",
        "tool_result": ERROR,
        "error_class": "exit_nonzero",
    }
    return {**base, "query": "Release the parser package", "activation_source_id": "r-1:7", **fields}


def n_failed(what: str) -> float:
    """Return how often something failed around hints so far."""
    return metrics.COUNTS.get_sample_value("temporality_hint_failures_total", {"what": what}) or 0.0


def all_rows() -> dict[str, list[str]]:
    """Table -> its rows as JSON texts, of every table of the database but Django's own of content types."""
    known = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
        tables = [row[0] for row in cursor.fetchall()]
        found = {}
        for table in tables:
            cursor.execute(f'SELECT to_jsonb(t)::text FROM "{table}" t ORDER BY 1')
            found[table] = [row[0] for row in cursor.fetchall()]
    assert known <= set(found), known - set(found)
    return found
