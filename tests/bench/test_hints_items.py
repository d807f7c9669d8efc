"""What the hints bench loads and asks: accepted by the write path, the rows it would write, no text asked twice."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from django.db import connection

from bench import hints_proof, hints_rows, hints_store
from bench.hints_asked import LONG_EVERY, failures, plan, requests
from bench.hints_items import Maker, source
from knowledge.drafts import ItemDraft, check_draft
from knowledge.hints_api.request import parse_request
from knowledge.items import import_items
from knowledge.models import ItemEmbedding, KnowledgeItem, KnowledgeRevision, SearchRow, TermCount
from tests.knowledge.asking import make_project

N_ITEMS = 40
MADE_FROM = source()


def drafts(n_items: int, seed: str = "1") -> list[ItemDraft]:
    maker = Maker(MADE_FROM, seed)
    return [maker.item(number)[0] for number in range(n_items)]


def copied(table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    hints_store.copy_rows(connection.connection, table, columns, rows)


def test_items_are_deterministic() -> None:
    """The same seed gives the same items, another seed others; ids are unique."""
    assert drafts(300) == drafts(300)
    assert drafts(300) != drafts(300, seed="2")
    assert len({draft.knowledge_id for draft in drafts(300)}) == 300


def test_items_are_accepted() -> None:
    """Items keep the limits of the write path, and some of them have what exact matches need."""
    made = drafts(300)
    for draft in made:
        check_draft(draft)
    assert any(draft.error_examples for draft in made)
    assert any(draft.entities for draft in made)


def test_terms_are_spread_as_in_real_texts() -> None:
    """A few terms stand in a large part of the items, most in one or two."""
    counts: Counter[str] = Counter()
    for first in range(0, 1_000, 500):
        counts.update(hints_rows.block(("1", 1, 1, first, first + 500)).counts)
    held = sorted((n for term, n in counts.items() if term), reverse=True)
    assert held[0] > 300
    assert sum(n <= 2 for n in held) > len(held) / 2


@pytest.mark.django_db
def test_rows_are_those_of_the_write_path() -> None:
    """What is copied in is what an import of the same items writes: found by the same keys, counted the same."""
    project = make_project("alpha")
    import_items(project, drafts(N_ITEMS), by="bench", reason="made for a measurement")
    pk_of = dict(KnowledgeItem.objects.values_list("knowledge_id", "pk"))
    block = hints_rows.block(("1", project.pk, 1, 0, N_ITEMS))
    name_of = {row[0]: row[2] for row in block.items}

    written = {row.pk: (row.revision, row.keys, row.bag) for row in SearchRow.objects.all()}
    assert {pk_of[name_of[row[0]]]: tuple(row[2:]) for row in block.searches} == written
    assert dict(TermCount.objects.values_list("term", "n_items")) == block.counts
    columns = [name for name in hints_rows.ITEM if name != "id"]
    items = {tuple(map(str, row)) for row in KnowledgeItem.objects.values_list(*columns)}
    assert {tuple(map(str, row[1:])) for row in block.items} == items


@pytest.mark.django_db
def test_proof_sees_what_is_wrong() -> None:
    """Copied rows prove right, and leave everything as it was; a wrong row and a wrong count do not."""
    project = make_project("alpha")
    connection.ensure_connection()
    block = hints_rows.block(("1", project.pk, 1_000, 0, N_ITEMS))
    copied("knowledge_knowledgeitem", hints_rows.ITEM, block.items)
    copied("knowledge_knowledgerevision", hints_rows.REVISION, block.revisions)
    copied("knowledge_searchrow", hints_rows.SEARCH, block.searches)
    copied("knowledge_termcount", hints_store.COUNTS, [(project.pk, *one) for one in block.counts.items()])
    vectors = np.eye(N_ITEMS, 384, dtype=np.float32)
    hints_store.copy_vectors(connection.connection, project.pk, 1_000, vectors)

    assert hints_proof.different_rows(project.pk) == (0, N_ITEMS)
    hints_proof.check_counts(project.pk)
    assert KnowledgeRevision.objects.count() == SearchRow.objects.count() == N_ITEMS
    row = ItemEmbedding.objects.get(pk=1_003)
    assert (row.model, int(np.argmax(row.vector)), row.project_id) == (hints_store.MODEL, 3, project.pk)

    SearchRow.objects.filter(pk=1_005).update(bag="1 other 1")
    assert hints_proof.different_rows(project.pk) == (1, N_ITEMS)
    TermCount.objects.filter(term="").update(n_items=7)
    with pytest.raises(RuntimeError, match="1 term counts"):
        hints_proof.check_counts(project.pk)


def test_vectors_have_length_one_and_lie_near_their_text() -> None:
    """Noise leaves a vector nearer to a text of its own base than to the others."""
    near = hints_store.Vectors(np.eye(3, 384, dtype=np.float32), [7, 8, 9]).near([9, 7, 9], seed=5)
    assert np.allclose(np.linalg.norm(near, axis=1), 1.0, atol=1e-5)
    assert [int(row[:3].argmax()) for row in near] == [2, 0, 2]


def test_embedding_is_done_once(tmp_path: Path) -> None:
    """Vectors are kept in a file of their texts: those of other items are made anew."""
    texts: list[str] = []

    def embed(text: str) -> np.ndarray:
        texts.append(text)
        return np.ones(384, dtype=np.float32)

    for seed in ("1", "1", "2"):
        hints_store.embedded(seed, 4, embed, tmp_path / "vectors")
    assert len(texts) == 2 * hints_store.TEXTS
    assert len(list(tmp_path.iterdir())) == 2


def test_each_fifth_question_is_a_long_log() -> None:
    """Questions are valid, none comes twice, senders share them."""
    asked = failures()
    assert len(set(asked)) == len(asked)
    assert all(len(output) > 5_000 for _, output in asked[LONG_EVERY - 1 :: LONG_EVERY])
    assert sum(len(output) > 5_000 for _, output in asked) == len(asked) // LONG_EVERY
    queries = [parse_request(one, "bench") for one in requests(asked, "t")]
    assert len({query.activation_id for query in queries}) == len(asked)
    assert [len(bodies) for bodies in plan(asked[:9], "t", 2)] == [5, 4]
