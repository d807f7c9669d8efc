"""The sums hold what runs add, in any order of folds; rebuilt they are the same; who is deleted is taken out."""

import random
from datetime import date, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.accept import accept_events
from ingest.deletion import delete_run
from ingest.journal import read_events
from ingest.models import Project, Run
from ingest.retention import apply_retention
from knowledge import chains, rolling, tasks
from knowledge.effect_report import sum_of
from knowledge.effects.counts import arms_by_stratum
from knowledge.fold import FOLD_VERSION, fold_run
from knowledge.models import ItemRollup, Rollup, RunContribution, RunSummary
from knowledge.rollups import STRATA, Cell, n_waiting, points_by_stratum, quantile_of, read_cells
from tests.ingest.aged import TODAY, age, days_ago
from tests.knowledge.streams import recorded_names, wire_of

SUMMED = ("hint_helped", "hint_ignored", "holdout_offered", "holdout_withheld", "mcp_first_call")
Table = list[dict[str, Any]]


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def send(project: Project, *names: str, fold: bool = True) -> None:
    for name in names:
        events = wire_of(name)
        assert accept_events(project.pk, events).accepted == len(events)
        if fold:
            chains.refresh_run(project.pk, events[0]["run_id"])


def send_one(project: Project, name: str) -> str:
    events = wire_of(name)
    accept_events(project.pk, events)
    return str(events[0]["run_id"])


def cell_of(project: Project) -> Cell:
    (cell,) = read_cells(project.pk, date.min, date.max)
    return cell


def stored(project: Project) -> list[Table]:
    """Return every row of the sums and of what they are made of, byte for byte, without the project."""
    found = []
    for model in (Rollup, ItemRollup, RunContribution):
        rows = model.objects.filter(project=project).order_by("pk").values()  # type: ignore[attr-defined]
        plain = [
            {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}
            for row in rows
        ]
        found.append(
            [{name: value for name, value in row.items() if name not in ("project_id", "pk")} for row in plain]
        )
    return found


def total(project: Project, **where: Any) -> dict[str, int]:
    cells = read_cells(project.pk, date.min, date.max, where=where)
    return dict(cells[0].counts) if cells else {}


def test_a_fold_touches_no_sum_and_the_task_brings_them_up(project: Project) -> None:
    """A folded run waits; rolled up it is counted once, however often the task comes and the run is folded again."""
    send(project, "hint_helped")
    assert (n_waiting(project.pk), Rollup.objects.count()) == (1, 0)
    assert tasks.roll_up() == 1
    assert (n_waiting(project.pk), total(project)["n_injected"]) == (0, 1)
    before = stored(project)
    chains.refresh_run(project.pk, "hint_helped-1", force=True)
    assert (n_waiting(project.pk), tasks.roll_up()) == (0, 0)
    assert stored(project) == before


@settings(max_examples=8, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), size=st.sampled_from([3, 11, 200]))
def test_any_order_any_batches_and_duplicates_give_the_sums_of_a_rebuild(
    project: Project, seed: int, size: int
) -> None:
    """Events of several runs, shuffled, in batches, some twice, rolled up now and then: byte for byte the same."""
    for run_id in list(Run.objects.filter(project=project).values_list("run_id", flat=True)):
        delete_run(project.pk, run_id)
    chance = random.Random(seed)
    events = [event for name in ("hint_helped", "holdout_offered", "holdout_withheld") for event in wire_of(name)]
    chance.shuffle(events)
    for start in range(0, len(events), size):
        batch = events[start : start + size]
        accept_events(project.pk, [*batch, *batch[:2]])
        if chance.random() < 0.4:
            tasks.sweep_unfolded()
        if chance.random() < 0.4:
            tasks.roll_up()
    tasks.sweep_unfolded()
    tasks.roll_up()
    kept = stored(project)
    assert kept[0] and kept[1]
    call_command("rebuild", project="alpha", stdout=StringIO())
    assert stored(project) == kept
    again = Project.objects.create(slug=f"fresh-{seed}-{size}", name="Fresh")
    accept_events(again.pk, sorted(events, key=lambda event: event["event_id"]))
    tasks.sweep_unfolded()
    tasks.roll_up()
    assert stored(again) == kept


