"""Fills the tables that the write path of items fills, by COPY, and proves on a sample that they hold what it writes.

Vectors are those of a few thousand embedded texts with noise: embedding a million texts would take hours. Each goes
partly towards another embedded text and partly anywhere. The large indexes are built after the load, by their own
definitions.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from bench import hints_rows

BLOCK = 2_000  # items of one block
TEXTS = 2_000  # that are embedded
NOISE = (0.2, 0.9)  # length of what is added to a vector of length 1: cosines of 0.98 to 0.74 with it
TABLES = ("knowledge_knowledgeitem", "knowledge_knowledgerevision", "knowledge_searchrow", "knowledge_termcount",
          "knowledge_itemembedding")  # fmt: skip
BUILT_LATER = ("knowledge_item_keys", "knowledge_item_facets", "search_row_keys", "knowledge_itemembedding_nearest")
MODEL = "all-MiniLM-L6-v2-int8"
COUNTS = ("project_id", "term", "n_items")
VECTOR_ROW = np.dtype(
    [("fields", ">i2"), ("n1", ">i4"), ("item", ">i8"), ("n2", ">i4"), ("project", ">i8"), ("n3", ">i4"),
     ("model", f"S{len(MODEL)}"), ("n4", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("numbers", ">f2", 384)]
)  # fmt: skip
COPY_HEAD, COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_INDEX_SIZES = """
SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index WHERE indrelid = %s::regclass
"""

Connection = psycopg.Connection[Any]
Seconds = dict[str, float]


class Vectors:
    """Vectors of embedded texts, by what the text was varied from, and noisy ones near them."""

    def __init__(self, vectors: Any, bases: Sequence[int]) -> None:
        self._vectors = vectors
        self._by_base: dict[int, list[int]] = {}
        for place, base in enumerate(bases):
            self._by_base.setdefault(base, []).append(place)

    def near(self, bases: Sequence[int], seed: int) -> Any:
        """Return a vector near the texts of each base, of length 1."""
        chance = np.random.default_rng(seed)
        places = [self._by_base[base][int(chance.integers(len(self._by_base[base])))] for base in bases]
        others = self._vectors[chance.integers(len(self._vectors), size=len(bases))]
        noise = chance.standard_normal(others.shape, dtype=np.float32)
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        noise += others
        noise *= chance.uniform(*NOISE, size=(len(bases), 1)) / np.linalg.norm(noise, axis=1, keepdims=True)
        noise += self._vectors[places]
        return noise / np.linalg.norm(noise, axis=1, keepdims=True)


def embedded(seed: str, n_bases: int, embed: Callable[[str], Any], kept: Path | None) -> Vectors:
    """Return the vectors of one item of each base and of more; from the file `kept` if it has those of these texts."""
    texts = [hints_rows.text(seed, number, number % n_bases) for number in range(max(TEXTS, n_bases))]
    digest = hashlib.sha256("\0".join(text for text, _ in texts).encode()).hexdigest()[:16]
    path = kept.with_name(f"{kept.name}-{digest}.npy") if kept else None
    if path is not None and path.exists():
        vectors = np.load(path)
    else:
        vectors = np.stack([embed(text) for text, _ in texts])
        if path is not None:
            np.save(path, vectors)
    return Vectors(vectors, [base for _, base in texts])


def vector_rows(project_id: int, first_pk: int, vectors: Any) -> bytes:
    """Return rows of the vectors' table as binary COPY takes them."""
    rows = np.zeros(len(vectors), dtype=VECTOR_ROW)
    rows["fields"], rows["n1"], rows["n2"], rows["n3"] = 4, 8, 8, len(MODEL)
    rows["item"] = np.arange(first_pk, first_pk + len(vectors))
    rows["project"], rows["model"] = project_id, MODEL.encode()
    rows["n4"], rows["dimension"], rows["numbers"] = 4 + 2 * 384, 384, vectors
    return rows.tobytes()


