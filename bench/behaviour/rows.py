"""What one run of the benchmark came to: a row of plain numbers. Pure."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One run. Counts of hints are of runtime activations; `primed` says whether the start brought the task's item.

    `failed_repeats` are calls that failed as one before them had, `useless_repeats` those of them with the very same
    command. `foreign` counts injected hints that are not the task's own item. Times are milliseconds as the kernel
    waited: `latencies_ms` of each search, `waits_ms` of each model turn. `part` is main or sweep.
    """

    task: str
    kind: str
    arm: str
    seed: int
    project: str
    run_id: str
    status: str
    success: bool
    n_calls: int = 0
    n_failed: int = 0
    failed_repeats: int = 0
    useless_repeats: int = 0
    n_turns: int = 0
    n_activations: int = 0
    n_unanswered: int = 0
    n_offered: int = 0
    n_injected: int = 0
    n_withheld: int = 0
    n_budget_dropped: int = 0
    own_injected: bool = False
    foreign: int = 0
    primed: bool = False
    tokens: int = 0
    token_limit: int = 0
    used: int = 0
    ignored: int = 0
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    resolved: int = 0
    latencies_ms: tuple[float, ...] = ()
    waits_ms: tuple[float, ...] = ()
    budget: str = ""
    part: str = "main"

    def outcome(self) -> dict[str, Any]:
        """Return all that the same seed must give again: everything but times and the id."""
        fields = asdict(self)
        return {name: value for name, value in fields.items() if name not in ("run_id", "latencies_ms", "waits_ms")}
