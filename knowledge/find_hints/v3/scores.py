"""The numbers of a candidate: shared terms by rarity, nearness of meaning, and how sure the match is. Pure.

Terms count as in BM25. Their sum, beside the best candidate's, and the cosine of the vectors are added with fixed
weights: on recorded failures that ranks better than adding reciprocal ranks, which the report shows beside it.
Confidence is a logistic function of what the candidate and the query share, fitted on two corpora of different kind;
how it was measured and what the gate lets pass is in docs/retrieval.md. (Seed 001 §20.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

K1: Final = 1.2
B: Final = 0.6
AVERAGE: Final = 15.0  # weight of the terms of an item of common length
PRIOR: Final = 30  # items of a small project are taken as these many more, so that a term of one item is not common
LEXICAL: Final = 0.3  # share of the terms in the score, the rest is meaning
UNREAD: Final = 0.55  # cosine taken for the best match by terms when an item has no vector

# logit = constant + cosine + share of the query's terms found in the item + share of the item's found in the query
WITH_MEANING: Final = (-7.98, 5.22, 2.45, 8.19)
TERMS_ONLY: Final = (-6.17, 4.21, 9.28)
GATE: Final = 0.083


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate's numbers. `cosine` is None where there is no vector; `shared` are terms, the rarest first."""

    item_id: int
    lexical: float
    share: float
    cover: float
    cosine: float | None
    score: float
    confidence: float
    shared: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Terms:
    """What the terms of a query are worth in a project: weight times rarity."""

    worth: Mapping[str, float]
    total: float

    @classmethod
    def of(cls, weights: Mapping[str, float], n_items: int, counts: Mapping[str, int]) -> "Terms":
        """`counts`: term -> in how many of the project's items it stands."""
        worth = {term: weight * rarity(n_items, counts.get(term, 0)) for term, weight in weights.items()}
        return cls(worth, sum(worth.values()))

    def matched(self, bag: Mapping[str, float]) -> tuple[float, float, float, tuple[str, ...]]:
        """Return the sum by BM25, the share of the query, the share of the item, and the shared terms."""
        shared = sorted(self.worth.keys() & bag.keys(), key=lambda term: (-self.worth[term], term))
        if not shared:
            return 0.0, 0.0, 0.0, ()
        norm = K1 * (1 - B + B * sum(bag.values()) / AVERAGE)
        lexical = sum(self.worth[term] * bag[term] * (K1 + 1) / (bag[term] + norm) for term in shared)
        share = sum(self.worth[term] for term in shared) / self.total if self.total else 0.0
        cover = sum(min(1.0, bag[term]) for term in shared) / sum(min(1.0, weight) for weight in bag.values())
        return lexical, share, cover, tuple(shared)


def rarity(n_items: int, n_with: int) -> float:
    """Return what a term is worth that stands in `n_with` of `n_items` items; never below zero."""
    return max(0.0, math.log((n_items + PRIOR) / (n_with + 1)))


def scored(
    terms: Terms, bags: Mapping[int, Mapping[str, float]], cosines: Mapping[int, float], *, by_meaning: bool
) -> list[Scored]:
    """Return the numbers of each candidate. `by_meaning`: the query has a vector."""
    matched = {item_id: terms.matched(bag) for item_id, bag in bags.items()}
    best = max((lexical for lexical, *_ in matched.values()), default=0.0) or 1.0
    found = []
    for item_id, (lexical, share, cover, shared) in matched.items():
        cosine = cosines.get(item_id) if by_meaning else None
        relative = lexical / best
        meaning = UNREAD * relative if cosine is None else cosine
        score = LEXICAL * relative + (1 - LEXICAL) * meaning if by_meaning else relative
        found.append(
            Scored(item_id, lexical, share, cover, cosine, round(score, 6), _confidence(cosine, share, cover), shared)
        )
    return found


def _confidence(cosine: float | None, share: float, cover: float) -> float:
    factors: Sequence[float] = TERMS_ONLY if cosine is None else WITH_MEANING
    values = (1.0, share, cover) if cosine is None else (1.0, cosine, share, cover)
    logit = sum(factor * value for factor, value in zip(factors, values, strict=True))
    return round(1 / (1 + math.exp(-logit)), 6)
