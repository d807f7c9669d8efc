"""Decides what the figures of a measured version are, from what it answered to each question. Pure.

Each figure is a mean over the questions it is about, so all of them get an interval in the same way. A figure about
no question at all is None, never 0.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.evaluation.questions import OFFER_LIMIT, Kind

RESAMPLES: Final = 1_000
SEED: Final = 1
MRR_DEPTH: Final = 10
FALSE: Final = "false_injection"
NEAR_MISS: Final = "near_miss_injection"
NEAR_MISSES: Final = ("held_out", "without_item")  # kinds of question

# figure -> what it says, in the order reports show them
FIGURES: Final[Mapping[str, str]] = {
    "r_at_1_ungated": "the right item stands first; gate off",
    "r_at_1_all_pairs": "the same, where a pair whose rule has no item counts as missed",
    "r_at_3_ungated": "the right item is among the first three; gate off",
    "mrr_at_10": "mean of 1/place of the right item within ten; gate off",
    "right_passed": "of all answerable questions: the right item is offered; gate on",
    "right_passed_of_found": "of those whose right item would be offered with the gate off: it passes the gate",
    "right_first": "of all answerable questions: the right item is offered first; gate on",
    "wrong_first": "of all answerable questions: something else is offered first; gate on",
    "false_injection": "of the questions nothing here is about: any hint is offered; gate on",
    "near_miss_injection": "of the questions whose own item is not there: any hint is offered, often of a sibling rule",
    "injection_all": "the same of both together",
    "abstention_precision": "of the questions that got no hint: there was none to give",
    "hints_per_answered": "hints offered where any was; gate on",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """One item of an answer. `confidence` is what a gate compares, None where a version has none."""

    knowledge_id: str
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one version answered to one question: its ranking with the gate off, and what it offers with it on."""

    kind: Kind
    right: str
    ranked: tuple[Offer, ...]
    offered: tuple[str, ...]
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """One place of a gate: at `threshold`, the shares of questions that get a hint, and of right items that pass.

    A share of no question is None.
    """

    threshold: float
    false_injection: float | None
    near_miss_injection: float | None
    right_passed: float

    def share(self, name: str) -> float | None:
        """Return one of the two shares of questions without an answer, by its name."""
        return self.near_miss_injection if name == NEAR_MISS else self.false_injection


def place_of(right: str, ranked: Sequence[Offer]) -> int:
    """Return the place of the right item, from 1; 0 when it is not there."""
    return next((place for place, offer in enumerate(ranked, 1) if offer.knowledge_id == right), 0) if right else 0


def by_score(scored: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return (id, score) best first; the id decides between equal scores, whatever order they came in."""
    return sorted(scored, key=lambda one: (-one[1], one[0]))


def values_of(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Return, for each figure, its value for each question that it is about."""
    asked = [one for one in outcomes if one.kind == "answerable"]
    places = [place_of(one.right, one.ranked) for one in asked]
    passed = [float(bool(one.right) and one.right in one.offered) for one in asked]
    silent = [one for one in outcomes if not one.offered]
    near_miss = [float(bool(one.offered)) for one in outcomes if one.kind in NEAR_MISSES]
    foreign = [float(bool(one.offered)) for one in outcomes if one.kind == "foreign"]
    return {
        "r_at_1_ungated": [float(place == 1) for place in places],
        "r_at_1_all_pairs": [float(place == 1) for place in places]
        + [0.0 for one in outcomes if one.kind == "without_item"],
        "r_at_3_ungated": [float(1 <= place <= 3) for place in places],
        "mrr_at_10": [1 / place if 1 <= place <= MRR_DEPTH else 0.0 for place in places],
        "right_passed": passed,
        "right_passed_of_found": [
            value for value, place in zip(passed, places, strict=True) if 1 <= place <= OFFER_LIMIT
        ],
        "right_first": [float(one.offered[:1] == (one.right,)) for one in asked],
        "wrong_first": [float(bool(one.offered) and one.offered[0] != one.right) for one in asked],
        FALSE: foreign,
        NEAR_MISS: near_miss,
        "injection_all": foreign + near_miss,
        "abstention_precision": [float(one.kind != "answerable") for one in silent],
        "hints_per_answered": [float(len(one.offered)) for one in outcomes if one.offered],
    }


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% bootstrap interval of the mean: resampled over questions, with a fixed seed."""
    if not values:
        return None
    draws = random.Random(SEED)
    means = sorted(sum(draws.choices(values, k=len(values))) / len(values) for _ in range(RESAMPLES))
    return means[round(0.025 * (RESAMPLES - 1))], means[round(0.975 * (RESAMPLES - 1))]


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` (0..1) of the values do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(round(share * len(values), 6)) - 1)]


def curve(outcomes: Sequence[Outcome]) -> list[Point]:
    """Return every place a gate could take, from the one that lets nothing pass to the one that lets all pass.

    Empty when a version gives no confidence. What would be offered is the ranking without what stays below the
    threshold: a duplicate of an item that the gate holds back is not considered again, and that a partial match may
    need more beside an exact one is left out.
    """
    asked = [one for one in outcomes if one.kind == "answerable"]
    known = [offer.confidence for one in outcomes for offer in one.ranked if offer.confidence is not None]
    if not known or not asked or len(asked) == len(outcomes):
        return []
    foreign = [_strongest(one) for one in outcomes if one.kind == "foreign"]
    near = [_strongest(one) for one in outcomes if one.kind in NEAR_MISSES]
    passing = [_passes_between(one) for one in asked]
    thresholds = {*foreign, *near, *(highest for _, highest in passing)} - {NO_CONFIDENCE}
    points = []
    for threshold in (max(known) + 1e-9, *sorted(thresholds, reverse=True)):
        right = sum(lowest < threshold <= highest for lowest, highest in passing) / len(asked)
        points.append(Point(threshold, _share_from(threshold, foreign), _share_from(threshold, near), right))
    return points


def best_within(points: Sequence[Point], most: float, name: str = FALSE) -> Point | None:
    """Return the point with the most right items passing while `name` is at most `most`."""
    within = [point for point in points if (share := point.share(name)) is not None and share <= most]
    return max(within, key=lambda point: (point.right_passed, point.threshold), default=None)


def _share_from(threshold: float, values: Sequence[float]) -> float | None:
    return mean([float(value >= threshold) for value in values])


def _strongest(one: Outcome) -> float:
    return max(map(_confidence, one.ranked), default=NO_CONFIDENCE)


NO_CONFIDENCE: Final = float("-inf")


def _confidence(offer: Offer) -> float:
    return NO_CONFIDENCE if offer.confidence is None else offer.confidence


def _passes_between(one: Outcome) -> tuple[float, float]:
    """Return between which thresholds the right item is offered: above the first, up to the second.

    A low threshold can lose it: what stands before it then fills the offer.
    """
    place = place_of(one.right, one.ranked)
    if not place:
        return NO_CONFIDENCE, NO_CONFIDENCE
    before = sorted(map(_confidence, one.ranked[: place - 1]), reverse=True)
    lowest = before[OFFER_LIMIT - 1] if len(before) >= OFFER_LIMIT else NO_CONFIDENCE
    return lowest, _confidence(one.ranked[place - 1])
