"""Reports events to ingest: within its limits, a few attempts, every loss counted and logged by its code.

Telemetry is best effort: nothing here is raised into a run. (Seed 001 §12, §13.)
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from contract.text import clip

logger = logging.getLogger(__name__)

PATH: Final = "/v1/events"
MAX_EVENTS: Final = 500  # in one request; ingest takes 1,000
MAX_BYTES: Final = 4 * 1024 * 1024  # of one request's events; ingest takes 8 MiB
TIMEOUT_SECONDS: Final = 10.0
PAUSES_SECONDS: Final = (0.2, 1.0)  # before the second and the third attempt
RETRY_AFTER_LIMIT: Final = 5.0  # seconds
RETRYABLE_STATUS: Final = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class SendReport:
    """What became of the events of one call. `n_undelivered` may be sent again: ingest did not take them."""

    n_delivered: int = 0
    n_rejected: int = 0
    n_undelivered: int = 0
    problem: str = ""


class TelemetryClient:
    """Speaks to one ingest with one project's key. `counts` holds what was delivered, rejected and undelivered."""

    def __init__(self, base_url: str, api_key: str) -> None:
        headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        self._http = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=TIMEOUT_SECONDS)
        self.counts: Counter[str] = Counter()

    async def send(self, events: Sequence[Mapping[str, Any]]) -> SendReport:
        """Send the events (each as the wire has it) in as many requests as the limits ask for. Never raises."""
        n_delivered = n_rejected = n_undelivered = 0
        problem = ""
        for n_events, body in batches(events):
            report = await self._send_batch(n_events, body)
            n_delivered += report.n_delivered
            n_rejected += report.n_rejected
            n_undelivered += report.n_undelivered
            problem = report.problem or problem
        self.counts.update(delivered=n_delivered, rejected=n_rejected, undelivered=n_undelivered)
        return SendReport(n_delivered, n_rejected, n_undelivered, problem)

    async def close(self) -> None:
        await self._http.aclose()

    async def _send_batch(self, n_events: int, body: bytes) -> SendReport:
        problem = ""
        for pause in (*PAUSES_SECONDS, None):
            try:
                response = await self._http.post(PATH, content=body)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problem = str(error) or type(error).__name__
            else:
                if response.status_code in (200, 207):
                    return _accepted(n_events, response)
                problem = f"status {response.status_code} {_code(response)}".strip()
                if response.status_code not in RETRYABLE_STATUS:
                    logger.error("%d events were refused: %s", n_events, problem)
                    return SendReport(n_rejected=n_events, problem=problem)
                if pause is not None:
                    pause = max(pause, _retry_after(response))
            if pause is not None:
                await asyncio.sleep(pause)
        logger.warning("%d events could not be delivered: %s", n_events, problem)
        return SendReport(n_undelivered=n_events, problem=problem)


def batches(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Yield (number of events, request body), each body within MAX_EVENTS and MAX_BYTES.

    An event larger than that goes alone: ingest cuts its texts or says why not.
    """
    parts: list[bytes] = []
    size = 0
    for event in events:
        part = json.dumps(event).encode()
        if parts and (len(parts) == MAX_EVENTS or size + len(part) > MAX_BYTES):
            yield len(parts), _body(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield len(parts), _body(parts)


def _body(parts: Sequence[bytes]) -> bytes:
    return b'{"events":[' + b",".join(parts) + b"]}"


def _accepted(n_events: int, response: httpx.Response) -> SendReport:
    """Read a 200 or 207; rejected events are logged by index and code, never by content."""
    try:
        rejected = response.json().get("rejected", [])
        codes = [f"{item['index']}: {item['code']}" for item in rejected]
    except (ValueError, AttributeError, KeyError, TypeError):
        return SendReport(n_delivered=n_events)
    if codes:
        logger.error("ingest rejected %d of %d events: %s", len(codes), n_events, clip(", ".join(codes), 500))
    return SendReport(n_delivered=n_events - len(codes), n_rejected=len(codes), problem=clip(", ".join(codes), 500))


def _code(response: httpx.Response) -> str:
    try:
        code = response.json().get("code")
    except (ValueError, AttributeError):
        return ""
    return clip(code, 64) if isinstance(code, str) else ""


def _retry_after(response: httpx.Response) -> float:
    try:
        return min(max(float(response.headers.get("Retry-After", "0")), 0.0), RETRY_AFTER_LIMIT)
    except ValueError:
        return 0.0