@contextmanager
def indexes_built_later(connection: Connection, seconds: Seconds) -> Iterator[None]:
    """Take the large indexes away, and build them again by their own definitions at the end."""
    definitions = dict(
        connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE indexname = ANY(%s)", [list(BUILT_LATER)]
        ).fetchall()
    )
    if set(definitions) != set(BUILT_LATER):
        raise RuntimeError(f"missing indexes: {set(BUILT_LATER) - set(definitions)}")
    for name in BUILT_LATER:
        connection.execute(f"DROP INDEX {name}".encode())
    yield
    connection.execute("SET maintenance_work_mem = '2GB'")
    for name in BUILT_LATER:
        with timed(seconds, f"index {name}"):
            connection.execute(definitions[name].encode())


@contextmanager
def timed(seconds: Seconds, name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = round(time.perf_counter() - started, 1)


def fill(connection: Connection, seed: str, projects: Sequence[tuple[int, int]], vectors: Vectors) -> Seconds:
    """Write the items of each project, given as (primary key, how many), and build the indexes."""
    seconds: Seconds = {}
    connection.execute("SET session_replication_role = replica")  # references are right by how rows are made
    with indexes_built_later(connection, seconds), timed(seconds, "rows"):
        pk_0 = 1
        for project_id, n_items in projects:
            _fill_project(connection, f"{seed}/{project_id}", project_id, pk_0, n_items, vectors)
            pk_0 += n_items
    for table in TABLES[:2]:
        connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {pk_0})".encode())
    with timed(seconds, "vacuum analyze"):
        for table in TABLES:
            connection.execute(f"VACUUM (ANALYZE) {table}".encode())
    connection.execute("CHECKPOINT")
    return seconds


def _fill_project(connection: Connection, seed: str, project_id: int, pk_0: int, n_items: int,
                  vectors: Vectors) -> None:  # fmt: skip
    given = [(seed, project_id, pk_0, first, min(first + BLOCK, n_items)) for first in range(0, n_items, BLOCK)]
    counts: Counter[str] = Counter()
    with get_context("fork").Pool(min(2, os.cpu_count() or 1)) as pool:
        for asked, block in zip(given, pool.imap(hints_rows.block, given), strict=True):
            copy_rows(connection, "knowledge_knowledgeitem", hints_rows.ITEM, block.items)
            copy_rows(connection, "knowledge_knowledgerevision", hints_rows.REVISION, block.revisions)
            copy_rows(connection, "knowledge_searchrow", hints_rows.SEARCH, block.searches)
            first_pk = pk_0 + asked[3]
            copy_vectors(connection, project_id, first_pk, vectors.near(block.bases, seed=first_pk))
            counts.update(block.counts)
    rows = [(project_id, term, n) for term, n in sorted(counts.items())]
    copy_rows(connection, "knowledge_termcount", COUNTS, rows)


def copy_rows(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    quoted = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor().copy(f"COPY {table} ({quoted}) FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)


def copy_vectors(connection: Connection, project_id: int, first_pk: int, vectors: Any) -> None:
    with connection.cursor().copy(
        "COPY knowledge_itemembedding (item_id, project_id, model, vector) FROM STDIN (FORMAT binary)"
    ) as copy:
        copy.write(COPY_HEAD + vector_rows(project_id, first_pk, vectors) + COPY_END)


def sizes(connection: Connection, n_items: int) -> dict[str, Any]:
    """Return MiB of each table and of its indexes, and bytes an item of all of it."""
    found: dict[str, Any] = {}
    total = 0
    for table in TABLES:
        rows = connection.execute(_INDEX_SIZES, [table]).fetchall()
        size = connection.execute("SELECT pg_table_size(%s::regclass)", [table]).fetchone()
        heap = size[0] if size else 0
        total += heap + sum(n for _, n in rows)
        found[table] = {"table": _mib(heap), **{name: _mib(n) for name, n in rows if n > 1024 * 1024}}
    return {"MiB": found, "bytes_an_item": round(total / n_items)}


def _mib(n_bytes: int) -> float:
    return round(n_bytes / 2**20, 1)
