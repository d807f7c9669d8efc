"""Which of several commands a language model chooses, from what it says of each one's tokens. Pure.

The score is pointwise mutual information: log P(command | context) - log P(command | neutral context), each the sum
over the command's tokens. It asks how much what was learnt raises a command above what it has anyway. The plain
likelihood follows length and common words, its mean a token follows long commands, and decoding greedily along the
candidates follows their first tokens; these three are here to be measured beside it. (Holtzman et al. 2021, "Surface
Form Competition".)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

Method = Literal["pmi", "loglik", "mean", "greedy"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)


class ScoringError(ValueError):
    """What a scorer returned cannot be compared; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what a model reads. `special` marks the chat template's own signs; any other text is only text, also
    where it spells such a sign."""

    text: str
    special: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate's tokens, its end of turn last, and the natural logarithm of each one's probability after those
    before it."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]

    def total(self) -> float:
        return math.fsum(self.logprobs)


class Scorer(Protocol):
    """A language model that says how probable texts are."""

    @property
    def name(self) -> str:
        """The model's name, as a run reports it."""

    def score(self, context: Sequence[Piece], texts: Sequence[str]) -> Sequence[Scored]:
        """Return what the model says of each text as the whole answer to `context`, in the order given.

        The same arguments give the same numbers, whatever was asked before. Raises ScoringError.
        """

    def versions(self) -> Mapping[str, str]:
        """Return what the numbers depend on, by name."""

    def close(self) -> None:
        """Give the model's memory back."""


def values(method: Method, conditional: Sequence[Scored], neutral: Sequence[Scored] = ()) -> tuple[float, ...]:
    """Return each candidate's score; the highest is chosen. `neutral` counts for "pmi" alone.

    Raises ScoringError for none, for a candidate without tokens, for numbers that are no log-probabilities, and when
    the two say different things of a candidate's tokens.
    """
    if not conditional:
        raise ScoringError("there is no candidate to choose from: give at least one command")
    for place, one in enumerate((*conditional, *neutral)):
        _check(place % len(conditional), one)
    if method == "loglik":
        return tuple(one.total() for one in conditional)
    if method == "mean":
        return tuple(one.total() / len(one.logprobs) for one in conditional)
    if method == "greedy":
        reached = _greedy(conditional)
        return tuple(float(place in reached) for place in range(len(conditional)))
    if [one.tokens for one in conditional] != [one.tokens for one in neutral]:
        raise ScoringError("the neutral scores are of other candidates: score the same texts in both contexts")
    return tuple(one.total() - other.total() for one, other in zip(conditional, neutral, strict=True))


def highest(scores: Sequence[float], lots: Sequence[bytes]) -> int:
    """Return the place of the highest score, of equal ones that of the highest lot. Raises ScoringError for none."""
    if not scores:
        raise ScoringError("there is no candidate to choose from: give at least one command")
    return max(range(len(scores)), key=lambda place: (scores[place], lots[place]))


def _check(place: int, one: Scored) -> None:
    if not one.tokens or len(one.tokens) != len(one.logprobs):
        raise ScoringError(f"candidate {place} has {len(one.tokens)} tokens and {len(one.logprobs)} scores")
    if not all(math.isfinite(value) and value <= 1e-3 for value in one.logprobs):
        raise ScoringError(f"candidate {place} has a score that is no log-probability")


def _greedy(candidates: Sequence[Scored]) -> list[int]:
    """Return the candidates that are reached by taking, token by token, the likeliest of those still possible: one, or
    several of the same tokens."""
    possible = list(range(len(candidates)))
    position = 0
    # The last token ends a turn and stands nowhere else, so no candidate that is still possible is shorter.
    while any(candidates[place].tokens != candidates[possible[0]].tokens for place in possible):
        at = {place: candidates[place] for place in possible}
        likeliest = max(possible, key=lambda place: (at[place].logprobs[position], at[place].tokens[position]))
        possible = [place for place in possible if at[place].tokens[position] == at[likeliest].tokens[position]]
        position += 1
    return possible
