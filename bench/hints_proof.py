"""Proves that rows which were copied in are those of the write path: search rows by a sample, term counts all."""

from random import Random
from typing import Any

from django.db import connection, transaction

from knowledge import search_rows
from knowledge.models import ItemEmbedding, KnowledgeItem, SearchRow

SAMPLE = 200
# Each term of an item is one of its keys.
_WRONG_COUNTS = """
SELECT count(*) FROM (
    SELECT substr(key, length(%(prefix)s) + 1) AS term, count(*) AS n
    FROM knowledge_searchrow, unnest(keys) AS key
    WHERE project_id = %(project)s AND starts_with(key, %(prefix)s) GROUP BY 1
    UNION ALL SELECT '', count(*) FROM knowledge_searchrow WHERE project_id = %(project)s
) counted FULL JOIN (SELECT term, n_items FROM knowledge_termcount WHERE project_id = %(project)s) kept USING (term)
WHERE n IS DISTINCT FROM n_items
"""


def different_rows(project_id: int) -> tuple[int, int]:
    """Write a sample of a project's search rows anew; return how many differ, and of how many. Leaves all as it was.

    Raises RuntimeError when a vector is missing.
    """
    pks = list(KnowledgeItem.objects.filter(project_id=project_id).order_by("pk").values_list("pk", flat=True))
    chosen = Random(project_id).sample(pks, min(SAMPLE, len(pks)))
    with transaction.atomic():
        before = _rows(chosen)
        search_rows.forget(project_id, chosen)
        search_rows.refresh(project_id, list(KnowledgeItem.objects.filter(pk__in=chosen)))
        after = _rows(chosen)
        transaction.set_rollback(True)
    if ItemEmbedding.objects.filter(pk__in=chosen, vector__isnull=False).count() != len(chosen):
        raise RuntimeError("vectors are missing")
    return sum(pk not in after or before.get(pk) != after[pk] for pk in chosen), len(chosen)


def check_counts(project_id: int) -> None:
    """Raise RuntimeError when the count of any term is not how many items have it."""
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(_WRONG_COUNTS, {"project": project_id, "prefix": f"{project_id}:t:"})
        (wrong,) = cursor.fetchone()
    if wrong:
        raise RuntimeError(f"{wrong} term counts are not how many items have the term")


def _rows(pks: list[int]) -> dict[int, tuple[Any, ...]]:
    rows = SearchRow.objects.filter(pk__in=pks)
    return {row.pk: (row.project_id, row.revision, row.keys, row.bag) for row in rows}
