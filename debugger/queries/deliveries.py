"""What became of what one key delivered: counts by day, why events were rejected, what had to be repaired."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Max, Q, Sum
from django.db.models.functions import TruncDate

from ingest.deliveries_api import counts_by_code
from ingest.models import ApiKey, Batch, Reject, Run
from ingest.quota import quota_of
from ingest.rejects import count_not_listed
from ingest.repair import REPAIRS

DAYS: Final = 14  # covered by the counts
RATE_MINUTES: Final = 5
LATEST: Final = 50  # rejects shown
NUMBERS: Final = ("n_accepted", "n_duplicates", "n_conflicts", "n_rejected")
SOURCES: Final = {  # the words of Batch.source
    "events": "events",
    "otlp_traces": "OTLP traces",
    "otlp_logs": "OTLP logs",
    "observation": "Observation",
}
REPAIRED: Final = """
SELECT word, sum((about ->> 'n')::bigint), (array_agg(about ->> 'run_id' ORDER BY received_at DESC))[1],
    (array_agg(about ->> 'event_id' ORDER BY received_at DESC))[1]
FROM ingest_batch, jsonb_each(repairs) AS repair(word, about)
WHERE api_key_id = %s AND received_at >= %s GROUP BY word ORDER BY 2 DESC, word
"""


@dataclass(frozen=True, slots=True)
class DayLine:
    """One day of a key: its requests, and what became of their events."""

    day: date
    n_requests: int
    n_accepted: int
    n_duplicates: int
    n_conflicts: int
    n_rejected: int


@dataclass(frozen=True, slots=True)
class RepairLine:
    """One kind of repair: how many events needed it, what it means, and where to look at one."""

    word: str
    meaning: str
    number: int
    run_id: str
    event_id: str


@dataclass(frozen=True, slots=True)
class RejectLine:
    """One event that was not stored; `has_run` when its run has a page."""

    received_at: datetime
    code: str
    detail: str
    run_id: str
    event_id: str
    has_run: bool


@dataclass(frozen=True, slots=True)
class Deliveries:
    """All that the page of a key shows. `per_minute` is of the last RATE_MINUTES; `quota` 0 means none."""

    last_seen: datetime | None
    per_minute: float
    quota: int
    sources: tuple[tuple[str, int], ...]
    days: tuple[DayLine, ...]
    codes: Mapping[str, int]
    not_listed: int
    repairs: tuple[RepairLine, ...]
    rejects: tuple[RejectLine, ...]


def describe_deliveries(key: ApiKey, now: datetime) -> Deliveries:
    """Return what a key delivered in the last DAYS days. Eight queries, whatever it was."""
    since = now - timedelta(days=DAYS)
    batches = Batch.objects.filter(api_key=key)
    recent = batches.filter(received_at__gte=since)
    listed = Reject.objects.filter(api_key=key, received_at__gte=since)
    minutes = batches.filter(received_at__gt=now - timedelta(minutes=RATE_MINUTES)).aggregate(n=Sum("n_accepted"))
    return Deliveries(
        last_seen=batches.aggregate(at=Max("received_at"))["at"],
        per_minute=(minutes["n"] or 0) / RATE_MINUTES,
        quota=quota_of(key),
        sources=tuple((SOURCES.get(name, name), n) for name, n in _sources(recent)),
        days=_days(recent),
        codes=counts_by_code(listed),
        not_listed=count_not_listed(Q(api_key=key, received_at__gte=since)),
        repairs=_repairs(key, since),
        rejects=_rejects(key, listed),
    )


def _sources(recent: Any) -> list[tuple[str, int]]:
    return list(recent.values("source").annotate(n=Count("pk")).order_by("-n").values_list("source", "n"))


def _days(recent: Any) -> tuple[DayLine, ...]:
    sums = {name: Sum(name) for name in NUMBERS}
    by_day = recent.annotate(day=TruncDate("received_at")).values("day").annotate(n_requests=Count("pk"), **sums)
    return tuple(DayLine(**row) for row in by_day.order_by("-day"))


def _repairs(key: ApiKey, since: datetime) -> tuple[RepairLine, ...]:
    with connection.cursor() as cursor:
        cursor.execute(REPAIRED, [key.pk, since])
        rows = cursor.fetchall()
    return tuple(
        RepairLine(word, REPAIRS.get(word, word), int(number), run_id or "", event_id or "")
        for word, number, run_id, event_id in rows
    )


def _rejects(key: ApiKey, listed: Any) -> tuple[RejectLine, ...]:
    rows = list(listed.order_by("-received_at", "-id")[:LATEST])
    run_ids = {row.run_id for row in rows if row.run_id}
    known = set(
        Run.objects.filter(project_id=key.project_id, run_id__in=run_ids).values_list("run_id", flat=True)
    )  # a run whose only event was rejected has no page
    return tuple(
        RejectLine(row.received_at, row.code, row.detail, row.run_id or "", row.event_id or "", row.run_id in known)
        for row in rows
    )
