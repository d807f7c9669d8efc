"""Pages of runs by a stable cursor, newest first, and how many there are.

The list starts from the run registry, so that a run is in it from its first event; what the fold derives is joined
to it and is None while it has not been derived. Newest first by the time we first heard of a run: the sender's clock
may be wrong and would let runs vanish or the cursor slip.

A filter is answered in two steps, because no plan is good for words that most runs have and for words that few have:
the newest runs are looked at one by one, which fills a page of a common word at once; when they do not fill it, the
indexes of facets and grams give all runs that are meant, and those are sorted. Only ids are sorted; the rows of a
page are read by their keys.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import F, QuerySet, TextField, Value
from django.db.models.functions import Coalesce

from ingest.cursors import make_cursor, read_cursor
from ingest.models import Run
from knowledge.models import RunSummary
from knowledge.run_filters import OF_HINT, OF_SEARCH, RUNNING, RunFilter
from knowledge.task_grams import wanted_grams

LOOKED_AT: Final = 1_000  # newest runs that are looked at one by one
MOST_TRIGGERS: Final = 100  # offered as choices of the filter
UNJOINED: Final = ("project_id", "run_id", "status", "folded_arrival", "first_received_at", "facets", "task_grams")
JOINED: Final = tuple(field.attname for field in RunSummary._meta.concrete_fields if field.attname not in UNJOINED)

Key = tuple[datetime, str]  # when a run was first received, and its id


@dataclass(frozen=True, slots=True)
class RunPage:
    """Rows of one page, newest first, and the cursor of the next one (None at the end).

    `n_found` is how many runs are meant from the page's first one on, where that became known on the way.
    """

    rows: tuple[Run, ...]
    next: str | None
    n_found: int | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition in SQL and its values."""

    sql: str
    values: tuple[Any, ...] = ()


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
        rows, n_found = _plain(project_id, wanted, after, limit + 1), None
    else:
        keys, n_found = _keys(project_id, wanted, after, limit + 1, more)
        rows = read_runs(project_id, keys)
    if len(rows) <= limit:
        return RunPage(rows, None, len(rows))
    return RunPage(rows[:limit], run_cursor(rows[limit - 1]), n_found)


def count_runs(project_id: int, wanted: RunFilter, most: int, *more: Clause) -> int | None:
    """Return how many runs are meant, None when they are more than `most`; one query.

    Meant for words of which the newest runs have filled a page: the order lets the plan begin with those.
    """
    between = _between("listed", wanted, None)
    values: list[Any] = []
    if not wanted.is_of_chain and not more:
        source, others = "ingest_run", ""
        must = [Clause("listed.project_id = %s", (project_id,)), *between]
    else:
        source = "knowledge_runsummary"
        must = [*_found(project_id, wanted), *between, *more]
        others, values = _others(project_id, wanted, None, most + 1, more)
    counted = f"""(SELECT first_received_at, run_id FROM {source} listed WHERE {_all(must)}
        ORDER BY first_received_at DESC, run_id DESC LIMIT %s) {others}"""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({counted}) counted", [*_values(must), most + 1, *values])
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
    must = _between("ingest_run", wanted, after)
    runs = all_runs(project_id).order_by("-first_received_at", "-run_id")
    return tuple(runs.extra(where=[one.sql for one in must], params=_values(must))[:limit])


def _keys(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]
) -> tuple[list[Key], int | None]:
    """Return the keys of a page, and how many there are where they were all found."""
    keys, n_seen = _newest(project_id, wanted, after, limit, more)
    if len(keys) < limit and n_seen == LOOKED_AT:
        return _indexed(project_id, wanted, after, limit, more)
    return keys, None


def _newest(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]
) -> tuple[list[Key], int]:
    """Return the runs that are meant among the LOOKED_AT newest, and how many were looked at."""
    seen = [Clause("project_id = %s", (project_id,)), *_between("", wanted, after)]
    must = [*_meant(project_id, wanted), *more]
    others, values = _others(project_id, wanted, after, limit, more)
    sql = f"""SELECT * FROM (
        WITH listed AS MATERIALIZED (
            SELECT project_id, run_id, first_received_at, facets, task, status FROM knowledge_runsummary
            WHERE {_all(seen)} ORDER BY first_received_at DESC, run_id DESC LIMIT {LOOKED_AT}
        ), found AS (SELECT first_received_at, run_id FROM listed WHERE {_all(must)} {others})
        SELECT found.first_received_at, found.run_id, whole.number
        FROM (SELECT count(*) AS number FROM listed) whole LEFT JOIN found ON true
        ORDER BY found.first_received_at DESC, found.run_id DESC LIMIT %s
    ) told"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [*_values(seen), *_values(must), *values, limit])
        rows = cursor.fetchall()
    return [(moment, run_id) for moment, run_id, _ in rows if run_id is not None], rows[0][2]


def _indexed(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]
) -> tuple[list[Key], int]:
    """Return the runs that are meant and their number, found by the indexes.

    Materialized, or the plan would follow the order instead.
    """
    must = [*_found(project_id, wanted), *_between("listed", wanted, after), *more]
    others, values = _others(project_id, wanted, after, limit, more)
    sql = f"""SELECT * FROM (
        WITH found AS MATERIALIZED (
            SELECT first_received_at, run_id FROM knowledge_runsummary listed WHERE {_all(must)} {others}
        ) SELECT first_received_at, run_id, (SELECT count(*) FROM found)
        FROM found ORDER BY first_received_at DESC, run_id DESC LIMIT %s
    ) told"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [*_values(must), *values, limit])
        rows = cursor.fetchall()
    return [(moment, run_id) for moment, run_id, _ in rows], rows[0][2] if rows else 0


