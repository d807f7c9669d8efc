"""Background work of knowledge: folding runs that got events, making vectors of items, and the sweeps behind both."""

import logging
import time
from collections.abc import Iterable
from typing import Final

from celery import shared_task

from knowledge import chains, embed_queue, embeddings, search_rows
from knowledge.embeddings import EmbeddingError
from knowledge.signals import tell_folded

logger = logging.getLogger(__name__)

SWEEP_LIMIT: Final = 500  # runs of one sweep; the next one goes on

TOLD_SECONDS: Final = 60.0  # between two log lines about a model that cannot be used

_told_at = -TOLD_SECONDS  # when the last of those lines was written, on the monotonic clock
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
            if chains.refresh_run(project_id, run_id):
                n_folded += 1
                tell_folded(project_id, run_id)
        except Exception as error:  # noqa: BLE001 - one run that cannot be folded must not keep the others waiting
            fold_failures += 1
            logger.error("a run of project %s could not be folded: %s", project_id, type(error).__name__)
    return n_folded


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
