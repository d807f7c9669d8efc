"""Several short runs are folded in one transaction, and each becomes what it would be by itself."""

from typing import Any

import pytest

from ingest.accept import accept_events
from ingest.models import Project, Run
from knowledge import chains
from knowledge.models import Activation, Candidate, ItemCounts, RunContribution, RunSummary
from tests.knowledge.streams import wire_of

NAMES = ("hint_helped", "hint_ignored", "holdout_offered", "shadow")
RUNS = sorted(wire_of(name)[0]["run_id"] for name in NAMES)
OF_ITS_OWN = {"project_id", "pk", "first_received_at", "task_grams", "facets", "folded_at"}


@pytest.fixture
def both(db: None) -> list[Project]:
    return [Project.objects.create(slug=slug, name=slug) for slug in ("alpha", "beta")]


def send(project: Project, part: slice) -> None:
    for name in NAMES:
        assert not accept_events(project.pk, wire_of(name)[part]).rejected


def derived(project: Project) -> list[list[dict[str, Any]]]:
    """Return every row that folds wrote, without what two projects or two moments differ in."""
    found = []
    for model in (RunSummary, Activation, Candidate, RunContribution, ItemCounts):
        rows = model.objects.filter(project=project).order_by("pk").values()  # type: ignore[attr-defined]
        found.append([{name: str(value) for name, value in row.items() if name not in OF_ITS_OWN} for row in rows])
        for row in found[-1]:
            row.pop("body", None)
    return found


def bodies(project: Project) -> list[bytes]:
    return [bytes(row.body) for row in RunContribution.objects.filter(project=project).order_by("run_id")]


def test_runs_folded_together_are_what_each_is_by_itself(both: list[Project]) -> None:
    """The same rows when they are new and when they have grown; all have caught up."""
    together, alone = both
    for part in (slice(0, 12), slice(12, None)):
        for project in both:
            send(project, part)
        assert chains.refresh_together(together.pk, [*RUNS[::-1], "nowhere", RUNS[0]]) == RUNS
        assert all(chains.refresh_run(alone.pk, run_id) for run_id in RUNS)
        assert derived(together) == derived(alone) and derived(together)[0]
        assert bodies(together) == bodies(alone)
    assert not [run_id for project_id, run_id in chains.unfolded_runs(10) if project_id == together.pk]


def test_caught_up_and_long_runs_are_left(both: list[Project]) -> None:
    """Without force nothing is folded twice; a long run has a transaction of its own; what is left stays the same."""
    project, _ = both
    send(project, slice(None))
    assert chains.refresh_together(project.pk, RUNS) == RUNS
    before = derived(project)
    assert chains.refresh_together(project.pk, RUNS) == []
    assert chains.refresh_together(project.pk, RUNS[:2], force=True) == RUNS[:2]
    Run.objects.filter(project=project, run_id=RUNS[0]).update(last_arrival=chains.SHORT_RUN + 1)
    assert chains.refresh_together(project.pk, RUNS, force=True) == RUNS[1:]
    assert derived(project) == before


def test_none_is_folded_when_one_cannot_be(both: list[Project], monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was written is taken back, so that each can be tried by itself."""
    project, _ = both
    send(project, slice(None))
    mark = chains._mark_folded

    def lose_one(project_id: int, arrivals: Any) -> None:
        Run.objects.filter(project_id=project_id, run_id=RUNS[1]).delete()
        mark(project_id, arrivals)

    monkeypatch.setattr(chains, "_mark_folded", lose_one)
    before = derived(project)
    assert chains.refresh_together(project.pk, RUNS) == []
    assert derived(project) == before
    assert len(chains.unfolded_runs(10)) == len(RUNS)
