"""The registry of what is measured side by side: versions of FindHints and the plain searches beside them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.conf import settings

from knowledge import embeddings
from knowledge.embeddings import EmbeddingError
from knowledge.evaluation import baselines
from knowledge.evaluation.figures import Offer
from knowledge.find_hints import VERSIONS, find_hints
from knowledge.find_hints.findings import HintQuery
from knowledge.search_rows import embed_items

WITH_VECTORS: Final = "hybrid.v3"  # the version that searches by meaning, and is measured by words alone as well
LEXICAL: Final = f"{WITH_VECTORS}-lexical"
VECTORS: Final = "vector.only"
FUSED: Final = "rrf"
VECTOR_TOKENS: Final = 256  # of a text that the plain vector search reads


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subject offers for one question, best first, and the threshold of its gate (None: it has none)."""

    offers: tuple[Offer, ...]
    gate: float | None = None


Ask = Callable[[int, HintQuery, bool], Answer]  # project id, query, whether the gate is on


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing to measure. `prepare` is called once the items of a project are there.

    `plain`: it has neither gate nor verdicts, so its ranking cut short is what it offers.
    """

    name: str
    ask: Ask
    prepare: Callable[[int], None] | None = None
    plain: bool = False


def version_subject(name: str, version: str, *, vectors: bool = True) -> Subject:
    """Return a version of FindHints as it answers a kernel; with `vectors` False as if there were no model."""

    def ask(project_id: int, query: HintQuery, gated: bool) -> Answer:
        with nullcontext() if vectors else embeddings_off():
            findings = find_hints(project_id, query, version, gated=gated)
        offers = (Offer(one.item.knowledge_id, one.scores.get("confidence")) for one in findings.offered)
        return Answer(tuple(offers), findings.gate)

    return Subject(name, ask, make_vectors if vectors and version == WITH_VECTORS else None)


def make_vectors(project_id: int) -> None:
    """Make the vectors of a project's items now, which otherwise follow in the background."""
    while embeddings.enabled() and embed_items(project_id):
        pass


@contextmanager
def embeddings_off() -> Iterator[None]:
    """Switch the embedding model off for this process while this lasts."""
    before = settings.HINTS_EMBEDDINGS
    settings.HINTS_EMBEDDINGS = False
    try:
        yield
    finally:
        settings.HINTS_EMBEDDINGS = before


def baseline_subject(name: str, search: baselines.Search, prepare: Callable[[int], None]) -> Subject:
    """Return a plain search: it offers all it finds, up to the limit, and its score is its only confidence."""

    def ask(project_id: int, query: HintQuery, gated: bool) -> Answer:
        return Answer(tuple(Offer(one, score) for one, score in search(project_id, query)[: query.limit]))

    return Subject(name, ask, prepare, plain=True)


def embed_all(texts: Sequence[str]) -> list[list[float]]:
    """Return the vectors of texts; those of many texts at once are of items, which are measured more than once."""
    embed = _embed_item if len(texts) > 1 else _embed
    return [embed(text) for text in texts]


def _embed(text: str) -> list[float]:
    return [float(number) for number in embeddings.embed(text, VECTOR_TOKENS)]


_embed_item = lru_cache(maxsize=4_096)(_embed)


def all_subjects() -> dict[str, Subject]:
    """Return everything that is measured, by name, in the order reports show it."""
    vectors = baselines.Vectors(embed_all)

    def prepare_both(project_id: int) -> None:
        baselines.prepare_words(project_id)
        vectors.prepare(project_id)

    subjects = [version_subject(WITH_VECTORS, WITH_VECTORS), version_subject(LEXICAL, WITH_VECTORS, vectors=False)]
    subjects += [version_subject(version, version) for version in VERSIONS if version != WITH_VECTORS]
    subjects += [
        baseline_subject("fts.websearch", baselines.websearch, baselines.prepare_words),
        baseline_subject("fts.or", baselines.any_word, baselines.prepare_words),
        baseline_subject(VECTORS, vectors.search, vectors.prepare),
        baseline_subject(FUSED, baselines.fused(baselines.any_word, vectors.search), prepare_both),
    ]
    return {subject.name: subject for subject in subjects}


def not_measurable(names: Collection[str]) -> dict[str, str]:
    """Return what of these cannot be measured here, and why: without the model a version would go by words alone."""
    needing = [name for name in (WITH_VECTORS, VECTORS, FUSED) if name in names]
    try:
        if needing:
            embeddings.embed("a text to try the model with")
    except EmbeddingError as error:
        return dict.fromkeys(needing, str(error))
    off = WITH_VECTORS in needing and not embeddings.enabled()
    return {WITH_VECTORS: "HINTS_EMBEDDINGS is off"} if off else {}


NAMES: Final = tuple(all_subjects())
