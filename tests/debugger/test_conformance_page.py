"""The conformance page: the matrix of the last report, a cell beside it, a report that cannot be shown. (Seed 003.)"""

import copy
import html
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from debugger.queries import report_file
from debugger.queries.conformance import NO_CELL, RESULTS, lay_out, read_report
from debugger.queries.report_file import ReportProblem
from ingest.projects import ProjectError, create_project
from tests.factories import make_person, make_project

pytestmark = pytest.mark.django_db

CONDITIONS: Final = ("outside-catalogue", "step-behind")
COLUMNS: Final = ("adversary", "scripted", "temporal")
WORDS: Final = ("pass", "fail", "not exercised", "pass (driver)", "not applicable", "not implemented")


def document() -> dict[str, Any]:
    """A report of two conditions and three columns, with every word once."""
    cells = [(condition, column) for condition in CONDITIONS for column in COLUMNS]
    return {
        "world_set": "5c1f" * 16,
        "made_at": "2026-11-30T17:00:00+00:00",
        "versions": {"kernel": "abc123", "Python": "3.11.7"},
        "conditions": [
            {"id": one, "title": f"Title of {one}", "about": f"about {one}", "requirement": "seed 003", "world": "77aa"}
            for one in CONDITIONS
        ],
        "columns": [{"id": one, "title": one.title(), "about": f"about {one}"} for one in COLUMNS],
        "cells": [
            {
                "condition": condition,
                "column": column,
                "result": word,
                "reason": "" if word.startswith("pass") else f"because of {word}",
                "attempts": [f"{condition}/{column}/1"],
            }
            for (condition, column), word in zip(cells, WORDS, strict=True)
        ],
    }


def changed(*path: str | int, value: Any) -> dict[str, Any]:
    """The report with one value put in another's place."""
    whole = copy.deepcopy(document())
    place: Any = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return whole


@pytest.fixture
def path(tmp_path: Path, settings: Settings) -> Path:
    settings.CONFORMANCE_REPORT = tmp_path / "conformance.json"
    return tmp_path / "conformance.json"


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(make_person("alice", make_project("alpha")))
    return client


def shown(response: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(response.content.decode()))


def test_the_matrix_has_every_word_in_its_place(path: Path, client: Client) -> None:
    """A row a condition, a cell a column, in words; how many have each word; when and of what it was made."""
    path.write_text(json.dumps(document()))
    text = shown(client.get("/conformance/"))
    cells = re.findall(r'aria-label="Title of ([^,"]+), (\w+): ([^"]+)"', text)
    where = [(condition, column.title()) for condition in CONDITIONS for column in COLUMNS]
    assert cells == [(*place, word) for place, word in zip(where, WORDS, strict=True)]
    tally = dict(re.findall(r'<span class="cell [^"]*">(?:<svg.*?</svg>)?([^<]+)</span> <b>(\d+)</b>', text))
    assert tally == dict.fromkeys(RESULTS, "1")
    assert "5c1f" * 16 in text
    assert "2026-11-30 17:00:00 UTC" in text
    assert '<dt>kernel</dt><dd class="mono">abc123</dd>' in text


def test_a_failing_cell_is_told_by_more_than_its_colour(path: Path, client: Client) -> None:
    """An alert names it with a link, and the cell has the word, a sign and a frame."""
    path.write_text(json.dumps(document()))
    text = shown(client.get("/conformance/"))
    assert '<b>1 cell fails:</b> <a href="/conformance/outside-catalogue/scripted/">' in text
    assert re.search(r'<td class="failing">.*?<svg class="icon".*?</svg>fail</a>', text)
    path.write_text(json.dumps(changed("cells", 1, "result", value="pass")))
    text = shown(client.get("/conformance/"))
    assert "cell fails" not in text
    assert 'class="failing"' not in text


def test_a_cell_has_an_address_of_its_own(path: Path, client: Client) -> None:
    """Its reason, the ids of the attempts, the world; the matrix stands beside it with the cell marked."""
    path.write_text(json.dumps(document()))
    text = shown(client.get("/conformance/outside-catalogue/scripted/"))
    panel = text.partition('<aside id="panel"')[2]
    assert "because of fail" in panel
    assert 'data-copy="outside-catalogue/scripted/1"' in panel
    assert 'data-copy="77aa"' in panel
    assert "about outside-catalogue" in panel
    assert text.count('aria-current="true" aria-label="Title of outside-catalogue, Scripted: fail"') == 1
    assert client.get("/conformance/outside-catalogue/nothing/").status_code == 404


def test_a_cell_that_says_nothing_is_called_a_defect(path: Path, client: Client) -> None:
    """Not applicable without its reason; a cell that the report leaves out is not exercised and says so."""
    whole = changed("cells", 4, "reason", value="")
    del whole["cells"][0]
    path.write_text(json.dumps(whole))
    text = shown(client.get("/conformance/step-behind/scripted/"))
    assert 'not applicable <span class="bad">(no reason)</span>' in text
    assert "that is a defect of the report" in text
    cell = lay_out(whole).find("outside-catalogue", "adversary")
    assert cell is not None
    assert (cell.result, cell.reason) == ("not exercised", NO_CELL)


def test_without_a_report_the_page_says_how_to_make_one(path: Path, client: Client) -> None:
    """The command, and nothing that looks like a result."""
    for url in ("/conformance/", "/conformance/a/b/"):
        text = shown(client.get(url))
        assert "No report yet" in text
        assert "-m kernel.conformance --out $VAR_DIR/conformance.json" in text
        assert 'class="matrix"' not in text


