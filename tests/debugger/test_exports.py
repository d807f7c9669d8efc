"""Tables as files: what a file holds, its bound, formulas in it, who may have it, and what it costs."""

import csv
import io
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.http import Http404
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from debugger.exports import Table, as_file, cut_notice
from debugger.grants import Ask, Choice, decide
from ingest.accept import accept_events
from ingest.authentication import create_key
from ingest.models import ApiKey, Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from tests.factories import Recorder, make_person, make_project, send, typical_run

COUNTS = Path(__file__).parent.parent / "query_counts.json"
FILES = (
    "run-list-file", "knowledge-file", "candidates-file", "escalations-file", "rejects-file", "run-compare-file",
    "conformance-file",
)  # fmt: skip
MATRIX = {
    "world_set": "w1", "made_at": "2026-11-30T03:00:00+00:00", "versions": {},
    "conditions": [{"id": "one", "title": "=Refuses"}], "columns": [{"id": "core", "title": "Core"}],
    "cells": [{"condition": "one", "column": "core", "result": "pass", "attempts": ["called"]}],
}  # fmt: skip


def text_of(table: Table, form: str) -> str:
    return as_file(table, form).getvalue().decode()


def cells_of(table: Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text_of(table, "csv").removeprefix("\ufeff"), newline="")))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", "\n=1", "|cmd", "%x", "  =1", "＝1"])
def test_a_text_is_never_a_formula(text: str) -> None:
    """CSV has an apostrophe before it, JSON the text itself; numbers stay numbers."""
    table = Table("t", ("a", "b"), [(text, -1.5)])
    assert cells_of(table)[1] == [f"'{text}", "-1.5"]
    assert json.loads(text_of(table, "json"))["rows"] == [{"a": text, "b": -1.5}]


def test_how_values_are_written() -> None:
    """Times in UTC, unknown values empty, lists in one cell, quotes and line ends kept, other scripts as UTF-8."""
    at = datetime(2026, 11, 30, 5, 0, 1, 500_000, tzinfo=timezone(timedelta(hours=2)))
    row = (at, None, True, 12, ("a", "b"), 'say "x",\nночь', {"score": 0.5})
    table = Table("t", tuple("abcdefg"), [row], (("status", "failed"),))
    assert cells_of(table)[1] == [
        "2026-11-30T03:00:01.500000Z", "", "true", "12", "a, b", 'say "x",\nночь', '{"score": 0.5}'
    ]  # fmt: skip
    told = json.loads(text_of(table, "json"))
    assert told["rows"][0] == {
        "a": "2026-11-30T03:00:01.500000Z", "b": None, "c": True, "d": 12, "e": ["a", "b"], "f": 'say "x",\nночь',
        "g": {"score": 0.5},
    }  # fmt: skip
    assert (told["asked"], told["n_rows"], told["is_cut"], told["notice"]) == ({"status": "failed"}, 1, False, "")
    assert as_file(table, "csv").headers["Content-Disposition"] == 'attachment; filename="t.csv"'
    with pytest.raises(Http404):
        as_file(table, "xlsx")


def test_a_file_is_bounded_and_says_so(settings: Any) -> None:
    """No more rows are read than the bound and one; the file tells that it is cut. One that just fits is not."""
    settings.EXPORT_ROWS = 3
    read: list[int] = []

    def rows(number: int) -> Any:
        for place in range(number):
            read.append(place)
            yield (place,)

    assert cells_of(Table("t", ("a",), rows(9)))[1:] == [["0"], ["1"], ["2"], [cut_notice()]]
    assert read == [0, 1, 2, 3]
    told = json.loads(text_of(Table("t", ("a",), rows(9)), "json"))
    assert ([row["a"] for row in told["rows"]], told["is_cut"], told["notice"]) == ([0, 1, 2], True, cut_notice())
    assert "3 rows" in cut_notice()
    assert cells_of(Table("t", ("a",), rows(3)))[1:] == [["0"], ["1"], ["2"]]
    assert json.loads(text_of(Table("t", ("a",), rows(3)), "json"))["is_cut"] is False


