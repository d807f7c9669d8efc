"""THE write path of what items are found by: search rows, term counts, and vectors, which follow in the background.

Rows and counts are written in the transaction that changes the item, so that both are always of what is committed.
Whoever writes them holds a lock of the project: many writers share it, deriving everything again waits for them.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from django.db import connection, transaction
from django.db.models import QuerySet

from ingest.models import Project
from knowledge import embed_queue, embeddings
from knowledge.find_hints.candidates import load_by_pk
from knowledge.find_hints.v3.bags import parse_bag, write_bag
from knowledge.find_hints.v3.index import index_item, text_of
from knowledge.models import ItemEmbedding, KnowledgeItem, SearchRow, TermCount

AT_ONCE: Final = 500  # rows of one statement
EMBEDDED_AT_ONCE: Final = 200  # vectors of one task; 35 ms each at most

_COUNT: Final = """
INSERT INTO knowledge_termcount (project_id, term, n_items)
SELECT %s, term, n FROM unnest(%s::text[], %s::bigint[]) AS added (term, n) ORDER BY term
ON CONFLICT (project_id, term) DO UPDATE SET n_items = knowledge_termcount.n_items + excluded.n_items
"""
_DROP: Final = "DELETE FROM knowledge_termcount WHERE project_id = %s AND term = ANY(%s) AND n_items = 0"
_LOCK: Final = "SELECT pg_advisory_xact_lock{shared}(hashtextextended('search rows', %s))"


def refresh(project_id: int, items: Sequence[KnowledgeItem]) -> None:
    """Write the search rows of items whose current revision is another now; others are left as they are."""
    _lock(project_id, shared=True)
    added: Counter[str] = Counter()
    n_written = 0
    for start in range(0, len(items), AT_ONCE):
        n_written += _write_rows(project_id, [item.pk for item in items[start : start + AT_ONCE]], added)
    _count(project_id, added)
    if n_written:
        transaction.on_commit(partial(embed_queue.put, project_id))


def _write_rows(project_id: int, item_pks: Sequence[int], added: "Counter[str]") -> int:
    """Write the rows of those that changed and add to the counts; return how many there were."""
    before = {row.pk: row for row in SearchRow.objects.filter(item__in=item_pks)}
    views = {
        pk: view
        for pk, view in load_by_pk(item_pks).items()
        if pk not in before or before[pk].revision != view.revision
    }
    rows = []
    for pk, view in views.items():
        indexed = index_item(project_id, view)
        bag = write_bag(indexed.bag)
        rows.append(
            SearchRow(item_id=pk, project_id=project_id, revision=view.revision, keys=list(indexed.keys), bag=bag)
        )
        added.subtract(["", *parse_bag(before[pk].bag)] if pk in before else ())
        added.update(["", *indexed.bag])
    SearchRow.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["item"], update_fields=["revision", "keys", "bag"]
    )
    pending = [ItemEmbedding(item_id=pk, project_id=project_id) for pk in views]
    ItemEmbedding.objects.bulk_create(
        pending, update_conflicts=True, unique_fields=["item"], update_fields=["model", "vector"]
    )
    return len(views)


def _count(project_id: int, added: "Counter[str]") -> None:
    """Add to the term counts: all of a transaction at once and in one order, so that no two writers wait crosswise."""
    terms = sorted(term for term, n in added.items() if n)
    if not terms:
        return
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [project_id, terms, [added[term] for term in terms]])
        cursor.execute(_DROP, [project_id, [term for term in terms if added[term] < 0]])


def _lock(project_id: int, *, shared: bool) -> None:
    """Wait, until the end of the transaction, for whoever derives the project's rows again, or for all its writers."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK.format(shared="_shared" if shared else ""), [project_id])


@transaction.atomic
def forget(project_id: int, item_pks: Sequence[int]) -> None:
    """Take away what items are found by, before they are deleted."""
    _lock(project_id, shared=True)
    gone: Counter[str] = Counter()
    for bag in SearchRow.objects.filter(item__in=item_pks).values_list("bag", flat=True):
        gone.subtract(["", *parse_bag(bag)])
    SearchRow.objects.filter(item__in=item_pks).delete()
    ItemEmbedding.objects.filter(item__in=item_pks).delete()
    _count(project_id, gone)


def embed_items(project_id: int | None = None, limit: int = EMBEDDED_AT_ONCE) -> int:
    """Make vectors that are still to come, of one project or of all; return how many were dealt with.

    Raises EmbeddingError when the model cannot be used: the rows stay pending.
    """
    done = 0
    for pk in list(_pending(project_id).order_by("item_id").values_list("item_id", flat=True)[:limit]):
        with transaction.atomic():
            row = ItemEmbedding.objects.select_for_update(skip_locked=True).filter(pk=pk, model="").first()
            view = load_by_pk([pk]).get(pk) if row else None
            if row is None or view is None:
                continue
            text = text_of(view)
            row.vector = embeddings.embed(text).tolist() if embeddings.readable(text) else None
            row.model = embeddings.MODEL
            row.save(update_fields=["vector", "model"])
            done += 1
    return done


def n_pending(project_id: int | None = None) -> int:
    """Return how many vectors are still to come, of one project or of all."""
    return _pending(project_id).count()


def _pending(project_id: int | None) -> "QuerySet[ItemEmbedding]":
    pending = ItemEmbedding.objects.filter(model="")
    return pending if project_id is None else pending.filter(project_id=project_id)


@transaction.atomic
def rebuild(project: Project) -> int:
    """Derive the search rows and term counts of all items of a project again; return how many items it has.

    Vectors are made again as well, in the background. Writers of items wait until it is done.
    """
    _lock(project.pk, shared=False)
    SearchRow.objects.filter(project=project).delete()
    TermCount.objects.filter(project=project).delete()
    items = list(KnowledgeItem.objects.filter(project=project).order_by("pk").only("pk"))
    refresh(project.pk, items)
    return len(items)
