"""Fetches candidates from PostgreSQL: by names and terms through one index, by meaning through the vectors.

Never all of a project's items: common terms find nothing, they only count; past EXACT_LIMIT vectors an approximate
index proposes and exact distances decide. A failing vector search leaves the search by words. (Seed 001 §12.)
"""

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, connection, transaction

from ingest import metrics
from knowledge import embeddings
from knowledge.embeddings import EmbeddingError, Vector
from knowledge.find_hints.findings import HintQuery
from knowledge.find_hints.v3.asked import Asked
from knowledge.find_hints.v3.bags import Bag, parse_bag, weights_in
from knowledge.find_hints.v3.index import keyed, start_of
from knowledge.find_hints.v3.scores import Terms

logger = logging.getLogger(__name__)

BY_NAME, BY_PHRASE, BY_TERM = 0, 1, 2  # how an item was found; the lowest counts
FOUND_BY_TERMS: Final = 300  # items that the terms of one query may find together
COMMON_ALONE: Final = 20_000  # items up to which a common term finds some alone
TERMS_AT_ONCE: Final = 3  # common terms that must stand together where no rare one is
SCORED: Final = 40  # items of the best match by terms that go on
NEAREST: Final = 30  # items by meaning
QUERY_TOKENS: Final = 32  # read of a query's text; more changes nothing measurable
EXACT_LIMIT: Final = 50_000  # items of a project up to which all its vectors are compared
VECTORS_MS: Final = 800  # that a statement over vectors may take
PROPOSED: Final = 200  # items that the approximate index proposes

_COUNTS: Final = "SELECT term, n_items FROM knowledge_termcount WHERE project_id = %s AND term = ANY(%s)"
# Each key by the index: of many keys at once the planner thinks that reading every row is as cheap. The inner query is
# fenced, or the planner would read the items in order until enough have the key.
_BY_KEYS: Final = """
SELECT found.item_id, kept.bag, found.kind FROM (
    SELECT held.item_id, min(asked.kind) AS kind
    FROM unnest(%(keys)s::text[], %(kinds)s::int[]) AS asked (key, kind)
    CROSS JOIN LATERAL (
        SELECT item_id FROM (
            SELECT item_id FROM knowledge_searchrow WHERE keys @> ARRAY[asked.key] OFFSET 0
        ) fenced ORDER BY item_id LIMIT %(most)s
    ) held
    GROUP BY held.item_id ORDER BY kind, held.item_id LIMIT %(most)s
) found JOIN knowledge_searchrow kept ON kept.item_id = found.item_id
ORDER BY found.kind, found.item_id
"""
_TOGETHER: Final = """
SELECT item_id, bag, %s FROM knowledge_searchrow WHERE keys @> %s::text[] ORDER BY item_id LIMIT %s
"""
_BAGS: Final = "SELECT item_id, bag FROM knowledge_searchrow WHERE item_id = ANY(%s)"
_COSINES: Final = """
SELECT item_id, -(vector <#> %s::halfvec) FROM knowledge_itemembedding WHERE model = %s AND item_id = ANY(%s)
"""
_ALL_NEAREST: Final = """
SELECT item_id, -(vector <#> %(vector)s::halfvec) AS cosine FROM knowledge_itemembedding
WHERE project_id = %(project)s AND model = %(model)s AND vector IS NOT NULL
ORDER BY cosine DESC, item_id LIMIT %(nearest)s
"""
# The expression and the condition are those of the index.
_INDEXED_NEAREST: Final = """
SELECT item_id, -(vector <#> %(vector)s::halfvec) AS cosine FROM (
    SELECT item_id, vector FROM knowledge_itemembedding
    WHERE project_id = %(project)s AND model = 'all-MiniLM-L6-v2-int8'
    ORDER BY binary_quantize(vector::halfvec(384))::bit(384) <~> binary_quantize(%(vector)s::halfvec(384))
    LIMIT %(proposed)s
) proposed ORDER BY cosine DESC, item_id LIMIT %(nearest)s
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates of one query. `by_meaning`: vectors took part; `notes` say why not, or what was not used.
    `known_script`: the embedding model can read the query.

    `exact` are found by a name, a fingerprint, a code or the server; `named` by those or by how a phrase starts.
    """

    terms: Terms
    bags: Mapping[int, Bag]
    exact: frozenset[int]
    named: frozenset[int]
    cosines: Mapping[int, float]
    by_meaning: bool
    known_script: bool
    notes: tuple[str, ...] = ()


