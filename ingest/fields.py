"""The column of JSON that is kept as it came: PostgreSQL's `json`, checked and stored as text, cast to jsonb at need.

The journal is written far more often than it is searched, and always read whole: `jsonb` would take each event apart
and sort its keys for nothing, and a message could not be checked against the hash of its bytes.
"""

from typing import Any

from django.db import models
from psycopg.types.string import TextLoader


class JsonTextField(models.JSONField):
    """JSON in a `json` column. Reads as any JSONField; written by COPY and SQL, as text."""

    def db_type(self, connection: Any) -> str:
        return "json"

    def deconstruct(self) -> Any:
        """Appear in migrations as Django's own field, so that they need no code of ours; their SQL names the type."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs


def read_as_text(*, connection: Any, **_: Any) -> None:
    """Let a new connection hand on `json` as text, which is what Django's field reads, as it does for jsonb."""
    connection.connection.adapters.register_loader("json", TextLoader)
