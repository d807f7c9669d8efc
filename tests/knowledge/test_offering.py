"""Offering: hints are given whatever becomes of their telemetry; candidates come by index and stay bounded."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ingest.journal import read_events
from ingest.models import Event, Project
from knowledge import offering
from knowledge.drafts import parse_draft
from knowledge.find_hints import candidates, find_hints, v2
from knowledge.find_hints.findings import HintQuery
from knowledge.items import change_state, import_items
from knowledge.models import HintAnswer
from tests.knowledge.asking import n_failed
from tests.knowledge.test_starter import EXAMPLES, STARTER

ERROR = "fatal: not a git repository (or any of the parent directories): .git"

FILL = """
INSERT INTO knowledge_knowledgeitem (project_id, knowledge_id, kind, state, revision, suspended_dynamic, language, keys)
SELECT %(project)s, 'filler-' || n, 'claim', 'confirmed', 1, false, 'en',
       ARRAY(SELECT %(project)s || ':t:' || md5((n * 7 + k)::text) FROM generate_series(1, 12) AS k)
FROM generate_series(1, 20000) AS n
"""


def add_items(project: Project, *raws: dict[str, Any]) -> None:
    import_items(project, [parse_draft(raw) for raw in raws], by="tester")


def rule(number: int, **fields: Any) -> dict[str, Any]:
    base = {"knowledge_id": f"k-{number:03}", "proposition": f"Flux capacitor rule{number} says word{number}: `act`."}
    return {**base, "state": "confirmed", **fields}


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="alpha", name="Alpha")


def query(text: str = ERROR, activation: str = "r-1:a1", **fields: Any) -> HintQuery:
    return HintQuery("r-1", activation, "tool.failed", tool_result=text, **fields)


@pytest.mark.django_db(transaction=True)
def test_events_are_committed_with_the_answer() -> None:
    """Outside of any transaction, the journal has the query and the offer when the answer is given."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    add_items(project, rule(1, entities=["not a git repository"]))
    failures = n_failed("telemetry")
    (answer,) = offering.answer_all(project, [query()])
    assert answer["count"] == 1
    assert [event.type for event in read_events(project.pk, "r-1")] == ["hint.query", "hint.offered"]
    assert n_failed("telemetry") == failures


@pytest.mark.django_db(transaction=True)
def test_telemetry_that_cannot_be_written_withholds_no_hint(caplog: pytest.LogCaptureFixture) -> None:
    """Without a journal the hints are still given and kept; the failure is counted and logged without text."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    add_items(project, rule(1, entities=["not a git repository"]))
    failures = n_failed("telemetry")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE ingest_event RENAME TO ingest_event_away")
    try:
        (answer,) = offering.answer_all(project, [query()])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE ingest_event_away RENAME TO ingest_event")
    assert [hint["knowledge_id"] for hint in answer["hints"]] == ["k-001"]
    assert n_failed("telemetry") == failures + 1
    assert "git repository" not in caplog.text
    assert not Event.objects.exists()
    assert json.loads(HintAnswer.objects.get().answer) == answer


@pytest.mark.django_db(transaction=True)
def test_answer_that_cannot_be_kept_is_given() -> None:
    """Without the table of kept answers the hints found are still given, and counted as not kept."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    add_items(project, rule(1, entities=["not a git repository"]))
    failures = n_failed("keeping")
    with connection.cursor() as cursor:
        cursor.execute("CREATE RULE refuse AS ON INSERT TO knowledge_hintanswer DO INSTEAD SELECT 1/0")
    try:
        (answer,) = offering.answer_all(project, [query()])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP RULE refuse ON knowledge_hintanswer")
    assert answer["count"] == 1
    assert n_failed("keeping") == failures + 1