def fetch(project_id: int, query: HintQuery, asked: Asked) -> Found:
    """Return the candidates of a query, at most a few hundred."""
    counts = _counts(project_id, asked.weights)
    n_items = counts.pop("", 0)
    terms = Terms.of(asked.weights, n_items, counts)
    rows = _by_keys(project_id, asked, counts)
    exact = frozenset(item_id for item_id, _, kind in rows if kind == BY_NAME)
    named = exact | {item_id for item_id, _, kind in rows if kind == BY_PHRASE}
    bags = _best({item_id: bag for item_id, bag, _ in rows}, named, terms)
    known_script = not asked.texts or embeddings.readable(asked.texts[0])
    vector, notes = query_vector(query, asked, known_script)
    if vector is None:
        return Found(terms, bags, exact, named, {}, False, known_script, notes)
    try:
        with _bounded():
            cosines = _nearest(project_id, vector, n_items)
            cosines |= _cosines(vector, bags.keys() - cosines.keys())
    except DatabaseError as error:
        _tell(type(error).__name__)
        return Found(terms, bags, exact, named, {}, False, known_script, (*notes, "vectors could not be searched"))
    bags |= {item_id: parse_bag(bag) for item_id, bag in _rows(_BAGS, [sorted(cosines.keys() - bags.keys())])}
    return Found(terms, bags, exact, named, cosines, True, known_script, notes)


@contextmanager
def _bounded() -> Iterator[None]:
    """Give the vectors little time, and keep their failure from the caller's transaction, if there is one.

    A kernel waits two seconds in all, and words are better than nothing. Inside a caller's transaction the limit would
    outlast this, and is left out.
    """
    alone = not connection.in_atomic_block
    with transaction.atomic():
        if alone:
            _rows("SELECT set_config('statement_timeout', %s, true)", [str(VECTORS_MS)])
        yield


def _tell(problem: str) -> None:
    metrics.note_hint_failure("vectors")
    logger.error("hints were searched without vectors: %s", problem)


def _counts(project_id: int, weights: Mapping[str, float]) -> dict[str, int]:
    return dict(_rows(_COUNTS, [project_id, ["", *weights]]))


def _by_keys(project_id: int, asked: Asked, counts: Mapping[str, int]) -> list[tuple[int, str, int]]:
    """Return items with their bags and how they were found: BY_NAME, BY_PHRASE or BY_TERM."""
    rare, common = _rare_and_common(asked.weights, counts)
    kinds = dict.fromkeys(keyed(project_id, (f"t:{term}" for term in rare)), BY_TERM)
    kinds |= dict.fromkeys(keyed(project_id, _phrase_keys(asked)), BY_PHRASE)
    kinds |= dict.fromkeys(keyed(project_id, _exact_keys(asked)), BY_NAME)
    rows: list[tuple[int, str, int]] = []
    if kinds:
        rows = _rows(_BY_KEYS, {"keys": list(kinds), "kinds": list(kinds.values()), "most": FOUND_BY_TERMS})
    return (
        rows
        if rare
        else rows
        + _together(project_id, common[:TERMS_AT_ONCE], too_common=bool(common) and counts[common[0]] > COMMON_ALONE)
    )


def _together(project_id: int, common: Sequence[str], *, too_common: bool) -> list[tuple[int, str, int]]:
    """Return items with all of the common terms; where there are none, with fewer of them, the rarest.

    One alone finds nothing in a big project: it would find a part of it, and says too little.
    """
    for count in range(len(common), 1 if too_common else 0, -1):
        keys = keyed(project_id, (f"t:{term}" for term in common[:count]))
        rows: list[tuple[int, str, int]] = _rows(_TOGETHER, [BY_TERM, list(keys), FOUND_BY_TERMS])
        if rows:
            return rows
    return []


