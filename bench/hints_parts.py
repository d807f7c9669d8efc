"""Measures what one answer consists of, in process: preparing, embedding, each statement, keeping and reporting.

The rest of a call over HTTP (accepting, checking the key, JSON) is what its time has over this one's. Beside time by
the clock stands the work: processor seconds of this thread and of its connection's server process, which tell the same
whether the machine is busy or not.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
    "by keys": "unnest(%(keys)s",
    "terms together": "WHERE keys @>",
    "nearest, approximate": "<~>",
    "nearest, all": "ORDER BY cosine DESC",
    "cosines": "vector <#>",
    "bags": "SELECT item_id, bag FROM",
    "items": "knowledge_knowledgerevision",
}
RECALL_OF = 10

Seconds = tuple[float, float]  # by the clock, and of a processor: ours and that of the connection's server process


def _now() -> Seconds:
    """Return both clocks. The second hardly grows while others have the processors."""
    server = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat").read_text().split()
    return time.perf_counter(), time.thread_time() + int(server[0]) / 1e9


def _timed(call: Callable[[], Any]) -> tuple[Any, Seconds]:
    started = _now()
    found = call()
    return found, _less(_now(), started)


def _less(one: Seconds, *others: Seconds) -> Seconds:
    return one[0] - sum(other[0] for other in others), one[1] - sum(other[1] for other in others)


def _add(times: dict[str, Seconds], name: str, took: Seconds) -> None:
    before = times.get(name, (0.0, 0.0))
    times[name] = before[0] + took[0], before[1] + took[1]


def _queries(asked: Sequence[Failure], tag: str) -> list[HintQuery]:
    return [parse_request(one, "") for one in requests(asked, tag)]


@contextmanager
def _statements(times: dict[str, Seconds]) -> Iterator[None]:
    """Add up the seconds of each statement by its name."""

    def watch(execute: Callable[..., Any], statement: str, values: Any, many: bool, context: Any) -> Any:
        found, took = _timed(lambda: execute(statement, values, many, context))
        _add(times, next((name for name, part in STATEMENTS.items() if part in statement), "other SQL"), took)
        return found

    with connection.execute_wrapper(watch):
        yield


@contextmanager
def _embedding(times: dict[str, Seconds]) -> Iterator[None]:
    """Add up the seconds of the embedding model."""
    embed_all = embeddings.embed_all

    def watched(*given: Any) -> Any:
        found, took = _timed(lambda: embed_all(*given))
        _add(times, "embedding", took)
        return found

    embeddings.embed_all = watched
    try:
        yield
    finally:
        embeddings.embed_all = embed_all


def measured(project: Project, asked: Sequence[Failure], tag: str, *, by_meaning: bool) -> dict[str, Any]:
    """Return p50 and p95 in milliseconds of each part by both clocks, and its share of the whole answer's work."""
    settings.HINTS_EMBEDDINGS = by_meaning
    times: dict[str, list[Seconds]] = defaultdict(list)
    answer_each(project, _queries(asked[:1], f"{tag} warm"))
    for query in _queries(asked, tag):
        for name, took in _parts(project, query).items():
            times[name].append(took)
    whole = sum(busy for _, busy in times["whole answer"])
    return {name: _told(took, len(asked), whole) for name, took in times.items()}


def _told(took: Sequence[Seconds], n_asked: int, whole: float) -> dict[str, Any]:
    nothing = [0.0] * (n_asked - len(took))  # a part that a query did without took it no time
    busy = [one for _, one in took]
    return {
        **percentiles([*(one for one, _ in took), *nothing]),
        "busy": percentiles([*busy, *nothing]),
        "share": round(sum(busy) / whole, 3),
        "n": len(took),
    }


def _parts(project: Project, query: HintQuery) -> dict[str, Seconds]:
    """Return the seconds of each part.

    What has been asked once is cheaper the second time (its vector and terms are remembered), so keeping is what an
    answer takes over a second search.
    """
    inside: dict[str, Seconds] = {}
    prepared = _timed(lambda: ask(query))[1]
    with _statements(inside), _embedding(inside):
        searched = _timed(lambda: find_hints(project.pk, query, settings.HINTS_ALGORITHM))[1]
    again = _timed(lambda: find_hints(project.pk, query, settings.HINTS_ALGORITHM))[1]
    keeping = _less(_timed(lambda: answer_each(project, [query]))[1], again)
    return {
        "preparing": prepared,
        **inside,
        "judging, in Python": _less(searched, prepared, *inside.values()),
        "search": searched,
        "keeping and reporting": keeping,
        "whole answer": (searched[0] + keeping[0], searched[1] + keeping[1]),
    }


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
        exactly.append(took[1])
        near, took = _timed(lambda vector=vector: _nearest(project_id, vector, legs._INDEXED_NEAREST))
        nearly.append(took[1])
        shares.append(len(set(exact[:RECALL_OF]) & set(near)) / RECALL_OF)
    return {
        "mean": round(sum(shares) / len(shares), 3), "median": median(shares), "lowest": min(shares), "n": len(shares),
        "exact_busy_ms": percentiles(exactly), "approximate_busy_ms": percentiles(nearly),
    }  # fmt: skip


def _nearest(project_id: int, vector: embeddings.Vector, statement: str) -> list[int]:
    """Return items by nearness, by one of the two ways of the search whatever the project's size."""
    n_items = 0 if statement == legs._ALL_NEAREST else legs.EXACT_LIMIT + 1
    with transaction.atomic():
        cosines = legs._nearest(project_id, vector, n_items)
    return sorted(cosines, key=lambda item_id: (-cosines[item_id], item_id))
