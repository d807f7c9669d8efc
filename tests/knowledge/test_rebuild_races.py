"""A rebuild of the sums while runs are folded and rolled up, over two connections: none is lost, none counts twice."""

import threading
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from django.db import connection, connections, transaction

from ingest.models import Project
from knowledge import rolling
from knowledge.rollups import n_waiting, read_cells
from tests.effect_runs import Series, chain
from tests.factories import make_project

pytestmark = pytest.mark.django_db(transaction=True)
MONDAY, TUESDAY = date(2026, 11, 16), date(2026, 11, 17)


def keep(project: Project, run_id: str, day: date) -> None:
    rolling.keep_contribution(project.pk, run_id, day, chain(run_id, Series("offered", 1, 1), is_good=True))


def n_points(project: Project, since: date = MONDAY, until: date = date(2026, 11, 22)) -> int:
    return sum(cell.points.n_points for cell in read_cells(project.pk, since, until))


def meanwhile(work: Callable[[], Any]) -> threading.Thread:
    """Start work in another connection and return when it waits for a lock."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
    with connection.cursor() as cursor:
        while thread.is_alive():
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return thread
            thread.join(0.02)
    raise AssertionError("nothing waited for a lock")


def test_a_run_that_is_folded_while_the_sums_are_rebuilt_is_counted() -> None:
    """Its contribution, committed after the rebuild read the day, still waits and is added once."""
    project = make_project()
    keep(project, "old", MONDAY)
    assert rolling.roll_up(project.pk) == 1
    with transaction.atomic():
        keep(project, "new", MONDAY)
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM knowledge_runcontribution WHERE run_id = 'old' FOR UPDATE")
        rebuilding = meanwhile(lambda: rolling.rebuild(project.pk))
    rebuilding.join()
    assert n_waiting(project.pk) == 1
    assert rolling.roll_up(project.pk) == 1
    assert (n_points(project), n_waiting(project.pk)) == (2, 0)
    rolling.rebuild(project.pk)
    assert n_points(project) == 2


def test_a_day_that_is_rolled_up_before_the_rebuild_has_its_turn_stays_in_its_week() -> None:
    """The rebuild looks which days a week has once it alone changes sums: no day of the week is missing from it."""
    project = make_project()
    keep(project, "monday", MONDAY)
    assert rolling.roll_up(project.pk) == 1
    with transaction.atomic():
        keep(project, "tuesday", TUESDAY)
        assert rolling.roll_up(project.pk) == 1
        rebuilding = meanwhile(lambda: rolling.rebuild(project.pk))
    rebuilding.join()
    assert (n_points(project), n_points(project, TUESDAY, TUESDAY), n_waiting(project.pk)) == (2, 1, 0)
