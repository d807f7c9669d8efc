"""Parts are killed, frozen and filled up under load: what was acknowledged is there exactly once, and folds.

Provable of a delivery: 200 means stored whole. 503 means not acknowledged: nothing of it is stored, or, when the
connection broke during the commit itself, the whole. No answer means whole or nothing. Never a part.
"""

import json
import os
import signal
import time
from collections import Counter
from typing import Final

import httpx
import pytest

from tests.chaos.sender import EVENTS, NATIVE, PAYLOAD, TRACES, Load, load
from tests.chaos.site import Site, wait_until

pytestmark = pytest.mark.stack

AWAY_SECONDS: Final = float(os.environ.get("CHAOS_AWAY_SECONDS", "6"))  # how long the database is away
FROZEN_SECONDS: Final = min(AWAY_SECONDS, 4.0)
MEMORY_KILOBYTES: Final = 48 * 1024  # how much more both web processes may hold after an outage


def stored_ids(site: Site, run_ids: set[str]) -> Counter[tuple[object, ...]]:
    rows = site.rows("SELECT run_id, event_id FROM ingest_event WHERE run_id = ANY(%s)", sorted(run_ids))
    return Counter(rows)


def assert_nothing_lost(site: Site, sent: Load) -> None:
    """Every batch is stored once and whole; each 503 said when to come back; arrivals are gapless; all is folded."""
    batches = sent.batches
    assert all(batch.is_acknowledged for batch in batches)
    wanted = {(batch.run_id, event_id) for batch in batches for event_id in batch.event_ids}
    found = stored_ids(site, {batch.run_id for batch in batches})
    assert set(found) == wanted
    assert set(found.values()) == {1}
    for batch in batches:
        last = batch.attempts[-1].body
        if batch.path == TRACES:
            assert last == {}, batch.attempts
            continue
        assert (last["accepted"], last["duplicates"]) in ((EVENTS, 0), (0, EVENTS)), batch.attempts
        if len(batch.attempts) == 1:
            assert last["accepted"] == EVENTS
    assert [attempt for attempt in sent.answers(503) if not int(attempt.retry_after or 0)] == []
    run_ids = sorted({batch.run_id for batch in batches})
    numbers = site.rows(
        "SELECT run_id, count(*), max(arrival) FROM ingest_event WHERE run_id = ANY(%s) GROUP BY run_id", run_ids
    )
    assert [row for row in numbers if row[1] != row[2]] == []
    unfolded = "SELECT run_id FROM ingest_run WHERE folded_arrival < last_arrival AND run_id = ANY(%s)"
    wait_until(lambda: site.rows(unfolded, run_ids) == [], 40, "the fold")
    summaries = site.rows("SELECT run_id FROM knowledge_runsummary WHERE run_id = ANY(%s)", run_ids)
    assert len(summaries) == len(run_ids)


def test_a_killed_web_process(site: Site) -> None:
    """kill -9 of one of two: the other serves, a new one comes."""
    with load(site.base_url, site.api_key) as sent:
        killed = site.web_workers()[0]
        os.kill(killed, signal.SIGKILL)
        sent.await_progress()
        wait_until(lambda: len(site.web_workers()) == 2 and killed not in site.web_workers(), 20, "a new web process")
        sent.await_progress()
    assert_nothing_lost(site, sent)


def test_a_killed_web_server(site: Site) -> None:
    """kill -9 of the process above them, and of both with it; a new server on the same address."""
    with load(site.base_url, site.api_key) as sent:
        site.kill("web")
        sent.await_progress()
    assert_nothing_lost(site, sent)


def test_a_killed_queue_worker(site: Site) -> None:
    """kill -9 while it folds: what it had taken is folded all the same."""
    with load(site.base_url, site.api_key) as sent:
        site.kill("queue")
        sent.await_progress()
    assert_nothing_lost(site, sent)


def test_a_killed_broker(site: Site) -> None:
    """kill -9 of Redis: events are taken without it, at their pace, and folded once it is back."""
    with load(site.base_url, site.api_key) as sent:
        site.kill_redis()
        try:
            sent.await_progress(batches=10)
            answer = httpx.get(f"{site.base_url}/readyz", timeout=20)
            assert (answer.status_code, answer.json()["parts"]["broker"]["ok"]) == (200, False)
        finally:
            site.start_redis()
        sent.await_progress()
    assert sent.answers(503) == []
    assert_nothing_lost(site, sent)


