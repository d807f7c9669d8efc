"""Pages of runs by a stable cursor, newest first, and how many there are.

The list starts from the run registry, so that a run is in it from its first event; what the fold derives is joined
to it and is None while it has not been derived. Newest first by the time we first heard of a run: the sender's clock
may be wrong and would let runs vanish or the cursor slip.

A filter is answered in two steps, because no plan is good for words that most runs have and for words that few have:
the newest runs are looked at one by one, which fills a page of a common word at once; when they do not fill it, the
indexes of facets and grams are asked for one day after another, the newest first, until it is full. A day on which no
run is meant costs one look into an index, whatever its runs. Only ids are sorted; the rows of a page are read by their
keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection
from django.db.models import F, QuerySet, TextField, Value
from django.db.models.functions import Coalesce

from ingest.cursors import make_cursor, read_cursor
from ingest.models import Run
from knowledge.models import RunSummary
from knowledge.run_clauses import Clause, Key, all_of, between, found, meant, others, values_of
from knowledge.run_days import NUMBER_SQL, days_sql
from knowledge.run_filters import RUNNING, RunFilter

LOOKED_AT: Final = 1_000  # newest runs that are looked at one by one
MOST_TRIGGERS: Final = 100  # offered as choices of the filter
UNJOINED: Final = ("project_id", "run_id", "status", "folded_arrival", "first_received_at", "facets", "task_grams")
JOINED: Final = tuple(field.attname for field in RunSummary._meta.concrete_fields if field.attname not in UNJOINED)


@dataclass(frozen=True, slots=True)
class RunPage:
    """Rows of one page, newest first, and the cursor of the next one (None at the end).

    `n_found` is how many runs are meant from the page's first one on, known where that is the last page.
    """

    rows: tuple[Run, ...]
    next: str | None
    n_found: int | None = None


def all_runs(project_id: int) -> QuerySet[Run]:
    """Return the project's runs with the fields of their RunSummary as attributes, None while not folded.

    `status` is then running, and `folded_arrival` against `last_arrival` tells how far the fold is behind.
    """
    joined = {name: F(f"summary__{name}") for name in JOINED}
    status = Coalesce(F("summary__status"), Value(RUNNING), output_field=TextField())
    return Run.objects.filter(project_id=project_id).annotate(**joined, status=status)


def page_of(project_id: int, wanted: RunFilter, cursor: str, limit: int, *more: Clause) -> RunPage:
    """Return up to `limit` runs after `cursor` ("" for the first page); two or three queries, one without a filter.

    `more` are conditions of the caller on the columns of `listed`, a row of RunSummary. Runs that arrive meanwhile
    stand before the cursor and move nothing. Raises IngestError (400) for a cursor that is none of ours.
    """
    after = read_cursor(cursor) if cursor else None
    if not wanted.is_of_chain and not more:
        rows = _plain(project_id, wanted, after, limit + 1)
    else:
        rows = read_runs(project_id, _keys(project_id, wanted, after, limit + 1, more))
    if len(rows) <= limit:
        return RunPage(rows, None, len(rows))
    return RunPage(rows[:limit], run_cursor(rows[limit - 1]))


def count_runs(project_id: int, wanted: RunFilter, most: int, *more: Clause) -> int | None:
    """Return how many runs are meant, None when they are more than `most`; one query."""
    if not wanted.is_of_chain and not more:
        must = [Clause("listed.project_id = %s", (project_id,)), *between("listed", wanted, None)]
        sql, values = f"SELECT 1 FROM ingest_run listed WHERE {all_of(must)} LIMIT %s", [*values_of(must), most + 1]
    else:
        sql, values = _day_by_day(project_id, wanted, None, most + 1, more, is_ordered=False)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({sql}) counted", values)
        number = int(cursor.fetchone()[0])
    return number if number <= most else None


def read_runs(project_id: int, keys: Sequence[Key]) -> tuple[Run, ...]:
    """Return the runs of these keys in their order; one that went away meanwhile is left out. One query."""
    if not keys:
        return ()
    rows = {run.run_id: run for run in all_runs(project_id).filter(run_id__in=[run_id for _, run_id in keys])}
    return tuple(rows[run_id] for _, run_id in keys if run_id in rows)


def _plain(project_id: int, wanted: RunFilter, after: Key | None, limit: int) -> tuple[Run, ...]:
    """Return the newest runs without asking what they are."""
    must = between("ingest_run", wanted, after)
    runs = all_runs(project_id).order_by("-first_received_at", "-run_id")
    return tuple(runs.extra(where=[one.sql for one in must], params=values_of(must))[:limit])


def _keys(project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]) -> list[Key]:
    """Return the keys of a page."""
    keys, n_seen = _newest(project_id, wanted, after, limit, more)
    if len(keys) == limit or n_seen < LOOKED_AT:
        return keys
    sql, values = _day_by_day(project_id, wanted, after, limit, more, is_ordered=True)
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def _newest(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]
) -> tuple[list[Key], int]:
    """Return the runs that are meant among the LOOKED_AT newest, and how many were looked at."""
    seen = [Clause("project_id = %s", (project_id,)), *between("", wanted, after)]
    must = [*meant(project_id, wanted), *more]
    unions, values = others(project_id, wanted, after, limit, more)
    sql = f"""SELECT * FROM (
        WITH listed AS MATERIALIZED (
            SELECT project_id, run_id, first_received_at, facets, task, status FROM knowledge_runsummary
            WHERE {all_of(seen)} ORDER BY first_received_at DESC, run_id DESC LIMIT {LOOKED_AT}
        ), found AS (
            SELECT first_received_at, run_id
            FROM listed CROSS JOIN LATERAL ({days_sql(project_id, NUMBER_SQL)}) days
            WHERE {all_of(must)} {unions}
        )
        SELECT found.first_received_at, found.run_id, whole.number
        FROM (SELECT count(*) AS number FROM listed) whole LEFT JOIN found ON true
        ORDER BY found.first_received_at DESC, found.run_id DESC LIMIT %s
    ) told"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values_of(seen), *values_of(must), *values, limit])
        rows = cursor.fetchall()
    return [(moment, run_id) for moment, run_id, _ in rows if run_id is not None], rows[0][2]


