"""Decides whether a key may send more events now: so many a minute, counted once for all web processes.

One number a key stands in the broker's Redis: the time at which its bucket will be full again. A script moves it in
one step, so no row is locked and two processes cannot both spend the last of it. Where there is no Redis, or it does
not answer, each process counts for itself: the bound is looser then, and nothing fails.

A request is taken whole while one event of the quota is left and may overdraw it; the overdraft delays the next one.
So a large batch neither starves behind small ones nor is refused for ever, and what is refused costs nothing: a batch
sent again after its Retry-After is taken. (Seed 001 §13.)
"""

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from ingest.errors import IngestError
from ingest.models import ApiKey

logger = logging.getLogger(__name__)

WINDOW_US: Final = 60_000_000  # microseconds in which a full bucket may be spent, and is filled again
PAUSE_SECONDS: Final = 5.0  # after a failure Redis is left alone this long
CONNECT_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 0.2
MOST_LOCAL: Final = 10_000  # buckets one process keeps
# ARGV: the quota a minute, the number of events. Returns the microseconds to wait, 0 when the events are taken.
TAKE: Final = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local full_at = tonumber(redis.call('GET', KEYS[1]) or now)
if full_at < now then full_at = now end
local step = 60000000 / ARGV[1]
local wait = full_at - now - (60000000 - step)
if wait > 0 then return math.ceil(wait) end
full_at = full_at + ARGV[2] * step
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000) + 1000)
return 0
"""


def wait_or_take(full_at: float, now: float, per_minute: int, n_events: int) -> tuple[float, float]:
    """Return (microseconds to wait, new `full_at`); all times in microseconds. The same sum as TAKE. Pure."""
    step = WINDOW_US / per_minute
    full_at = max(full_at, now)
    wait = full_at - now - (WINDOW_US - step)
    return (wait, full_at) if wait > 0 else (0.0, full_at + n_events * step)


def redis_address(broker: str) -> str:
    """Return the broker's address as the Redis client reads it; empty when the broker is no Redis."""
    if broker.startswith("redis+socket://"):
        return "unix://" + broker.removeprefix("redis+socket://").replace("virtual_host=", "db=")
    return broker if broker.startswith(("redis://", "rediss://", "unix://")) else ""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Whose events are counted, and against what: another quota is another, full bucket."""

    key_id: int
    per_minute: int

    @property
    def name(self) -> str:
        return f"quota:{self.key_id}:{self.per_minute}"


class Quota:
    """The buckets of all keys. `failures` counts how often Redis was given up on."""

    def __init__(self, address: str) -> None:
        self.failures = 0
        self._lock = threading.Lock()
        self._local: dict[_Bucket, float] = {}
        self._refused_until: dict[_Bucket, float] = {}
        self._paused_until = 0.0
        self._take: Any = None
        if address:
            client = redis.Redis.from_url(
                address,
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 1),  # once: a kept connection may have been closed by a restart
            )
            self._take = client.register_script(TAKE)

    def check(self, key: ApiKey, n_events: int) -> None:
        """Count `n_events` against the key's quota; 0 only looks whether the key was told to wait.

        Raises IngestError 429 with `retry_after` in whole seconds; nothing is counted then.
        """
        per_minute = quota_of(key)
        if per_minute <= 0:
            return
        bucket = _Bucket(key.pk, per_minute)
        wait = self._known_wait(bucket)
        if wait <= 0 and n_events:
            wait = self._spend(bucket, n_events)
            if wait > 0:
                self._remember(bucket, wait)
        if wait > 0:
            raise _exceeded(per_minute, max(1, math.ceil(wait / 1e6)))

    def _known_wait(self, bucket: _Bucket) -> float:
        """Return the microseconds a refused key still has to wait: no question to Redis, no parsing of its body."""
        until = self._refused_until.get(bucket)
        if until is None:
            return 0.0
        left = until - _now()
        if left <= 0:
            self._refused_until.pop(bucket, None)
        return left

    def _remember(self, bucket: _Bucket, wait: float) -> None:
        with self._lock:
            if len(self._refused_until) >= MOST_LOCAL:
                self._refused_until.clear()
            self._refused_until[bucket] = _now() + wait

    def _spend(self, bucket: _Bucket, n_events: int) -> float:
        if self._take is not None and time.monotonic() >= self._paused_until:
            try:
                return float(self._take(keys=[bucket.name], args=[bucket.per_minute, n_events]))
            except (redis.RedisError, OSError) as error:
                self._paused_until = time.monotonic() + PAUSE_SECONDS
                self.failures += 1
                logger.warning("quotas are counted by each process for itself: Redis fails (%s)", type(error).__name__)
        return self._spend_local(bucket, n_events)

    def _spend_local(self, bucket: _Bucket, n_events: int) -> float:
        now = _now()
        with self._lock:
            if len(self._local) >= MOST_LOCAL:
                self._local = {one: full_at for one, full_at in self._local.items() if full_at > now}
            wait, self._local[bucket] = wait_or_take(self._local.get(bucket, now), now, bucket.per_minute, n_events)
        return wait


def quota_of(key: ApiKey) -> int:
    """Return the events a minute the key may send; 0 when there is no bound."""
    own = key.events_per_minute
    return int(settings.INGEST_EVENTS_PER_MINUTE) if own is None else own


def _now() -> float:
    return time.monotonic() * 1e6


def _exceeded(per_minute: int, seconds: int) -> IngestError:
    detail = (
        f"this key's quota of {per_minute} events per minute is used up; nothing of this request was stored, "
        f"send it again in {seconds} s"
    )
    return IngestError("quota_exceeded", 429, detail, limit=per_minute, unit="events per minute", retry_after=seconds)


quota: Final = Quota(redis_address(settings.CELERY_BROKER_URL))


def check(key: ApiKey, n_events: int) -> None:
    """Count `n_events` against the key's quota. Raises IngestError 429, see `Quota.check`."""
    quota.check(key, n_events)