def test_a_rebuild_puts_wrong_sums_right(project: Project) -> None:
    """Sums that were spoiled, lost, or are of nothing come back as they were, for that project and those days alone."""
    other = Project.objects.create(slug="beta", name="Beta")
    for owner in (project, other):
        send(owner, *SUMMED)
    tasks.roll_up()
    before = stored(project)
    Rollup.objects.update(n_injected=77)
    ItemRollup.objects.filter(project=project).delete()
    spoiled = stored(other)
    call_command("rebuild", project="alpha", since=TODAY, stdout=StringIO())
    assert (stored(project), stored(other)) == (before, spoiled)
    Rollup.objects.filter(project=project).update(n_injected=77)
    call_command("rebuild", project="alpha", run="shadow-1", stdout=StringIO())
    assert total(project)["n_injected"] % 77 == 0


def test_a_sum_that_would_fall_below_nothing_is_refused(project: Project) -> None:
    """Taking out what is not in says so and changes nothing; the other projects are rolled up all the same."""
    other = Project.objects.create(slug="beta", name="Beta")
    send(project, "hint_helped")
    tasks.roll_up()
    Rollup.objects.all().delete()
    RunContribution.objects.update(dirty=True, rolled=RunContribution.objects.get().body, body=b"")
    before, failures = stored(project), tasks.roll_failures
    send(other, "hint_helped")
    assert tasks.roll_up() == 1
    assert (stored(project), tasks.roll_failures) == (before, failures + 1)
    with pytest.raises(ValueError, match="run manage.py rebuild"):
        rolling.roll_up(project.pk)


@pytest.mark.parametrize("rolled", [True, False])
def test_a_deleted_run_is_taken_out_of_the_sums(project: Project, rolled: bool) -> None:
    """Whether it was in them yet or not: nothing of it is left, and the others are as if it had never been."""
    other = Project.objects.create(slug="beta", name="Beta")
    send(project, *SUMMED)
    send(other, *SUMMED[1:])
    if rolled:
        tasks.roll_up()
    delete_run(project.pk, "hint_helped-1")
    tasks.roll_up()
    assert stored(project) == stored(other)


@pytest.mark.django_db(transaction=True)
def test_a_forgotten_day_keeps_its_counts_through_a_rebuild() -> None:
    """The same cells before and after retention, and after everything that can be made again was."""
    project = Project.objects.create(slug="alpha", name="Alpha", retention_days=7)
    send(project, *SUMMED)
    for name in SUMMED[:4]:
        age(project, wire_of(name)[0]["run_id"], days_ago(9))
    tasks.roll_up()
    by = ("day", "trigger", "arm", "attempt")
    cells = [
        read_cells(project.pk, date.min, date.max, by=by),
        read_cells(project.pk, date.min, date.max, by=("knowledge_id",)),
    ]
    assert apply_retention(TODAY).n_runs == 4
    assert [
        read_cells(project.pk, date.min, date.max, by=by),
        read_cells(project.pk, date.min, date.max, by=("knowledge_id",)),
    ] == cells
    call_command("rebuild", project="alpha", stdout=StringIO())
    assert read_cells(project.pk, date.min, date.max, by=by) == cells[0]
    assert set(Rollup.objects.filter(day=days_ago(9)).values_list("forgotten", flat=True)) == {True}


def test_chains_of_another_version_are_folded_anew_by_the_sweep(project: Project) -> None:
    """What an older fold derived, and what it added, is replaced; nobody has to ask for it, and it ends."""
    send(project, *SUMMED)
    tasks.roll_up()
    before = stored(project)
    RunSummary.objects.filter(run_id="hint_helped-1").update(fold_version="fold.v0", n_injected=9)
    RunContribution.objects.filter(run_id="hint_helped-1").update(body=b"")
    assert [tasks.sweep_unfolded() for _ in range(2)] == [1, 0]
    assert set(RunSummary.objects.values_list("fold_version", flat=True)) == {FOLD_VERSION}
    summary = RunSummary.objects.get(run_id="hint_helped-1")
    assert (summary.n_injected, bytes(RunContribution.objects.get(run_id="hint_helped-1").body) != b"") == (1, True)
    rolling.rebuild(project.pk)
    assert stored(project) == before


