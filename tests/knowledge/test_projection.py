"""Counted use of items: changed by reports alone, and right whatever is folded again, late, deleted or forgotten."""

from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.events import EVENT_TYPES
from ingest.deletion import delete_run
from ingest.models import Project
from ingest.retention import apply_retention
from knowledge import projection
from knowledge.chains import refresh_run
from knowledge.drafts import ItemDraft
from knowledge.items import add_evidence, change_state, create_item, import_items, revise_item, suspend_item
from knowledge.models import Candidate, ItemCounts, ItemTotals
from knowledge.projection import COUNTS, KNOWLEDGE_EVENT_TYPES, affects_knowledge, version_of
from tests.factories import make_project, send, typical_run
from tests.ingest.aged import TODAY, age, days_ago
from tests.ingest.test_journal import in_threads

pytestmark = pytest.mark.django_db

NEVER = ("hint.query", "hint.offered", "hint.delivery", "activation.requested", "activation.completed",
         "activation.skipped", "activation.deferred")  # fmt: skip


@pytest.fixture
def project() -> Project:
    return make_project("alpha")


def counts(project: Project, knowledge_id: str) -> dict[str, int]:
    """The counts of an item that are not zero."""
    row = ItemCounts.objects.filter(project=project, knowledge_id=knowledge_id).values(*COUNTS).first() or {}
    return {name: number for name, number in row.items() if number}


def everything(project: Project) -> list[tuple[Any, ...]]:
    rows = ItemCounts.objects.filter(project=project).order_by("knowledge_id").values_list("knowledge_id", *COUNTS)
    return [row for row in rows if any(row[1:])]


def report(run_id: str, number: int, kind: str, knowledge_id: str = "k-1", **data: Any) -> dict[str, Any]:
    about = {"activation_id": f"{run_id}:a1", "hint_id": f"{run_id}:h-{knowledge_id}", "knowledge_id": knowledge_id}
    return {
        "event_id": f"{run_id}:said-{number}", "run_id": run_id, "type": kind, "occurred_at": "2026-11-30T04:00:00Z",
        "data": {"outcome": "helpful", **data} if kind == "hint.outcome" else data, **about,
    }  # fmt: skip


def test_the_allow_list_says_of_every_event_type_whether_it_counts() -> None:
    """Exactly the reports of use and outcome may change knowledge; the types of an activation and delivery may not."""
    assert {name for name in EVENT_TYPES if affects_knowledge(name)} == {"hint.used", "hint.ignored", "hint.outcome"}
    assert set(NEVER) <= set(EVENT_TYPES)
    assert not any(affects_knowledge(name) for name in (*NEVER, "span", "hint.use", ""))


@pytest.mark.parametrize("kind", EVENT_TYPES)
@pytest.mark.parametrize("reported", [False, True], ids=["nothing-reported", "after-a-report"])
def test_an_event_changes_counts_and_version_only_when_its_type_is_listed(
    project: Project, kind: str, reported: bool
) -> None:
    """Every type of the contract, as its example says it, in a run with and without a report: both ways."""
    run = typical_run("r-1", ended=False)
    send(project, [*run, report("r-1", 0, "hint.outcome", "k-9", outcome="neutral")] if reported else run)
    before = everything(project), version_of(project.pk)
    about = {"activation_id": "r-1:a1", "hint_id": "r-1:h-new", "knowledge_id": "k-new"}
    late = {"event_id": "late", "run_id": "r-1", "type": kind, "occurred_at": "2026-11-30T04:00:00Z", **about}
    send(project, [{**late, "data": dict(EVENT_TYPES[kind].example)}])
    after = everything(project), version_of(project.pk)
    if kind in KNOWLEDGE_EVENT_TYPES:
        assert after[0] != before[0] and after[1] == before[1] + 1
    else:
        assert after == before


