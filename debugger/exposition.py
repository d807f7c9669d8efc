"""What /metrics says: the counts of all web processes, and what the database knows at the moment of the scrape."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import psycopg
from django.conf import settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from debugger.bounded import Bounded, TooSlow
from debugger.health import connect, fetch_with
from debugger.queries.lag import FoldLag, fold_lag, partitions_ahead, sums_waiting, vectors_waiting
from ingest.metrics import COUNTS
from knowledge.fold import FOLD_VERSION

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_look = Bounded()


class DatabaseCollector(Collector):
    """Gauges read at the scrape; without the database the one that says so, and no invented zeros beside it."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        info = GaugeMetricFamily("temporality_info", "versions in use", labels=["fold", "find_hints"])
        info.add_metric([FOLD_VERSION, settings.HINTS_ALGORITHM], 1)
        yield info
        try:
            lag, ahead, n_vectors, n_unsummed = _look.run(_read, settings.READY_SECONDS)
        except (psycopg.Error, TooSlow):
            yield GaugeMetricFamily("temporality_database_up", "1 when the database answered this scrape", 0)
            return
        yield GaugeMetricFamily("temporality_database_up", "1 when the database answered this scrape", 1)
        yield GaugeMetricFamily("temporality_fold_waiting_runs", "runs with events not yet folded", lag.n_runs)
        yield GaugeMetricFamily("temporality_fold_waiting_events", "events not yet folded", lag.n_events)
        yield GaugeMetricFamily(
            "temporality_fold_oldest_seconds",
            "seconds since the last event of the run that waits longest to be folded",
            lag.oldest_seconds,
        )
        yield GaugeMetricFamily(
            "temporality_rollup_waiting_runs", "runs of which something is not in the sums of reports", n_unsummed
        )
        yield GaugeMetricFamily("temporality_vectors_waiting", "items whose vector is still to be made", n_vectors)
        yield GaugeMetricFamily("temporality_partitions_ahead", "days after today that have a partition", ahead)


def _read() -> tuple[FoldLag, int, int, int]:
    with connect() as other:
        fetch = fetch_with(other)
        ahead = partitions_ahead(fetch, datetime.now(UTC).date())
        return fold_lag(fetch), ahead, vectors_waiting(fetch), sums_waiting(fetch)


def exposition() -> bytes:
    """Return everything in Prometheus' text format."""
    gauges = CollectorRegistry()
    gauges.register(DatabaseCollector())
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(COUNTS) + generate_latest(gauges)
    shared = CollectorRegistry()
    MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
    return generate_latest(shared) + generate_latest(gauges)
