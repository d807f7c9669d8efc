"""Makes a store of sums as many activations leave it, for `bench/rollups.py`: cells in memory, then rows, by COPY.

The shape: `days` days, RUNS_A_DAY runs a day, ten tools with `tool.failed` and ten servers with `mcp.first_call`, ITEMS
items of which each is found at one place and two in a search; three of four searches are drawn, a quarter of these is
withheld; one experiment, then another; attempts as they come about. Rows are those that `rolling` would have written.
"""

from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import orjson

RUNS_A_DAY: Final = 500
PLACES: Final = 20
ITEMS: Final = 200
ARMS: Final = ("", "offered", "withheld")
SHARE: Final = 0.25
ATTEMPTS: Final = 4  # 0: not drawn
COUNTED: Final = (
    "n", "near_success", "near_failure", "far_success", "far_failure", "calls_after", "failed_after", "used",
)  # fmt: skip


def make_store(project_id: int, last: date, days: int, n_activations: int) -> None:
    """Write the rows of days and weeks of so many activations."""
    chance = np.random.default_rng(7)
    each = n_activations // (days * RUNS_A_DAY)
    week: dict[tuple[Any, ...], list[Any]] = {}
    for ago in range(days - 1, -1, -1):
        day = last - timedelta(days=ago)
        experiment = "spring" if ago > days // 2 else "autumn"
        cells = _cells_of_day(chance, f"{day}", experiment, each)
        _write(project_id, 1, day, cells)
        for key, (counts, values) in cells.items():
            before = week.setdefault(key, [0, 0])
            before[0], before[1] = before[0] + counts, before[1] + values
        if day.weekday() == 6 or ago == 0:  # noqa: PLR2004 - Sunday
            _write(project_id, 7, day - timedelta(days=day.weekday()), week)
            week = {}


