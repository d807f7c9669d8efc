"""Selection within a budget: order kept, sizes measured on the finished block, every drop with its numbers."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.text import estimate_tokens
from kernel.core.budget import Room, select, withheld
from kernel.messages import Hint
from kernel.testing import hint


def render(hints: Sequence[Hint]) -> str:
    """A block of 40 code points (10 tokens) and 4 for each word of a hint."""
    return "H" * 40 + "".join(one.proposition for one in hints) if hints else ""


def sized(knowledge_id: str, tokens: int) -> Hint:
    return hint(knowledge_id, "x" * 4 * tokens)


def room(hints: int = 9, activation: int = 400, run: int = 1_600, limit: int = 1_600) -> Room:
    return Room(hints, activation, run, limit)


@pytest.mark.parametrize(
    ("hints", "space", "issued", "selected", "drops"),
    [
        ((), room(), (), [], []),
        ((sized("a", 50), sized("b", 50)), room(), (), ["a", "b"], []),
        ((sized("a", 390),), room(), (), ["a"], []),
        ((sized("a", 391),), room(), (), [], [("a", "activation_tokens", 401, 400, 400)]),
        # A hint that does not fit costs the ones after it nothing.
        (
            (sized("a", 300), sized("b", 200), sized("c", 90)),
            room(),
            (),
            ["a", "c"],
            [("b", "activation_tokens", 200, 90, 400)],
        ),
        ((sized("a", 50), sized("b", 50)), room(hints=1), (), ["a"], [("b", "hint_limit", 1, 0, 1)]),
        ((sized("a", 50),), room(hints=0), (), [], [("a", "hint_limit", 1, 0, 0)]),
        ((sized("a", 100),), room(run=100), (), [], [("a", "run_tokens", 110, 100, 1_600)]),
        (
            (sized("a", 50), sized("b", 60)),
            room(run=100),
            (),
            ["a"],
            [("b", "run_tokens", 60, 40, 1_600)],
        ),
        ((sized("a", 50),), room(activation=0), (), [], [("a", "activation_tokens", 60, 0, 0)]),
        ((sized("a", 50),), room(), ("a",), [], [("a", "already_issued", None, None, None)]),
        ((sized("a", 50), sized("a", 50)), room(), (), ["a"], [("a", "already_issued", None, None, None)]),
    ],
)
def test_selection(
    hints: tuple[Hint, ...], space: Room, issued: tuple[str, ...], selected: list[str], drops: list[tuple[object, ...]]
) -> None:
    """Greedy in the order offered; what does not fit is dropped with what it needed of what was left of which limit."""
    found = select(hints, space, issued, render)
    assert [one.knowledge_id for one in found.selected] == selected
    assert [(d.hint.knowledge_id, d.reason, d.needed, d.left, d.limit) for d in found.drops] == drops
    assert found.tokens == estimate_tokens(found.block) == sum(found.cue_tokens)
    assert found.block == render(found.selected)


@pytest.mark.parametrize("estimate", [lambda text: 1 // 0, lambda text: -1, lambda text: "12", lambda text: True])
def test_an_estimate_that_fails_does_not_fit(estimate: object) -> None:
    """A size that cannot be had is never taken for free."""
    found = select((sized("a", 5),), room(), (), render, estimate)  # type: ignore[arg-type]
    assert (found.selected, found.block, found.tokens) == ((), "", 0)
    assert [(drop.reason, drop.alone) for drop in found.drops] == [("estimate_failed", None)]


@given(
    st.lists(st.integers(1, 500), max_size=8),
    st.integers(0, 4),
    st.integers(0, 600),
    st.integers(0, 1_600),
)
def test_a_selection_is_within_every_limit(sizes: list[int], n: int, activation: int, run: int) -> None:
    """Whatever is offered: in order, within hints and tokens, and every hint is either in or dropped, never both."""
    hints = tuple(sized(f"k-{index}", size) for index, size in enumerate(sizes))
    found = select(hints, Room(n, activation, run, 1_600), (), render)
    assert len(found.selected) <= n
    assert found.tokens <= min(activation, run)
    places = [hints.index(one) for one in found.selected]
    assert all(before < after for before, after in pairwise(places))
    both = [*found.selected, *(drop.hint for drop in found.drops)]
    assert sorted(both, key=hints.index) == list(hints)


def test_withheld_keeps_the_other_reasons() -> None:
    """What would have gone in is dropped for the reason given; what would not, for its own."""
    found = withheld(select((sized("a", 50), sized("b", 500)), room(), (), render), "shadow")
    assert (found.selected, found.block, found.tokens) == ((), "", 0)
    assert [(d.hint.knowledge_id, d.reason) for d in found.drops] == [("a", "shadow"), ("b", "activation_tokens")]
