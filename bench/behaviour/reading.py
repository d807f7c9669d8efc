"""Reads what became of the runs out of the rows that the fold derived from their telemetry. Needs Django set up."""

import json
from collections.abc import Iterable, Sequence

from bench.behaviour.arms import note_id
from bench.behaviour.rows import Row
from bench.behaviour.running import Made
from bench.behaviour.stack import BenchError, World
from ingest.journal import JournalEvent, read_events
from knowledge.chains import refresh_run
from knowledge.models import Activation, Candidate, RunSummary

PRIMING = "task.priming"
NO_ANSWER = ("timeout", "error")
OVER_BUDGET = ("activation_tokens", "run_tokens", "hint_limit")


def read_rows(world: World, made: Iterable[Made]) -> list[Row]:
    """Fold the runs and return a row each, in their order. Raises BenchError for a run that did not arrive whole."""
    rows = []
    for one in made:
        project_pk = world.project_pks[one.planned.arm.project]
        refresh_run(project_pk, one.planned.run_id)
        rows.append(_row(project_pk, one))
    return rows


def _row(project_pk: int, made: Made) -> Row:
    planned, run_id = made.planned, made.planned.run_id
    of_run = {"project_id": project_pk, "run_id": run_id}
    summary = RunSummary.objects.filter(**of_run).first()
    if summary is None or summary.success is not made.success or made.n_lost:
        raise BenchError(f"run {run_id} did not arrive whole: {made.n_lost} reports lost; is the disk or quota full?")
    activations = list(Activation.objects.filter(**of_run).order_by("ordinal"))
    own = note_id(planned.task)
    primed = [one.activation_id for one in activations if one.trigger == PRIMING]
    candidates = list(Candidate.objects.filter(**of_run))
    at_runtime = [one for one in candidates if one.activation_id not in primed]
    injected = [one for one in at_runtime if one.injected_ns is not None]
    searched = [one for one in activations if one.trigger != PRIMING and not one.skip_reason]
    failed_repeats, useless_repeats = repeats(read_events(project_pk, run_id))
    return Row(
        task=planned.task.name,
        kind=planned.task.kind,
        arm=planned.arm.id,
        seed=planned.seed,
        project=planned.arm.project,
        run_id=run_id,
        status=summary.status,
        success=summary.success,
        n_calls=summary.n_tool_calls,
        n_failed=summary.n_tools_failed,
        failed_repeats=failed_repeats,
        useless_repeats=useless_repeats,
        n_turns=summary.n_turns,
        n_activations=len(searched),
        n_unanswered=sum(one.result in NO_ANSWER for one in activations),
        n_offered=sum(one.offered_ns is not None for one in at_runtime),
        n_injected=len(injected),
        n_withheld=sum(one.drop_reason == "holdout" for one in at_runtime),
        n_budget_dropped=sum(one.drop_reason in OVER_BUDGET for one in at_runtime),
        own_injected=any(one.knowledge_id == own for one in injected),
        foreign=sum(one.knowledge_id != own for one in injected),
        primed=any(
            one.knowledge_id == own and one.injected_ns is not None and one.activation_id in primed
            for one in candidates
        ),
        tokens=summary.hint_tokens,
        token_limit=planned.budget.tokens_per_run,
        used=sum(one.used_ns is not None for one in injected),
        ignored=sum(one.ignored_ns is not None for one in injected),
        helpful=sum(one.outcome == "helpful" for one in injected),
        harmful=sum(one.outcome == "harmful" for one in injected),
        neutral=sum(one.outcome == "neutral" for one in injected),
        resolved=sum(one.resolved is True for one in searched),
        latencies_ms=tuple(one.duration_ms for one in searched if one.duration_ms is not None),
        waits_ms=_waits(activations, summary.n_turns),
        budget=planned.budget.name,
        part=planned.part,
    )


def _waits(activations: Sequence[Activation], n_turns: int) -> tuple[float, ...]:
    """Return what each model turn waited for searches at runtime: most turns nothing."""
    waits = [0.0] * n_turns
    for one in activations:
        if one.trigger != PRIMING and one.duration_ms is not None and one.turn is not None and n_turns:
            waits[min(one.turn, n_turns - 1)] += one.duration_ms
    return tuple(waits)


def repeats(events: Iterable[JournalEvent]) -> tuple[int, int]:
    """Return how many calls failed as an earlier one had, and how many of these with the very same command."""
    commands: dict[str, str] = {}
    met: set[str] = set()
    tried: set[str] = set()
    failed_again = same_again = 0
    for event in events:
        if event.type == "tool.requested" and event.call_id:
            commands[event.call_id] = _command(event.data.get("arguments"))
        elif event.type == "tool.failed":
            situation = str(event.data.get("situation_class") or "")
            command = commands.get(event.call_id or "", "")
            if situation in met:
                failed_again += 1
                same_again += command in tried
            met.add(situation)
            tried.add(command)
    return failed_again, same_again


def _command(arguments: object) -> str:
    try:
        return str(json.loads(str(arguments))["command"])
    except (ValueError, KeyError, TypeError):
        return str(arguments)
