"""gunicorn's configuration: its log through our formatters, and where its processes keep their counts together.

Every web process writes its counts to files of its own in PROMETHEUS_MULTIPROC_DIR; the process that is scraped adds
them up. The files of a worker that died stay, because what it counted happened; a new server starts from nothing,
which Prometheus reads as a restart. No gauges are kept there, so nothing has to be taken back when a worker dies.
"""

import os
from pathlib import Path
from typing import Any

from debugger.settings import LOGGING

logconfig_dict: dict[str, Any] = {
    **LOGGING,
    "loggers": {
        name: {"level": "INFO", "handlers": [], "propagate": True} for name in ("gunicorn.error", "gunicorn.access")
    },
}


def on_starting(server: object) -> None:
    """Begin with no counts: those of an earlier server belong to processes that are gone."""
    named = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
    if not named:
        return
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    for kept in folder.glob("*.db"):
        kept.unlink(missing_ok=True)
