"""THE write path of rollups: keeps what each run adds, and brings the sums up to it.

The table of contributions is the queue. A fold replaces its run's row and touches no sum; a task takes dirty rows, adds
what is new and takes out what is no more, and remembers what is in. One process at a time does so in a project, under
a lock that folds do not know; whoever takes runs away comes last of its locks to this one. (Seed 001 §13.)
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import Any, Final, NamedTuple

import orjson
from django.db import connection, transaction

from knowledge.chain_facts import RunChain
from knowledge.contributions import COUNTS, Cells, Counts, RollupKey, contribute, pack, unpack
from knowledge.effects.counts import COLUMNS
from knowledge.effects.replicates import Replicates
from knowledge.models import ItemRollup, Rollup, RunContribution

RUNS_AT_ONCE: Final = 500  # dirty runs of one transaction
SUMS: Final = (*COUNTS, *COLUMNS)
_LOCK: Final = "hashtextextended('rollups', %s)"
_KEYS: Final = tuple(name for name in RollupKey._fields if name != "knowledge_id")


class Place(NamedTuple):
    """One row of the sums: day, whether of runs that are forgotten, and its key."""

    day: date
    forgotten: bool
    key: RollupKey


@dataclass(slots=True)
class Change:
    """What is added to one row: sums by name, words with their kind, and replicates; numbers may be below 0."""

    counts: Counter[str] = field(default_factory=Counter)
    replicates: Replicates | None = None

    def take(self, run_id: str, counts: Counts, sign: int) -> None:
        for name, number in counts.items():
            self.counts[name] += sign * number
        if counts.get("n_points"):
            part = Replicates.of_run(run_id, _weighted(counts))
            before = self.replicates or Replicates.empty()
            self.replicates = before + part if sign > 0 else before - part


Changes = dict[Place, Change]


def _weighted(counts: Counts) -> tuple[int, ...]:
    """Return the sums that replicates weigh, in the order of their rows."""
    near = counts.get("near_success", 0)
    far = counts.get("far_success", 0)
    return (
        near + counts.get("near_failure", 0),
        near,
        far + counts.get("far_failure", 0),
        far,
        counts.get("calls_after", 0),
        counts.get("failed_after", 0),
    )


# ---- what one run adds --------------------------------------------------------------------------------------------


def keep_contribution(project_id: int, run_id: str, day: date, chain: RunChain) -> None:
    """Put what the run adds in the place of what it added before, inside the fold's transaction; no sum is touched."""
    body = pack(contribute(chain))
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO knowledge_runcontribution AS kept (project_id, run_id, day, body, rolled, dirty)
            SELECT %(project)s, %(run)s, %(day)s, %(body)s, '', true
            WHERE %(body)s <> ''::bytea OR EXISTS (
                SELECT FROM knowledge_runcontribution WHERE project_id = %(project)s AND run_id = %(run)s
            )
            ON CONFLICT (project_id, run_id) DO UPDATE
            SET body = excluded.body, dirty = true, rolled = CASE WHEN kept.dirty THEN kept.rolled ELSE kept.body END
            WHERE kept.body <> excluded.body
            """,
            {"project": project_id, "run": run_id, "day": day, "body": body},
        )


def waiting_projects() -> list[int]:
    """Return the projects of which some run is not in the sums as it is."""
    dirty = RunContribution.objects.filter(dirty=True)
    return list(dirty.order_by("project_id").values_list("project_id", flat=True).distinct())


def roll_up(project_id: int, limit: int = RUNS_AT_ONCE) -> int:
    """Bring the sums up to `limit` runs that wait; return how many were dealt with, 0 while another process does it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_try_advisory_xact_lock({_LOCK})", [project_id])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(
            """
            SELECT run_id, day, body, rolled FROM knowledge_runcontribution
            WHERE project_id = %s AND dirty ORDER BY run_id LIMIT %s FOR UPDATE SKIP LOCKED
            """,
            [project_id, limit],
        )
        rows = cursor.fetchall()
        changes: Changes = {}
        for run_id, day, body, rolled in rows:
            _note_difference(changes, run_id, day, unpack(rolled), unpack(body))
        _apply(project_id, changes)
        cursor.execute(
            "UPDATE knowledge_runcontribution SET dirty = false, rolled = ''"
            " WHERE project_id = %s AND run_id = ANY(%s)",
            [project_id, [row[0] for row in rows]],
        )
    return len(rows)


