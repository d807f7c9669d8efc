"""The rows of sums: what is added to which, of days and of the weeks these lie in. Inside `rolling.py`'s transaction.

Rows are read, added to and written in one order. (Seed 001 §13.)
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

import orjson
from django.db import connection

from knowledge.contributions import COUNTS, Counts, RollupKey
from knowledge.effects.counts import COLUMNS
from knowledge.effects.replicates import Replicates, halves_of, joined

ROWS_AT_ONCE: Final = 500  # of one statement
WEEK: Final = 7
SUMS: Final = (*COUNTS, *COLUMNS)
_KEYS: Final = tuple(name for name in RollupKey._fields if name != "knowledge_id")


class Place(NamedTuple):
    """One row of the sums: how many days from which one on, whether of runs that are forgotten, and its key."""

    span: int
    day: date
    forgotten: bool
    key: RollupKey


@dataclass(slots=True)
class Change:
    """What is added to one row: sums by name, words with their kind; numbers may be below 0.

    `runs` has for each run with decision points there what replicates weigh, and whether it comes or goes.
    """

    counts: Counter[str] = field(default_factory=Counter)
    runs: list[tuple[str, tuple[int, ...], int]] = field(default_factory=list)

    def take(self, run_id: str, counts: Counts, sign: int) -> None:
        for name, number in counts.items():
            self.counts[name] += sign * number
        if counts.get("n_points"):
            self.runs.append((run_id, _weighted(counts), sign))

    def add(self, other: "Change") -> None:
        self.counts.update(other.counts)
        self.runs.extend(other.runs)


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


def monday_of(day: date) -> date:
    """Return the first day of the week that a day lies in."""
    return day - timedelta(days=day.weekday())


def digest_of(key: RollupKey) -> bytes:
    return hashlib.blake2b(orjson.dumps(list(key)), digest_size=16).digest()


def pack_replicates(replicates: Replicates) -> bytes:
    """Return the stored form: its halves, each deflated, so that the first one is read alone where that does."""
    near, rest = map(zlib.compress, halves_of(replicates.to_bytes()))
    return len(near).to_bytes(4, "little") + near + rest


def near_half(stored: bytes | memoryview) -> bytes:
    """Return the first half of what `pack_replicates` stored."""
    return zlib.decompress(stored[4 : 4 + int.from_bytes(stored[:4], "little")])


def both_halves(stored: bytes | memoryview) -> bytes:
    """Return the whole of what `pack_replicates` stored."""
    return joined(near_half(stored), zlib.decompress(stored[4 + int.from_bytes(stored[:4], "little") :]))


def apply(project_id: int, changes: Changes) -> None:
    """Add the changes of days to the rows of these and of their weeks, inside the caller's transaction and lock.

    A row of which nothing is left goes.
    """
    everywhere = {**changes, **_of_weeks(changes)}
    for of_items, members in groupby(sorted(everywhere, key=_of_items), key=_of_items):
        places = sorted(members, key=lambda place: (*place[:-1], digest_of(place.key)))
        for start in range(0, len(places), ROWS_AT_ONCE):
            _apply_some(_TABLES[of_items], project_id, places[start : start + ROWS_AT_ONCE], everywhere)


def _of_weeks(changes: Changes) -> Changes:
    found: Changes = {}
    for place, change in changes.items():
        found.setdefault(Place(WEEK, monday_of(place.day), place.forgotten, place.key), Change()).add(change)
    return found


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
    names = ", ".join(f'"{name}"' for name in ("project_id", "span", "day", "forgotten", "cell", *keys, *columns))
    values = ", ".join(["%s"] * (5 + len(keys) + len(columns)))
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns)
    given = "unnest(%s::int2[], %s::date[], %s::bool[], %s::bytea[]) AS given(span, day, forgotten, cell)"
    same = (
        "kept.project_id = %s AND kept.span = given.span AND kept.day = given.day"
        " AND kept.forgotten = given.forgotten AND kept.cell = given.cell"
    )
    return _Statements(
        read=f"SELECT kept.span, kept.day, kept.forgotten, kept.cell, {', '.join(columns)}"
        f" FROM {given} JOIN {table} kept ON {same}",
        write=f"INSERT INTO {table} ({names}) VALUES ({values})"
        f" ON CONFLICT (project_id, span, day, forgotten, cell) DO UPDATE SET {changed}",
        remove=f"DELETE FROM {table} kept USING {given} WHERE {same}",
        keys=keys,
    )


_TABLES: Final = {
    False: _statements("knowledge_rollup", _KEYS),
    True: _statements("knowledge_itemrollup", RollupKey._fields),
}


def _apply_some(table: _Statements, project_id: int, places: Sequence[Place], changes: Mapping[Place, Change]) -> None:
    named = {(*place[:-1], digest_of(place.key)): place for place in places}
    with connection.cursor() as cursor:
        cursor.execute(table.read, [*_columns(named), project_id])
        before = {(*row[:3], bytes(row[3])): row[4:] for row in cursor.fetchall()}
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


def _columns(wheres: Iterable[tuple[int, date, bool, bytes]]) -> Iterator[list[Any]]:
    for column in zip(*wheres, strict=True):
        yield list(column)


def _sum(before: tuple[Any, ...] | None, change: Change) -> tuple[Any, ...] | None:
    """Return the columns of a row after the change, None when nothing is left of it.

    Raises ValueError when more was taken out than is in, which `manage.py rebuild` puts right.
    """
    counts = Counter(change.counts)
    replicates = Replicates.of_runs(change.runs)
    if before is not None:
        *numbers, words, stored = before
        counts.update(dict(zip(SUMS, numbers, strict=True)))
        counts.update(orjson.loads(words))
        if stored:
            replicates = replicates + Replicates.from_bytes(both_halves(stored))
    if any(number < 0 for number in counts.values()):
        raise ValueError(
            "rollups: a sum is below 0, so something was taken out that was never in; run manage.py rebuild"
        )
    if not any(counts.values()):
        return None
    words = {name: number for name, number in sorted(counts.items()) if ":" in name and number}
    packed = pack_replicates(replicates) if counts["n_points"] else b""
    return (*(counts[name] for name in SUMS), orjson.dumps(words).decode(), packed)
