"""Draws in words: what a person reads of a holdout."""

import pytest

from knowledge.draws import draw_in_words, share_in_words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (None, ""),
        (0, "no situations"),
        (0.2, "1 in 5 situations"),
        (0.5, "1 in 2 situations"),
        (1 / 3, "1 in 3 situations"),
        (0.001, "1 in 1,000 situations"),
        (0.0001, "0.01 % of situations"),
        (0.3, "30 % of situations"),
        (0.725, "72.5 % of situations"),
        (1, "all situations"),
        (1e-320, "1e-318 % of situations"),
    ],
)
def test_shares_read_as_odds_or_percent(share: float | None, words: str) -> None:
    """A share that is one in so many is said so, any other in percent."""
    assert share_in_words(share) == words


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (("", "spring", 0.2, 212), ""),
        (
            ("withheld", "spring", 0.2, 212),
            "withheld on purpose (experiment spring, 1 in 5 situations): it would have taken 212 tokens",
        ),
        (("withheld", "", 0.3, 1), "withheld on purpose (30 % of situations): it would have taken 1 token"),
        (("withheld", "", None, None), "withheld on purpose"),
        (
            ("offered", "spring", 0.2, 212),
            "the draw let the hints go in (experiment spring, 1 in 5 situations is withheld)",
        ),
        (("offered", "", 0.3, 212), "the draw let the hints go in (30 % of situations are withheld)"),
        (("offered", "", None, None), "the draw let the hints go in"),
        (("third", "", 0.5, 9), "third (1 in 2 situations is withheld)"),
    ],
)
def test_draws_are_told_with_experiment_share_and_price(
    draw: tuple[str, str, float | None, int | None], words: str
) -> None:
    """What is known is said and nothing else; no arm is no draw; an unknown arm speaks for itself."""
    assert draw_in_words(*draw) == words