def _meant(project_id: int, wanted: RunFilter) -> list[Clause]:
    """Return what a run must have, for rows that are at hand."""
    must = [Clause("listed.project_id = %s", (project_id,))]
    if facets := wanted.facets(project_id):
        must.append(Clause("listed.facets @> %s::text[]", (facets,)))
    if wanted.text:
        must.append(Clause("upper(listed.task) LIKE upper(%s)", (f"%{_literal(wanted.text)}%",)))
    if wanted.needs_chain:
        must.append(_in_one_search(wanted))
    return must


def _found(project_id: int, wanted: RunFilter) -> list[Clause]:
    """Return what a run must have, for rows that are found by an index."""
    must = _meant(project_id, wanted)
    if wanted.text and (grams := wanted_grams(project_id, wanted.text)):
        must.append(Clause("listed.task_grams @> %s::integer[]", (grams,)))
    return must


def _in_one_search(wanted: RunFilter) -> Clause:
    """Return that one search of the run, and where that is asked one candidate of it, holds all that is asked."""
    of_search, of_hint = wanted.of(OF_SEARCH), wanted.of(OF_HINT)
    same_run = "{0}.project_id = listed.project_id AND {0}.run_id = listed.run_id"
    hint = " AND ".join([same_run.format("hint"), *(f"hint.{name} = %s" for name in of_hint)])
    if not of_search:
        return Clause(f"EXISTS (SELECT 1 FROM knowledge_candidate hint WHERE {hint})", tuple(of_hint.values()))
    search = " AND ".join([same_run.format("search"), *(f"search.{name} = %s" for name in of_search)])
    if of_hint:
        same = "hint.activation_id = search.activation_id"
        search += f" AND EXISTS (SELECT 1 FROM knowledge_candidate hint WHERE {hint} AND {same})"
    values = (*of_search.values(), *of_hint.values())
    return Clause(f"EXISTS (SELECT 1 FROM knowledge_activation search WHERE {search})", values)


def _others(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]
) -> tuple[str, list[Any]]:
    """Return the unions with runs that a search by what was derived does not find, and their values."""
    parts, values = "", []
    if wanted.fits_unfolded and not more:
        must = _unfolded(project_id, wanted, after)
        parts += f""" UNION (SELECT first_received_at, run_id FROM ingest_run listed WHERE {_all(must)}
            ORDER BY first_received_at DESC, run_id DESC LIMIT %s)"""
        values += [*_values(must), limit]
    if wanted.text:
        facets = wanted.facets(project_id)
        must = [Clause("listed.project_id = %s AND listed.run_id = %s", (project_id, wanted.text))]
        must += _between("listed", wanted, after)
        source = "knowledge_runsummary" if facets or more else "ingest_run"
        must += [Clause("listed.facets @> %s::text[]", (facets,))] if facets else []
        must += [_in_one_search(wanted)] if wanted.needs_chain else []
        must += more
        parts += f" UNION SELECT first_received_at, run_id FROM {source} listed WHERE {_all(must)}"
        values += _values(must)
    return parts, values


def _unfolded(project_id: int, wanted: RunFilter, after: Key | None) -> list[Clause]:
    """Return what holds of runs of which nothing was derived; the second line is the condition of their index."""
    nothing = """listed.folded_arrival = 0 AND listed.folded_arrival < listed.last_arrival AND NOT EXISTS (
        SELECT 1 FROM knowledge_runsummary known
        WHERE known.project_id = listed.project_id AND known.run_id = listed.run_id)"""
    return [Clause("listed.project_id = %s", (project_id,)), Clause(nothing), *_between("listed", wanted, after)]


def _between(table: str, wanted: RunFilter, after: Key | None) -> list[Clause]:
    """Return the bounds of time, and those of a cursor."""
    of = f"{table}." if table else ""
    must = []
    if wanted.since:
        must.append(Clause(f"{of}first_received_at >= %s", (wanted.since,)))
    if wanted.until:
        must.append(Clause(f"{of}first_received_at < %s", (wanted.until,)))
    if after:
        must.append(Clause(f"({of}first_received_at, {of}run_id) < (%s, %s)", after))
    return must


def _all(clauses: Iterable[Clause]) -> str:
    return " AND ".join(clause.sql for clause in clauses)


def _values(clauses: Iterable[Clause]) -> list[Any]:
    return [value for clause in clauses for value in clause.values]


def _literal(text: str) -> str:
    """Return a text that LIKE takes as it stands."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


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