def test_cells_by_any_dimensions(project: Project) -> None:
    """By a choice of dimensions, limited by others; items only when they are asked for; sums agree with each other."""
    send(project, *recorded_names())
    tasks.roll_up()
    by_trigger = read_cells(project.pk, TODAY, TODAY, by=("trigger",))
    assert [cell.key["trigger"] for cell in by_trigger] == sorted({cell.key["trigger"] for cell in by_trigger})
    assert sum(cell.counts["n_injected"] for cell in by_trigger) == total(project)["n_injected"] > 0
    failed = read_cells(project.pk, TODAY, TODAY, by=("day", "tool_class"), where={"trigger": ["tool.failed", "x"]})
    assert {cell.key["day"] for cell in failed} == {TODAY}
    assert (
        sum(cell.counts["n_activations"] for cell in failed) == total(project, trigger="tool.failed")["n_activations"]
    )
    items = read_cells(project.pk, TODAY, TODAY, by=("knowledge_id",))
    assert all(cell.key["knowledge_id"] for cell in items)
    assert sum(cell.counts["n_injected"] for cell in items) == total(project)["n_injected"]
    (one,) = read_cells(project.pk, TODAY, TODAY, where={"knowledge_id": "git-init-first"}, replicates=False)
    assert one.counts["n_injected"] > 0 and one.words["used_by"]
    assert read_cells(project.pk, days_ago(9), days_ago(1)) == []
    assert read_cells(project.pk, TODAY, TODAY, where={"share": [None, 0.5], "trigger": []}) == []
    with pytest.raises(KeyError):
        read_cells(project.pk, TODAY, TODAY, by=("colour",))


def test_weeks_are_read_as_their_days_would_be(project: Project) -> None:
    """Whatever the ends of a time: sums, words and replicates are those of its days, added up one by one."""
    chain = fold_run(read_events(project.pk, send_one(project, "holdout_offered")))
    first = date(2026, 3, 4)  # a Wednesday
    for number in range(26):
        rolling.keep_contribution(project.pk, f"r-{number}", first + timedelta(days=number), chain)
    tasks.roll_up()
    days = {cell.key["day"]: cell for cell in read_cells(project.pk, first, first + timedelta(days=26), by=("day",))}
    assert len(days) == 26
    for start, length in ((0, 26), (0, 1), (4, 8), (5, 7), (5, 14), (5, 13), (6, 7), (7, 19), (12, 7), (20, 1)):
        since, until = first + timedelta(days=start), first + timedelta(days=start + length - 1)
        (cell,) = read_cells(project.pk, since, until)
        parts = [part for day, part in days.items() if since <= day <= until]
        assert len(parts) == length
        assert cell == sum_of(parts), (start, length)
        assert cell.points.n_points == length
    assert read_cells(project.pk, date.min, date.max) == read_cells(project.pk, first, first + timedelta(days=25))
    (plain,) = read_cells(project.pk, first, first + timedelta(days=25), replicates=False, words=False)
    assert plain.counts == cell_of(project).counts and not any(plain.words.values())
    (near,) = read_cells(project.pk, first, first + timedelta(days=25), near_alone=True)
    whole = cell_of(project).points.replicates
    assert list(near.points.replicates.row("near_known")) == list(whole.row("near_known"))
    assert near.points.n_runs == cell_of(project).points.n_runs


def test_the_two_arms_reach_the_estimates(project: Project) -> None:
    """A situation that was offered and one that was withheld, in two runs, are the two arms of one stratum."""
    send(project, "holdout_offered", "holdout_withheld")
    tasks.roll_up()
    arms = arms_by_stratum(points_by_stratum(read_cells(project.pk, TODAY, TODAY, by=STRATA)))
    assert {(stratum.trigger, stratum.attempt) for stratum in arms} == {("tool.failed", 1)}
    both = [(each.offered, each.withheld) for each in arms.values()]
    assert sum(offered.n_points for offered, _ in both) == sum(offered.n_runs for offered, _ in both) == 1
    assert sum(withheld.n_points for _, withheld in both) == sum(withheld.n_runs for _, withheld in both) == 1


def test_quantiles_lie_within_their_step() -> None:
    """Linear within a step of the histogram; beyond the last bound that bound; without times nothing."""
    assert quantile_of({"10": 10}, 0.5) == 7.5
    assert quantile_of({"1": 1, "100": 3}, 0.95) == pytest.approx(50 + 50 * 2.8 / 3)
    assert quantile_of({"longer": 2}, 0.5) == 10_000
    assert quantile_of({}, 0.5) is None
