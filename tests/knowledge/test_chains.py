"""The write path of chains: folded once, replaced whole, never behind for good, and nobody else's."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from ingest.accept import accept_events
from ingest.models import Event, Project, Run
from knowledge import chains, tasks
from knowledge.fold import FOLD_VERSION
from knowledge.models import Activation, Candidate, RunSummary
from tests.knowledge.streams import wire_of

RUN = "hint_helped-1"
DERIVED = (RunSummary, Activation, Candidate)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def send(project: Project, events: Sequence[dict[str, Any]]) -> None:
    result = accept_events(project.pk, events)
    assert (result.rejected, result.accepted) == ((), len(events))


def derived(project: Project) -> list[list[dict[str, Any]]]:
    """Return every derived row of a project but for the moment it was written."""
    found = []
    for model in DERIVED:
        rows = model.objects.filter(project=project).order_by("pk").values()
        found.append([{name: value for name, value in row.items() if name != "folded_at"} for row in rows])
    return found


def lag(project: Project, run_id: str = RUN) -> int:
    run = Run.objects.get(project=project, run_id=run_id)
    return run.last_arrival - run.folded_arrival


def test_a_run_is_folded_and_marked(project: Project) -> None:
    """One refresh derives the rows, names the version, and leaves no lag; the next one has nothing to do."""
    send(project, wire_of("hint_helped"))
    assert lag(project) == len(wire_of("hint_helped"))
    assert chains.refresh_run(project.pk, RUN) is True
    summary = RunSummary.objects.get(project=project, run_id=RUN)
    assert (summary.status, summary.n_injected, summary.fold_version) == ("completed", 1, FOLD_VERSION)
    assert summary.folded_arrival == summary.n_events == Event.objects.count()
    assert lag(project) == 0
    before = derived(project)
    assert chains.refresh_run(project.pk, RUN) is False
    assert derived(project) == before


@pytest.mark.parametrize("size", [1, 4])
def test_batches_in_any_order_end_in_the_same_rows(project: Project, size: int) -> None:
    """Folding after each batch, the last first and each sent twice, ends where folding all at once does."""
    other = Project.objects.create(slug="beta", name="Beta")
    events = wire_of("hint_helped")
    send(other, events)
    chains.refresh_run(other.pk, RUN)
    for start in reversed(range(0, len(events), size)):
        batch = events[start : start + size]
        send(project, batch)
        assert accept_events(project.pk, batch).duplicates == len(batch)
        assert chains.refresh_run(project.pk, RUN)
        assert lag(project) == 0

    def without_project(rows: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        of_its_own = {"project_id", "first_received_at", "task_grams"}
        found = [[{name: row[name] for name in row.keys() - of_its_own} for row in table] for table in rows]
        for row in found[DERIVED.index(RunSummary)]:
            row["facets"] = [facet.split(":", 2)[2] for facet in row["facets"]]
        return found

    assert without_project(derived(project)) == without_project(derived(other))


def test_rebuild_gives_identical_rows(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that were lost or spoiled come back as they were; --stale folds only what another version derived."""
    for name in ("hint_helped", "hint_ignored", "shadow"):
        send(project, wire_of(name))
    assert tasks.sweep_unfolded() == 3
    before = derived(project)
    Candidate.objects.all().delete()
    Activation.objects.update(result="spoiled")
    RunSummary.objects.filter(run_id=RUN).delete()
    call_command("rebuild", project="alpha")
    assert derived(project) == before
    RunSummary.objects.filter(run_id=RUN).update(fold_version="fold.v0", n_injected=9)
    call_command("rebuild", stale=True)
    assert derived(project) == before
    call_command("rebuild", project="alpha", run="shadow-1")
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["3", "1", "1"]
    with pytest.raises(CommandError, match="there is no project 'nobody'"):
        call_command("rebuild", project="nobody")


def test_unknown_run_changes_nothing(project: Project) -> None:
    """A run that is not there, or no longer, is no error and leaves no rows."""
    assert chains.refresh_run(project.pk, "nowhere") is False
    assert chains.refresh_run(project.pk, "nowhere", force=True) is False
    assert chains.refresh_run(10**6, RUN) is False
    assert not RunSummary.objects.exists()