def test_reports_are_counted_once_however_often_a_run_is_folded(project: Project) -> None:
    """Folding again changes neither counts nor version; a report that comes late is added; a copy is none."""
    send(project, [*typical_run("r-1"), report("r-1", 1, "hint.used")])
    assert counts(project, "k-1") == {"n_used": 1}
    version = version_of(project.pk)
    assert refresh_run(project.pk, "r-1", force=True)
    send(project, [report("r-1", 1, "hint.used")])
    assert (counts(project, "k-1"), version_of(project.pk)) == ({"n_used": 1}, version)
    send(project, [report("r-1", 2, "hint.outcome", outcome="helpful")])
    assert (counts(project, "k-1"), version_of(project.pk)) == ({"n_used": 1, "n_helpful": 1}, version + 1)
    send(project, [report("r-1", 3, "hint.outcome", outcome="harmful")])
    assert counts(project, "k-1") == {"n_used": 1, "n_harmful": 1}
    send(project, [*typical_run("r-2"), report("r-2", 1, "hint.ignored")])
    assert counts(project, "k-1") == {"n_used": 1, "n_ignored": 1, "n_harmful": 1}


def test_what_the_fold_judged_is_not_counted_as_reported(project: Project) -> None:
    """The typical run is judged by the fold; nobody reported, and nothing is counted."""
    send(project, typical_run("r-1"))
    assert Candidate.objects.filter(project=project).exclude(outcome="").exclude(outcome_source="reported").exists()
    assert everything(project) == []
    assert version_of(project.pk) == 0


def test_a_report_counts_for_its_item_once_that_is_known(project: Project) -> None:
    """A report that names its hint only counts nowhere; the offer that comes later says whose it was."""
    said = report("r-1", 1, "hint.used")
    send(project, [{name: value for name, value in said.items() if name != "knowledge_id"}])
    assert everything(project) == []
    offer = {
        **said,
        "event_id": said["hint_id"],
        "type": "hint.offered",
        "data": dict(EVENT_TYPES["hint.offered"].example),
    }
    send(project, [offer])
    assert counts(project, "k-1") == {"n_used": 1}


def test_a_deleted_run_is_taken_out_of_the_counts(project: Project) -> None:
    """What it reported is gone as if it never was, and the version says that something changed."""
    for run_id in ("r-1", "r-2"):
        send(project, [*typical_run(run_id), report(run_id, 1, "hint.used"), report(run_id, 2, "hint.outcome")])
    version = version_of(project.pk)
    delete_run(project.pk, "r-1")
    assert (counts(project, "k-1"), version_of(project.pk)) == ({"n_used": 1, "n_helpful": 1}, version + 1)
    delete_run(project.pk, "r-2")
    assert everything(project) == []


@pytest.mark.django_db(transaction=True)
def test_counts_survive_retention_and_can_be_counted_anew(project: Project) -> None:
    """A forgotten run leaves what it reported, in the counts and in the totals they can be made from again."""
    for run_id, ago in (("r-old", 9), ("r-new", 0)):
        send(project, [*typical_run(run_id), report(run_id, 1, "hint.used"), report(run_id, 2, "hint.outcome")])
        age(project, run_id, days_ago(ago))
    kept = everything(project)
    version = version_of(project.pk)
    Project.objects.filter(pk=project.pk).update(retention_days=7)
    assert apply_retention(TODAY).n_runs == 1
    assert (everything(project), version_of(project.pk)) == (kept, version)
    totals = ItemTotals.objects.get(project=project, knowledge_id="k-17")
    assert (totals.n_retrieved, totals.n_offered, totals.n_injected, totals.n_used) == (1, 1, 1, 0)
    ItemCounts.objects.filter(project=project).update(n_used=77)
    projection.recount(project.pk)
    assert everything(project) == kept


@pytest.mark.django_db(transaction=True)
def test_runs_folded_at_once_are_all_counted(project: Project) -> None:
    """Six workers fold six runs that report of the same two items in opposite orders: no count is lost."""
    for number in range(6):
        names = ["k-1", "k-2"][:: 1 if number % 2 else -1]
        said = [report(f"r-{number}", place, "hint.used", name) for place, name in enumerate(names)]
        send(project, said, fold=False)
    assert in_threads(*(partial(refresh_run, project.pk, f"r-{number}") for number in range(6))) == [True] * 6
    assert everything(project) == [("k-1", 6, 0, 0, 0, 0), ("k-2", 6, 0, 0, 0, 0)]
    assert version_of(project.pk) == 6


