"""gunicorn's configuration: its log through our formatters, and where its processes keep their counts together.

Every web process writes its counts to files of its own in PROMETHEUS_MULTIPROC_DIR; the process that is scraped adds
them up. The files of a worker that died stay, because what it counted happened; a new server starts from nothing,
which Prometheus reads as a restart. No gauges are kept there, so nothing has to be taken back when a worker dies.
"""

import gc
import os
from logging.config import dictConfig
from pathlib import Path

from gunicorn.glogging import Logger

from debugger.settings import LOGGING
from knowledge import embeddings


class OurLog(Logger):  # type: ignore[misc]
    """The server's own lines go where all others go. There is no access log: an address may hold a sign-in token."""

    def setup(self, cfg: object) -> None:
        super().setup(cfg)
        dictConfig(LOGGING)
        self.error_log.handlers = []
        self.error_log.propagate = True

    def access(self, *request: object) -> None:
        """Write nothing: `debugger.requests_seen` writes a line per request of the machine API, by route."""


logger_class = OurLog


def post_worker_init(worker: object) -> None:
    """Load the embedding model; leave what was loaded out of later collections of garbage, and collect less often.

    A batch makes tens of thousands of objects, none of them in cycles: looking through them again and again took a
    twentieth of the time.
    """
    embeddings.warm_up()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def on_starting(server: object) -> None:
    """Begin with no counts: those of an earlier server belong to processes that are gone."""
    named = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
    if not named:
        return
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    for kept in folder.glob("*.db"):
        kept.unlink(missing_ok=True)
