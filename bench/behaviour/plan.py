"""Which runs a benchmark consists of, in which order, each with its id and its spec. Pure."""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.behaviour.arms import Arm
from bench.behaviour.task import Task
from kernel.messages import Limits, RunSpec

SWEPT: Final = tuple((tokens, hints) for tokens in (100, 200, 400, 800) for hints in (1, 2, 3))
AGENT: Final = "bench"  # the driver's name in the kernel's registry
MOST_TURNS: Final = 6
PATIENCE_MS: Final = 10_000  # for an answer of Observation: what is measured is told, and no run depends on it


@dataclass(frozen=True, slots=True)
class Budget:
    """What runtime hints may take: tokens and hints of one activation; a run has four times the tokens."""

    tokens: int = 400
    hints: int = 2

    @property
    def name(self) -> str:
        return f"{self.tokens}x{self.hints}"

    @property
    def tokens_per_run(self) -> int:
        return 4 * self.tokens


@dataclass(frozen=True, slots=True)
class Planned:
    """One run that is to be made."""

    task: Task
    arm: Arm
    seed: int
    budget: Budget
    batch: str
    model: str = ""
    part: str = "main"

    @property
    def run_id(self) -> str:
        """Task, batch and the throws: nothing of it says which arm the run is in."""
        words = (str(self.seed), self.arm.id, self.budget.name, self.task.name, self.part)
        dice = hashlib.sha256("\x1f".join(words).encode()).hexdigest()[:10]
        return f"{self.task.name}-{self.batch}-{dice}"

    def spec(self) -> RunSpec:
        """Return what the kernel is given."""
        limits = Limits(
            max_turns=MOST_TURNS,
            hints_per_activation=self.budget.hints,
            tokens_per_activation=self.budget.tokens,
            tokens_per_run=self.budget.tokens_per_run,
            retrieval_timeout_ms=PATIENCE_MS,
        )
        return RunSpec(
            run_id=self.run_id,
            task=self.task.statement,
            agent=AGENT,
            script=self.task.name,
            model=self.model,
            task_id=self.task.name,
            setup=f"set -e\n{self.task.setup}",
            limits=limits,
            switches=self.arm.switches(),
            holdout=self.arm.holdout(self.seed),
        )


def planned(
    tasks: Iterable[Task],
    arms: Sequence[Arm],
    seeds: Sequence[int],
    budgets: Sequence[Budget] = (Budget(),),
    *,
    batch: str = "",
    model: str = "",
    part: str = "main",
) -> list[Planned]:
    """Return every task in every arm with every budget, once a seed, in an order that the seeds decide."""
    named = list(tasks)
    runs = []
    for seed in seeds:
        of_seed = [
            Planned(task, arm, seed, budget, batch or f"s{seed}", model, part)
            for task in named
            for arm in arms
            for budget in budgets
        ]
        random.Random(f"order-{seed}").shuffle(of_seed)
        runs += of_seed
    return runs
