"""Reads of a request what its page shows, by keys: the steps of its chain, and of its messages no more than a preview.

A request names the one it follows, and that the one before: the chain is walked in PostgreSQL, and only steps that hold
messages which are wanted leave it. (Seed 001 §16.3.)
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson
from django.db import connection

from debugger.access import GuardedRun
from debugger.queries.pieces import PREVIEW
from debugger.queries.request_told import Step
from ingest.model_requests import MESSAGE_TYPES, REQUEST_TYPE

ALL: Final = 2**31 - 1  # positions of messages end before it
SHORT: Final = 5 * PREVIEW  # code points of a message's JSON up to which it is read whole
CUT: Final = 4 * PREVIEW  # code points of a text or of arguments that are read of a longer one
LENGTH: Final = "n_text"  # beside a text that was cut: its code points; a sender's own word of that name is not it
SLACK: Final = 500  # events after a request in which a receipt for it may still have come
# What a step keeps of the request it follows; what is no count is none, as `follow_requests` has it.
KEPT: Final = (
    "CASE WHEN kept.data->>'n_kept' ~ '^[0-9]{1,9}$' THEN (kept.data->>'n_kept')::int"
    " WHEN kept.data->>'n_kept' ~ '^[0-9]+$' THEN 2147483647 ELSE 0 END"
)
OF_RUN: Final = (
    "kept.project_id = %(project)s AND kept.run_day = %(day)s AND kept.run_id = %(run)s"
    " AND kept.event_id = step.event_id"
    " AND (kept.type = %(type)s OR (kept.event_id = %(event)s AND kept.type = ANY(%(types)s)))"
)
STEPS: Final = f"""
SELECT * FROM (WITH RECURSIVE step AS (
    SELECT %(event)s::text AS event_id, {ALL} AS wanted
    UNION
    SELECT kept.data->>'follows', least(step.wanted, {KEPT})
    FROM step JOIN ingest_event kept ON {OF_RUN}
    WHERE kept.data->>'follows' IS NOT NULL AND least(step.wanted, {KEPT}) > %(first)s
)
SELECT step.event_id, step.wanted, kept.arrival, kept.type, kept.data
FROM step LEFT JOIN ingest_event kept ON {OF_RUN}
WHERE kept.event_id IS NULL OR kept.event_id = %(event)s OR {KEPT} < %(last)s) held
"""
# A text is cut in PostgreSQL: what is not shown does not leave it. Without a length the message is whole.
BODIES: Final = """
SELECT hash, length(body::text) > %(short)s, CASE WHEN length(body::text) <= %(short)s THEN body ELSE json_build_object(
    'role', body->'role', 'origin', body->'origin', 'call_id', body->'call_id', 'status', body->'status',
    'code', body->'code',
    'text', CASE json_typeof(body->'text') WHEN 'string' THEN left(body->>'text', %(cut)s) END,
    'n_text', CASE json_typeof(body->'text') WHEN 'string' THEN length(body->>'text') ELSE 0 END,
    'calls', CASE json_typeof(body->'calls') WHEN 'array' THEN (
        SELECT json_agg(json_build_object(
            'call_id', one->'call_id', 'id', one->'id', 'name', one->'name',
            'arguments', left(one->>'arguments', %(cut)s), 'n_arguments', length(one->>'arguments')))
        FROM json_array_elements(body->'calls') one WHERE json_typeof(one) = 'object') END
) END
FROM ingest_message WHERE project_id = %(project)s AND hash = ANY(%(hashes)s)
"""
RECEIPTS: Final = """
SELECT call_id, count(*) FROM ingest_event
WHERE project_id = %(project)s AND run_day = %(day)s AND run_id = %(run)s
    AND arrival > %(since)s AND arrival <= %(until)s AND type = 'time.receipt' AND call_id = ANY(%(call_ids)s)
GROUP BY call_id
"""


def read_steps(run: GuardedRun, event_id: str, first: int = 0, last: int = ALL) -> tuple[Step, ...]:
    """Return the steps that hold messages `first` to `last` (exclusive) of a request, from the request back. One query.

    A step that is not there is among them.
    """
    given = {**_run(run), "event": event_id, "type": REQUEST_TYPE, "types": list(MESSAGE_TYPES)}
    with connection.cursor() as cursor:
        cursor.execute(STEPS, {**given, "first": first, "last": last})
        rows = cursor.fetchall()
    return tuple(
        Step(one, wanted, arrival or 0, kind or "", None if data is None else orjson.loads(data))
        for one, wanted, arrival, kind, data in rows
    )


def read_previews(project_id: int, hashes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return hash -> message as it is shown: whole when short, else with its texts cut and their length beside them."""
    return _bodies(project_id, hashes, SHORT, CUT)


def read_outlines(project_id: int, hashes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return hash -> message without its texts: who speaks, which calls it makes, how long its texts are."""
    return _bodies(project_id, hashes, -1, 0)


def read_kept(project_id: int, hashes: Iterable[str]) -> set[str]:
    """Return those of the hashes whose message is kept; no message is read."""
    named = sorted(set(hashes))
    if not named:
        return set()
    with connection.cursor() as cursor:
        cursor.execute("SELECT hash FROM ingest_message WHERE project_id = %s AND hash = ANY(%s)", [project_id, named])
        return {row[0] for row in cursor.fetchall()}


def read_receipts(run: GuardedRun, call_ids: Iterable[str], since: int, until: int) -> dict[str, int]:
    """Return call id -> how many readings of the clock it gave, among the events that arrived between two others."""
    named = sorted(set(call_ids))
    if not named:
        return {}
    with connection.cursor() as cursor:
        given = {**_run(run), "since": since, "until": until + SLACK, "call_ids": named}
        cursor.execute(RECEIPTS, given)
        return dict(cursor.fetchall())


def _run(run: GuardedRun) -> dict[str, Any]:
    return {"project": run.project.pk, "day": run.registry.run_day, "run": run.registry.run_id}


def _bodies(project_id: int, hashes: Iterable[str], short: int, cut: int) -> dict[str, dict[str, Any]]:
    named = sorted(set(hashes))
    if not named:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(BODIES, {"project": project_id, "hashes": named, "short": short, "cut": cut})
        return {name: _body(body, is_cut=is_cut) for name, is_cut, body in cursor.fetchall()}


def _body(body: Any, *, is_cut: bool) -> dict[str, Any]:
    told = body if isinstance(body, dict) else orjson.loads(body)
    return {name: value for name, value in told.items() if value is not None and (is_cut or name != LENGTH)}