def _day_by_day(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause], *, is_ordered: bool
) -> tuple[str, list[Any]]:
    """Return the SQL of the keys of up to `limit` runs that are meant, found by the indexes, and its values.

    It goes back from the newest day and ends with the one that fills the page. Without order each day ends as soon as
    there are enough, and these need not be the newest. OFFSET 0 keeps the plan from following the order of the list,
    which is the slowest way to a word that only old runs have.
    """
    times = [Clause("listed.project_id = %s", (project_id,)), *between("listed", wanted, after)]
    bound = f"SELECT {NUMBER_SQL} FROM knowledge_runsummary listed WHERE {all_of(times)} ORDER BY first_received_at"
    must = [*found(project_id, wanted), *between("listed", wanted, after), *more]
    unions, values = others(project_id, wanted, after, limit, more)
    order = "ORDER BY first_received_at DESC, run_id DESC" if is_ordered else ""
    sql = f"""SELECT first_received_at, run_id FROM (
        WITH RECURSIVE bounds AS MATERIALIZED (
            SELECT ({bound} DESC LIMIT 1) AS newest, ({bound} LIMIT 1) AS oldest
        ), walk(day, number, moments, run_ids) AS (
            SELECT newest + 1, 0, '{{}}'::timestamptz[], '{{}}'::text[] FROM bounds
            UNION ALL
            SELECT days.day, walk.number + cardinality(of_day.run_ids), of_day.moments, of_day.run_ids
            FROM walk CROSS JOIN bounds CROSS JOIN LATERAL ({days_sql(project_id, "(walk.day - 1)")}) days
            CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(first_received_at), '{{}}') AS moments,
                    coalesce(array_agg(run_id), '{{}}') AS run_ids
                FROM (
                    SELECT first_received_at, run_id FROM (
                        SELECT first_received_at, run_id FROM knowledge_runsummary listed
                        WHERE {all_of(must)} OFFSET 0
                    ) each_one {order} LIMIT %s
                ) enough
            ) of_day
            WHERE walk.number < %s AND walk.day > bounds.oldest
        )
        SELECT one.first_received_at, one.run_id
        FROM walk CROSS JOIN LATERAL unnest(walk.moments, walk.run_ids) AS one(first_received_at, run_id) {unions}
    ) told {order} LIMIT %s"""
    return sql, [*values_of(times) * 2, *values_of(must), limit, limit, *values, limit]


TRIGGERS_OF: Final = """
SELECT trigger FROM (
    WITH RECURSIVE found(trigger) AS (
        (
            SELECT trigger FROM knowledge_activation
            WHERE project_id = %(project)s AND trigger > '' ORDER BY trigger LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT trigger FROM knowledge_activation
            WHERE project_id = %(project)s AND trigger > found.trigger ORDER BY trigger LIMIT 1
        ) FROM found WHERE found.trigger IS NOT NULL
    )
    SELECT trigger FROM found WHERE trigger IS NOT NULL LIMIT %(most)s
) listed
"""


def triggers_of(project_id: int) -> list[str]:
    """Return the triggers the project's activations had, at most MOST_TRIGGERS; one step of the index for each."""
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS_OF, {"project": project_id, "most": MOST_TRIGGERS})
        return [row[0] for row in cursor.fetchall()]


def run_cursor(run: Run) -> str:
    """Return the cursor of the runs after `run`: when it was first received, and its id."""
    return make_cursor(run.first_received_at, run.run_id)
