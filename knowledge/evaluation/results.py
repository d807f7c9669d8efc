"""What a measurement found, as plain numbers: the form that is printed, stored and shown. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from knowledge.evaluation.figures import (
    FALSE,
    FIGURES,
    NEAR_MISS,
    Point,
    best_within,
    curve,
    interval,
    mean,
    percentile,
    values_of,
)
from knowledge.evaluation.measuring import Measured
from knowledge.evaluation.questions import Questions

DIGITS: Final = 4
TARGETS: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # injection the operating tables show
OPERATING: Final = (FALSE, NEAR_MISS)
GOAL: Final = 0.1  # false injection that a gate is meant to stay within
WITH_INTERVAL: Final = (
    "r_at_1_ungated",
    "r_at_3_ungated",
    "right_passed",
    "wrong_first",
    FALSE,
    NEAR_MISS,
    "injection_all",
)
TIMED: Final = ("answerable", "foreign")  # a held-out question repeats a text, whose vector may be kept
CURVE_POINTS: Final = 60


@dataclass(frozen=True, slots=True)
class CorpusResult:
    """All figures of one corpus. `not_measured` names the subjects left out and why."""

    corpus: str
    counts: Mapping[str, int]
    rules_without_item: Sequence[str]
    versions: Mapping[str, Mapping[str, Any]]
    not_measured: Mapping[str, str]
    task: str = ""  # what was asked in the place of each command line, if anything

    def as_json(self, measured_on: str) -> dict[str, Any]:
        return {
            "corpus": self.corpus,
            "task": self.task,
            "counts": dict(self.counts),
            "rules_without_item": list(self.rules_without_item),
            "versions": {
                name: {**figures, "operating_point": self._operating_point(figures, measured_on)}
                for name, figures in self.versions.items()
            },
            "not_measured": dict(self.not_measured),
        }

    def _operating_point(self, figures: Mapping[str, Any], measured_on: str) -> dict[str, Any] | None:
        """Return what pages say of a version's gate, None where it has none."""
        if figures["gate"] is None:
            return None
        return {
            "gate": figures["gate"],
            "right_passed": figures["right_passed"],
            "wrong_passed": figures[FALSE],
            "near_miss_passed": figures[NEAR_MISS],
            "n_answerable": self.counts["answerable"],
            "n_unanswerable": self.counts["foreign"],
            "n_near_miss": self.counts["held_out"] + self.counts["without_item"],
            "measured_on": measured_on,
            "corpus": self.corpus,
        }


def counts_of(n_items: int, n_pairs: int, questions: Questions) -> dict[str, int]:
    """`n_pairs`: how many pairs with a rule the corpus has; those asked may be fewer."""
    return {
        "items": n_items,
        "pairs": n_pairs,
        "answerable": len(questions.answerable),
        "held_out": len(questions.held_out),
        "without_item": len(questions.without_item),
        "foreign": len(questions.foreign),
    }


def figures_of(measured: Measured) -> dict[str, Any]:
    """Return the figures of one subject: means, intervals, times, gate and operating points."""
    values = values_of(measured.outcomes)
    times = [one.took_ms for one in measured.outcomes if one.kind in TIMED]
    points = curve(measured.outcomes)
    return {
        **{name: _short(mean(values[name])) for name in FIGURES},
        "p50_ms": _short(median(times) if times else None, 2),
        "p95_ms": _short(percentile(times, 0.95), 2),
        "intervals": {name: _pair(interval(values[name])) for name in WITH_INTERVAL},
        "gate": measured.gate,
        "within_goal": _point(best_within(points, GOAL)),
        "operating": {name: _operating(points, name) for name in OPERATING},
        "curve": [] if measured.gate is None else [_point(point) for point in thinned(points, CURVE_POINTS)],
    }


def _operating(points: Sequence[Point], name: str) -> list[dict[str, float | None]]:
    found = ((target, _point(best_within(points, target, name))) for target in TARGETS)
    return [{"at_most": target, **point} for target, point in found if point]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` of the points, evenly taken, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def as_json(results: Sequence[CorpusResult], measured_on: str) -> dict[str, Any]:
    """Return the object a measurement prints: the first corpus at the top, and all of them by name."""
    corpora = {result.corpus: result.as_json(measured_on) for result in results}
    return {"measured_on": measured_on, **corpora[results[0].corpus], "corpora": corpora}


def _point(point: Point | None) -> dict[str, float | None] | None:
    if point is None:
        return None
    return {
        "threshold": _short(point.threshold),
        FALSE: _short(point.false_injection),
        NEAR_MISS: _short(point.near_miss_injection),
        "right_passed": _short(point.right_passed),
    }


def _pair(found: tuple[float, float] | None) -> list[float | None] | None:
    return None if found is None else [_short(value) for value in found]


def _short(value: float | None, digits: int = DIGITS) -> float | None:
    return None if value is None else round(value, digits)
