"""The fit of the gate's constants: it finds the model that made the data, and takes numbers from the search itself."""

import math
import random

import pytest

from bench.gate_fit import Corpus, Model, fit, left_out, rates, serves
from bench.gate_numbers import numbers_of
from knowledge.drafts import ItemDraft
from knowledge.evaluation.data_sets import DataSet
from knowledge.evaluation.pairs import Pair
from knowledge.models import KnowledgeItem

NAMES = ("cosine", "overlap")
MADE = Model(NAMES, -4.0, (6.0, 2.0))


def made_up(seed: int, n: int = 1_500) -> Corpus:
    """Candidates that are right as often as the model that is to be found says."""
    draws = random.Random(seed)

    def candidate() -> dict[str, float]:
        numbers = {"cosine": draws.random(), "overlap": draws.random()}
        return {**numbers, "right": float(draws.random() < 1 / (1 + math.exp(-MADE.logit(numbers))))}

    return {kind: [[candidate() for _ in range(5)] for _ in range(n)] for kind in ("answerable", "held_out", "foreign")}


def test_the_model_that_made_the_data_is_found() -> None:
    """Constant and factors come near those that decided what is right, and the same data gives the same model."""
    corpora = [made_up(1), made_up(2)]
    found = fit(corpora, NAMES)
    assert (found.constant, *found.factors) == pytest.approx((-4.0, 6.0, 2.0), abs=0.2)
    assert fit(corpora, NAMES) == found


def test_the_constant_is_moved_so_that_the_gate_is_at_a_half() -> None:
    """A candidate at the chosen logit has a confidence of 0.5 with the constants that are printed."""
    constant, cosine, overlap = MADE.with_gate_at_half(-2.6)
    at_gate = {"cosine": 0.1, "overlap": (-2.6 + 4.0 - 0.6) / 2.0}
    assert MADE.logit(at_gate) == pytest.approx(-2.6)
    assert constant + cosine * at_gate["cosine"] + overlap * at_gate["overlap"] == pytest.approx(0.0)


def test_rates_are_counted_by_question() -> None:
    """Passed counts the right item alone, near misses and foreign questions any; a missing number passes nothing."""
    strong, weak = {"cosine": 1.0, "overlap": 1.0}, {"cosine": 0.0, "overlap": 0.0}
    corpus: Corpus = {
        "answerable": [[{**strong, "right": 1.0}], [{**strong, "right": 0.0}, {**weak, "right": 1.0}]],
        "held_out": [[{**strong, "right": 0.0}]],
        "foreign": [[], [{**weak, "right": 0.0}], [{"overlap": 9.0, "right": 0.0}], [{**strong, "right": 0.0}]],
    }
    found = rates(MADE, corpus, 0.0)
    assert (found.right, found.near_miss, found.foreign) == (0.5, 1.0, 0.25)
    assert serves(corpus, NAMES)
    assert not serves(corpus, ("share",))


def test_a_corpus_left_out_is_judged_by_the_others() -> None:
    """What is judged had no part in its model: turning its answers round changes its rates, not the model's."""
    corpora = {"one": made_up(1, 300), "two": made_up(2, 300)}
    found = left_out(corpora, NAMES, -1.0)
    assert found["one"] == rates(fit([corpora["two"]], NAMES), corpora["one"], -1.0)
    assert left_out({"one": corpora["one"]}, NAMES, -1.0) == {}


@pytest.mark.django_db
def test_numbers_come_from_the_search_itself() -> None:
    """The right item is marked where it is there, taken away it is gone, and nothing of it stays."""
    drafts = (
        ItemDraft("flux", "When the flux overheats run `cool --now`.", state="confirmed"),
        ItemDraft("tide", "A tide table is read from the harbour office.", state="confirmed"),
    )
    pairs = (Pair("flux", "flux --start", "fatal: the flux overheats"),)
    strangers = (Pair(None, "bake", "the oven is cold"),)
    found = numbers_of(DataSet("own", drafts, pairs, (strangers,)), 10)
    for way in ("meaning", "words"):
        assert found[way]["answerable"][0][0]["right"] == 1.0
        assert all(one["right"] == 0.0 for one in found[way]["held_out"][0])
        assert len(found[way]["foreign"]) == 1
    assert "cosine" in found["meaning"]["answerable"][0][0]
    assert "cosine" not in found["words"]["answerable"][0][0]
    assert KnowledgeItem.objects.count() == 0
