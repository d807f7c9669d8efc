"""Decides which questions a corpus is asked: those an item answers, as many nothing is known about, and near misses.

`answerable`: an item answers. `foreign`: a failure or task that nothing in the corpus is about, from the list of those
nobody wrote a rule for and from corpora about other things; as many as answerable ones, or all there are. A hint there
is a false injection: nothing offered can be about what happened.

`held_out`: an answerable question once more while its own item is not there. `without_item`: the same by nature, as
the corpus has no item of the rule that the pair names. These two are near misses, and the harder question: what stood
beside the right item stays, often a sibling rule about the same tool or even the same failure, which a person might
take for help. So they are told apart from false injections, beside them and never left out. What limits the figure:
words and vectors are compared, no model here reads a rule and an output together, and that a rule is about nearly the
same thing shows in neither. A held-out question costs a savepoint with deletions, so at most HELD_OUT_MOST are asked.

Which questions are taken where not all are is decided by a hash of the text, so every run asks the same. Pure.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from contract.hint_api import DEFAULT_HINTS, MAX_HINTS, QUERY_LIMIT, TOOL_ARGUMENTS_LIMIT, TOOL_RESULT_LIMIT
from contract.text import clip
from knowledge.evaluation.pairs import Pair
from knowledge.find_hints.findings import HintQuery

Kind = Literal["answerable", "held_out", "without_item", "foreign"]

SEED: Final = "retrieval-1"
HELD_OUT_MOST: Final = 400
PRIMING: Final = "task.priming"
FAILED: Final = "tool.failed"
TOOL: Final = "shell"
ERROR_CLASS: Final = "exit_nonzero"  # what the kernel's shell says of a command that ended with another status than 0
OFFER_LIMIT: Final = DEFAULT_HINTS  # hints a kernel asks for
RANKED_LIMIT: Final = MAX_HINTS  # most that FindHints gives; rankings are judged to this depth


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
    pairs: Sequence[Pair],
    item_ids: Collection[str],
    foreign: Sequence[Sequence[Pair]],
    sample: int | None = None,
    *,
    foreign_least: int = 0,
) -> Questions:
    """Return what to ask: all pairs with a rule, or `sample` of them, and what goes with these.

    Foreign are the pairs' own rows without a rule, then as many of each of the `foreign` lists; a rule that has an
    item here makes a pair not foreign. They are as many as the answerable ones, or `foreign_least` if that is more.
    """
    ruled = [pair for pair in pairs if pair.rule]
    asked = drawn(ruled, len(ruled) if sample is None else sample)
    answerable = [pair for pair in asked if pair.rule in item_ids]
    n_foreign = max(len(answerable), foreign_least)
    strangers = drawn([pair for pair in pairs if not pair.rule], n_foreign)
    here = {(pair.command, pair.output) for pair in pairs}
    pools = [
        [one for one in pool if one.rule not in item_ids and (one.command, one.output) not in here] for pool in foreign
    ]
    strangers += drawn_from_each(pools, n_foreign - len(strangers))
    return Questions(
        answerable=_asked("answerable", answerable),
        held_out=_asked("held_out", drawn(answerable, HELD_OUT_MOST, "held out")),
        without_item=_asked("without_item", [pair for pair in asked if pair.rule not in item_ids]),
        foreign=_asked("foreign", strangers),
    )


def _asked(kind: Kind, pairs: Sequence[Pair]) -> tuple[Question, ...]:
    return tuple(Question(kind, pair) for pair in pairs)


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
    """Return the request of a kernel: when a run begins with this task, or when its shell tool failed with this output.

    Of a failed call the command line is the task, unless another one is given: then the command is what the tool was
    called with.
    """
    asked = HintQuery("evaluation", f"evaluation:a{number}", PRIMING, clip(pair.command, QUERY_LIMIT), limit=limit)
    if pair.is_task:
        return asked
    return replace(
        asked,
        trigger=FAILED,
        query=clip(task or pair.command, QUERY_LIMIT),
        tool=TOOL,
        tool_arguments=clip(pair.command, TOOL_ARGUMENTS_LIMIT) if task else "",
        tool_result=clip(pair.output, TOOL_RESULT_LIMIT),
        error_class=ERROR_CLASS,
    )