def _note_difference(changes: Changes, run_id: str, day: date, before: Cells, after: Cells) -> None:
    """Note what differs between what a run added before and what it adds now."""
    for key in {**before, **after}:
        old, new = before.get(key, {}), after.get(key, {})
        if old != new:
            _note(changes, Place(day, False, key), run_id, old, -1)
            _note(changes, Place(day, False, key), run_id, new, 1)


def _note(changes: Changes, place: Place, run_id: str, counts: Counts, sign: int) -> None:
    changes.setdefault(place, Change()).take(run_id, counts, sign)


# ---- runs that go -------------------------------------------------------------------------------------------------


def take_out(project_id: int, run_ids: Sequence[str]) -> None:
    """Take runs that are being deleted out of the sums. The caller holds their locks and deletes their rows."""
    _leave(project_id, run_ids, remembered=False)


def set_aside(project_id: int, run_ids: Sequence[str]) -> None:
    """Move runs that are being forgotten to the sums that no rebuild touches. The caller deletes their rows."""
    _leave(project_id, run_ids, remembered=True)


def _leave(project_id: int, run_ids: Sequence[str], *, remembered: bool) -> None:
    with connection.cursor() as cursor:
        _lock(cursor, project_id)
        cursor.execute(
            "SELECT run_id, day, body, CASE WHEN dirty THEN rolled ELSE body END FROM knowledge_runcontribution"
            " WHERE project_id = %s AND run_id = ANY(%s) ORDER BY run_id FOR UPDATE",
            [project_id, list(run_ids)],
        )
        changes: Changes = {}
        for run_id, day, body, rolled in cursor.fetchall():
            _note_difference(changes, run_id, day, unpack(rolled), {})
            for key, counts in unpack(body).items() if remembered else ():
                _note(changes, Place(day, True, key), run_id, counts, 1)
        _apply(project_id, changes)


def _lock(cursor: Any, project_id: int) -> None:
    cursor.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", [project_id])


# ---- from scratch -------------------------------------------------------------------------------------------------


def rebuild(project_id: int, since: date | None = None) -> int:
    """Make the sums of all kept runs anew, day by day, or of the days from `since`; those of forgotten runs stay.

    Return how many days there are.
    """
    own: dict[str, Any] = {"project_id": project_id}
    days = set(RunContribution.objects.filter(**own).values_list("day", flat=True).distinct())
    for model in (Rollup, ItemRollup):
        days |= set(model.objects.filter(**own, forgotten=False).values_list("day", flat=True).distinct())
    days = {day for day in days if since is None or day >= since}
    for day in sorted(days):
        with transaction.atomic(), connection.cursor() as cursor:
            _lock(cursor, project_id)
            for model in (Rollup, ItemRollup):
                model.objects.filter(**own, day=day, forgotten=False).delete()
            cursor.execute(
                "SELECT run_id, body FROM knowledge_runcontribution WHERE project_id = %s AND day = %s"
                " ORDER BY run_id FOR UPDATE",
                [project_id, day],
            )
            changes: Changes = {}
            for run_id, body in cursor.fetchall():
                _note_difference(changes, run_id, day, {}, unpack(body))
            _apply(project_id, changes)
            RunContribution.objects.filter(**own, day=day).update(dirty=False, rolled=b"")
    return len(days)


# ---- the rows -----------------------------------------------------------------------------------------------------


def _digest(key: RollupKey) -> bytes:
    return hashlib.blake2b(orjson.dumps(list(key)), digest_size=16).digest()


