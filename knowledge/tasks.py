"""Background work of knowledge: folding a run when it got events, and the sweep behind it."""

import logging
from typing import Final

from celery import shared_task

from knowledge import chains

logger = logging.getLogger(__name__)

SWEEP_LIMIT: Final = 500  # runs of one sweep; the next one goes on

sweep_failures = 0  # runs a sweep could not fold since the process started; each sweep tries them again


@shared_task(name="knowledge.fold_run")  # type: ignore[untyped-decorator]
def fold_run(project_id: int, run_id: str) -> bool:
    """Fold one run; return whether anything was folded. A lost or failed task costs delay only."""
    return chains.refresh_run(project_id, run_id)


@shared_task(name="knowledge.sweep_unfolded")  # type: ignore[untyped-decorator]
def sweep_unfolded() -> int:
    """Fold runs that were left waiting; return how many were folded."""
    global sweep_failures
    n_folded = 0
    for project_id, run_id in chains.unfolded_runs(SWEEP_LIMIT):
        try:
            n_folded += chains.refresh_run(project_id, run_id)
        except Exception as error:  # noqa: BLE001 - one run that cannot be folded must not keep the others waiting
            sweep_failures += 1
            logger.error("a run of project %s could not be folded: %s", project_id, type(error).__name__)
    return n_folded