@pytest.fixture
def project(db: None, settings: Any, tmp_path: Path) -> Project:
    """A project with two runs, one of them escalated, an item, a reject, and a conformance report."""
    settings.CONFORMANCE_REPORT = str(tmp_path / "report.json")
    Path(settings.CONFORMANCE_REPORT).write_text(json.dumps(MATRIX))
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    to = Recorder("r-43")
    to.add("run.started", {"task": "=cmd()", "agent": "other", "conversation_id": "talk-1"})
    to.add("run.escalated", {"reason": "May I?", "reviewer": "ann"}, task_id="t-1")
    send(project, to.events)
    create_item(project, ItemDraft("k-17", "Run `git init`.", state="confirmed"), by="a", reason="test")
    key, _ = create_key(project, "sender", ["ingest"])
    accept_events(project.pk, [{"event_id": "bad", "run_id": "r-42"}], api_key_id=key.pk)
    return project


def address(name: str, project: Project, **query: str) -> str:
    """Return the address of a file of the project's."""
    args: dict[str, list[Any]] = {
        "conformance-file": [],
        "candidates-file": [project.slug, "r-42"],
        "rejects-file": [project.slug, ApiKey.objects.get(project__slug="alpha").pk],
    }
    asked = {"a": "r-42", "b": "r-43"} if name == "run-compare-file" else {}
    return reverse(name, args=args.get(name, [project.slug]), query=asked | query)


def member(project: Project) -> Client:
    client = Client()
    client.force_login(make_person(f"member of {project.slug}", project))
    return client


def rows_of(client: Client, where: str) -> list[dict[str, Any]]:
    response = client.get(where)
    assert response.status_code == 200, where
    found: list[dict[str, Any]] = json.loads(response.getvalue())["rows"]
    return found


def test_each_file_has_the_rows_of_its_page(project: Project) -> None:
    """Names of columns, order and values; times are whole, numbers are numbers."""
    client = member(project)

    def rows(name: str, **query: str) -> list[dict[str, Any]]:
        return rows_of(client, address(name, project, form="json", **query))

    runs = rows("run-list-file")
    assert [run["run_id"] for run in runs] == ["r-43", "r-42"]
    assert (runs[0]["waiting"], runs[0]["task"], runs[0]["conversation_id"]) == ("escalation", "=cmd()", "talk-1")
    assert (runs[1]["status"], runs[1]["n_injected"], runs[1]["started_at"][-1]) == ("completed", 1, "Z")
    (item,) = rows("knowledge-file")
    assert (item["knowledge_id"], item["n_offered"]) == ("k-17", 1)
    met = [(row["activation_id"], row["knowledge_id"], row["drop_reason"]) for row in rows("candidates-file")]
    assert met == [
        ("r-42:a1", "k-17", ""), ("r-42:a1", "k-20", "activation_tokens"), ("r-42:a1", "k-03", "hint_limit"),
        ("r-42:a1", "k-31", ""), ("r-42:a2", None, None), ("r-42:a3", None, None),
    ]  # fmt: skip
    (escalation,) = rows("escalations-file")
    assert (escalation["reason"], escalation["reviewer"], escalation["verdict"]) == ("May I?", "ann", None)
    (reject,) = rows("rejects-file")
    assert (reject["run_id"], reject["event_id"]) == ("r-42", "bad")
    pairs = rows("run-compare-file")
    assert {pair["verdict"] for pair in pairs} >= {"only in A"}
    assert len(rows("run-compare-file", show="different")) == sum(pair["verdict"] != "same" for pair in pairs)
    (cell,) = rows("conformance-file")
    assert (cell["title"], cell["result"], cell["attempts"]) == ("=Refuses", "pass", ["called"])


