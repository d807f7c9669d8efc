"""The terms of an item with their weights, and how they are stored: a text that is cheap to look into. Pure."""

from collections.abc import Mapping, Set

Bag = Mapping[str, float]


def parse_bag(bag: str) -> dict[str, float]:
    """Return the terms of a stored bag with their weights."""
    words = bag.split(" ")
    return {term: float(weight) for term, weight in zip(words[1::2], words[2::2], strict=True)}


def write_bag(bag: Bag) -> str:
    """Return a bag as it is stored: the sum of the weights, then each term and its weight."""
    return " ".join((f"{sum(bag.values()):g}", *(f"{term} {weight:g}" for term, weight in sorted(bag.items()))))


def weights_in(bag: str, wanted: Set[str]) -> tuple[dict[str, float], float]:
    """Return the weights of the wanted terms that a stored bag has, and the sum of all its weights."""
    words = bag.split(" ")
    weights = dict(zip(words[1::2], words[2::2], strict=True))
    return {term: float(weights[term]) for term in wanted & weights.keys()}, float(words[0])