def _cells_of_day(chance: Any, day: str, experiment: str, each: int) -> dict[tuple[Any, ...], Any]:
    """Return counts and replicates by cell: (experiment, place, attempt, arm, item, -1 for the search itself)."""
    from knowledge.effects.replicates import LENGTH, N_REPLICATES, ROWS, mark_of, weights_of  # noqa: PLC0415

    names = [f"{day}-{number}" for number in range(RUNS_A_DAY)]
    weights = np.array([weights_of(name) for name in names], dtype=np.float64)
    marks = np.array([mark_of(name) for name in names])
    shape = (RUNS_A_DAY, each)
    place = chance.integers(PLACES, size=shape)
    arm = np.where(chance.random(shape) < 0.25, 0, np.where(chance.random(shape) < SHARE, 2, 1))  # noqa: PLR2004
    attempt = np.zeros(shape, dtype=int)
    met = np.zeros((RUNS_A_DAY, PLACES), dtype=int)
    every = np.arange(RUNS_A_DAY)
    for number in range(each):
        met[every, place[:, number]] += arm[:, number] > 0
        attempt[:, number] = np.where(arm[:, number] > 0, np.minimum(met[every, place[:, number]], 3), 0)
    good = chance.random(shape) < np.where(arm == 1, 0.6, 0.5)
    far = np.broadcast_to(chance.random((RUNS_A_DAY, 1)) < 0.6, shape)  # noqa: PLR2004
    failed = chance.integers(3, size=shape)
    ones = np.ones(shape, dtype=int)
    counted = np.stack(
        [ones, good, ~good, far, ~far, 3 * ones, failed, (arm == 1) & (chance.random(shape) < 0.5)],  # noqa: PLR2004
        axis=-1,
    ).astype(np.int64)
    found: dict[tuple[Any, ...], Any] = {}
    first = chance.integers(ITEMS // PLACES, size=shape)
    second = (first + 1 + chance.integers(ITEMS // PLACES - 1, size=shape)) % (ITEMS // PLACES)
    run = np.broadcast_to(every[:, None], shape)
    base = ((place * ATTEMPTS) + attempt) * 3 + arm
    for which, member in ((-1, None), (0, first), (1, second)):
        n_items = 1 if member is None else ITEMS // PLACES
        index = base if member is None else base * n_items + member
        sums = np.zeros((PLACES * ATTEMPTS * 3 * n_items, RUNS_A_DAY, len(COUNTED)), dtype=np.int64)
        np.add.at(sums, (index.ravel(), run.ravel()), counted.reshape(-1, len(COUNTED)))
        for cell in np.unique(index):
            rest, one = divmod(int(cell), n_items)
            rest, of_arm = divmod(rest, 3)
            at, tried = divmod(rest, ATTEMPTS)
            item = -1 if which < 0 else at * n_items + one
            of_runs = sums[cell]
            near, far_known = of_runs[:, 1] + of_runs[:, 2], of_runs[:, 3] + of_runs[:, 4]
            weighed = np.stack([near, of_runs[:, 1], far_known, of_runs[:, 3], of_runs[:, 5], of_runs[:, 6]]).astype(
                np.float64
            )
            values = np.zeros(LENGTH, dtype=np.int64)
            if of_arm:
                values[: len(ROWS) * N_REPLICATES] = np.rint(weighed @ weights).astype(np.int64).ravel()
                np.add.at(values, len(ROWS) * N_REPLICATES + marks[of_runs[:, 0] > 0], 1)
            key = (experiment if of_arm else "", at, tried, ARMS[of_arm], item)
            before = found.setdefault(key, [0, 0])
            before[0], before[1] = before[0] + of_runs.sum(axis=0), before[1] + values
    return found


def _write(project_id: int, span: int, day: date, cells: dict[tuple[Any, ...], Any]) -> None:
    from django.db import connection  # noqa: PLC0415

    from knowledge.contributions import RollupKey  # noqa: PLC0415
    from knowledge.rollup_rows import SUMS, digest_of  # noqa: PLC0415

    for table, of_items in (("knowledge_rollup", False), ("knowledge_itemrollup", True)):
        keys = RollupKey._fields if of_items else RollupKey._fields[:-1]
        names = ", ".join(f'"{name}"' for name in (
            "project_id", "span", "day", "forgotten", "cell", *keys, *SUMS, "words", "replicates"
        ))  # fmt: skip
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for (experiment, place, attempt, arm, item), (counts, values) in cells.items():
                if (item >= 0) != of_items:
                    continue
                is_failure = place % 2 == 0
                key = RollupKey(
                    "tool.failed" if is_failure else "mcp.first_call",
                    f"tool_{place // 2}" if is_failure else "call", "" if is_failure else f"server_{place // 2}",
                    attempt, "hybrid.v3", experiment, arm, round(SHARE * 1_000_000) if arm else None,
                    f"k-{item}" if of_items else "",
                )  # fmt: skip
                told = _columns(dict(zip(COUNTED, map(int, counts), strict=True)), arm, of_items)
                words = {name: number for name, number in sorted(told.items()) if ":" in name and number}
                copy.write_row((
                    project_id, span, day, False, digest_of(key), *key[: len(keys)],
                    *(told.get(name, 0) for name in SUMS), orjson.dumps(words).decode(),
                    _stored(values) if arm else b"",
                ))  # fmt: skip


def _stored(values: Any) -> bytes:
    from knowledge.effects.replicates import Replicates  # noqa: PLC0415
    from knowledge.rollup_rows import pack_replicates  # noqa: PLC0415

    return pack_replicates(Replicates(values))


def _columns(counts: dict[str, int], arm: str, of_items: bool) -> dict[str, int]:
    """Return the numbers of a row: of points where a draw was made, of hints where they were not withheld."""
    n, used = counts.pop("n"), counts.pop("used")
    placed = 0 if arm == "withheld" else n
    a_search = 1 if of_items else 2  # hints of one
    told = {
        "n_activations": n, "n_offering": n, "n_injecting": placed, "n_acting": used, "n_retrieved": a_search * n,
        "n_offered": a_search * n, "n_selected": a_search * placed, "n_injected": a_search * placed,
        "n_dropped": a_search * (n - placed), "n_used": used, "n_helpful": used // 2, "tokens": 60 * a_search * placed,
        "n_resolved": counts["near_success"], "n_unresolved": counts["near_failure"],
        "drop:holdout": a_search * (n - placed), "used_by": 0, "used_by:inferred": used,
    }  # fmt: skip
    if not of_items:
        part = n // 3
        told |= {"n_timed": n, "waited_us": 30_000 * n, "result:success": n}
        told |= {"ms:20": part, "ms:50": part, "ms:100": n - 2 * part}
    if arm:
        told |= {"n_draws": n, "n_points": n, **counts, "hint_tokens": 60 * placed, "search_ms": 30 * n}
    return told
