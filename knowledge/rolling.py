"""THE write path of rollups: keeps what each run adds, and brings the sums up to it.

The table of contributions is the queue. A fold replaces its run's row and touches no sum; a task takes dirty rows, adds
what is new and takes out what is no more, and remembers what is in. One process at a time does so in a project, under
a lock that folds do not know; whoever takes runs away comes last of its locks to this one. (Seed 001 §13.)
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from django.db import connection, transaction

from knowledge.chain_facts import RunChain
from knowledge.contributions import Cells, Counts, contribute, pack, unpack
from knowledge.models import ItemRollup, Rollup, RunContribution
from knowledge.rollup_rows import Change, Changes, Place, apply, monday_of

RUNS_AT_ONCE: Final = 500  # dirty runs of one transaction
_LOCK: Final = "hashtextextended('rollups', %s)"


# ---- what one run adds --------------------------------------------------------------------------------------------


def keep_contribution(project_id: int, run_id: str, day: date, chain: RunChain) -> None:
    """Put what a run adds in the place of what it added before, inside the fold's transaction; no sum is touched."""
    keep_contributions(project_id, [(run_id, day, chain)])


def keep_contributions(project_id: int, chains: Sequence[tuple[str, date, RunChain]]) -> None:
    """The same of several runs, given as run, day and chain in the order of the runs, in which rows are locked."""
    bodies = [pack(contribute(chain)) for _, _, chain in chains]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO knowledge_runcontribution AS kept (project_id, run_id, day, body, rolled, dirty)
            SELECT %(project)s, given.run_id, given.day, given.body, '', true
            FROM unnest(%(runs)s::text[], %(days)s::date[], %(bodies)s::bytea[])
                WITH ORDINALITY AS given(run_id, day, body, place)
            WHERE given.body <> ''::bytea OR EXISTS (
                SELECT FROM knowledge_runcontribution before
                WHERE before.project_id = %(project)s AND before.run_id = given.run_id
            ) ORDER BY place
            ON CONFLICT (project_id, run_id) DO UPDATE
            SET body = excluded.body, dirty = true, rolled = CASE WHEN kept.dirty THEN kept.rolled ELSE kept.body END
            WHERE kept.body <> excluded.body
            """,
            {
                "project": project_id,
                "runs": [run_id for run_id, _, _ in chains],
                "days": [day for _, day, _ in chains],
                "bodies": bodies,
            },
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
        apply(project_id, changes)
        _mark_rolled(cursor, project_id, [row[0] for row in rows])
    return len(rows)


def _mark_rolled(cursor: Any, project_id: int, run_ids: Sequence[str]) -> None:
    """Note that what these runs add, whose rows are locked and were read, is in the sums. Never more than these."""
    cursor.execute(
        "UPDATE knowledge_runcontribution SET dirty = false, rolled = '' WHERE project_id = %s AND run_id = ANY(%s)",
        [project_id, list(run_ids)],
    )


def _note_difference(changes: Changes, run_id: str, day: date, before: Cells, after: Cells) -> None:
    """Note what differs between what a run added before and what it adds now."""
    for key in {**before, **after}:
        old, new = before.get(key, {}), after.get(key, {})
        if old != new:
            _note(changes, Place(1, day, False, key), run_id, old, -1)
            _note(changes, Place(1, day, False, key), run_id, new, 1)


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
                _note(changes, Place(1, day, True, key), run_id, counts, 1)
        apply(project_id, changes)


def _lock(cursor: Any, project_id: int) -> None:
    cursor.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", [project_id])


# ---- from scratch -------------------------------------------------------------------------------------------------


def rebuild(project_id: int, since: date | None = None) -> None:
    """Make the sums of all kept runs anew, by week, or from the week of `since` on; those of forgotten runs stay."""
    own: dict[str, Any] = {"project_id": project_id}
    days = set(RunContribution.objects.filter(**own).values_list("day", flat=True).distinct())
    for model in (Rollup, ItemRollup):
        days |= set(model.objects.filter(**own, forgotten=False).values_list("day", flat=True).distinct())
    for monday in sorted({monday_of(day) for day in days if since is None or day >= monday_of(since)}):
        _rebuild_week(project_id, monday)


def _rebuild_week(project_id: int, monday: date) -> None:
    """Make anew the sums of a week and of its days. Runs that are folded meanwhile keep waiting for `roll_up`."""
    week: dict[str, Any] = {"project_id": project_id, "day__range": (monday, monday + timedelta(days=6))}
    with transaction.atomic(), connection.cursor() as cursor:
        _lock(cursor, project_id)
        for model in (Rollup, ItemRollup):
            model.objects.filter(**week, forgotten=False).delete()
        for day in sorted(RunContribution.objects.filter(**week).values_list("day", flat=True).distinct()):
            cursor.execute(
                "SELECT run_id, body FROM knowledge_runcontribution WHERE project_id = %s AND day = %s"
                ' ORDER BY run_id COLLATE "C" FOR UPDATE',  # as folds lock them
                [project_id, day],
            )
            changes: Changes = {}
            rows = cursor.fetchall()
            for run_id, body in rows:
                _note_difference(changes, run_id, day, {}, unpack(body))
            apply(project_id, changes)
            _mark_rolled(cursor, project_id, [row[0] for row in rows])