def test_a_file_keeps_the_filters_of_its_page(project: Project, settings: Any) -> None:
    """The link on the page names its filters, and the file has the rows that they leave; a wrong one is refused."""
    client = member(project)
    for query, wanted in (
        ("agent=other", ["r-43"]), ("text=parser", ["r-42"]), ("waiting=person", ["r-43"]), ("status=failed", []),
        ("conversation=talk-1", ["r-43"]), ("drop_reason=hint_limit&within=day", ["r-42"]),
    ):  # fmt: skip
        link = f"{reverse('run-list-file', args=['alpha'])}?{query}&form=json"
        page = client.get(f"/alpha/runs/?{query}").content.decode()
        assert (link.replace("&", "&amp;") in page) == bool(wanted)
        assert [run["run_id"] for run in rows_of(client, link)] == wanted
    bad = client.get(address("run-list-file", project, status="lovely"))
    assert (bad.status_code, b"status must be one of" in bad.content) == (400, True)
    assert client.get(address("run-list-file", project, form="xlsx")).status_code == 404
    decide(project, Ask("r-43", "r-43:2", "t-1", ""), Choice("dismissed"), "ann")
    assert rows_of(client, address("escalations-file", project, form="json")) == []
    (decided,) = rows_of(client, address("escalations-file", project, show="decided", form="json"))
    assert (decided["verdict"], decided["decided_by"]) == ("dismissed", "ann")
    settings.EXPORT_ROWS = 1
    cut = client.get(address("run-list-file", project)).getvalue().decode()
    assert "'=cmd()" in cut and cut_notice() in cut and "r-42" not in cut


@pytest.mark.parametrize("name", FILES)
def test_files_are_for_members(project: Project, name: str) -> None:
    """Nobody unsigned gets one, and a stranger gets the 404 of a thing that is not there; only GET does anything."""
    where = address(name, project)
    assert Client().get(where).headers["Location"].startswith("/sign-in/")
    other = make_project("gamma")
    stranger = member(other)
    if name != "conformance-file":
        assert stranger.get(where).status_code == 404
        theirs = stranger.get(address(name, other)) if name not in ("candidates-file", "rejects-file") else None
        assert theirs is None or b"r-42" not in theirs.getvalue() and b"k-17" not in theirs.getvalue()
    assert member(project).post(where).status_code == 405


@pytest.mark.parametrize("name", FILES)
def test_query_counts_of_files_are_as_committed(project: Project, name: str) -> None:
    """A file of so few rows makes the queries it is known to make, and only reads."""
    client = member(project)
    where = address(name, project)
    client.get(where).getvalue()
    with CaptureQueriesContext(connection) as queries:
        client.get(where).getvalue()
    assert [query["sql"] for query in queries if not query["sql"].lstrip().upper().startswith("SELECT")] == []
    assert len(queries) == json.loads(COUNTS.read_text())[name]


def test_a_run_that_waits_is_marked(project: Project) -> None:
    """A run that asks a person is marked in the list and found by what it waits for, until it is answered."""
    to = Recorder("r-44")
    to.add("run.started", {"task": "Ask first"})
    to.add("approval.requested", {"question": "Run rm?"}, call_id="c1")
    send(project, to.events)
    client = member(project)

    def listed(waiting: str) -> list[str]:
        where = address("run-list-file", project, waiting=waiting, form="json")
        return [run["run_id"] for run in rows_of(client, where)]

    assert "waits: approval" in client.get("/alpha/runs/").content.decode()
    assert (listed("person"), listed("approval"), listed("question")) == (["r-44", "r-43"], ["r-44"], [])
    assert listed("escalation") == ["r-43"]
    to.events.clear()
    to.add("approval.decided", {"approved": True}, call_id="c1")
    send(project, to.events)
    assert (listed("person"), listed("approval")) == (["r-43"], [])
    assert "waits: approval" not in client.get("/alpha/runs/").content.decode()
