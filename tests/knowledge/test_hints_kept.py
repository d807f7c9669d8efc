"""Kept answers live as long as the run they belong to: they go with it by retention and by deletion, and no others do.

(Seed 001 §7.2, §13.)
"""

import pytest
from django.db import connection

from ingest.deletion import delete_project, delete_run
from ingest.models import Project
from ingest.retention import apply_retention
from knowledge.chains import refresh_run
from knowledge.models import HintAnswer
from tests.ingest.aged import TODAY, age, days_ago
from tests.knowledge.asking import BATCH, ERROR, add_item, all_rows, failed, key_for, make_project, post

pytestmark = pytest.mark.django_db


def stocked(slug: str) -> tuple[Project, str]:
    project = make_project(slug)
    add_item(project, "git-init", entities=("not a git repository",), error_examples=(ERROR,))
    return project, key_for(project)


def ask(key: str, run_id: str, *activations: str) -> None:
    requests = [failed(run=run_id, activation_id=one) for one in activations]
    assert post(key, {"requests": requests}, BATCH).status_code == 200


def kept(project: Project) -> list[tuple[str, str]]:
    rows = HintAnswer.objects.filter(project=project).order_by("run_id", "activation_id")
    return [(row.run_id, row.activation_id) for row in rows]


def test_answers_are_forgotten_with_their_run() -> None:
    """A day that is over takes the answers of its runs along, in its own project only; later runs keep theirs."""
    (alpha, mine), (beta, theirs) = stocked("alpha"), stocked("beta")
    for project, key in ((alpha, mine), (beta, theirs)):
        ask(key, "r-old", "a1", "a2")
        ask(key, "r-new", "a1")
        for run_id in ("r-old", "r-new"):
            refresh_run(project.pk, run_id)
        age(project, "r-old", days_ago(10))
    Project.objects.filter(pk=alpha.pk).update(retention_days=7)
    apply_retention(TODAY)
    assert kept(alpha) == [("r-new", "a1")]
    assert kept(beta) == [("r-new", "a1"), ("r-old", "a1"), ("r-old", "a2")]


def test_answers_are_deleted_with_their_run_and_asking_again_is_new() -> None:
    """Nothing of them is left in any table; another run of the project and the same run elsewhere are as they were."""
    (alpha, mine), (beta, theirs) = stocked("alpha"), stocked("beta")
    for key in (mine, theirs):
        ask(key, "r-gone", "a1", "a2")
        ask(key, "r-stays", "a1")
    delete_run(alpha.pk, "r-gone")
    assert (kept(alpha), len(kept(beta))) == ([("r-stays", "a1")], 3)
    rows = [row for rows in all_rows().values() for row in rows if "r-gone" in row]
    assert rows and all(f'"project_id": {beta.pk}' in row for row in rows)
    again = post(mine, failed(run="r-gone", activation_id="a1", limit=1))
    assert again.headers["Hint-Answers"] == "new"
    assert kept(alpha) == [("r-gone", "a1"), ("r-stays", "a1")]


def test_an_answer_whose_report_was_lost_goes_by_its_own_day() -> None:
    """Its run never reached the journal: it is forgotten when its day is over, and can be deleted by the run's id."""
    project, key = stocked("alpha")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE ingest_event ADD CONSTRAINT no_queries CHECK (type NOT LIKE 'hint.%') NOT VALID")
    for run_id in ("r-old", "r-new", "r-deleted"):
        ask(key, run_id, "a1")
    HintAnswer.objects.filter(run_id="r-old").update(created_at=f"{days_ago(10)}T12:00:00Z")
    Project.objects.filter(pk=project.pk).update(retention_days=7)
    apply_retention(TODAY)
    assert kept(project) == [("r-deleted", "a1"), ("r-new", "a1")]
    assert delete_run(project.pk, "r-deleted") is not None
    assert kept(project) == [("r-new", "a1")]


def test_a_deleted_project_leaves_no_answer() -> None:
    """Those of the other project stay."""
    (alpha, mine), (beta, theirs) = stocked("alpha"), stocked("beta")
    for key in (mine, theirs):
        ask(key, "r-1", "a1")
    delete_project(alpha)
    assert (kept(alpha), kept(beta)) == ([], [("r-1", "a1")])
