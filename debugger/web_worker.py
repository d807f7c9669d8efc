"""gunicorn's worker with threads, which waits for a request's head only so long."""

from typing import Any

from django.conf import settings
from gunicorn.workers.gthread import ThreadWorker

from ingest.slow_senders import Wait, slow_senders


class WatchedWorker(ThreadWorker):  # type: ignore[misc]
    """Each thread is watched from the moment a connection is given to it until its request's head is there."""

    def handle(self, conn: Any) -> Any:
        conn.wait = slow_senders.begin(conn.sock, settings.INGEST_BODY_SECONDS, settings.INGEST_SLOW_SENDERS)
        try:
            return super().handle(conn)
        finally:
            slow_senders.end(conn.wait)

    def handle_request(self, req: Any, conn: Any) -> Any:
        wait: Wait = conn.wait
        slow_senders.end(wait)
        return super().handle_request(req, conn)