def _apply(project_id: int, changes: Changes) -> None:
    """Add the changes to the rows, inside the caller's transaction and lock. A row of which nothing is left goes."""
    for of_items, members in groupby(sorted(changes, key=_of_items), key=_of_items):
        places = sorted(members, key=lambda place: (place.day, place.forgotten, _digest(place.key)))
        for start in range(0, len(places), RUNS_AT_ONCE):
            _apply_some(_TABLES[of_items], project_id, places[start : start + RUNS_AT_ONCE], changes)


def _of_items(place: Place) -> bool:
    return place.key.knowledge_id != ""


@dataclass(frozen=True, slots=True)
class _Statements:
    read: str
    write: str
    remove: str
    keys: tuple[str, ...]


def _statements(table: str, keys: tuple[str, ...]) -> _Statements:
    columns = (*SUMS, "words", "replicates")
    names = ", ".join(f'"{name}"' for name in ("project_id", "day", "forgotten", "cell", *keys, *columns))
    values = ", ".join(["%s"] * (4 + len(keys) + len(columns)))
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns)
    given = "unnest(%s::date[], %s::bool[], %s::bytea[]) AS given(day, forgotten, cell)"
    same = (
        "kept.project_id = %s AND kept.day = given.day AND kept.forgotten = given.forgotten AND kept.cell = given.cell"
    )
    return _Statements(
        read=f"SELECT kept.day, kept.forgotten, kept.cell, {', '.join(columns)}"
        f" FROM {given} JOIN {table} kept ON {same}",
        write=f"INSERT INTO {table} ({names}) VALUES ({values})"
        f" ON CONFLICT (project_id, day, forgotten, cell) DO UPDATE SET {changed}",
        remove=f"DELETE FROM {table} kept USING {given} WHERE {same}",
        keys=keys,
    )


_TABLES: Final = {
    False: _statements("knowledge_rollup", _KEYS),
    True: _statements("knowledge_itemrollup", RollupKey._fields),
}


def _apply_some(table: _Statements, project_id: int, places: Sequence[Place], changes: Mapping[Place, Change]) -> None:
    named = {(place.day, place.forgotten, _digest(place.key)): place for place in places}
    with connection.cursor() as cursor:
        cursor.execute(table.read, [*_columns(named), project_id])
        before = {(row[0], row[1], bytes(row[2])): row[3:] for row in cursor.fetchall()}
        after = {where: _sum(before.get(where), changes[place]) for where, place in named.items()}
        gone = [where for where, row in after.items() if row is None and where in before]
        if gone:
            cursor.execute(table.remove, [*_columns(gone), project_id])
        written = [
            (project_id, *where, *(getattr(named[where].key, name) for name in table.keys), *row)
            for where, row in after.items()
            if row is not None
        ]
        if written:
            cursor.executemany(table.write, written)


def _columns(wheres: Iterable[tuple[date, bool, bytes]]) -> Iterator[list[Any]]:
    for column in zip(*wheres, strict=True):
        yield list(column)


def _sum(before: tuple[Any, ...] | None, change: Change) -> tuple[Any, ...] | None:
    """Return the columns of a row after the change, None when nothing is left of it.

    Raises ValueError when more was taken out than is in, which `manage.py rebuild` puts right.
    """
    counts = Counter(change.counts)
    replicates = change.replicates or Replicates.empty()
    if before is not None:
        *numbers, words, stored = before
        counts.update(dict(zip(SUMS, numbers, strict=True)))
        counts.update(orjson.loads(words))
        if stored:
            replicates = replicates + Replicates.from_bytes(zlib.decompress(bytes(stored)))
    if any(number < 0 for number in counts.values()):
        raise ValueError(
            "rollups: a sum is below 0, so something was taken out that was never in; run manage.py rebuild"
        )
    if not any(counts.values()):
        return None
    words = {name: number for name, number in sorted(counts.items()) if ":" in name and number}
    packed = zlib.compress(replicates.to_bytes()) if counts["n_points"] else b""
    return (*(counts[name] for name in SUMS), orjson.dumps(words).decode(), packed)
