"""What a page that shows counts of many runs says while some of their events are not folded yet."""

from collections.abc import Sequence
from typing import Any, Final

from django import template
from django.db import DatabaseError, connection

from debugger.queries.lag import fold_lag
from ingest.models import Project

register = template.Library()

SHORT_SECONDS: Final = 10  # events that wait no longer than this are on their way, not behind


@register.inclusion_tag("_behind.html")
def behind(project: Project) -> dict[str, object]:
    """The events that the project's counts do not have yet, and since when. One query, from an index."""
    try:
        lag = fold_lag(_fetch, project.pk)
    except DatabaseError:
        return {"is_unknown": True}
    return {"lag": lag} if lag.oldest_seconds > SHORT_SECONDS else {}


def _fetch(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
