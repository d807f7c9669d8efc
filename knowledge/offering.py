"""Answers activations: runs FindHints, keeps the answer for retries, reports the query and each offer to the journal.

The same activation asked again gets the same answer and writes nothing twice. Telemetry or an answer that cannot
be written withholds no hint that was found. (Seed 001 §7.2, §12, §13.)
"""

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, transaction

from contract import stages
from contract.fingerprint import fingerprint
from contract.text import estimate_tokens
from ingest.accept import accept_events
from ingest.models import Project
from knowledge.find_hints import find_hints, v2
from knowledge.find_hints.findings import Finding, Findings, HintQuery
from knowledge.models import HintAnswer

logger = logging.getLogger(__name__)

LISTED: Final = 50  # candidates listed in an answer and in hint.query, best first; the rest are counted
CAUTIONS: Final = {"proposed": "not yet confirmed", "challenged": "evidence against it exists"}
OFFERED_KEYS: Final = ("revision", "proposition", "state", "matched_by", "scores", "rank", "tokens")

# Since the process started: answers whose events could not be written, answers that could not be kept.
telemetry_failures = 0
keeping_failures = 0


def answer_all(project: Project, queries: Sequence[HintQuery]) -> list[dict[str, Any]]:
    """Answer the activations of one boundary in order; none is offered what an earlier one of them was offered."""
    answers: list[dict[str, Any]] = []
    offered: tuple[str, ...] = ()
    for query in queries:
        answer = answer_one(project, replace(query, offered_before=offered))
        offered += tuple(hint["knowledge_id"] for hint in answer["hints"])
        answers.append(answer)
    return answers


def answer_one(project: Project, query: HintQuery) -> dict[str, Any]:
    """Answer one activation, or give again the answer it got before."""
    kept = HintAnswer.objects.filter(project=project, run_id=query.run_id, activation_id=query.activation_id).first()
    if kept is not None:
        return dict(kept.answer)
    started = time.monotonic_ns()
    findings = find_hints(project.pk, query, settings.HINTS_ALGORITHM)
    answer = render_answer(query, findings)
    return _keep(project, query, findings, answer, (time.monotonic_ns() - started) / 1e6)


def _keep(
    project: Project, query: HintQuery, findings: Findings, answer: dict[str, Any], took_ms: float
) -> dict[str, Any]:
    """Keep the answer and report it in one transaction; return the answer kept, ours or that of a racing retry."""
    global keeping_failures
    try:
        with transaction.atomic():
            # A racing retry waits here until the first has committed, and finds its row; only the writer reports.
            row, created = HintAnswer.objects.get_or_create(
                project=project, run_id=query.run_id, activation_id=query.activation_id, defaults={"answer": answer}
            )
            if created:
                _report(project, events_of(query, findings, answer, took_ms))
    except DatabaseError as error:
        keeping_failures += 1
        logger.error("the answer to an activation was not kept: %s", type(error).__name__)
        return answer
    return dict(row.answer)


def _report(project: Project, events: Sequence[dict[str, Any]]) -> None:
    """Write hint.query and hint.offered through the common write path; a failure is counted, never raised."""
    global telemetry_failures
    try:
        # A savepoint of its own: what fails in here must not take the kept answer along.
        with transaction.atomic():
            result = accept_events(project.pk, events, source="observation")
    except Exception as error:  # noqa: BLE001 - hints already found are given whatever becomes of their telemetry
        telemetry_failures += 1
        logger.error("hint telemetry was not written: %s", type(error).__name__)
        return
    if result.rejected:
        telemetry_failures += 1
        logger.error("hint telemetry was rejected: %s", ", ".join(item.code for item in result.rejected))


def render_answer(query: HintQuery, findings: Findings) -> dict[str, Any]:
    """Return the answer body of one activation: hints, the block's items, counts by stage, what was held back."""
    hints = [_hint(query, finding) for finding in findings.offered]
    held = [finding for finding in findings.candidates if finding.hold_reason]
    return {
        "activation_id": query.activation_id,
        "matcher": findings.matcher,
        "algorithm_version": findings.version,
        "count": len(hints),
        "hints": hints,
        "context_block": {"type": stages.HINT_TYPE, "activation_id": query.activation_id, "items": hints},
        "counts": {
            "retrieved": len(findings.candidates),
            "offered": len(hints),
            "dropped": len(held),
            "unlisted": max(0, len(held) - LISTED),
        },
        "dropped": [{"knowledge_id": one.item.knowledge_id, "reason": one.hold_reason} for one in held[:LISTED]],
    }


def _hint(query: HintQuery, finding: Finding) -> dict[str, Any]:
    caution = finding.item.caution or CAUTIONS.get(finding.item.state, "")
    return {"hint_id": f"{query.activation_id}:h{finding.rank}", "caution": caution, **_candidate(finding)}


def _candidate(finding: Finding) -> dict[str, Any]:
    item = finding.item
    return {
        "knowledge_id": item.knowledge_id,
        "revision": item.revision,
        "rank": finding.rank,
        "proposition": item.proposition,
        "state": item.state,
        "matched_by": list(finding.matched_by),
        "scores": dict(finding.scores),
        "tokens": estimate_tokens(item.proposition),
    }


def events_of(query: HintQuery, findings: Findings, answer: dict[str, Any], took_ms: float) -> list[dict[str, Any]]:
    """Return the hint.query and hint.offered events of one answer. The query's text is not in them."""
    common = {
        "trigger": query.trigger,
        "source_event_id": query.source_event_id,
        "algorithm_version": findings.version,
    }
    envelope = _envelope(query)
    asked = {
        **envelope,
        "event_id": f"{query.activation_id}:query",
        "type": "hint.query",
        "data": {
            **common,
            "matcher": findings.matcher,
            "n_retrieved": answer["counts"]["retrieved"],
            "n_offered": answer["count"],
            "result": "success" if answer["count"] else "empty",
            "duration_ms": round(took_ms, 3),
            "query_diagnostics": diagnostics(query),
            "candidates": [_listed(finding) for finding in findings.candidates[:LISTED]],
            "n_unlisted": max(0, len(findings.candidates) - LISTED),
        },
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


def _listed(finding: Finding) -> dict[str, Any]:
    held = {"hold_reason": finding.hold_reason} if finding.hold_reason else {}
    return {**_candidate(finding), **held}


def diagnostics(query: HintQuery) -> dict[str, Any]:
    """Return measures of a query that tell how it was searched and not what it said. Lengths in code points."""
    text = v2.happened(query)
    digest = hashlib.sha256(fingerprint(text).exact.encode()).hexdigest()[:16]
    return {
        "query_length": len(query.query),
        "tool_result_length": len(query.tool_result),
        "n_terms": len(v2.terms(text)),
        "n_entities": len(query.entities),
        "n_topics": len(query.topics),
        "n_issued": len(query.issued),
        "n_suppressed": len(query.suppressed),
        "fingerprint": digest if text.strip() else "",
    }
