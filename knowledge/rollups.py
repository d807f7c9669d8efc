"""Reads the rollups: sums of searches, or of items, by any choice of dimensions. Never a journal row or a chain.

Days are those of the journal (UTC), both ends included. What was not rolled up yet is not in the sums; `n_waiting` says
of how many runs. (Seed 001 §13, §17.)
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection

from knowledge.contributions import COUNTS, LATENCY_MS, WORD_KINDS
from knowledge.effects.counts import COLUMNS, ArmCounts, CellKey, stratum_of
from knowledge.effects.replicates import Replicates
from knowledge.models import RunContribution
from knowledge.rollup_rows import WEEK, both_halves, near_half

# Name of a dimension -> its column. `tool_class` is what stratifies: the MCP server, else the tool.
DIMENSIONS: Final[Mapping[str, str]] = {
    "day": "day",
    "trigger": '"trigger"',
    "tool": "tool",
    "mcp_server": "mcp_server",
    "tool_class": "coalesce(nullif(mcp_server, ''), tool)",
    "attempt": "attempt",
    "algorithm_version": "algorithm_version",
    "experiment": "experiment",
    "arm": "arm",
    "share": "share_ppm / 1000000.0::float8",  # as effects.counts rounds it
    "knowledge_id": "knowledge_id",
}
STRATA: Final = ("trigger", "tool_class", "attempt", "share", "arm")
_SUMS: Final = (*COUNTS, *COLUMNS)

Value = str | int | float | date | None


@dataclass(frozen=True, slots=True)
class Cell:
    """The sums of one combination of the dimensions that were asked for.

    `key` holds their values by name. `counts` has every name of contributions.COUNTS: numbers of searches, of hints by
    stage, tokens, microseconds. `words` breaks them down: kind (result, skip, hold, drop, used_by, judged_by, ms) ->
    word -> number. `points` are the decision points; without `arm` among the dimensions those of both arms together.
    """

    key: Mapping[str, Any]
    counts: Mapping[str, int]
    words: Mapping[str, Mapping[str, int]]
    points: ArmCounts

    def waited_ms(self, quantile: float) -> float | None:
        """Return a quantile (0 to 1) of the searches' times, within its step of the histogram; None without times."""
        return quantile_of(self.words.get("ms", {}), quantile)


def read_cells(
    project_id: int,
    since_day: date,
    until_day: date,
    *,
    by: Sequence[str] = (),
    where: Mapping[str, Value | Collection[Value]] | None = None,
    replicates: bool = True,
    near_alone: bool = False,
    words: bool = True,
) -> list[Cell]:
    """Return the sums of the days from `since_day` to `until_day` by the dimensions `by`, in the order of their values.

    `where` limits dimensions to a value or to any of several. With `knowledge_id` in either the sums are those of
    items, else those of searches: cells of several items must not be added up. `replicates` can be left out where no
    interval is wanted, and `words` where nothing is broken down; with `near_alone` intervals of `near` can be told and
    no others. Raises KeyError for a name that is no dimension.
    """
    chosen = {} if where is None else {name: _several(values) for name, values in where.items()}
    names = {name: DIMENSIONS[name] for name in (*by, *chosen)}
    table = "knowledge_itemrollup" if "knowledge_id" in names else "knowledge_rollup"
    conditions = "".join(f" AND {_condition(name, values)}" for name, values in chosen.items())
    days, bounds = _days("day" in names, since_day, until_day)
    given = [
        project_id,
        *bounds,
        *(value for values in chosen.values() for value in values if value is not None),
    ]
    source = f"FROM {table} WHERE project_id = %s AND ({days}){conditions}"
    columns = [f"{DIMENSIONS[name]} AS by_{name}" for name in by]
    grouped = f"GROUP BY {', '.join(map(str, range(1, len(by) + 1)))}" if by else ""
    sums = [f"sum({name})::bigint" for name in _SUMS]
    found: dict[tuple[Any, ...], Any] = {}
    n = len(by)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join([*columns, *sums])} {source} {grouped}", given)
        found = {row[:n]: dict(zip(_SUMS, row[n:], strict=True)) for row in cursor.fetchall() if row[-1] is not None}
    told = _words(columns, source, given, n) if words else {}
    parts = _replicates(columns, source, given, n, near_alone) if replicates else {}
    return [_cell(by, key, found[key], told.get(key, {}), parts.get(key)) for key in sorted(found, key=_sortable)]


