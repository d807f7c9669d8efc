"""Runs of an experiment for tests of the report of effects: chains as the fold makes them, kept and rolled up.

Each run has one failed call that was drawn into an arm; what followed is given, not drawn, so that numbers are known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from ingest.models import Project
from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts
from knowledge.rolling import keep_contribution, roll_up

DAY = date(2026, 11, 20)
SHARE = 0.5
NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """`n` runs of one arm (offered, withheld, or "" for no draw), of which the first `n_good` were resolved."""

    arm: str
    n: int
    n_good: int
    knowledge_id: str = "k-git"
    trigger: str = "tool.failed"
    tool: str = "shell"
    experiment: str = "nightly"
    day: date = DAY
    share: float = SHARE


def run_experiment(project: Project, *series: Series, roll: bool = True, name: str = "x") -> None:
    """Keep the runs of all series; with `roll` bring the sums up to them as the queue's worker does.

    `name` begins the ids of the runs: those of a second call with the same one take the place of the first's.
    """
    for place, one in enumerate(series):
        for number in range(one.n):
            run_id = f"{name}{place}-{one.arm}-{one.knowledge_id}-{number}"
            keep_contribution(project.pk, run_id, one.day, chain(run_id, one, number < one.n_good))
    while roll and roll_up(project.pk):
        pass


def chain(run_id: str, one: Series, is_good: bool) -> RunChain:
    """Return the chain of a run whose one failed call was searched for."""
    activation = f"{run_id}:a1"
    injected = one.arm != "withheld"
    search = ActivationFacts(
        activation_id=activation, trigger=one.trigger, tool=one.tool, situation_key=f"{run_id}:s1",
        requested_ns=NS, completed_ns=NS + 30_000_000, duration_ms=30.0, result="success",
        algorithm_version="v3", n_retrieved=2, n_offered=1, n_selected=1, n_injected=int(injected),
        n_dropped=1 - int(injected), tokens=40 if injected else 0, experiment=one.experiment if one.arm else "",
        arm=one.arm, share=one.share if one.arm else None, resolved=is_good, near=is_good,
        calls_after=2, failed_after=0 if is_good else 2,
    )  # fmt: skip
    return RunChain(
        RunFacts(status="completed", success=is_good), (search,), tuple(_candidates(activation, one, is_good))
    )


def _candidates(activation: str, one: Series, is_good: bool) -> Iterable[CandidateFacts]:
    injected = NS if one.arm != "withheld" else None
    yield CandidateFacts(
        activation_id=activation, knowledge_id=one.knowledge_id, rank=1, tokens=40, offered_ns=NS, selected_ns=NS,
        injected_ns=injected, dropped_ns=None if injected else NS, drop_reason="" if injected else "holdout",
        used_ns=NS if injected and is_good else None, usage_source="usage.v1" if injected and is_good else "",
        outcome="helpful" if injected and is_good else "", outcome_source="usage.v1" if injected and is_good else "",
    )  # fmt: skip
    yield CandidateFacts(activation_id=activation, knowledge_id="k-held", rank=2, hold_reason="retired")