def test_run_deleted_while_it_is_folded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the run goes between reading and writing, no derived row is left of it."""
    send(project, wire_of("shadow"))
    read_events = chains.read_events

    def read_then_lose(project_id: int, run_id: str) -> Any:
        events = read_events(project_id, run_id)
        Run.objects.filter(project_id=project_id, run_id=run_id).delete()
        return events

    monkeypatch.setattr(chains, "read_events", read_then_lose)
    assert chains.refresh_run(project.pk, "shadow-1") is False
    assert not any(model.objects.exists() for model in DERIVED)


def test_forgotten_events_leave_what_was_derived(project: Project) -> None:
    """A run whose day was dropped keeps its chain, and no sweep comes back to it for ever."""
    send(project, wire_of("shadow"))
    chains.refresh_run(project.pk, "shadow-1")
    before = derived(project)
    Event.objects.all().delete()
    Run.objects.update(last_arrival=10**6)
    assert tasks.sweep_unfolded() == 1
    assert derived(project) == before
    assert chains.unfolded_runs(10) == []


def test_projects_are_apart(project: Project) -> None:
    """Two projects with a run of the same id: folding one touches nothing of the other."""
    other = Project.objects.create(slug="beta", name="Beta")
    for owner in (project, other):
        send(owner, wire_of("shadow"))
    chains.refresh_run(project.pk, "shadow-1")
    assert derived(other) == [[], [], []]
    chains.refresh_run(other.pk, "shadow-1")
    before = derived(other)
    send(project, [{**wire_of("shadow")[0], "event_id": "late", "type": "run.outcome", "data": {"success": True}}])
    chains.refresh_run(project.pk, "shadow-1")
    assert RunSummary.objects.get(project=project).success is True
    assert derived(other) == before


def test_hostile_events_reach_the_tables(project: Project) -> None:
    """Whatever the door lets in is folded and written: nothing keeps a run from being shown."""
    base = {"run_id": "r-x", "occurred_at_unix_nano": 2**63 - 1}
    ids = {"activation_id": "\U0001f600" * 200, "knowledge_id": "\U0001f600" * 200, "hint_id": "h\x00"}
    candidates = [{"knowledge_id": "x" * 900, "rank": 2**62, "scores": {"\x00": [1e300, None]}}, 7, None]
    found = {"trigger": "tool.failed", "algorithm_version": "v" * 900, "n_retrieved": 2**63 - 1}
    send(
        project,
        [
            {**base, "event_id": "1", "type": "run.started", "data": {"task": "\x00\ud800" * 5_000, "limits": {"": 1}}},
            {**base, "event_id": "2", "type": "hint.delivery", **ids, "data": {"stage": "injected", "tokens": 2**62}},
            {**base, "event_id": "3", "type": "hint.query", **ids, "data": {**found, "candidates": candidates}},
            {**base, "event_id": "4", "type": "activation.completed", **ids, "occurred_at_unix_nano": -(2**63),
             "data": {"trigger": "tool.failed", "result": "success", "tokens": 2**62, "duration_ms": -1e300}},
            {**base, "event_id": "5", "type": "tool.failed", "tool": "t\x00", "turn": 2**62, "data": {}},
        ],
    )  # fmt: skip
    assert tasks.sweep_unfolded() == 1
    summary = RunSummary.objects.get(run_id="r-x")
    assert (summary.n_injected, summary.n_tools_failed, summary.started_ns) == (1, 1, 2**63 - 1)
    assert Candidate.objects.filter(run_id="r-x").count() == 2


def test_query_count_of_a_fold(project: Project) -> None:
    """Folding a run of any length costs the same number of statements while its rows fit one batch."""
    send(project, wire_of("hint_helped"))
    with CaptureQueriesContext(connection) as queries:
        chains.refresh_run(project.pk, RUN)
    statements = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"]]
    assert len(statements) == 15, "\n".join(statements)


# ---- the queue and races -----------------------------------------------------------------------------------------


def test_one_bad_run_keeps_no_other_waiting(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot be folded is counted and stays queued; the runs behind it are folded."""
    for name in ("hint_helped", "hint_ignored", "shadow"):
        send(project, wire_of(name))
    fold, failures = chains.fold_run, tasks.fold_failures

    def refuse_one(events: Any, verdicts: Any = ()) -> Any:
        if events[0].run_id == RUN:
            raise ValueError("cannot be folded")
        return fold(events, verdicts)

    monkeypatch.setattr(chains, "fold_run", refuse_one)
    assert tasks.sweep_unfolded() == 2
    assert tasks.fold_failures == failures + 1
    assert chains.unfolded_runs(10) == [(project.pk, RUN)]
    assert not RunSummary.objects.filter(run_id=RUN).exists()


