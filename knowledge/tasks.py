"""Background work of knowledge: folds of runs that got events, sums of what runs add, vectors of items; the sweeps."""

import logging
import time
from collections.abc import Iterable
from typing import Final

from celery import shared_task

from knowledge import chains, embed_queue, embeddings, rolling, search_rows
from knowledge.embeddings import EmbeddingError
from knowledge.signals import tell_folded

logger = logging.getLogger(__name__)

SWEEP_LIMIT: Final = 500  # runs of one sweep; the next one goes on
STALE_LIMIT: Final = 50  # runs of another fold version that one sweep folds anew

TOLD_SECONDS: Final = 60.0  # between two log lines about a model that cannot be used

_told_at = -TOLD_SECONDS  # when the last of those lines was written, on the monotonic clock
fold_failures = 0  # runs that could not be folded since the process started; each sweep tries them again
roll_failures = 0  # projects whose sums could not be made since the process started


@shared_task(name="knowledge.fold_runs")  # type: ignore[untyped-decorator]
def fold_runs(project_id: int, run_ids: list[str]) -> int:
    """Fold the runs of one request; return how many were folded. A lost or failed task costs delay only."""
    return _fold((project_id, run_id) for run_id in run_ids)


@shared_task(name="knowledge.sweep_unfolded")  # type: ignore[untyped-decorator]
def sweep_unfolded() -> int:
    """Fold runs that were left waiting, then some that another version derived; return how many were folded."""
    n_folded = _fold(chains.unfolded_runs(SWEEP_LIMIT))
    return n_folded + _fold(chains.stale_runs(STALE_LIMIT), anew=True)


@shared_task(name="knowledge.roll_up")  # type: ignore[untyped-decorator]
def roll_up() -> int:
    """Bring the sums of all projects up to what their runs add now; return with how many runs that was done."""
    global roll_failures
    n_rolled = 0
    for project_id in rolling.waiting_projects():
        try:
            while done := rolling.roll_up(project_id):
                n_rolled += done
        except Exception as error:  # noqa: BLE001 - one project whose sums are wrong must not keep the others waiting
            roll_failures += 1
            logger.error("the sums of project %s could not be made: %s", project_id, type(error).__name__)
    return n_rolled


def _fold(runs: Iterable[tuple[int, str]], *, anew: bool = False) -> int:
    return sum(_fold_some(project_id, run_ids, anew=anew) for project_id, run_ids in chains.batches(runs))


def _fold_some(project_id: int, run_ids: list[str], *, anew: bool) -> int:
    """Fold runs together, and one by one those with which that was not to be done; return how many were folded."""
    global fold_failures
    done = set(chains.refresh_together(project_id, run_ids, force=anew)) if len(run_ids) > 1 else set()
    for run_id in run_ids:
        try:
            if run_id not in done and chains.refresh_run(project_id, run_id, force=anew):
                done.add(run_id)
        except Exception as error:  # noqa: BLE001 - one run that cannot be folded must not keep the others waiting
            fold_failures += 1
            logger.error("a run of project %s could not be folded: %s", project_id, type(error).__name__)
    for run_id in done:
        tell_folded(project_id, run_id)
    return len(done)


@shared_task(name=embed_queue.TASK)  # type: ignore[untyped-decorator]
def embed_items(project_id: int | None = None) -> int:
    """Make vectors that are still to come, of one project or of all, and return how many were dealt with.

    A bounded number at once, so that folds get their turn; what is left is queued again. A lost or failed task costs
    delay only: until then the items are found by their words.
    """
    if not embeddings.enabled():
        return 0
    try:
        n_done = search_rows.embed_items(project_id)
    except EmbeddingError as error:
        _tell(error)
        return 0
    if n_done == search_rows.EMBEDDED_AT_ONCE:
        embed_queue.put(project_id)
    return n_done


def _tell(error: EmbeddingError) -> None:
    """Write the line about a model that cannot be used, at most once in TOLD_SECONDS."""
    global _told_at
    if time.monotonic() - _told_at >= TOLD_SECONDS:
        _told_at = time.monotonic()
        logger.error("vectors of items could not be made: %s; items are found by their words", error)
