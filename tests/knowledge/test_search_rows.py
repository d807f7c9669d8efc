"""What items are found by is always what would be derived anew: after any history and under many hands."""

import random
import threading
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from ingest.deletion import delete_project
from ingest.forgetting import project_models
from ingest.models import Project
from knowledge import search_rows
from knowledge.drafts import ItemDraft, KnowledgeError
from knowledge.find_hints.candidates import load_by_pk
from knowledge.find_hints.v3.bags import write_bag
from knowledge.find_hints.v3.index import index_item
from knowledge.items import change_state, create_item, import_items, revise_item, suspend_item
from knowledge.models import ItemEmbedding, KnowledgeItem, SearchRow, TermCount
from tests.factories import make_project
from tests.ingest.test_journal import in_threads

WORDS = ("flux", "jam", "git_push", "widget", "E501", "модуль", "файла", "branch", "not", "文件不存在", "the")
BY = {"by": "tester", "reason": "test"}


class RolledBack(Exception):
    """Ends a transaction that was to be undone."""


def draft(random_: random.Random, number: int) -> ItemDraft:
    def text() -> str:
        return " ".join(random_.choices(WORDS, k=random_.randint(1, 5)))

    return ItemDraft(
        f"k-{number}", f"{text()}: `act {number}`.", why=text(), state="confirmed", entities=(text(),),
        topics=(random_.choice(WORDS),), error_examples=(text(), text()),
    )  # fmt: skip


def step(project: Project, random_: random.Random) -> None:
    """Do one thing to some items; what is not allowed is refused and changes nothing."""
    one, other = draft(random_, random_.randrange(12)), draft(random_, random_.randrange(12))
    deeds: list[Any] = [
        lambda: create_item(project, one, **BY),
        lambda: revise_item(project, one, **BY),
        lambda: change_state(
            project, one.knowledge_id, random_.choice(["challenged", "invalidated", "confirmed"]), **BY
        ),
        lambda: change_state(project, one.knowledge_id, "superseded", replaced_by=other.knowledge_id, **BY),
        lambda: suspend_item(project, one.knowledge_id, random_.random() < 0.5, **BY),
        lambda: import_items(project, [draft(random_, number) for number in random_.sample(range(12), 4)], by="tester"),
    ]
    try:
        with transaction.atomic():
            random_.choice(deeds)()
            if random_.random() < 0.2:
                raise RolledBack
    except (KnowledgeError, RolledBack):
        return


def held(project: Project) -> dict[str, Any]:
    """Everything that a project's items are found by."""
    rows = SearchRow.objects.filter(project=project).order_by("pk")
    counts = TermCount.objects.filter(project=project).order_by("term")
    return {
        "rows": list(rows.values_list("item_id", "revision", "keys", "bag")),
        "counts": list(counts.values_list("term", "n_items")),
        "vectors": list(ItemEmbedding.objects.filter(project=project).order_by("pk").values_list("item_id", flat=True)),
    }


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(6))
def test_any_history_leaves_what_would_be_derived_anew(seed: int) -> None:
    """Created, revised, moved, suspended, imported, refused and rolled back, in any order."""
    random_, project, other = random.Random(seed), make_project("alpha"), make_project("beta")
    create_item(other, draft(random_, 1), **BY)
    theirs = held(other)
    for _ in range(40):
        step(project, random_)
    found = held(project)
    assert len(found["rows"]) == KnowledgeItem.objects.filter(project=project).count() == len(found["vectors"]) > 0
    assert dict(found["counts"])[""] == len(found["rows"]) and all(number > 0 for _, number in found["counts"])
    assert search_rows.rebuild(project) == len(found["rows"])
    assert held(project) == found and held(other) == theirs


@pytest.mark.django_db
def test_a_row_is_what_the_current_revision_says() -> None:
    """Its number, keys and terms; a change of state alone writes nothing and asks for no vector."""
    project, random_ = make_project("alpha"), random.Random(1)
    item = create_item(project, draft(random_, 1), **BY)
    revise_item(project, draft(random_, 1), **BY)
    (row,) = SearchRow.objects.all()
    indexed = index_item(project.pk, load_by_pk([item.pk])[item.pk])
    assert (row.revision, tuple(row.keys), row.bag) == (2, indexed.keys, write_bag(indexed.bag))
    ItemEmbedding.objects.update(model="made")
    before = held(project)
    change_state(project, "k-1", "challenged", **BY)
    suspend_item(project, "k-1", True, **BY)
    assert held(project) == before and ItemEmbedding.objects.get().model == "made"
    revise_item(project, draft(random_, 1), **BY)
    assert ItemEmbedding.objects.get().model == ""


