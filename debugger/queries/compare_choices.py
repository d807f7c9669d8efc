"""Which runs a run is offered to be compared with: those of the same task first, then the newest. (Seed 001 §14.)"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from contract import stages
from debugger.queries.pieces import one_line
from debugger.queries.runs import TASK_SHOWN, moment
from debugger.queries.words import STATE_OF_STATUS
from ingest.models import Run
from knowledge.run_pages import all_runs

LOOKED_AT: Final = 500  # newest runs that are looked at
OFFERED: Final = 12  # runs of one list


@dataclass(frozen=True, slots=True)
class Choice:
    """A run to compare with. `state` is a tone."""

    run_id: str
    task: str
    status: str
    meaning: str
    state: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Choices:
    """Runs of the same task, other runs, newest first; and how many of the same task there were among LOOKED_AT."""

    alike: tuple[Choice, ...]
    others: tuple[Choice, ...]
    n_alike: int
    n_looked_at: int


def choices_for(project_id: int, run_id: str, task: str) -> Choices:
    """Return what to compare a run with; with "" for it, runs to begin with. One query."""
    alike: list[Choice] = []
    others: list[Choice] = []
    runs = all_runs(project_id).order_by("-first_received_at", "-run_id")[:LOOKED_AT]
    for run in runs:
        if run.run_id != run_id:
            choice = _choice(run)
            same_task = bool(task) and getattr(run, "task") == task  # noqa: B009 - annotated, not declared
            (alike if same_task else others).append(choice)
    return Choices(tuple(alike[:OFFERED]), tuple(others[:OFFERED]), len(alike), len(runs))


def _choice(run: Run) -> Choice:
    said: dict[str, Any] = {name: getattr(run, name) for name in ("task", "status", "started_ns")}
    status = said["status"]
    return Choice(
        run_id=run.run_id,
        task=one_line(said["task"] or "", TASK_SHOWN),
        status=status,
        meaning=stages.RUN_STATUSES.get(status, status),
        state=STATE_OF_STATUS.get(status, "plain"),
        started_at=moment(said["started_ns"]) or run.first_received_at,
    )
