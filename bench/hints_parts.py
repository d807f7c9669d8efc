"""Measures what one answer consists of, in process: preparing, embedding, each statement, keeping and reporting.

The rest of a call over HTTP (accepting, checking the key, JSON) is what its time has over this one's.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from bench.hints_asked import Failure, requests
from bench.sending import percentiles
from ingest.models import Project
from knowledge import embeddings
from knowledge.find_hints import find_hints
from knowledge.find_hints.findings import HintQuery
from knowledge.find_hints.v3 import legs
from knowledge.find_hints.v3.asked import ask
from knowledge.hints_api.request import parse_request
from knowledge.offering import answer_each

STATEMENTS = {
    "term counts": "FROM knowledge_termcount",
    "by keys": "WHERE keys &&",
    "terms together": "WHERE keys @>",
    "nearest, approximate": "<~>",
    "nearest, all": "ORDER BY cosine DESC",
    "cosines": "vector <#>",
    "bags": "SELECT item_id, bag FROM",
    "items": "knowledge_knowledgerevision",
}
RECALL_OF = 10

Times = dict[str, list[float]]


def _queries(asked: Sequence[Failure], tag: str) -> list[HintQuery]:
    return [parse_request(one, "") for one in requests(asked, tag)]


@contextmanager
def _statements(times: dict[str, float]) -> Iterator[None]:
    """Add up the seconds of each statement by its name."""

    def watch(execute: Callable[..., Any], statement: str, values: Any, many: bool, context: Any) -> Any:
        started = time.perf_counter()
        try:
            return execute(statement, values, many, context)
        finally:
            name = next((name for name, part in STATEMENTS.items() if part in statement), "other SQL")
            times[name] = times.get(name, 0.0) + time.perf_counter() - started

    with connection.execute_wrapper(watch):
        yield


def measured(project: Project, asked: Sequence[Failure], tag: str, *, by_meaning: bool) -> dict[str, Any]:
    """Return p50 and p95 in milliseconds of each part, and each part's share of the whole answer's time."""
    settings.HINTS_EMBEDDINGS = by_meaning
    times: Times = defaultdict(list)
    answer_each(project, _queries(asked[:1], f"{tag}-warm"))
    for query in _queries(asked, tag):
        for name, seconds in _parts(project, query).items():
            times[name].append(seconds)
    n = len(asked)
    whole = sum(times["whole answer"])
    return {
        name: {**percentiles([*took, *[0.0] * (n - len(took))]), "share": round(sum(took) / whole, 3), "n": len(took)}
        for name, took in times.items()
    }


def _parts(project: Project, query: HintQuery) -> dict[str, float]:
    """Return the seconds of each part. The answer comes after the search and finds the query's vector made already."""
    prepared = _timed(lambda: ask(query))[1]
    inside: dict[str, float] = {}
    with _statements(inside), _embedding(inside):
        searched = _timed(lambda: find_hints(project.pk, query, settings.HINTS_ALGORITHM))[1]
    embedded = inside.get("embedding", 0.0)
    answered = _timed(lambda: answer_each(project, [query]))[1] + embedded
    rest = searched - prepared - sum(inside.values())
    parts = {"preparing": prepared, **inside, "judging, in Python": rest}
    return {**parts, "search": searched, "keeping and reporting": answered - searched, "whole answer": answered}


@contextmanager
def _embedding(times: dict[str, float]) -> Iterator[None]:
    """Add up the seconds of the embedding model."""
    embed_all = embeddings.embed_all

    def watched(*given: Any) -> Any:
        found, times["embedding"] = _timed(lambda: embed_all(*given))
        return found

    embeddings.embed_all = watched
    try:
        yield
    finally:
        embeddings.embed_all = embed_all


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    found = call()
    return found, time.perf_counter() - started


def recall(project_id: int, asked: Sequence[Failure]) -> dict[str, Any]:
    """Return the share of the ten nearest vectors that the approximate index finds, and what both take."""
    settings.HINTS_EMBEDDINGS = True
    shares, exactly, nearly = [], [], []
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
    for query in _queries(asked, "recall"):
        texts = ask(query).texts
        if not texts or not embeddings.readable(texts[0]):
            continue
        vector = legs._vector_of(texts)
        exact, took = _timed(lambda vector=vector: _nearest(project_id, vector, legs._ALL_NEAREST))
        exactly.append(took)
        near, took = _timed(lambda vector=vector: _nearest(project_id, vector, legs._INDEXED_NEAREST))
        nearly.append(took)
        shares.append(len(set(exact[:RECALL_OF]) & set(near)) / RECALL_OF)
    return {
        "mean": round(sum(shares) / len(shares), 3), "median": median(shares), "lowest": min(shares), "n": len(shares),
        "exact_ms": percentiles(exactly), "approximate_ms": percentiles(nearly),
    }  # fmt: skip


def _nearest(project_id: int, vector: embeddings.Vector, statement: str) -> list[int]:
    """Return items by nearness, by one of the two ways of the search whatever the project's size."""
    n_items = 0 if statement == legs._ALL_NEAREST else legs.EXACT_LIMIT + 1
    with transaction.atomic():
        cosines = legs._nearest(project_id, vector, n_items)
    return sorted(cosines, key=lambda item_id: (-cosines[item_id], item_id))