def test_case_30_a_killed_database(site: Site) -> None:
    """kill -9 of PostgreSQL for a while: 503 with Retry-After at once, memory stays flat, everything is there after."""
    with load(site.base_url, site.api_key, n_senders=6) as sent:
        before = site.web_kilobytes()
        site.kill_postgres()
        try:
            wait_until(lambda: len(sent.answers(503)) >= 6, 30, "the first refusals")
            n_refused = len(sent.answers(503))
            ends = time.monotonic() + AWAY_SECONDS
            wait_until(lambda: time.monotonic() > ends, AWAY_SECONDS + 5, "the end of the outage")
            assert len(sent.answers(503)) > n_refused
            assert httpx.get(f"{site.base_url}/healthz", timeout=20).status_code == 200
            assert httpx.get(f"{site.base_url}/readyz", timeout=20).status_code == 503
            held = site.web_kilobytes() - before
        finally:
            site.start_postgres()
        sent.await_progress()
    told = {str(attempt.body.get("details") or attempt.body["code"]).lower() for attempt in sent.answers(503)}
    assert told and all("database_unavailable" in reason for reason in told)
    assert held < MEMORY_KILOBYTES
    assert_nothing_lost(site, sent)


def test_a_database_that_hangs(site: Site) -> None:
    """PostgreSQL stands still with its connections open: no answer is given for what is not stored; then it goes on."""
    with load(site.base_url, site.api_key) as sent:
        before = site.web_kilobytes()
        with site.frozen_postgres():
            n_done = sum(batch.is_acknowledged for batch in sent.batches)
            ends = time.monotonic() + FROZEN_SECONDS
            wait_until(lambda: time.monotonic() > ends, FROZEN_SECONDS + 5, "the end of the freeze")
            held = site.web_kilobytes() - before
            answered = sum(batch.is_acknowledged for batch in sent.batches) - n_done
        sent.await_progress()
    assert answered <= len(sent.senders)  # answers that were on their way
    assert held < MEMORY_KILOBYTES
    assert_nothing_lost(site, sent)


def test_a_full_disk(site: Site) -> None:
    """The journal cannot grow (SQLSTATE 53100): 503 with Retry-After, nothing of it stored, and it goes on after."""
    with load(site.base_url, site.api_key) as sent:
        site.rows(
            "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file' USING ERRCODE = '53100'; END $$"
        )
        site.rows("CREATE TRIGGER no_space BEFORE INSERT ON ingest_event FOR EACH ROW EXECUTE FUNCTION no_space()")
        try:
            wait_until(lambda: len(sent.answers(503)) >= 6, 30, "refusals")
            waiting = [batch for batch in sent.batches if not batch.is_acknowledged]
            open_ids = {(batch.run_id, name) for batch in waiting for name in batch.event_ids}
            assert open_ids & set(stored_ids(site, {batch.run_id for batch in waiting})) == set()
        finally:
            site.rows("DROP FUNCTION no_space() CASCADE")
        sent.await_progress()
    refused = [batch for batch in sent.batches if {one.status for one in batch.attempts} == {503, 200}]
    assert {batch.path for batch in refused} == {NATIVE, TRACES}
    assert {batch.attempts[-1].body["accepted"] for batch in refused if batch.path == NATIVE} == {EVENTS}
    assert_nothing_lost(site, sent)


def test_metrics_and_logs_after_all_of_it(site: Site) -> None:
    """The counts of both web processes in one answer; every line of theirs is one JSON object without payload."""
    text = httpx.get(f"{site.base_url}/metrics", timeout=20).text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, value in lines}
    assert values['temporality_events_accepted_total{source="events"}'] > 0
    assert values['temporality_events_accepted_total{source="otlp_traces"}'] > 0
    assert values["temporality_database_failures_total"] > 0
    assert values["temporality_queue_failures_total"] > 0
    assert values["temporality_database_up"] == 1
    assert "pid=" not in text
    written = (site.var_dir / "log" / "web.log").read_text()
    objects = [json.loads(line) for line in written.splitlines()]
    assert {"temporality.requests", "gunicorn.error"} <= {line["logger"] for line in objects}
    everything = "".join(path.read_text() for path in (site.var_dir / "log").iterdir())
    assert [word for word in (PAYLOAD[:20], site.api_key) if word in everything] == []
    assert "chaos-" not in written
