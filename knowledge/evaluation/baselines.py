"""Plain ways of searching that FindHints is measured beside: PostgreSQL's text search, vectors, and both fused.

Each searches the text of the rules with the command and its output, as most would write it first; none has a gate.
Their tables are temporary and belong to the transaction of the measurement.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from django.db import DatabaseError, connection, transaction

from knowledge.evaluation.figures import by_score
from knowledge.find_hints.findings import HintQuery
from knowledge.models import KnowledgeItem, KnowledgeRevision

DEPTH: Final = 100  # places of a ranking that are fused
FUSED_AT: Final = 60  # of reciprocal rank fusion; as most take it

Scored = list[tuple[str, float]]
Search = Callable[[int, HintQuery], Scored]
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
    values: dict[str, int | str] = {"project": project_id, "text": text_of(query), "norm": norm, "limit": DEPTH}
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
        self._ids: list[str] = []
        self._vectors = np.zeros((0, 0))

    def prepare(self, project_id: int) -> None:
        rows = list(
            KnowledgeRevision.objects.filter(item__project_id=project_id)
            .order_by("item__knowledge_id", "number")
            .values_list("item__knowledge_id", "proposition")
        )
        last = dict(rows)
        self._ids = list(last)
        self._vectors = np.array([unit(vector) for vector in self._embed(list(last.values()))])

    def search(self, project_id: int, query: HintQuery) -> Scored:
        asked = unit(self._embed([text_of(query)])[0])
        there = set(KnowledgeItem.objects.filter(project_id=project_id).values_list("knowledge_id", flat=True))
        cosines = zip(self._ids, (self._vectors @ asked).tolist(), strict=True)
        return by_score([(one, cosine) for one, cosine in cosines if one in there])[:DEPTH]


def unit(vector: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the vector at length 1; one of zeros stays."""
    given = np.asarray(vector, dtype=np.float64)
    return given / (float(np.linalg.norm(given)) or 1.0)


def fused(*searches: Search) -> Search:
    """Return the search by reciprocal rank fusion: an item counts by its places in the rankings, not by scores."""

    def search(project_id: int, query: HintQuery) -> Scored:
        scores: dict[str, float] = {}
        for one in searches:
            for place, (knowledge_id, _) in enumerate(one(project_id, query), 1):
                scores[knowledge_id] = scores.get(knowledge_id, 0.0) + 1 / (FUSED_AT + place)
        return by_score(list(scores.items()))[:DEPTH]

    return search
