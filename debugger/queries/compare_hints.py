"""What two runs knew: hints that became of differently in each, and situations with what came of them. Pure.

A hint is known by its item, a situation by its key: runs that failed alike have that in common. (Seed 001 §13, §14.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from contract import stages
from debugger.queries.pieces import one_line, plural
from knowledge.chain_facts import UNKNOWN_ITEM
from knowledge.models import Activation, Candidate

SHOWN: Final = 100  # lines of a list
HELD: Final = "held back"


@dataclass(frozen=True, slots=True)
class Fate:
    """How far a hint came in one run, and by which activation. `is_offered` unless it was held back."""

    word: str
    why: str
    outcome: str
    activation_id: str
    is_offered: bool

    @property
    def told(self) -> tuple[str, str, str]:
        return self.word, self.why, self.outcome


@dataclass(frozen=True, slots=True)
class HintLine:
    """An item that was offered in one run or both, and what became of it in each; None where it was not found."""

    knowledge_id: str
    proposition: str
    a: Fate | None
    b: Fate | None

    @property
    def word(self) -> str:
        """Say whose hint it is, or that it is both runs'."""
        of_a, of_b = (fate is not None and fate.is_offered for fate in (self.a, self.b))
        return "both" if of_a and of_b else "only in A" if of_a else "only in B"


@dataclass(frozen=True, slots=True)
class Met:
    """What came of a situation in one run: the search, the hints, and how it went on. `n_met` counts the times.

    `ended` is how the search ended, in a word: how many candidates it looked at is no outcome.
    """

    activation_id: str
    n_met: int
    ended: str
    searched: str
    hints: str
    went_on: str

    @property
    def told(self) -> tuple[str, str, str]:
        return self.ended, self.hints, self.went_on


@dataclass(frozen=True, slots=True)
class SituationLine:
    """A situation and what came of it in each run; None where it was not met."""

    trigger: str
    about: tuple[str, ...]
    a: Met | None
    b: Met | None

    @property
    def word(self) -> str:
        if self.a is None or self.b is None:
            return "only in B" if self.a is None else "only in A"
        return "same outcome" if self.a.told == self.b.told else "other outcome"


def hint_lines(a: Iterable[Candidate], b: Iterable[Candidate]) -> tuple[list[HintLine], int]:
    """Return the hints that became of differently, and how many became of the same in both."""
    fates_a, fates_b = _fates(a), _fates(b)
    lines, n_same = [], 0
    for knowledge_id in sorted({*fates_a, *fates_b}):
        fate_a, told_a = fates_a.get(knowledge_id, (None, ""))
        fate_b, told_b = fates_b.get(knowledge_id, (None, ""))
        if not any(fate is not None and fate.is_offered for fate in (fate_a, fate_b)):
            continue
        if fate_a is not None and fate_b is not None and fate_a.told == fate_b.told:
            n_same += 1
        else:
            lines.append(HintLine(knowledge_id, max(told_a, told_b, key=len), fate_a, fate_b))
    return lines, n_same


def _fates(candidates: Iterable[Candidate]) -> dict[str, tuple[Fate, str]]:
    """Return what became of each item, by the activation that brought it furthest."""
    furthest: dict[str, Candidate] = {}
    for one in sorted(candidates, key=lambda one: (one.activation_id, one.knowledge_id)):
        if one.knowledge_id.startswith(UNKNOWN_ITEM):
            continue
        other = furthest.get(one.knowledge_id)
        if other is None or _reached(one) > _reached(other):
            furthest[one.knowledge_id] = one
    return {name: (_fate(one), one_line(one.proposition)) for name, one in furthest.items()}


def _reached(one: Candidate) -> int:
    stamps = (one.offered_ns, one.selected_ns, one.injected_ns, one.used_ns)
    return max((place for place, stamp in enumerate(stamps, 1) if stamp is not None), default=0)


def _fate(one: Candidate) -> Fate:
    outcome = one.outcome
    if one.used_ns is not None:
        word, why = "injected and used", ""
    elif one.injected_ns is not None:
        word, why = "injected, not acted on" if one.ignored_ns is not None else "injected", ""
    elif one.dropped_ns is not None:
        word, why = "dropped", stages.DROP_REASONS.get(one.drop_reason, one.drop_reason or "no reason was reported")
    elif one.offered_ns is not None:
        word, why = "selected" if one.selected_ns is not None else "offered", ""
    else:
        word, why = HELD, stages.HOLD_REASONS.get(one.hold_reason, one.hold_reason)
    return Fate(word, why, outcome, one.activation_id, one.offered_ns is not None)


def situation_lines(
    a: tuple[Sequence[Activation], Sequence[Candidate]], b: tuple[Sequence[Activation], Sequence[Candidate]]
) -> list[SituationLine]:
    """Return all situations of two runs: those that both met first, of these the ones that came out differently."""
    met_a, met_b = _situations(a[0]), _situations(b[0])
    lines = []
    for key in dict.fromkeys((*met_a, *met_b)):
        first = (met_a.get(key) or met_b[key])[0]
        about = tuple(one_line(text, 160) for text in (first.mcp_server, first.tool, first.fingerprint) if text)
        of_a, of_b = (_met(met.get(key), candidates) for met, candidates in ((met_a, a[1]), (met_b, b[1])))
        lines.append(SituationLine(first.trigger, about, of_a, of_b))
    order = {"other outcome": 0, "same outcome": 1}
    return sorted(lines, key=lambda line: order.get(line.word, 2))


def _situations(activations: Iterable[Activation]) -> dict[str, list[Activation]]:
    """Return the activations by the situation they were for. One without a key is known by what it is about."""
    found: dict[str, list[Activation]] = {}
    for one in sorted(activations, key=lambda one: one.ordinal):
        if one.trigger or one.situation_key:
            about = (one.trigger, one.mcp_server or "", one.tool or "", one.fingerprint)
            found.setdefault(one.situation_key or "\x1f".join(about), []).append(one)
    return found


def _met(activations: Sequence[Activation] | None, candidates: Iterable[Candidate]) -> Met | None:
    if not activations:
        return None
    told = next((one for one in activations if not one.skip_reason), activations[0])
    of_it = [one for one in candidates if one.activation_id == told.activation_id]
    used = sum(one.used_ns is not None for one in of_it)
    outcomes = sorted({one.outcome for one in of_it if one.outcome})
    hints = f"{told.n_injected:,} of {told.n_offered:,} offered injected" + (f", {used:,} used" if used else "")
    resolved = {True: "resolved", False: "came back", None: ""}[told.resolved]
    return Met(
        activation_id=told.activation_id,
        n_met=len(activations),
        ended=told.skip_reason or ("withheld" if told.arm == "withheld" else told.result),
        searched=_searched(told),
        hints=hints if told.n_offered else "",
        went_on=", ".join(filter(None, (resolved, *outcomes))),
    )


def _searched(one: Activation) -> str:
    if one.skip_reason:
        return f"no search: {stages.SKIP_REASONS.get(one.skip_reason, one.skip_reason)}"
    if one.arm == "withheld":
        return "withheld on purpose"
    if one.result in ("timeout", "error"):
        return stages.ACTIVATION_RESULTS[one.result]
    if not one.result:
        return "not answered yet"
    if not one.n_retrieved:
        return "nothing known fits"
    return f"{plural(one.n_retrieved, 'candidate')} found" + ("" if one.n_offered else ", none offered")
