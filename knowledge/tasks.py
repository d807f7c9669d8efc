"""Background work of knowledge: folding a run when it got events, and the sweep behind it."""

import logging
from collections.abc import Iterable
from typing import Final

from celery import shared_task

from knowledge import chains

logger = logging.getLogger(__name__)

SWEEP_LIMIT: Final = 500  # runs of one sweep; the next one goes on

fold_failures = 0  # runs that could not be folded since the process started; each sweep tries them again


@shared_task(name="knowledge.fold_runs")  # type: ignore[untyped-decorator]
def fold_runs(project_id: int, run_ids: list[str]) -> int:
    """Fold the runs of one request; return how many were folded. A lost or failed task costs delay only."""
    return _fold((project_id, run_id) for run_id in run_ids)


@shared_task(name="knowledge.sweep_unfolded")  # type: ignore[untyped-decorator]
def sweep_unfolded() -> int:
    """Fold runs that were left waiting; return how many were folded."""
    return _fold(chains.unfolded_runs(SWEEP_LIMIT))


def _fold(runs: Iterable[tuple[int, str]]) -> int:
    global fold_failures
    n_folded = 0
    for project_id, run_id in runs:
        try:
            n_folded += chains.refresh_run(project_id, run_id)
        except Exception as error:  # noqa: BLE001 - one run that cannot be folded must not keep the others waiting
            fold_failures += 1
            logger.error("a run of project %s could not be folded: %s", project_id, type(error).__name__)
    return n_folded
