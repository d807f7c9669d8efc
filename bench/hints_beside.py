"""Measures plain full-text search of PostgreSQL on the same rules, beside which the hints are measured."""

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from bench.hints_asked import Failure
from bench.sending import percentiles

PREPARE = (
    "CREATE TABLE IF NOT EXISTS bench_words AS SELECT item.id AS item_id, item.project_id,"
    " to_tsvector('english', revision.proposition) AS words FROM knowledge_knowledgeitem item"
    " JOIN knowledge_knowledgerevision revision ON revision.item_id = item.id AND revision.number = item.revision",
    "CREATE INDEX IF NOT EXISTS bench_words_words ON bench_words USING gin (words)",
    "VACUUM (ANALYZE) bench_words",
)
FIND = """
SELECT item_id, ts_rank(words, asked.query, 1) AS score FROM bench_words CROSS JOIN ({asked}) AS asked(query)
WHERE project_id = %(project)s AND words @@ asked.query ORDER BY score DESC, item_id LIMIT 8
"""
ALL_WORDS = FIND.format(asked="SELECT websearch_to_tsquery('english', %(text)s)")
ANY_WORD = FIND.format(
    asked="SELECT coalesce(string_agg(quote_literal(word), ' | '), '')::tsquery "
    "FROM unnest(tsvector_to_array(to_tsvector('english', %(text)s))) AS word"
)
MOST_SECONDS = 60.0  # of one statement's measurement, once it has LEAST_ASKED
LEAST_ASKED = 40


def prepare(connection: psycopg.Connection[Any]) -> None:
    for statement in PREPARE:
        connection.execute(statement.encode())


def measured(dsn: str, project_id: int, asked: Sequence[Failure]) -> dict[str, Any]:
    """Return milliseconds of both statements in process, without HTTP, over one open connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return {
            "websearch": _measured(connection, ALL_WORDS, project_id, asked),
            "any word": _measured(connection, ANY_WORD, project_id, asked),
        }


def _measured(connection: psycopg.Connection[Any], statement: str, project_id: int,
              asked: Sequence[Failure]) -> dict[str, Any]:  # fmt: skip
    took: list[float] = []
    n_refused = 0
    for command, output in asked:
        values = {"project": project_id, "text": f"{command}\n{output}".replace("\0", " ")}
        started = time.perf_counter()
        try:
            connection.execute(statement.encode(), values).fetchall()
        except psycopg.errors.InternalError:  # "tsquery stack too small", as of a ruled line of hyphens
            n_refused += 1
        took.append(time.perf_counter() - started)
        if len(took) >= LEAST_ASKED and sum(took) > MOST_SECONDS:
            break
    return {**percentiles(took), "n": len(took), "refused": n_refused}
