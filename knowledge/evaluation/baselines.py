"""Plain ways of searching that a version of FindHints is measured beside: two of PostgreSQL's text search, one vector.

Each searches the text of the rules with the command and its output, as most would write it first; none has a gate.
Their tables are temporary and belong to the transaction of the measurement.
"""

from collections.abc import Callable, Sequence
from operator import mul
from typing import Final

from django.db import DatabaseError, connection, transaction

from knowledge.evaluation.figures import by_score
from knowledge.evaluation.questions import RANKED_LIMIT
from knowledge.find_hints.findings import HintQuery
from knowledge.models import KnowledgeItem, KnowledgeRevision

Scored = list[tuple[str, float]]
Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]

PREPARE: Final = """
CREATE TEMPORARY TABLE evaluation_words ON COMMIT DROP AS
SELECT item.id AS item_id, to_tsvector('english', revision.proposition) AS words
FROM knowledge_knowledgeitem item
JOIN knowledge_knowledgerevision revision ON revision.item_id = item.id AND revision.number = item.revision
WHERE item.project_id = %s
"""
INDEX: Final = "CREATE INDEX ON evaluation_words USING gin (words)"
# Joined with the items, so that one taken away is not found.
FIND: Final = """
SELECT item.knowledge_id, ts_rank(found.words, asked.query, %(norm)s) AS score
FROM evaluation_words found
JOIN knowledge_knowledgeitem item ON item.id = found.item_id
CROSS JOIN ({asked}) AS asked(query)
WHERE item.project_id = %(project)s AND found.words @@ asked.query
ORDER BY score DESC, item.knowledge_id
LIMIT %(limit)s
"""
WEBSEARCH: Final = FIND.format(asked="SELECT websearch_to_tsquery('english', %(text)s)")
ANY_WORD: Final = FIND.format(
    asked="SELECT coalesce(string_agg(quote_literal(word), ' | '), '')::tsquery "
    "FROM unnest(tsvector_to_array(to_tsvector('english', %(text)s))) AS word"
)


def text_of(query: HintQuery) -> str:
    """Return the text that is searched with: the command and what it printed. PostgreSQL takes no NUL."""
    return f"{query.query}\n{query.tool_result}".replace("\x00", " ")


def prepare_words(project_id: int) -> None:
    """Make the table that both text searches read."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS pg_temp.evaluation_words")
        cursor.execute(PREPARE, [project_id])
        cursor.execute(INDEX)
        cursor.execute("ANALYZE evaluation_words")


def websearch(project_id: int, query: HintQuery) -> Scored:
    """Search as `websearch_to_tsquery` understands the text: all of its words must be there."""
    return _search(WEBSEARCH, project_id, query, 0)


def any_word(project_id: int, query: HintQuery) -> Scored:
    """Search for any word of the text; a long rule counts less for the same words."""
    return _search(ANY_WORD, project_id, query, 1)


def _search(statement: str, project_id: int, query: HintQuery, norm: int) -> Scored:
    """Return what is found. PostgreSQL refuses some texts, as with a ruled line of hyphens: these find nothing."""
    values: dict[str, int | str] = {"project": project_id, "text": text_of(query), "norm": norm, "limit": RANKED_LIMIT}
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, values)
            return [(str(knowledge_id), float(score)) for knowledge_id, score in cursor.fetchall()]
    except DatabaseError:
        return []


class Vectors:
    """Search by the cosine between the text and each rule, by the given model; keeps one project's vectors."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[str, Sequence[float]] = {}

    def prepare(self, project_id: int) -> None:
        rows = list(
            KnowledgeRevision.objects.filter(item__project_id=project_id)
            .order_by("item__knowledge_id", "number")
            .values_list("item__knowledge_id", "proposition")
        )
        vectors = self._embed([proposition for _, proposition in rows])
        self._vectors = {row[0]: unit(vector) for row, vector in zip(rows, vectors, strict=True)}

    def search(self, project_id: int, query: HintQuery) -> Scored:
        asked = unit(self._embed([text_of(query)])[0])
        there = KnowledgeItem.objects.filter(project_id=project_id).values_list("knowledge_id", flat=True)
        scored = [(one, sum(map(mul, asked, self._vectors[one]))) for one in there if one in self._vectors]
        return by_score(scored)[:RANKED_LIMIT]


def unit(vector: Sequence[float]) -> list[float]:
    """Return the vector at length 1; one of zeros stays."""
    length = sum(map(mul, vector, vector)) ** 0.5 or 1.0
    return [value / length for value in vector]
