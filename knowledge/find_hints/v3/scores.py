"""The numbers of a candidate: shared terms by rarity, nearness of meaning, and how sure the match is. Pure.

Terms count as in BM25. Their sum, beside the best candidate's, and the cosine of the vectors are added with fixed
weights: on recorded failures that ranks better than adding reciprocal ranks, which the report shows beside it.
Confidence is a logistic function of two numbers, fitted on corpora of different kind and set so that 0.5 is the gate;
it holds on a corpus it was not fitted on. What the gate lets pass is in docs/retrieval.md. (Seed 001 §20.)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

K1: Final = 1.2
B: Final = 0.6
AVERAGE: Final = 15.0  # weight of the terms of an item of common length
PRIOR: Final = 30  # items of a small project are taken as these many more, so that a term of one item is not common
LEXICAL: Final = 0.3  # share of the terms in the score, the rest is meaning
UNREAD: Final = 0.55  # cosine taken for the best match by terms when an item has no vector

GATE: Final = 0.5
# Of the logit: the constant, what the cosine counts, what the overlap counts.
WITH_MEANING: Final = (-5.75, 7.36, 2.61)
# The constant, what the logarithm of the worth shared counts, what the share of the query's worth counts.
TERMS_ONLY: Final = (-7.03, 5.25, 2.96)
LEAST_SHARED: Final = 2  # terms; a single one, be it rare, is no match without meaning
# A task shares less with the rule that helps than a failure does: it counts so much more, by a corpus of tasks.
OF_A_TASK: Final = 1.7
# In a script that the embedding model does not know, words are all there is, and few of them are shared by chance.
TERMS_OF_ANOTHER_SCRIPT: Final = (-6.18, 5.25, 2.96)


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate's numbers.

    `lexical`: the sum by BM25 in terms of one item only; `share`: the part of the query's worth that is shared;
    `overlap`: shared terms by the root of the item's; `cosine` is None where there is no vector; `shared`: the terms,
    the rarest first.
    """

    item_id: int
    lexical: float
    share: float
    overlap: float
    cosine: float | None
    score: float
    confidence: float
    shared: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Terms:
    """What the terms of a query are worth in a project: weight times rarity; `most` is the greatest rarity."""

    worth: Mapping[str, float]
    total: float
    most: float

    @classmethod
    def of(cls, weights: Mapping[str, float], n_items: int, counts: Mapping[str, int]) -> "Terms":
        """`counts`: term -> in how many of the project's items it stands."""
        worth = {term: weight * rarity(n_items, counts.get(term, 0)) for term, weight in weights.items()}
        return cls(worth, sum(worth.values()), rarity(n_items, 0))

    def matched(self, bag: Mapping[str, float]) -> tuple[float, float, float, tuple[str, ...]]:
        """Return the sum by BM25, the share of the query, the overlap, and the shared terms."""
        shared = sorted(self.worth.keys() & bag.keys(), key=lambda term: (-self.worth[term], term))
        if not shared:
            return 0.0, 0.0, 0.0, ()
        lexical = self.lexical({term: bag[term] for term in shared}, sum(bag.values()))
        share = sum(self.worth[term] for term in shared) / self.total if self.total else 0.0
        overlap = len(shared) / math.sqrt(sum(min(1.0, weight) for weight in bag.values()))
        return lexical, share, overlap, tuple(shared)

    def lexical(self, shared: Mapping[str, float], size: float) -> float:
        """Return the sum by BM25 over shared terms, given their weights in an item and the sum of all its weights.

        It does not depend on the order of the terms.
        """
        norm = K1 * (1 - B + B * size / AVERAGE)
        return math.fsum(self.worth[term] * of * (K1 + 1) / (of + norm) for term, of in shared.items()) / self.most


def rarity(n_items: int, n_with: int) -> float:
    """Return what a term is worth that stands in `n_with` of `n_items` items; never below zero."""
    return max(0.0, math.log((n_items + PRIOR) / (n_with + 1)))


def scored(
    terms: Terms,
    bags: Mapping[int, Mapping[str, float]],
    cosines: Mapping[int, float],
    *,
    by_meaning: bool,
    known_script: bool = True,
    is_task: bool = False,
) -> list[Scored]:
    """Return the numbers of each candidate.

    `by_meaning`: the query has a vector; `known_script`: it could have one; `is_task`: it tells no failure.
    """
    matched = {item_id: terms.matched(bag) for item_id, bag in bags.items()}
    best = max((lexical for lexical, *_ in matched.values()), default=0.0) or 1.0
    found = []
    by_terms = TERMS_ONLY if known_script else TERMS_OF_ANOTHER_SCRIPT
    more = OF_A_TASK if is_task else 0.0
    for item_id, (lexical, share, overlap, shared) in matched.items():
        cosine = cosines.get(item_id) if by_meaning else None
        relative = lexical / best
        meaning = UNREAD * relative if cosine is None else cosine
        score = LEXICAL * relative + (1 - LEXICAL) * meaning if by_meaning else relative
        if cosine is None:
            told = math.log1p(lexical) if len(shared) >= LEAST_SHARED else 0.0
            confidence = _logistic(by_terms, told, share, more)
        else:
            confidence = _logistic(WITH_MEANING, cosine, overlap, more)
        found.append(Scored(item_id, lexical, share, overlap, cosine, round(score, 6), confidence, shared))
    return found


def _logistic(factors: tuple[float, float, float], one: float, other: float, more: float) -> float:
    return round(1 / (1 + math.exp(-(factors[0] + factors[1] * one + factors[2] * other + more))), 4)