@pytest.mark.django_db
def test_forgetting_takes_the_items_out_of_rows_and_counts() -> None:
    """As if they had never been; terms of no item are gone."""
    project, random_ = make_project("alpha"), random.Random(2)
    create_item(project, draft(random_, 1), **BY)
    before = held(project)
    item = create_item(project, draft(random_, 2), **BY)
    search_rows.forget(project.pk, [item.pk])
    assert held(project) == before
    search_rows.forget(project.pk, list(SearchRow.objects.values_list("pk", flat=True)))
    assert held(project) == {"rows": [], "counts": [], "vectors": []}


@pytest.mark.django_db
def test_a_project_that_is_deleted_leaves_no_row() -> None:
    """The three tables are among those that deletion finds by their models; another project keeps its own."""
    assert {SearchRow, TermCount, ItemEmbedding} <= set(project_models())
    projects, random_ = [make_project("alpha"), make_project("beta")], random.Random(3)
    for project in projects:
        import_items(project, [draft(random_, number) for number in range(8)], by="tester")
    kept, gone = held(projects[1]), projects[0].pk
    delete_project(projects[0])
    for model in (SearchRow, TermCount, ItemEmbedding):
        assert not model._default_manager.filter(project_id=gone).exists()
    assert held(projects[1]) == kept


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_neither_wait_crosswise_nor_lose_a_count() -> None:
    """Imports of shared words, some past one statement's rows, with the rows derived anew in between."""
    project = make_project("alpha")
    many = search_rows.AT_ONCE + 20

    def write(writer: int) -> None:
        random_ = random.Random(writer)
        drafts = [draft(random_, writer * 10_000 + number) for number in range(many if writer < 2 else 30)]
        random_.shuffle(drafts)
        import_items(project, drafts, by="tester")
        for one in drafts[:5]:
            revise_item(project, draft(random_, int(one.knowledge_id[2:])), **BY)

    writers = [partial(write, writer) for writer in range(4)]
    in_threads(*writers, *[partial(search_rows.rebuild, project)] * 2)
    found = held(project)
    assert len(found["rows"]) == 2 * many + 60
    search_rows.rebuild(project)
    assert held(project) == found


@pytest.mark.django_db(transaction=True)
def test_bulk_revisions_at_once_count_in_one_order() -> None:
    """Two imports that revise more rows than one statement takes, of other items and the same words."""
    project = make_project("alpha")
    n_items = 2 * search_rows.AT_ONCE + 20
    import_items(project, [ItemDraft(f"k-{n:05}", f"start: `act {n}`.") for n in range(n_items)], by="tester")

    def revise(part: int) -> None:
        numbers = range(part, n_items, 2)
        words = ("alpha", "zulu") if part else ("zulu", "alpha")
        half = len(numbers) // 2
        drafts = [ItemDraft(f"k-{n:05}", f"{words[place > half]}: `act {n}`.") for place, n in enumerate(numbers)]
        import_items(project, drafts, by="tester")

    in_threads(lambda: revise(0), lambda: revise(1))
    found = held(project)
    counts = dict(found["counts"])
    assert counts["alpha"] + counts["zulu"] == counts[""] == n_items and "start" not in counts
    search_rows.rebuild(project)
    assert held(project) == found


@pytest.mark.django_db(transaction=True)
def test_deriving_anew_waits_for_a_writer_and_counts_what_it_wrote() -> None:
    """A row that is written and not committed while the others are taken away is counted once in the end."""
    project, random_ = make_project("alpha"), random.Random(4)
    create_item(project, draft(random_, 1), **BY)
    written, waiting = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            create_item(project, draft(random_, 2), **BY)
            written.set()
            assert waiting.wait(60)

    def rebuild() -> None:
        assert written.wait(60)
        with transaction.atomic():
            search_rows.rebuild(project)

    def watch() -> None:
        """Let the writer go on once the other one waits for it, as the database sees it."""
        assert written.wait(60)
        with connection.cursor() as cursor:
            for _ in range(2_000):
                cursor.execute(
                    "SELECT count(*), pg_sleep(0.005) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                )
                if cursor.fetchone()[0]:
                    break
        waiting.set()

    in_threads(write, rebuild, watch)
    found = held(project)
    assert len(found["rows"]) == 2
    search_rows.rebuild(project)
    assert held(project) == found
