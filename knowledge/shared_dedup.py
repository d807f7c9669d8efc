"""Searches for one activation so that it is offered nothing that another one of the same boundary is offered.

An item counts by its id and by its text: one that says the same, or almost the same, as a hint of another activation
is held back as a double of it, and what comes next takes its place. This stands around every version of FindHints, so
a frozen one need not know of it. (Seed 001 §9.1, §12.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.conf import settings

from knowledge.find_hints import find_hints, v2
from knowledge.find_hints.findings import Finding, Findings, HintQuery

ROUNDS: Final = 4  # searches of one activation; after that doubles are held back and not replaced
OFFERED: Final = "offered_in_batch"


@dataclass(frozen=True, slots=True)
class Offered:
    """What the other activations of a boundary were offered: ids, and the rules as texts."""

    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def with_hints(self, hints: Iterable[Mapping[str, Any]]) -> "Offered":
        """Return this with the hints of one more answer."""
        told = [(hint["knowledge_id"], hint["proposition"]) for hint in hints]
        return Offered(
            (*self.ids, *(knowledge_id for knowledge_id, _ in told)), (*self.texts, *(text for _, text in told))
        )


@dataclass(frozen=True, slots=True)
class _Double:
    """Why a hint repeats one that was offered, and how like it is: 1 is the same text."""

    reason: str
    similarity: float


def search(project_id: int, query: HintQuery, offered: Offered) -> Findings:
    """Return what FindHints finds for one activation of a boundary whose other ones were `offered`."""
    doubles: dict[str, _Double] = {}
    for _ in range(ROUNDS):
        held = replace(query, offered_before=(*offered.ids, *doubles))
        findings = find_hints(project_id, held, settings.HINTS_ALGORITHM)
        found = _doubles(findings.offered, offered.texts)
        if not found:
            return _named(findings, doubles)
        doubles |= found
    return _named(findings, doubles)


def _doubles(hints: Iterable[Finding], texts: Sequence[str]) -> dict[str, _Double]:
    """Return those of the hints that repeat one of the texts, by their id."""
    if not texts:
        return {}
    known = [(_plain(text), set(v2.tokens(text))) for text in texts]
    found: dict[str, _Double] = {}
    for hint in hints:
        plain, words = _plain(hint.item.proposition), set(v2.tokens(hint.item.proposition))
        if any(plain == other for other, _ in known):
            found[hint.item.knowledge_id] = _Double("duplicate_text", 1.0)
            continue
        closest = max(_similarity(words, other) for _, other in known)
        if closest >= v2.NEAR_DUPLICATE:
            found[hint.item.knowledge_id] = _Double("near_duplicate", closest)
    return found


def _named(findings: Findings, doubles: Mapping[str, _Double]) -> Findings:
    """Return the findings with the doubles held back by their own reason, those offered before those held."""
    if not doubles:
        return findings
    judged = [_as_double(one, doubles.get(one.item.knowledge_id)) for one in findings.candidates]
    ordered = sorted(judged, key=lambda one: bool(one.hold_reason))
    return replace(findings, candidates=tuple(replace(one, rank=rank) for rank, one in enumerate(ordered, 1)))


def _as_double(finding: Finding, double: _Double | None) -> Finding:
    if double is None or finding.hold_reason not in ("", OFFERED):
        return finding
    scores = {**finding.scores, "similarity": round(double.similarity, 4)}
    return replace(finding, hold_reason=double.reason, scores=scores)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _similarity(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0
