"""What a run must have to be meant, as conditions in SQL with their values.

`listed` is a row of RunSummary (of Run where only times are asked for), `days` the row of knowledge/run_days.py for the
day on which that run was first received.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge.run_days import NUMBER_SQL, days_sql
from knowledge.run_filters import OF_HINT, OF_SEARCH, RunFilter
from knowledge.task_grams import wanted_grams

Key = tuple[datetime, str]  # when a run was first received, and its id


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition in SQL and its values."""

    sql: str
    values: tuple[Any, ...] = ()


def all_of(clauses: Iterable[Clause]) -> str:
    """Return the SQL of all conditions."""
    return " AND ".join(clause.sql for clause in clauses)


def values_of(clauses: Iterable[Clause]) -> list[Any]:
    """Return the values of all conditions in their order."""
    return [value for clause in clauses for value in clause.values]


def has_words(words: Sequence[str]) -> Clause:
    """Return that a run has all of these facets, given without project and day."""
    return Clause(f"listed.facets @> ARRAY[{', '.join(['days.prefix || %s'] * len(words))}]", tuple(words))


def meant(project_id: int, wanted: RunFilter) -> list[Clause]:
    """Return what a run must have, for rows that are at hand."""
    must = [Clause("listed.project_id = %s", (project_id,))]
    if words := wanted.words():
        must.append(has_words(words))
    if wanted.text:
        must.append(Clause("upper(listed.task) LIKE upper(%s)", (f"%{_literal(wanted.text)}%",)))
    if wanted.needs_chain:
        must.append(_in_one_search(wanted))
    return must


def found(project_id: int, wanted: RunFilter) -> list[Clause]:
    """Return what a run must have, for rows that are found by an index."""
    must = meant(project_id, wanted)
    if wanted.text and (grams := wanted_grams(project_id, wanted.text)):
        salted = ", ".join(["%s::integer # days.salt"] * len(grams))
        must.append(Clause(f"listed.task_grams @> ARRAY[{salted}]", tuple(grams)))
    return must


def between(table: str, wanted: RunFilter, after: Key | None) -> list[Clause]:
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


def others(
    project_id: int, wanted: RunFilter, after: Key | None, limit: int, more: Sequence[Clause]
) -> tuple[str, list[Any]]:
    """Return the unions with runs that a search by what was derived does not find, and their values."""
    parts, values = "", []
    if wanted.fits_unfolded and not more:
        must = _unfolded(project_id, wanted, after)
        parts += f""" UNION (SELECT first_received_at, run_id FROM ingest_run listed WHERE {all_of(must)}
            ORDER BY first_received_at DESC, run_id DESC LIMIT %s)"""
        values += [*values_of(must), limit]
    if wanted.text:
        must = _named(project_id, wanted, after, more)
        source = "ingest_run listed"
        if wanted.words() or more:
            source = f"knowledge_runsummary listed CROSS JOIN LATERAL ({days_sql(project_id, NUMBER_SQL)}) days"
        parts += f" UNION SELECT first_received_at, run_id FROM {source} WHERE {all_of(must)}"
        values += values_of(must)
    return parts, values


def _named(project_id: int, wanted: RunFilter, after: Key | None, more: Sequence[Clause]) -> list[Clause]:
    """Return what holds of the run whose id is the text."""
    must = [Clause("listed.project_id = %s AND listed.run_id = %s", (project_id, wanted.text))]
    must += between("listed", wanted, after)
    must += [has_words(words)] if (words := wanted.words()) else []
    must += [_in_one_search(wanted)] if wanted.needs_chain else []
    return [*must, *more]


def _unfolded(project_id: int, wanted: RunFilter, after: Key | None) -> list[Clause]:
    """Return what holds of runs of which nothing was derived; the second line is the condition of their index."""
    nothing = """listed.folded_arrival = 0 AND listed.folded_arrival < listed.last_arrival AND NOT EXISTS (
        SELECT 1 FROM knowledge_runsummary known
        WHERE known.project_id = listed.project_id AND known.run_id = listed.run_id)"""
    return [Clause("listed.project_id = %s", (project_id,)), Clause(nothing), *between("listed", wanted, after)]


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


def _literal(text: str) -> str:
    """Return a text that LIKE takes as it stands."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
