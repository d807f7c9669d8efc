"""Tries a query on a project's knowledge and puts every result, and every item held back, into words.

Nothing is written: no telemetry, no kept answer, and the query's text stays in the request. (Seed 001 §7, §13.)
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contract import stages
from contract.text import estimate_tokens
from debugger.queries.knowledge_moves import STATE_TONES
from debugger.queries.pieces import Piece, one_line
from knowledge.find_hints import explain_absence, find_hints
from knowledge.find_hints.findings import Finding, Findings, HintQuery
from knowledge.models import KnowledgeItem

HELD_SHOWN: Final = 30  # candidates held back that are explained; the rest are counted
NEAREST: Final = 5  # of them shown at once

# How each part of a score is called, and what it says. Of an unknown one the name is shown.
PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "score": ("score", "what the results are ranked by"),
    "confidence": ("confidence", "how sure the match is; the gate, marked on the bar, compares it"),
    "lexical": ("shared words", "the words both have, rare ones counting more"),
    "share": ("of the query", "how much of what the query says the item has"),
    "overlap": ("overlap", "the words both have, beside the length of the rule"),
    "cosine": ("meaning", "how near the meaning is, by embedding"),
    "tier": ("tier", "0 an entity, 1 a topic, 2 a whole phrase, 3 shared terms; lower ranks first"),
    "shared_terms": ("shared terms", "words that a line of what happened and the item share"),
}
COUNTS: Final = ("tier", "shared_terms")  # whole numbers: no bar

# How a match reason is told, by the whole of it or by the word before its colon.
MATCHES: Final[Mapping[str, str]] = {
    "fingerprint:error example": "the same error as its example",
    "phrase:error example": "its error example stands whole in it",
    "phrase:query": "the query stands whole in the rule",
    "entity": "names",
    "topic": "is about",
    "phrase": "same phrase",
    "terms": "shared terms",
    "fingerprint": "same error",
    "code": "same error code",
    "server": "is for the server",
    "meaning": "near in meaning",
}


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part of a score: its number, how much of its bar is filled and where the gate is, in thousandths.

    Both are None where there is nothing to draw.
    """

    name: str
    label: str
    meaning: str
    value: float
    filled: int | None
    gate: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One candidate in words. `decided` is what the reason rests on: the number, the scope, the state."""

    knowledge_id: str
    revision: int
    rank: int
    state: str
    tone: str
    proposition: str
    caution: str
    tokens: int
    matched: tuple[Piece, ...]
    replaces: str
    parts: tuple[ScorePart, ...]
    reason: str
    reason_meaning: str
    decided: str

    @property
    def is_offered(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Tried:
    """The answer to a tried query. `tokens` are those of the rules offered."""

    version: str
    legs: tuple[str, ...]
    gate: float | None
    took_ms: float
    offered: tuple[Result, ...]
    held: tuple[Result, ...]
    n_unshown: int
    tokens: int
    notes: tuple[str, ...] = ()

    @property
    def nearest(self) -> tuple[Result, ...]:
        return self.held[:NEAREST]

    @property
    def further(self) -> tuple[Result, ...]:
        return self.held[NEAREST:]

    @property
    def n_held(self) -> int:
        return len(self.held) + self.n_unshown


def try_query(project_id: int, query: HintQuery, version: str, *, gated: bool) -> Tried:
    """Run FindHints and explain what it found. Raises KeyError for an unknown version."""
    started = time.perf_counter()
    findings = find_hints(project_id, query, version, gated=gated)
    took_ms = (time.perf_counter() - started) * 1_000
    return explain(query, findings, took_ms)


def explain(query: HintQuery, findings: Findings, took_ms: float) -> Tried:
    """Put the findings of a query into words. Pure."""
    most = _largest(findings.candidates)
    results = [_result(query, findings, finding, most) for finding in findings.candidates]
    offered = tuple(result for result in results if result.is_offered)
    held = tuple(result for result in results if not result.is_offered)
    return Tried(
        findings.version,
        tuple(findings.matcher.split("+")),
        findings.gate,
        took_ms,
        offered,
        held[:HELD_SHOWN],
        len(held[HELD_SHOWN:]),
        sum(result.tokens for result in offered),
        findings.notes,
    )


def _largest(candidates: Sequence[Finding]) -> Mapping[str, float]:
    """Return what fills a bar: 1, or the largest value of a part that goes beyond it."""
    most: dict[str, float] = {}
    for finding in candidates:
        for name, value in finding.scores.items():
            most[name] = max(most.get(name, 1.0), value)
    return most


def _result(query: HintQuery, findings: Findings, finding: Finding, most: Mapping[str, float]) -> Result:
    item = finding.item
    replaces = [reason.partition(":")[2] for reason in finding.matched_by if reason.startswith("replaces:")]
    return Result(
        knowledge_id=item.knowledge_id,
        revision=item.revision,
        rank=finding.rank,
        state=item.state,
        tone=STATE_TONES.get(item.state, ""),
        proposition=item.proposition,
        caution=item.caution,
        tokens=estimate_tokens(item.proposition),
        matched=tuple(_apart(_matched(reason) for reason in finding.matched_by)),
        replaces=replaces[0] if replaces else "",
        parts=tuple(_part(name, value, most, _needed(findings, finding)) for name, value in _ordered(finding.scores)),
        reason=finding.hold_reason,
        reason_meaning=stages.HOLD_REASONS.get(finding.hold_reason, finding.hold_reason),
        decided=_decided(query, findings, finding),
    )


def _matched(reason: str) -> Iterator[Piece]:
    """Yield a match reason in words: what kind of match, then what it was."""
    kind, _, what = reason.partition(":")
    if kind == "replaces":
        return
    if reason in MATCHES:
        yield Piece(MATCHES[reason], "soft")
        return
    yield Piece(MATCHES.get(kind, kind.replace("_", " ")), "soft")
    if what:
        yield Piece(one_line(what, 160), "mono")


def _apart(reasons: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    """Yield the pieces of all reasons with a dot between two of them."""
    is_first = True
    for pieces in map(tuple, reasons):
        if pieces and not is_first:
            yield Piece("·", "soft")
        yield from pieces
        is_first = is_first and not pieces


def _ordered(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    places = {name: place for place, name in enumerate(PARTS)}
    shown = ((name, value) for name, value in scores.items() if name != "needed")
    return sorted(shown, key=lambda pair: (places.get(pair[0], len(places)), pair[0]))


def _part(name: str, value: float, most: Mapping[str, float], gate: float | None) -> ScorePart:
    label, meaning = PARTS.get(name, (name.replace("_", " "), ""))
    if name in COUNTS:
        return ScorePart(name, label, meaning, value, None)
    whole = most.get(name) or 1.0
    filled = round(1_000 * min(1.0, max(0.0, value / whole)))
    marked = round(1_000 * gate) if name == "confidence" and gate else None
    return ScorePart(name, label, meaning, value, filled, marked)


def _needed(findings: Findings, finding: Finding) -> float | None:
    """Return the confidence a candidate needs: the gate, or more where the version says so."""
    return finding.scores.get("needed", findings.gate)


def _decided(query: HintQuery, findings: Findings, finding: Finding) -> str:
    """Return what a hold reason rests on, "" when the reason says it all."""
    item = finding.item
    if finding.hold_reason == "gate":
        return _against_gate(finding.scores.get("confidence"), _needed(findings, finding))
    if finding.hold_reason == "near_duplicate" and "similarity" in finding.scores:
        return f"{finding.scores['similarity']:.0%} of its words are those of the other"
    if finding.hold_reason == "scope_mismatch":
        return _scope(query, finding)
    words = {
        "limit": f"at most {query.limit} were asked for",
        "retired": f"it is {item.state}" + (f", replaced by {item.replaced_by}" if item.replaced_by else ""),
        "ineligible_state": f"it is {item.state.replace('_', ' ')}",
        "suspended": f"it is kept from {query.trigger}",
        "topic_cap": f"the topic is {one_line(item.topics[0], 80)}" if item.topics else "",
    }
    return words.get(finding.hold_reason, "")


def _against_gate(confidence: float | None, gate: float | None) -> str:
    """Return both numbers with as many digits as it takes to tell them apart."""
    if confidence is None or gate is None:
        return ""
    digits = next((n for n in (2, 3) if f"{confidence:.{n}f}" != f"{gate:.{n}f}" and gate >= 10.0**-n), 4)
    return f"confidence {confidence:.{digits}f}, needed {gate:.{digits}f}"


def _scope(query: HintQuery, finding: Finding) -> str:
    item = finding.item
    pairs = (
        ("trigger", item.trigger, query.trigger),
        ("tool", item.tool, query.tool),
        ("MCP server", item.mcp_server, query.mcp_server),
    )
    differing = (
        f"it is for the {name} {scope}, here " + (f"it is {asked}" if asked else "there is none")
        for name, scope, asked in pairs
        if scope and scope.lower() != asked.lower()
    )
    return next(differing, "")


def why_not(project_id: int, query: HintQuery, version: str, knowledge_id: str, tried: Tried) -> Piece:
    """Return in a sentence what became of a named item. It is a link where the project has that item."""
    for result in (*tried.offered, *tried.held):
        if result.knowledge_id == knowledge_id and result.is_offered:
            return Piece(f"It is offered, at rank {result.rank}.", "ok", knowledge_id)
        if result.knowledge_id == knowledge_id:
            because = f" ({result.decided})" if result.decided else ""
            return Piece(f"It was found and held back: {result.reason_meaning}{because}.", "warn", knowledge_id)
    is_known = KnowledgeItem.objects.filter(project_id=project_id, knowledge_id=knowledge_id).exists()
    absence = explain_absence(project_id, query, version, knowledge_id)
    return Piece(absence, "warn", knowledge_id if is_known else "")
