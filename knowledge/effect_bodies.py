"""Reports of effects as machines read them: counts, rates with their intervals, verdicts; shares, never percent."""

from typing import Any

from knowledge.effect_report import EffectReport, Group
from knowledge.effects.counts import ArmCounts
from knowledge.effects.rates import Rate
from knowledge.effects.verdicts import Verdict
from knowledge.item_effects import ItemLine, ItemReport


def report_body(report: EffectReport) -> dict[str, Any]:
    """Return a report as JSON has it; `groups` are those of `group`, most searches first."""
    asked = report.asked
    return {
        "since": asked.since.isoformat(),
        "until": asked.until.isoformat(),
        "group": asked.group,
        "filters": dict(asked.where),
        "as_of": report.runs.folded_at.isoformat() if report.runs.folded_at else None,
        "n_runs_waiting": report.n_waiting,
        "n_runs": report.runs.n,
        "n_runs_searching": report.runs.n_searching,
        "n_runs_injected": report.runs.n_injected,
        "total": _group(report.total),
        "groups": [{"value": group.value, **_group(group)} for group in report.groups],
        "n_groups_left_out": report.n_left_out,
    }


def items_body(report: ItemReport) -> dict[str, Any]:
    """Return the report of single items as JSON has it, in its order."""
    return {
        "since": report.since.isoformat(),
        "until": report.until.isoformat(),
        "n_runs_waiting": report.n_waiting,
        "n_items": report.n_items,
        "n_judged": report.n_judged,
        "items": [_item(line) for line in report.lines],
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "counts": dict(group.counts),
        "words": {kind: dict(words) for kind, words in group.words.items()},
        "waited_ms": {"p50": group.waited_p50, "p95": group.waited_p95},
        "funnel": [
            {"stage": step.name, "of_previous": _rate(step.of_previous), "of_first": _rate(step.of_first)}
            for step in group.steps
        ],
        "resolved": _rate(group.resolved),
        "tokens_per_resolved": group.tokens_per_resolved,
        "offered": _arm(group.arms.offered),
        "withheld": _arm(group.arms.withheld),
        "near": verdict_body(group.near),
        "far": verdict_body(group.far),
    }


def _item(line: ItemLine) -> dict[str, Any]:
    effect = line.effect
    return {
        "knowledge_id": line.knowledge_id,
        "state": line.state,
        "is_suspended": line.is_suspended,
        "counts": dict(line.counts),
        "offered": _arm(line.arms.offered),
        "withheld": _arm(line.arms.withheld),
        "near": verdict_body(effect.verdict) if effect else None,
        "p_adjusted": effect.p_adjusted if effect else None,
        "shrunk": effect.shrunk if effect else None,
        "suspension_proposed": effect.words if effect and effect.suspend and not line.is_suspended else "",
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"count": rate.count, "n": rate.n, "value": rate.value, "low": rate.low, "high": rate.high}


def _arm(counts: ArmCounts) -> dict[str, Any]:
    return {
        "n_points": counts.n_points,
        "near": {"n_success": counts.near.n_success, "n": counts.near.n},
        "far": {"n_success": counts.far.n_success, "n": counts.far.n},
    }


def verdict_body(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict with what decided it; the anytime interval holds however often one looks."""
    effect, sequence = verdict.effect, verdict.sequence
    return {
        "verdict": verdict.word,
        "because": verdict.because,
        "value": verdict.value,
        "limit": verdict.limit,
        "words": verdict.words,
        "warning": verdict.warning,
        "effect": None if effect is None else {"value": effect.value, "low": effect.low, "high": effect.high},
        "anytime": None if sequence is None else {"low": sequence.low, "high": sequence.high},
        "p_mismatch": verdict.p_mismatch,
        "p_unknown": verdict.p_unknown,
    }