def test_sweep_is_bounded_and_uses_the_index_of_waiting_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sweep takes a bounded number of runs, the longest waiting first, found by the partial index."""
    for name in ("hint_helped", "hint_ignored", "shadow"):
        send(project, wire_of(name))
    monkeypatch.setattr(tasks, "SWEEP_LIMIT", 2)
    assert [tasks.sweep_unfolded() for _ in range(3)] == [2, 1, 0]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")  # of a few rows sorting costs nothing
        cursor.execute(
            "EXPLAIN SELECT run_id FROM ingest_run WHERE folded_arrival < last_arrival "
            "ORDER BY last_received_at LIMIT 9"
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "ingest_run_unfolded" in plan
    assert "Sort" not in plan


@pytest.mark.parametrize(
    ("n_folded", "n_known", "waited", "due"),
    [
        (0, 1, 0.0, True),
        (2_000, 2_001, 0.0, True),
        (2_000, 2_000, 99.0, False),
        (32_000, 33_999, 31.9, False),
        (32_000, 34_000, 0.0, True),
        (32_000, 32_001, 32.0, True),
        (9_000_000, 9_000_001, 59.9, False),
        (9_000_000, 9_000_001, 60.0, True),
        (9_000_000, 9_000_000, 60.0, False),
    ],
)
def test_a_long_run_is_folded_when_it_has_grown_or_waited(
    n_folded: int, n_known: int, waited: float, due: bool
) -> None:
    """A short one at once; a long one by a sixteenth more, or after a time that grows with it up to a minute."""
    assert chains.is_due(n_folded, n_known, waited) is due


def test_a_long_run_that_goes_on_waits_and_its_end_does_not(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One event more is left to the sweep; the end of the run is folded at once, with all that waited."""
    monkeypatch.setattr(chains, "SHORT_RUN", 10)
    monkeypatch.setattr(chains, "EVENTS_A_SECOND", 0.1)
    *going, end = wire_of("hint_helped")
    send(project, going[:-1])
    assert chains.refresh_run(project.pk, RUN) is True
    send(project, going[-1:])
    assert (chains.refresh_run(project.pk, RUN), lag(project)) == (False, 1)
    assert end["type"] == "run.completed"
    send(project, [end])
    assert (chains.refresh_run(project.pk, RUN), lag(project)) == (True, 0)


def test_only_what_changed_is_written(project: Project) -> None:
    """Folding again what did not change inserts no activation and no candidate; one that changed is replaced alone."""
    send(project, wire_of("hint_helped"))
    chains.refresh_run(project.pk, RUN)
    send(project, wire_of("special"))
    with CaptureQueriesContext(connection) as queries:
        chains.refresh_run(project.pk, RUN, force=True)
    written = [query["sql"] for query in queries if query["sql"].startswith(("INSERT", "DELETE"))]
    assert [sql for sql in written if "knowledge_activation" in sql or "knowledge_candidate" in sql] == []
    before = derived(project)
    Candidate.objects.filter(run_id=RUN, knowledge_id="git-init-first").update(outcome="harmful")
    assert derived(project) != before
    chains.refresh_run(project.pk, RUN, force=True)
    assert derived(project) == before


def in_threads(*jobs: Callable[[], Any]) -> list[Any]:
    """Run the jobs at once, each on a connection of its own."""

    def closing(job: Callable[[], Any]) -> Any:
        try:
            return job()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(closing, job) for job in jobs]]


@pytest.mark.django_db(transaction=True)
def test_who_comes_second_leaves_and_nothing_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that arrive during a fold are folded by the holder, although the refresh they caused left at once."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    events = wire_of("hint_helped")
    send(project, events[:10])
    reading, arrived = threading.Event(), threading.Event()
    read_events = chains.read_events
    folds = []

    def read_slowly(project_id: int, run_id: str) -> Any:
        found = read_events(project_id, run_id)
        folds.append(len(found))
        reading.set()
        assert arrived.wait(10)
        return found

    def second() -> bool:
        assert reading.wait(10)
        send(project, events[10:])
        left = chains.refresh_run(project.pk, RUN)
        arrived.set()
        return left

    monkeypatch.setattr(chains, "read_events", read_slowly)
    assert in_threads(lambda: chains.refresh_run(project.pk, RUN), second) == [True, False]
    assert folds == [10, len(events)]
    assert lag(project) == 0
    assert RunSummary.objects.get().n_events == len(events)


@pytest.mark.django_db(transaction=True)
def test_racing_senders_and_refreshes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many processes sending and folding the same run end with every event folded once."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    events = wire_of("hint_helped")

    def send_and_fold(start: int) -> Callable[[], None]:
        def job() -> None:
            for event in events[start::4]:
                send(project, [event])
                chains.refresh_run(project.pk, RUN)

        return job

    in_threads(*(send_and_fold(start) for start in range(4)))
    assert lag(project) == 0
    raced = derived(project)
    chains.refresh_run(project.pk, RUN, force=True)
    assert derived(project) == raced
    assert RunSummary.objects.get().n_events == len(events)