def test_listed_candidates_are_bounded_and_the_rest_is_counted(project: Project, settings: Any) -> None:
    """Eighty candidates: eight offered, the best held back listed, the rest a number; one event holds it."""
    settings.HINTS_ALGORITHM = v2.VERSION
    add_items(project, *(rule(number) for number in range(80)))
    (answer,) = offering.answer_all(project, [query("flux capacitor")])
    by_reason = {"limit": 72}
    assert answer["counts"] == {
        "retrieved": 80, "offered": 8, "dropped": 72, "dropped_by_reason": by_reason, "unlisted": 22,
    }  # fmt: skip
    assert answer["dropped"][0] == {"knowledge_id": "k-008", "reason": "limit", "bound": 8}
    assert len(answer["dropped"]) == 50
    asked = read_events(project.pk, "r-1")[0]
    assert (len(asked.data["candidates"]), asked.data["n_unlisted"]) == (50, 30)
    assert "clipped" not in (asked.repairs or [])


def test_replacement_is_found_through_a_chain_of_retired_items(project: Project) -> None:
    """A retired item leads to the live one at the end of its chain."""
    add_items(project, rule(1, entities=["flux"]), rule(2, proposition="Two `two`."), rule(3, proposition="Three `3`."))
    change_state(project, "k-002", "corrected", by="ada", reason="wrong", replaced_by="k-003")
    add_items(project, rule(4, proposition="Four `four`."))
    change_state(project, "k-003", "superseded", by="ada", reason="newer", replaced_by="k-004")
    change_state(project, "k-001", "superseded", by="ada", reason="newer", replaced_by="k-004")
    findings = find_hints(project.pk, query("flux"), v2.VERSION)
    assert [finding.item.knowledge_id for finding in findings.offered] == ["k-004"]
    assert findings.offered[0].matched_by[0] == "replaces:k-001"


def test_search_takes_few_queries_whatever_the_project_holds(project: Project) -> None:
    """Candidates and their texts are two queries, for ten items or for hundreds."""
    add_items(project, *(rule(number) for number in range(10)))
    with CaptureQueriesContext(
        connection,
    ) as few:
        find_hints(project.pk, query("flux capacitor"), v2.VERSION)
    add_items(project, *(rule(number) for number in range(10, 300)))
    with CaptureQueriesContext(connection) as many:
        findings = find_hints(project.pk, query("flux capacitor"), v2.VERSION)
    assert len(few) == len(many) == 2
    assert len(findings.candidates) == candidates.MOST


def test_index_serves_the_search(project: Project) -> None:
    """In a project of many items the planner answers the search from the index on keys, not by reading all."""
    starts, terms = candidates.query_keys(project.pk, query())
    values = {"project": project.pk, "starts": starts, "terms": terms, "keys": [*starts, *terms], "needed": 2}
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"project": project.pk})
        cursor.execute("ANALYZE knowledge_knowledgeitem")
        cursor.execute(f"EXPLAIN {candidates.FIND}", {**values, "most": candidates.MOST})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Bitmap Index Scan on knowledge_item_keys" in plan
    assert "Seq Scan" not in plan


def test_database_finds_what_the_whole_set_would_give(project: Project) -> None:
    """For every starter error the indexed search offers what judging all items would."""
    drafts = [json.loads(line) for file in sorted(Path(STARTER).glob("*.jsonl")) for line in file.open()]
    add_items(project, *drafts)
    everything = candidates.load(project.pk, [draft["knowledge_id"] for draft in drafts])
    for _, server, text in EXAMPLES:
        asked = query(text, mcp_server=server, tool="shell", error_class="exit_nonzero")
        assert find_hints(project.pk, asked, v2.VERSION) == v2.find(asked, everything, {})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"version_scope": "git < 2.23"}, "only for git < 2.23"),
        ({"version_scope": "git < 2.23", "caution": "look first"}, "only for git < 2.23; look first"),
        ({"state": "proposed"}, "not yet confirmed"),
        ({}, ""),
    ],
)
def test_a_hint_says_what_to_weigh(project: Project, fields: dict[str, str], told: str) -> None:
    """The versions it holds for stand before the item's own caution, or its state's."""
    add_items(project, rule(1, entities=["flux jam seen"], **fields))
    asked = HintQuery("r-1", "r-1:a1", "tool.failed", tool_result="flux jam seen")
    hints = offering.answer_all(project, [asked])[0]["hints"]
    assert [hint["caution"] for hint in hints] == [told]
