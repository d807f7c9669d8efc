"""Counts what the web processes did, for Prometheus: kept in memory-mapped files when PROMETHEUS_MULTIPROC_DIR is set.

Labels are words of this code, never a sender's: no project, key, run or path. A set of words that grows past its
bound counts the rest as "other". One request costs a few microseconds.
"""

import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

OTHER: Final = "other"
MOST_WORDS: Final = 64  # label values of one kind that one process tells apart
DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds

# What the request at hand did to events, for its log line; None outside of a request.
request_counts: ContextVar[dict[str, int] | None] = ContextVar("request_counts", default=None)

COUNTS: Final = CollectorRegistry()
ACCEPTED: Final = Counter(
    "temporality_events_accepted", "events stored for the first time", ["source"], registry=COUNTS
)
DUPLICATES: Final = Counter(
    "temporality_events_duplicate", "events that were stored already", ["source"], registry=COUNTS
)
CONFLICTS: Final = Counter(
    "temporality_events_conflicting", "duplicates whose content differs from the copy kept", ["source"], registry=COUNTS
)
REJECTED: Final = Counter("temporality_events_rejected", "events not stored", ["source", "code"], registry=COUNTS)
REPAIRED: Final = Counter(
    "temporality_events_repaired", "events changed before they were written", ["source", "word"], registry=COUNTS
)
REQUESTS: Final = Counter("temporality_requests", "answers by endpoint", ["endpoint", "status"], registry=COUNTS)
DURATION: Final = Histogram(
    "temporality_request_seconds",
    "time from the request's headers to its answer",
    ["endpoint"],
    registry=COUNTS,
    buckets=DURATION_BUCKETS,
)
QUEUE_FAILURES: Final = Counter(
    "temporality_queue_failures", "runs whose fold could not be queued and was left to the sweep", registry=COUNTS
)
DATABASE_FAILURES: Final = Counter(
    "temporality_database_failures", "requests that found the database away", registry=COUNTS
)
HINT_FAILURES: Final = Counter(
    "temporality_hint_failures",
    "what failed around hints: search, vectors, keeping (of the answer), telemetry, other_request (an id used again)",
    ["what"],
    registry=COUNTS,
)


class BoundedWords:
    """Lets the first words through and calls every later one "other", so that no label grows without end."""

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def word(self, text: str) -> str:
        """Return `text`, or "other" once enough different words were seen."""
        if text in self._known:
            return text
        with self._lock:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(text)
        return text


_sources, _codes, _words, _endpoints = BoundedWords(8), BoundedWords(), BoundedWords(), BoundedWords(128)


def note(
    source: str,
    *,
    n_accepted: int,
    n_duplicates: int,
    n_conflicts: int,
    rejected: Mapping[str, int],
    repaired: Mapping[str, int],
) -> None:
    """Count one request that was answered with a 2xx: `rejected` by code, `repaired` by repair word."""
    source = _sources.word(source)
    n_rejected = sum(rejected.values())
    for counter, number in ((ACCEPTED, n_accepted), (DUPLICATES, n_duplicates), (CONFLICTS, n_conflicts)):
        if number:
            counter.labels(source).inc(number)
    for code, number in rejected.items():
        REJECTED.labels(source, _codes.word(code)).inc(number)
    for word, number in repaired.items():
        REPAIRED.labels(source, _words.word(word)).inc(number)
    seen = request_counts.get()
    if seen is not None:
        for name, number in (
            ("n_accepted", n_accepted),
            ("n_duplicates", n_duplicates),
            ("n_conflicts", n_conflicts),
            ("n_rejected", n_rejected),
        ):
            seen[name] = seen.get(name, 0) + number


def note_request(endpoint: str, status: int, seconds: float) -> None:
    """Count one answer of the URL named `endpoint`."""
    endpoint = _endpoints.word(endpoint)
    REQUESTS.labels(endpoint, str(status)).inc()
    DURATION.labels(endpoint).observe(seconds)


def note_queue_failure(n_runs: int) -> None:
    QUEUE_FAILURES.inc(n_runs)


def note_database_failure() -> None:
    DATABASE_FAILURES.inc()


def note_hint_failure(what: str) -> None:
    """Count what failed around the hints of an activation, by a word of ours."""
    HINT_FAILURES.labels(what).inc()
