"""Decides which questions a corpus is asked: those an item answers, and as many that none does.

The questions without an answer are of these kinds. `held_out`: a question of the corpus itself while its own item is
not there, which is the hardest case, as all that stands near it stays. `without_item`: the same by nature, as the
corpus has no item of the rule that the pair names. `foreign`: a failure of another field, from the list of failures
nobody wrote a rule for and from corpora about other things. Which ones is decided by a hash of the text, so every
run asks the same. Pure.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from contract.text import clip
from knowledge.evaluation.pairs import Pair
from knowledge.find_hints.findings import HintQuery

Kind = Literal["answerable", "held_out", "without_item", "foreign"]

SEED: Final = "retrieval-1"
TRIGGER: Final = "tool.failed"
TOOL: Final = "shell"
ERROR_CLASS: Final = "exit_nonzero"  # what the kernel's shell says of a command that ended with another status than 0
QUERY_LIMIT: Final = 4_096  # code points, as the kernel clips
TOOL_RESULT_LIMIT: Final = 8_192  # code points, as the kernel clips
OFFER_LIMIT: Final = 8  # hints a kernel asks for
RANKED_LIMIT: Final = 20  # most that FindHints gives; rankings are judged to this depth


@dataclass(frozen=True, slots=True)
class Question:
    """A pair as it is asked."""

    kind: Kind
    pair: Pair

    @property
    def right(self) -> str:
        """The item that answers and is there, empty when none is."""
        return (self.pair.rule or "") if self.kind == "answerable" else ""

    @property
    def taken_away(self) -> str:
        """The item that is not there while this is asked, empty when nothing is taken away."""
        return (self.pair.rule or "") if self.kind == "held_out" else ""


@dataclass(frozen=True, slots=True)
class Questions:
    """All that a corpus is asked. `answerable` and `without_item` together are its pairs with a rule."""

    answerable: tuple[Question, ...]
    held_out: tuple[Question, ...]
    without_item: tuple[Question, ...]
    foreign: tuple[Question, ...]

    @property
    def all(self) -> tuple[Question, ...]:
        return self.answerable + self.held_out + self.without_item + self.foreign

    @property
    def rules_without_item(self) -> list[str]:
        return sorted({question.pair.rule or "" for question in self.without_item})


def questions_of(
    pairs: Sequence[Pair], item_ids: Collection[str], foreign: Sequence[Sequence[Pair]], sample: int | None = None
) -> Questions:
    """Return what to ask: all pairs with a rule (or `sample` of them), and as many without an answer as have one.

    Half of these are held out, those whose rule has no item among them. The other half are the pairs' own rows
    without a rule, then as many of each of the `foreign` lists; a rule that has an item here makes a pair not
    foreign. Where these are too few, more are held out.
    """
    ruled = [pair for pair in pairs if pair.rule]
    asked = drawn(ruled, len(ruled) if sample is None else sample)
    answerable = [pair for pair in asked if pair.rule in item_ids]
    without_item = [pair for pair in asked if pair.rule not in item_ids]
    n_foreign = len(answerable) - max(len(answerable) // 2, len(without_item))
    strangers = drawn([pair for pair in pairs if not pair.rule], n_foreign)
    here = {(pair.command, pair.output) for pair in pairs}
    pools = [
        [one for one in pool if one.rule not in item_ids and (one.command, one.output) not in here] for pool in foreign
    ]
    strangers += drawn_from_each(pools, n_foreign - len(strangers))
    held_out = drawn(answerable, len(answerable) - len(without_item) - len(strangers), "held out")
    return Questions(
        answerable=tuple(Question("answerable", pair) for pair in answerable),
        held_out=tuple(Question("held_out", pair) for pair in held_out),
        without_item=tuple(Question("without_item", pair) for pair in without_item),
        foreign=tuple(Question("foreign", pair) for pair in strangers),
    )


def drawn(pairs: Sequence[Pair], count: int, salt: str = "") -> list[Pair]:
    """Return `count` of the pairs, or all there are, in their order: those whose text hashes lowest."""
    places = sorted(range(len(pairs)), key=lambda place: (_hash(pairs[place], salt), place))
    return [pairs[place] for place in sorted(places[: max(0, count)])]


def drawn_from_each(pools: Sequence[Sequence[Pair]], count: int) -> list[Pair]:
    """Return `count` pairs, as many of each pool; what a small one lacks the larger ones give."""
    found: list[Pair] = []
    for place, pool in enumerate(sorted(pools, key=len)):
        found += drawn(pool, (count - len(found)) // (len(pools) - place))
    return found


def _hash(pair: Pair, salt: str) -> str:
    text = "\x1f".join((SEED, salt, pair.rule or "", pair.command, pair.output))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def hint_query(pair: Pair, number: int, limit: int, task: str = "") -> HintQuery:
    """Return the request of a kernel whose shell tool failed with this output.

    Its task is the command line, unless another one is given: the reference kernel sends the task of the run.
    """
    return HintQuery(
        run_id="evaluation",
        activation_id=f"evaluation:a{number}",
        trigger=TRIGGER,
        query=clip(task or pair.command, QUERY_LIMIT),
        tool=TOOL,
        tool_result=clip(pair.output, TOOL_RESULT_LIMIT),
        error_class=ERROR_CLASS,
        limit=limit,
    )
