"""What is answered to one activation: hints, the block for the history, counts by stage, what was held back and why.

Pure. The same values stand in the events about it (`knowledge/hint_events.py`). (Seed 001 §7.2, §13.)
"""

import math
from collections import Counter
from typing import Any, Final

from contract import stages
from contract.text import estimate_tokens
from knowledge.find_hints.findings import Finding, Findings, HintQuery, ItemView

LISTED: Final = 50  # candidates listed in an answer and in hint.query, best first; the rest are counted
CAUTIONS: Final = {"proposed": "not yet confirmed", "challenged": "evidence against it exists"}
# hold reason -> the score that decided
DECIDING: Final = {"gate": "confidence", "near_duplicate": "similarity"}
BY_MEANING: Final = "meaning"  # as a matcher names the leg that compares vectors
UNUSED_EMBEDDING: Final = "embedding: this search compared no vectors; the one that was sent was not used"


def render_answer(query: HintQuery, findings: Findings) -> dict[str, Any]:
    """Return the answer body of one activation."""
    hints = [_hint(query, finding) for finding in findings.offered]
    held = [finding for finding in findings.candidates if finding.hold_reason]
    return {
        "activation_id": query.activation_id,
        "matcher": findings.matcher,
        "algorithm_version": findings.version,
        "gate": findings.gate,
        "count": len(hints),
        "hints": hints,
        "context_block": {"type": stages.HINT_TYPE, "activation_id": query.activation_id, "items": hints},
        "counts": {
            "retrieved": len(findings.candidates),
            "offered": len(hints),
            "dropped": len(held),
            "dropped_by_reason": dict(sorted(Counter(finding.hold_reason for finding in held).items())),
            "unlisted": max(0, len(held) - LISTED),
        },
        "dropped": [
            {
                "knowledge_id": one.item.knowledge_id,
                "reason": one.hold_reason,
                **deciding_numbers(one, findings.gate, query.limit),
            }
            for one in held[:LISTED]
        ],
        "notes": notes_of(query, findings),
    }


def candidate_of(finding: Finding) -> dict[str, Any]:
    """Return what is told of a candidate wherever it is told of."""
    item = finding.item
    return {
        "knowledge_id": item.knowledge_id,
        "revision": item.revision,
        "rank": finding.rank,
        "proposition": item.proposition,
        "state": item.state,
        "matched_by": list(finding.matched_by),
        "scores": {name: score for name, score in finding.scores.items() if math.isfinite(score)},
        "tokens": estimate_tokens(item.proposition),
    }


def deciding_numbers(finding: Finding, gate: float | None, limit: int) -> dict[str, float]:
    """Return the number that held a candidate back as `value`, and what it was compared with as `bound`, if known."""
    found: dict[str, float] = {}
    score = finding.scores.get(DECIDING.get(finding.hold_reason, ""))
    if score is not None and math.isfinite(score):
        found["value"] = score
    needed = finding.scores.get("needed", gate)  # a version may ask more of a candidate than its gate
    bound = {"gate": needed, "limit": limit}.get(finding.hold_reason)
    if bound is not None:
        found["bound"] = bound
    return found


def notes_of(query: HintQuery, findings: Findings) -> list[str]:
    """Return sentences for the sender about how was searched."""
    notes = list(findings.notes)
    if query.embedding and not notes and BY_MEANING not in findings.matcher.split("+"):
        notes.append(UNUSED_EMBEDDING)
    return notes


def _hint(query: HintQuery, finding: Finding) -> dict[str, Any]:
    return {
        "hint_id": f"{query.activation_id}:h{finding.rank}",
        "caution": caution_of(finding.item),
        **candidate_of(finding),
    }


def caution_of(item: ItemView) -> str:
    """Return what the reader of a hint must weigh: the versions it holds for, then the item's or its state's word."""
    scope = f"only for {item.version_scope}" if item.version_scope else ""
    return "; ".join(text for text in (scope, item.caution or CAUTIONS.get(item.state, "")) if text)