def test_a_fold_without_reports_asks_nothing_of_the_counts(project: Project) -> None:
    """Activations and deliveries cost the counts no query, and no lock that runs would share."""
    send(project, typical_run("r-1"), fold=False)
    with CaptureQueriesContext(connection) as seen:
        assert refresh_run(project.pk, "r-1")
    asked = " ".join(query["sql"] for query in seen)
    assert "knowledge_candidate" in asked
    assert "knowledge_itemcounts" not in asked and "knowledge_knowledgeversion" not in asked


def test_rebuilding_a_project_counts_anew(project: Project) -> None:
    """A count that went wrong is put right; counts of another project and of one run's rebuild are left alone."""
    other = make_project("beta")
    for owner in (project, other):
        send(owner, [*typical_run("r-1"), report("r-1", 1, "hint.used")])
    ItemCounts.objects.update(n_used=77)
    call_command("rebuild", project="alpha", run="r-1", stdout=StringIO())
    assert counts(project, "k-1") == {"n_used": 77}
    call_command("rebuild", project="alpha", stdout=StringIO())
    assert (counts(project, "k-1"), counts(other, "k-1")) == ({"n_used": 1}, {"n_used": 77})


def test_lifecycle_changes_count_and_reading_does_not(project: Project) -> None:
    """Each write of an item is one step of the version of its project alone; what changes nothing is none."""
    other = make_project("beta")
    create_item(project, ItemDraft("k-2", "Run `b`."), by="a", reason="r")
    steps: list[Any] = [
        lambda: create_item(project, ItemDraft("k-1", "Run `a`."), by="a", reason="r"),
        lambda: revise_item(project, ItemDraft("k-1", "Run `a -x`."), by="a", reason="r"),
        lambda: change_state(project, "k-1", "confirmed", by="a", reason="r"),
        lambda: suspend_item(project, "k-1", True, by="a", reason="r"),
        lambda: suspend_item(project, "k-1", False, by="a", reason="r"),
        lambda: add_evidence(project, "k-1", "r-1", True, note="seen", by="a"),
        lambda: change_state(project, "k-1", "superseded", replaced_by="k-2", by="a", reason="r"),
        lambda: import_items(project, [ItemDraft("k-3", "Run `c`."), ItemDraft("k-4", "Run `d`.")], by="a"),
    ]
    for number, step in enumerate(steps, 2):
        step()
        assert version_of(project.pk) == number
    suspend_item(project, "k-2", False, by="a", reason="r")
    import_items(project, [ItemDraft("k-3", "Run `c`.")], by="a")
    assert (version_of(project.pk), version_of(other.pk)) == (len(steps) + 1, 0)


REPORTS = st.lists(
    st.tuples(st.sampled_from(["r-1", "r-2"]), st.integers(1, 6), st.sampled_from(KNOWLEDGE_EVENT_TYPES),
              st.sampled_from(["k-1", "k-2"]), st.sampled_from(["helpful", "harmful", "neutral"])),
    max_size=12,
)  # fmt: skip


@settings(max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(said=REPORTS, gone=st.sets(st.integers(0, 11), max_size=2))
def test_the_counts_are_what_counting_anew_gives(
    project: Project, said: list[tuple[str, int, str, str, str]], gone: set[int]
) -> None:
    """Any reports in any order and any folds between, runs deleted on the way: always the sum over what is kept."""
    for place, (run_id, number, kind, knowledge_id, outcome) in enumerate(said):
        data = {"outcome": outcome} if kind == "hint.outcome" else {}
        send(project, [report(run_id, number, kind, knowledge_id, **data)], fold=place % 3 != 0)
        if place in gone:
            delete_run(project.pk, run_id)
    kept = everything(project)
    projection.recount(project.pk)
    assert everything(project) == kept