def _exact_keys(asked: Asked) -> Iterable[str]:
    yield from (f"n:{name}" for name in (*asked.names, *asked.topics))
    yield from (f"f:{one}" for one in asked.prints)
    yield from (f"c:{code}" for code in asked.codes)
    if asked.server:
        yield f"m:{asked.server}"


def _phrase_keys(asked: Asked) -> Iterable[str]:
    return (f"p:{start_of(pair)}" for pair in zip(asked.row, asked.row[1:], strict=False))


def _rare_and_common(weights: Mapping[str, float], counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Split the terms that stand in some item: the rarest, as long as they find few items together; the others."""
    rare, left = [], FOUND_BY_TERMS
    known = sorted((term for term in weights if counts.get(term)), key=lambda term: (counts[term], term))
    for term in known:
        left -= counts[term]
        if left < 0:
            break
        rare.append(term)
    return rare, known[len(rare) :]


def _best(bags: Mapping[int, str], named: frozenset[int], terms: Terms) -> dict[int, Bag]:
    """Return the items that are named and the best by terms. Only theirs of the stored bags are read whole."""
    order = sorted(bags, key=lambda item_id: (-_lexical(bags[item_id], terms), item_id))
    return {item_id: parse_bag(bags[item_id]) for item_id in (*order[:SCORED], *sorted(named))}


def _lexical(bag: str, terms: Terms) -> float:
    return terms.lexical(*weights_in(bag, terms.worth.keys()))


def query_vector(query: HintQuery, asked: Asked, known_script: bool) -> tuple[Vector | None, tuple[str, ...]]:
    """Return the query's vector, the sender's if it is of our model; notes say what was not used."""
    if not asked.texts or not embeddings.enabled():
        return None, ()
    notes: tuple[str, ...] = ()
    if query.embedding:
        if query.embedding_model != embeddings.MODEL or len(query.embedding) != embeddings.DIMENSION:
            wanted = f"{embeddings.DIMENSION} numbers of {embeddings.MODEL}"
            notes = (f"the embedding was not used: the items have {wanted}",)
        elif not any(query.embedding):
            notes = ("the embedding was not used: all of its numbers are 0",)
        else:
            return embeddings.unit(query.embedding), ()
    if not known_script:
        return None, notes
    try:
        return _vector_of(asked.texts), notes
    except EmbeddingError as error:
        _tell(str(error))
        return None, (*notes, "the embedding model could not be used")


@functools.lru_cache(maxsize=512)
def _vector_of(texts: tuple[str, ...]) -> Vector:
    """Return the vector of what texts say together; the last ones stay, as failures are met again."""
    vectors = embeddings.embed_all(texts, QUERY_TOKENS)
    return embeddings.unit(sum(vectors[1:], start=vectors[0]))


def _nearest(project_id: int, vector: Vector, n_items: int) -> dict[int, float]:
    values = {
        "vector": written(vector), "project": project_id, "model": embeddings.MODEL,
        "nearest": NEAREST, "proposed": PROPOSED,
    }  # fmt: skip
    if n_items <= EXACT_LIMIT:
        return dict(_rows(_ALL_NEAREST, values))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
        cursor.execute("SELECT set_config('hnsw.ef_search', %s, true)", [str(PROPOSED)])
    return dict(_rows(_INDEXED_NEAREST, values))


def _cosines(vector: Vector, item_ids: Iterable[int]) -> dict[int, float]:
    return dict(_rows(_COSINES, [written(vector), embeddings.MODEL, list(item_ids)]))


def written(vector: Vector) -> str:
    """Return a vector as PostgreSQL reads it."""
    return "[" + ",".join(f"{number:.6g}" for number in vector.tolist()) + "]"


def _rows(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
