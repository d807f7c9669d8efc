"""The events that Observation reports of one answer: hint.query with every candidate, hint.offered for each hint.

Of the query they hold measures, never its words. (Seed 001 §7.2, §7.3, §13.)
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from contract.fingerprint import fingerprint
from knowledge.find_hints import v2
from knowledge.find_hints.findings import Finding, Findings, HintQuery
from knowledge.hint_answers import LISTED, candidate_of, deciding_numbers

OFFERED_KEYS: Final = ("revision", "proposition", "state", "matched_by", "scores", "rank", "tokens")


def events_of(query: HintQuery, findings: Findings, answer: Mapping[str, Any], took_ms: float) -> list[dict[str, Any]]:
    """Return the hint.query and hint.offered events of one answer, as they are sent to the journal."""
    common = {
        "trigger": query.trigger,
        "source_event_id": query.source_event_id,
        "algorithm_version": findings.version,
        "matcher": findings.matcher,
    }
    envelope = _envelope(query)
    searched: dict[str, Any] = {
        "n_retrieved": answer["counts"]["retrieved"],
        "n_offered": answer["count"],
        "result": "success" if answer["count"] else "empty",
        "duration_ms": round(took_ms, 3),
        "gate": findings.gate,
        "notes": answer["notes"],
        "budget": dict(query.budget),
        "query_diagnostics": diagnostics(query),
        "candidates": [_listed(finding, findings.gate, query.limit) for finding in findings.candidates[:LISTED]],
        "n_unlisted": max(0, len(findings.candidates) - LISTED),
    }
    told = {name: value for name, value in searched.items() if value not in (None, {}) and (value or name != "notes")}
    asked = {
        **envelope,
        "event_id": f"{query.activation_id}:query",
        "type": "hint.query",
        "data": {**common, **told},
    }
    offers = [
        {
            **envelope,
            "event_id": hint["hint_id"],
            "hint_id": hint["hint_id"],
            "knowledge_id": hint["knowledge_id"],
            "type": "hint.offered",
            "data": {**common, **{name: hint[name] for name in OFFERED_KEYS}},
        }
        for hint in answer["hints"]
    ]
    return [asked, *offers]


def _envelope(query: HintQuery) -> dict[str, Any]:
    optional = {
        "caused_by": query.source_event_id,
        "task_id": query.task_id,
        "actor_id": query.actor_id,
        "team_root": query.team_root,
        "tool": query.tool,
        "mcp_server": query.mcp_server,
    }
    return {
        "run_id": query.run_id,
        "activation_id": query.activation_id,
        "occurred_at": datetime.now(UTC).isoformat(),
        **{name: value for name, value in optional.items() if value},
    }


def _listed(finding: Finding, gate: float | None, limit: int) -> dict[str, Any]:
    if not finding.hold_reason:
        return candidate_of(finding)
    return {
        **candidate_of(finding),
        "hold_reason": finding.hold_reason,
        **deciding_numbers(finding, gate, limit),
    }


def diagnostics(query: HintQuery) -> dict[str, Any]:
    """Return measures of a query that tell how it was searched and not what it said. Lengths in code points."""
    text = v2.happened(query)
    digest = hashlib.sha256(fingerprint(text).exact.encode(errors="replace")).hexdigest()[:16]
    return {
        "query_length": len(query.query),
        "tool_result_length": len(query.tool_result),
        "tool_arguments_length": len(query.tool_arguments),
        "n_terms": len(v2.terms(text)),
        "n_entities": len(query.entities),
        "n_topics": len(query.topics),
        "n_issued": len(query.issued),
        "n_suppressed": len(query.suppressed),
        "n_embedding": len(query.embedding),
        "fingerprint": digest if text.strip() else "",
    }