def torn(path: Path) -> None:
    path.write_text(json.dumps(document())[:-40])


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(report_file.MOST_BYTES + 1)


def deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe{}")


def long_number(path: Path) -> None:
    path.write_text('{"world_set": ' + "9" * 5_000 + "}")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (torn, "it is no whole JSON document"),
        (huge, "at most 4,194,304 are read"),
        (deep, "it is nested too deeply"),
        (folder, "it is no plain file"),
        (pipe, "it is no plain file"),
        (no_text, "it is no UTF-8 text"),
        (long_number, "it is no whole JSON document"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_banner(
    path: Path, client: Client, spoil: Callable[[Path], None], said: str
) -> None:
    """With its cause, on the page and on a cell's; never an error of the server, and never a hang."""
    spoil(path)
    for url in ("/conformance/", "/conformance/a/b/"):
        page = client.get(url)
        assert page.status_code == 200
        assert "The report cannot be shown:" in shown(page)
        assert said in shown(page)
        assert 'class="matrix"' not in shown(page)


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        ([], "the report is no object"),
        ({}, "conditions is no list"),
        (changed("columns", value={}), "columns is no list"),
        (changed("conditions", 0, value="x"), r"conditions\[0\] is no object"),
        (changed("conditions", 1, "id", value="outside-catalogue"), "conditions has 'outside-catalogue' twice"),
        (changed("columns", 0, "title", value=""), r"columns\[0\]: title is no text or empty"),
        (changed("columns", value=[{"id": f"c{n}", "title": "t"} for n in range(501)]), "columns has 501 entries"),
        (changed("cells", 2, "column", value="nowhere"), r"cells\[2\] names a condition or column that is not listed"),
        (changed("cells", 1, "column", value="adversary"), r"cells\[1\] is there twice"),
        (changed("cells", 3, "result", value="passed"), r"cells\[3\]\.result is none of: pass, pass \(driver\)"),
        (changed("cells", 3, "reason", value=7), r"cells\[3\]: reason is no text"),
        (changed("cells", 3, "attempts", value="x"), r"cells\[3\]\.attempts is no list"),
        (changed("versions", value=[]), "versions is no object"),
        (changed("made_at", value="yesterday"), "made_at is no time in ISO 8601"),
        (changed("made_at", value="2026-11-30T17:00:00"), "made_at has no zone"),
        (changed("world_set", value=None), "world_set is no text or empty"),
    ],
)
def test_a_report_of_another_shape_names_what_is_wrong(path: Path, client: Client, whole: object, said: str) -> None:
    """The first field that does not fit, in a banner; nothing of the rest is shown as if it were whole."""
    with pytest.raises(ReportProblem, match=said):
        lay_out(whole)
    path.write_text(json.dumps(whole))
    page = client.get("/conformance/")
    assert page.status_code == 200
    assert "The report cannot be shown:" in shown(page)
    assert 'class="matrix"' not in shown(page)


def test_texts_of_the_report_are_shown_and_never_run(path: Path, client: Client) -> None:
    """Markup is escaped, what reorders a line and what is no character are written out, ids of any shape have pages."""
    hostile = "<script>alert(1)</script>\u202e\ud800 " + "n" * 10_000
    whole = changed("cells", 0, "reason", value=hostile)
    for entry in whole["conditions"] + whole["columns"]:
        entry["title"] = entry["about"] = hostile
    whole["versions"] = {hostile: hostile}
    whole["cells"][0]["attempts"] = [{"id": hostile}, 7]
    whole["conditions"][0]["id"] = whole["cells"][0]["condition"] = "a/b %2F?<i>"
    whole["cells"] = whole["cells"][:1]
    path.write_text(json.dumps(whole))
    page = client.get("/conformance/").content.decode()
    [address] = set(re.findall(r'href="(/conformance/a%[^"]+/adversary/)"', page))
    page = client.get(address).content.decode()
    assert "<script>alert" not in page
    assert "<i>" not in page
    assert "\u202e" not in page
    assert "\\u202e\\ud800" in page
    assert "not exercised" in page


def test_it_is_for_people_who_are_signed_in_and_of_no_project(path: Path, client: Client) -> None:
    """A stranger to all projects may read it, nobody else; its address is no project's; where it lies is for staff."""
    path.write_text("torn")
    assert Client().get("/conformance/").headers["Location"].startswith("/sign-in/")
    stranger, staff = make_person("stranger"), make_person("staff")
    staff.is_staff = True
    staff.save()
    pages = {}
    for person in (stranger, staff):
        reader = Client()
        reader.force_login(person)
        pages[person.username] = shown(reader.get("/conformance/"))
    assert str(path) not in pages["stranger"]
    assert str(path) in pages["staff"]
    assert client.post("/conformance/").status_code == 405
    with pytest.raises(ProjectError):
        create_project("conformance", "Conformance")


def test_the_page_asks_the_database_for_the_person_only(path: Path, client: Client) -> None:
    """However many cells there are: who is signed in, and the projects of the menu."""
    path.write_text(json.dumps(document()))
    client.get("/conformance/")
    with CaptureQueriesContext(connection) as queries:
        client.get("/conformance/step-behind/temporal/")
    assert len(queries) == 3
    assert read_report(path) == lay_out(document())
