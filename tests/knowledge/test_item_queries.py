"""What lists and pages read of items: how far they came, what never fires, where replacements lead; by index."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest.models import Project
from ingest.retention import apply_retention
from knowledge.drafts import ItemDraft
from knowledge.item_history import LATEST, Reached, item_page
from knowledge.item_queries import NEVER_FIRES_DAYS, ItemFilter, item_list
from knowledge.items import change_state, create_item, import_items
from tests.factories import make_project, send, typical_run
from tests.ingest.aged import TODAY, age, days_ago

pytestmark = pytest.mark.django_db

NOW = timezone.now()
LATER = NOW + timedelta(days=NEVER_FIRES_DAYS + 1)


@pytest.fixture
def project() -> Project:
    project = make_project("alpha")
    for name in ("k-17", "k-20", "k-99"):
        create_item(project, ItemDraft(name, f"Run `{name}`.", state="confirmed"), by="a", reason="r")
    return project


def never(project: Project, now: datetime = LATER) -> list[str]:
    found = item_list(project.pk, ItemFilter(never_fires=True), now=now)
    return [row.item.knowledge_id for row in found.rows]


def test_an_item_tells_how_far_it_came_and_where(project: Project) -> None:
    """Stages by trigger and the latest activations, newest first, with what kept it back."""
    for number in range(LATEST + 2):
        send(project, typical_run(f"r-{number:02}", NOW + timedelta(minutes=number)))
    page = item_page(project.pk, "k-17", NOW)
    assert page is not None
    n_runs = LATEST + 2
    assert (page.reached.n_retrieved, page.reached.n_offered, page.reached.n_injected) == (n_runs, n_runs, n_runs)
    assert [(one.trigger, one.reached) for one in page.by_trigger] == [("tool.failed", page.reached)]
    assert [one.run_id for one in page.seen] == [f"r-{number:02}" for number in range(n_runs - 1, 1, -1)]
    assert {one.stage for one in page.seen} <= {"injected", "used"}
    dropped = item_page(project.pk, "k-20", NOW)
    assert dropped is not None
    assert {(one.stage, one.drop_reason) for one in dropped.seen} == {("dropped", "activation_tokens")}
    assert dropped.reached.n_dropped == n_runs
    unmet = item_page(project.pk, "k-99", NOW)
    assert unmet is not None and (unmet.reached, unmet.seen, unmet.by_trigger) == (Reached(), (), ())


@pytest.mark.django_db(transaction=True)
def test_an_item_never_fires_only_when_no_search_ever_met_it(project: Project) -> None:
    """Confirmed and made a while ago; met once is met, also when that run has been forgotten."""
    create_item(project, ItemDraft("k-new", "Run `new`."), by="a", reason="r")
    send(project, typical_run("r-1"))
    assert never(project, NOW) == []
    assert never(project) == ["k-99"]
    age(project, "r-1", days_ago(9))
    Project.objects.filter(pk=project.pk).update(retention_days=7)
    assert apply_retention(TODAY).n_runs == 1
    assert never(project) == ["k-99"]
    pages = {name: item_page(project.pk, name, LATER) for name in ("k-17", "k-99", "k-new")}
    assert {name: page.never_fires for name, page in pages.items() if page} == {
        "k-17": False, "k-99": True, "k-new": False
    }  # fmt: skip


def test_a_replaced_item_tells_the_live_one_and_what_it_replaced(project: Project) -> None:
    """Over imported steps as well; none when the last is retired. An item of another project is none."""
    drafts = [
        ItemDraft("old", "Run `old`.", state="superseded", replaced_by="mid"),
        ItemDraft("mid", "Run `mid`.", state="corrected", replaced_by="k-17"),
    ]
    import_items(project, drafts, by="a")
    old, live = item_page(project.pk, "old", NOW), item_page(project.pk, "k-17", NOW)
    assert old is not None and live is not None
    assert (old.live_replacement, live.live_replacement, live.replaces) == ("k-17", None, ("mid",))
    change_state(project, "k-17", "invalidated", by="a", reason="r")
    after = item_page(project.pk, "old", NOW)
    assert after is not None and after.live_replacement is None
    assert item_page(make_project("beta").pk, "old", NOW) is None


def test_pages_take_a_bounded_number_of_queries(project: Project) -> None:
    """A list takes three, an item whole at most nine, however many rows there are."""
    import_items(project, [ItemDraft(f"n-{number}", "Run `n`.") for number in range(60)], by="a")
    with CaptureQueriesContext(connection) as seen:
        assert len(item_list(project.pk, ItemFilter()).rows) == 50
    assert len(seen) == 3
    with CaptureQueriesContext(connection) as seen:
        item_page(project.pk, "k-17", NOW)
    assert len(seen) <= 9


BY_INDEX = (
    (ItemFilter(), "knowledge_item_unique"),
    (ItemFilter(state="proposed"), "knowledge_item_by_state"),
    (ItemFilter(topic="rare"), "knowledge_item_facets"),
    (ItemFilter(tool="rare"), "knowledge_item_facets"),
    (ItemFilter(suspended=True), "knowledge_item_suspended"),
)


def test_lists_are_read_by_index(project: Project) -> None:
    """Of many items of two projects, a filter reads those that fit."""
    for owner in (project, make_project("beta")):
        plenty = (ItemDraft(f"n-{n}", "Run `n`.", state="confirmed", topics=("all",)) for n in range(1_200))
        import_items(owner, plenty, by="a")
    odd = ItemDraft("it", "Run `it`.", topics=("rare",), tool="rare", suspended_dynamic=True)
    create_item(project, odd, by="a", reason="r")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE knowledge_knowledgeitem")
    for filters, index in BY_INDEX:
        with CaptureQueriesContext(connection) as seen:
            rows = item_list(project.pk, filters, limit=20).rows
        assert len(rows) == (20 if filters == ItemFilter() else 1)
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {seen[0]['sql']}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert index in plan, plan