def _days(each: bool, since: date, until: date) -> tuple[str, list[int | date]]:
    """Return the condition for the rows whose sums make up these days, and its values: whole weeks, and days around.

    With `each` the days alone, for sums that are told apart by day.
    """
    start, after = since.toordinal(), until.toordinal() + 1
    monday = start + (1 - start) % WEEK  # day 1 of the calendar is a Monday
    end = after - (after - 1) % WEEK
    if each or monday >= end:
        return "span = 1 AND day BETWEEN %s AND %s", [since, until]
    parts = [(WEEK, monday, end - WEEK), (1, start, monday - 1), (1, end, after - 1)]
    chosen = [(span, date.fromordinal(first), date.fromordinal(last)) for span, first, last in parts if first <= last]
    told = " OR ".join(["(span = %s AND day BETWEEN %s AND %s)"] * len(chosen))
    return told, [value for part in chosen for value in part]


def _several(values: Value | Collection[Value]) -> list[Value]:
    return list(values) if isinstance(values, Collection) and not isinstance(values, str) else [values]


def _condition(name: str, values: Sequence[Value]) -> str:
    """Return the condition that a dimension has one of the values; None is what is not known."""
    column, n_known = DIMENSIONS[name], sum(value is not None for value in values)
    parts = [f"{column} IN ({', '.join(['%s'] * n_known)})"] if n_known else []
    parts += [f"{column} IS NULL"] if n_known < len(values) else []
    return f"({' OR '.join(parts)})" if parts else "false"


def _words(columns: Sequence[str], source: str, given: Sequence[Any], n: int) -> dict[tuple[Any, ...], dict[str, int]]:
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    places = ", ".join(map(str, range(1, n + 2)))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join([*(column.rpartition(' ')[2] for column in columns), 'word.key'])},"
            f" sum(word.value::bigint)::bigint FROM (SELECT {', '.join([*columns, 'words'])} {source}) chosen"
            f" CROSS JOIN LATERAL jsonb_each_text(words) word GROUP BY {places}",
            given,
        )
        for row in cursor.fetchall():
            found.setdefault(row[:n], {})[row[n]] = row[n + 1]
    return found


def _replicates(
    columns: Sequence[str], source: str, given: Sequence[Any], n: int, near_alone: bool
) -> dict[tuple[Any, ...], Replicates]:
    parts: dict[tuple[Any, ...], list[bytes]] = {}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join([*columns, 'replicates'])} {source} AND replicates <> ''::bytea", given)
        for row in cursor.fetchall():
            parts.setdefault(row[:n], []).append(row[n])
    if near_alone:
        return {key: Replicates.total_near(map(near_half, found)) for key, found in parts.items()}
    return {key: Replicates.total_stored(map(both_halves, found)) for key, found in parts.items()}


def _cell(
    by: Sequence[str],
    key: tuple[Any, ...],
    sums: Mapping[str, int],
    words: Mapping[str, int],
    replicates: Replicates | None,
) -> Cell:
    told: dict[str, dict[str, int]] = {kind: {} for kind in WORD_KINDS}
    for name, number in sorted(words.items()):
        kind, _, word = name.partition(":")
        told[kind][word] = number
    points = ArmCounts(**{name: sums[name] for name in COLUMNS}, replicates=replicates or Replicates.empty())
    return Cell(dict(zip(by, key, strict=True)), {name: sums[name] for name in COUNTS}, told, points)


def _sortable(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, value if value is not None else 0) for value in key]


def points_by_stratum(cells: Iterable[Cell]) -> list[tuple[CellKey, ArmCounts]]:
    """Return cells that were read by STRATA, in the form estimates take. Cells without an arm are left out."""
    return [
        (
            CellKey(stratum_of(key["trigger"], key["tool_class"], max(key["attempt"], 1), key["share"]), key["arm"]),
            cell.points,
        )
        for cell in cells
        if (key := cell.key)["arm"]
    ]


def n_waiting(project_id: int) -> int:
    """Return of how many runs something is not in the sums yet."""
    return RunContribution.objects.filter(project_id=project_id, dirty=True).count()


def quantile_of(histogram: Mapping[str, int], quantile: float) -> float | None:
    """Return a quantile of times counted by LATENCY_MS, linear within its step; None without any."""
    numbers = [histogram.get(str(bound), 0) for bound in LATENCY_MS]
    wanted = quantile * (sum(numbers) + histogram.get("longer", 0))
    if not wanted:
        return None
    below, lower = 0, 0.0
    for bound, number in zip(LATENCY_MS, numbers, strict=True):
        if number and below + number >= wanted:
            return lower + (bound - lower) * (wanted - below) / number
        below, lower = below + number, float(bound)
    return lower
