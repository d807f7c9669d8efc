"""How the constants of a gate are made: a logistic model of whether a candidate is right, fitted and judged. Pure.

A model adds two numbers of a candidate to a logit. The gate is a place on that logit; the constant is moved so that
it stands at a confidence of 0.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FITTED = 5  # candidates of a question, the best by score, that a model is fitted on
OFFERED = 8  # and that it judges
# kind of question -> what its candidates weigh; near misses less, as what is offered there may be related
WEIGHTS = {"answerable": 1.0, "held_out": 0.3, "foreign": 1.0}
RIDGE = 0.1  # on standardized numbers, beside WEIGHT for the questions with an answer of one corpus
WEIGHT = 300.0
STEPS = 50
CLOSE = 1e-9

Candidate = Mapping[str, float]  # its numbers by name, `right` is 1 or 0; a number that is not there is missing
Corpus = Mapping[str, Sequence[Sequence[Candidate]]]  # kind -> question -> candidates, the best first


@dataclass(frozen=True)
class Model:
    """logit = constant + factor * number, for each of the named numbers."""

    names: tuple[str, ...]
    constant: float
    factors: tuple[float, ...]

    def logit(self, candidate: Candidate) -> float:
        """The logit of a candidate; of one without the numbers, minus infinity."""
        if not all(name in candidate for name in self.names):
            return float("-inf")
        return self.constant + sum(
            factor * candidate[name] for name, factor in zip(self.names, self.factors, strict=True)
        )

    def with_gate_at_half(self, gate: float) -> tuple[float, ...]:
        """The constant and factors of the same model whose confidence is 0.5 where this one's logit is `gate`."""
        return (self.constant - gate, *self.factors)


@dataclass(frozen=True)
class Rates:
    """The shares of one corpus at a gate: right items that pass, near misses and foreign questions that get a hint."""

    right: float
    near_miss: float
    foreign: float


def fit(corpora: Sequence[Corpus], names: tuple[str, ...]) -> Model:
    """The model of the named numbers; each corpus weighs the same for each of its questions with an answer."""
    rows, right, weights = [], [], []
    for corpus in corpora:
        for kind, weight in WEIGHTS.items():
            for candidates in corpus[kind]:
                for one in candidates[:FITTED]:
                    if all(name in one for name in names):
                        rows.append([one[name] for name in names])
                        right.append(one["right"])
                        weights.append(WEIGHT * weight / len(corpus["answerable"]))
    values = np.array(rows)
    middle, spread = values.mean(axis=0), values.std(axis=0)
    found = newton((values - middle) / spread, np.array(right), np.array(weights))
    factors = found[1:] / spread
    return Model(names, float(found[0] - factors @ middle), tuple(map(float, factors)))


def newton(values: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Constant and factors of least weighted log loss; all but the constant are held small by the ridge."""
    columns = np.column_stack([np.ones(len(values)), values])
    ridge = RIDGE * np.eye(columns.shape[1])
    ridge[0, 0] = 0.0
    found = np.zeros(columns.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-columns @ found))
        slope = columns.T @ (weights * (chance - right)) + ridge @ found
        bend = (columns * (weights * chance * (1 - chance))[:, None]).T @ columns + ridge
        step = np.linalg.solve(bend, slope)
        found = found - step
        if np.abs(step).max() < CLOSE:
            break
    return found


def rates(model: Model, corpus: Corpus, gate: float) -> Rates:
    """What the gate lets pass of one corpus."""

    def passed(candidates: Sequence[Candidate]) -> list[Candidate]:
        return [one for one in candidates[:OFFERED] if model.logit(one) >= gate]

    def share(kind: str, only_right: bool) -> float:
        found = [any(one["right"] or not only_right for one in passed(candidates)) for candidates in corpus[kind]]
        return sum(found) / len(found) if found else float("nan")

    return Rates(share("answerable", True), share("held_out", False), share("foreign", False))


def serves(corpus: Corpus, names: tuple[str, ...]) -> bool:
    """Whether a right candidate has the numbers: a model by meaning says nothing of items without vectors."""
    return any(
        one["right"] and all(name in one for name in names) for candidates in corpus["answerable"] for one in candidates
    )


def left_out(corpora: Mapping[str, Corpus], names: tuple[str, ...], gate: float) -> dict[str, Rates]:
    """For each corpus, the rates on it of the model fitted on all the others."""
    return {
        name: rates(fit([other for one, other in corpora.items() if one != name], names), corpus, gate)
        for name, corpus in corpora.items()
        if len(corpora) > 1
    }
