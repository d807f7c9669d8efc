"""What knowledge tells whoever listens: that a run was folded. It knows no listener."""

import logging
from typing import Final

from django.dispatch import Signal

logger = logging.getLogger(__name__)

run_folded: Final = Signal()  # project_id, run_id: its chain was derived anew


def tell_folded(project_id: int, run_id: str) -> None:
    """Say that a run was folded; what a listener cannot do is its own loss."""
    for _, answer in run_folded.send_robust(sender=None, project_id=project_id, run_id=run_id):
        if isinstance(answer, Exception):
            logger.error("a listener to folds failed: %s", type(answer).__name__)
