"""Reports of the behavioural benchmark on their pages: arms, pairs, budgets, tasks; a file that cannot be shown."""

import copy
import fcntl
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from debugger import benchmark, tasks
from debugger.queries.behaviour_reports import lay_out, list_reports
from debugger.queries.report_file import ReportProblem
from tests.factories import make_person, make_project

pytestmark = pytest.mark.django_db
NAME = "behaviour-scripted-20261130T200000"


def document() -> dict[str, Any]:
    """A report of two arms over three tasks."""
    numbers = {
        "failed_repeats": 3, "useless_repeats": 1, "tokens": 1234, "latency_ms": {"p50": 4.2, "p95": 20},
        "used_share": 0.8, "helpful": 30, "harmful": 2, "false_injections": None,
    }  # fmt: skip
    solved = {"priming": 0, "runtime": 2}
    return {
        "kind": "behaviour",
        "format": 1,
        "made_at": "2026-11-30T20:00:00+00:00",
        "agent": "scripted",
        "agent_note": "shows the mechanism <only>",
        "command": "python -m bench.behaviour",
        "versions": {"Python": "3.11.7"},
        "base_url": "http://127.0.0.1:8000",
        "arms": [
            {
                "id": arm, "title": f"Arm {arm}", "about": "", "n": 3,
                "success": {"n": n, "rate": n / 3, "low": 0.1, "high": 0.9}, **numbers,
            }
            for arm, n in solved.items()
        ],
        "comparisons": [
            {
                "arm": "runtime", "against": "priming", "on": "fitting", "n": 3, "difference": 2 / 3, "low": 0.1,
                "high": 1.0, "p": 0.03125, "won": 2, "lost": 0,
            }
        ],
        "checks": [{"id": "a", "says": "hints at runtime solve", "value": 0.667, "wanted": "0.95", "met": False}],
        "sweep": [
            {
                "tokens": tokens, "hints": 1, "success": 0.5, "tokens_per_resolved": 80.0,
                "latency_ms": {"p50": 1, "p95": 2}, "with_activation": 1.0, "budget_use": 0.4,
            }
            for tokens in (100, 200)
        ],
        "runs": [
            {
                "task": f"task-{n}", "arm": arm, "seed": 1, "project": project, "run_id": f"b/{arm}-{n}",
                "kind": "invented", "success": n < solved[arm],
            }
            for n in range(3)
            for arm, project in (("priming", "alpha"), ("runtime", "elsewhere"))
        ],
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    settings.EXPERIMENTS_DIR = tmp_path
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Client:
    signed_in = Client()
    signed_in.force_login(make_person("ann", make_project()))
    return signed_in


def write(folder: Path, whole: object, name: str = NAME) -> None:
    (folder / f"{name}.json").write_text(json.dumps(whole), encoding="utf-8")


def page(client: Client, path: str) -> str:
    response = client.get(f"/alpha/experiments/{path}")
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def test_a_report_is_listed_and_opens(client: Client, folder: Path) -> None:
    """The list says how each arm did and what was not met; the page has every part of the report."""
    write(folder, document())
    listed = page(client, "")
    assert "Arm priming <b>0 of 3</b>" in listed and "Arm runtime <b>2 of 3</b>" in listed
    assert "not met: hints at runtime solve" in listed
    text = page(client, f"reports/{NAME}/")
    assert "+66.7" in text and "0.0312" in text and "1,234" in text
    assert "shows the mechanism <only>" in text
    assert "<only>" not in client.get(f"/alpha/experiments/reports/{NAME}/").content.decode()


def test_runs_lead_to_their_pages_where_the_reader_may_see_them(client: Client, folder: Path) -> None:
    """A run of a project of others has no address, nor has any run of a stack that is gone."""
    write(folder, document())
    text = page(client, f"reports/{NAME}/")
    assert '<a href="/alpha/runs/b%2Fpriming-0/">not solved</a>' in text
    assert "/elsewhere/" not in text
    write(folder, document() | {"base_url": ""})
    assert "/alpha/runs/b" not in page(client, f"reports/{NAME}/")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), 2, "no report of the behavioural benchmark in format 1"),
        (("made_at",), "yesterday", "made_at is no time in ISO 8601"),
        (("arms",), {}, "arms is no list"),
        (("arms", 0, "n"), -1, "arms[0]: n is no count"),
        (("arms", 0, "success", "rate"), "much", "arms[0].success: rate is no number"),
        (("arms", 0, "tokens"), float("inf"), "arms[0]: tokens is no number"),
        (("comparisons", 0, "arm"), "", "comparisons[0]: arm is no text or empty"),
        (("runs", 0), "gone", "runs[0] is no object"),
    ],
)
def test_a_report_that_does_not_fit_is_a_line(path: tuple[Any, ...], value: object, said: str) -> None:
    """The first field that does not fit is named; the list of reports shows the others."""
    whole = copy.deepcopy(document())
    place: Any = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ReportProblem, match=re.escape(said)):
        lay_out(NAME, whole)


def test_a_broken_file_hides_no_other(client: Client, folder: Path) -> None:
    """A file that was cut off stands in the list with its problem, behind the newer one; other files are not read."""
    write(folder, document())
    (folder / "behaviour-scripted-20261101T000000.json").write_text('{"kind":')
    (folder / "notes.json").write_text("{}")
    assert [(one.name[-15:], bool(one.report)) for one in list_reports(folder)] == [
        ("20261130T200000", True),
        ("20261101T000000", False),
    ]
    assert "cannot be shown: it is no whole JSON document" in page(client, "")
    assert "cannot be shown: it is no whole JSON" in page(client, "reports/behaviour-scripted-20261101T000000/")


@pytest.mark.parametrize("name", ["behaviour-none", "notes", "..%252Fsecret", "behaviour-%2e%2e"])
def test_no_other_file_is_read(name: str, client: Client, folder: Path) -> None:
    """Only files with the name of a report, in the folder itself."""
    (folder / "notes.json").write_text(json.dumps(document()))
    assert client.get(f"/alpha/experiments/reports/{name}/").status_code == 404


def test_without_a_report_the_page_says_how_to_make_one(client: Client) -> None:
    """The command stands where the list would be."""
    assert "python -m bench.behaviour" in page(client, "")


# ---- started from the page


@pytest.fixture
def stack_is_there(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An installation that `up` started; the names of the tasks that were queued."""
    settings.VAR_DIR = folder
    (folder / "up.json").write_text("{}")
    queued: list[str] = []
    monkeypatch.setattr(tasks._tasks, "put", lambda task, _: queued.append(task) or "")
    return queued


def keeper(name: str = "kay") -> Client:
    person = make_person(name, make_project())
    person.is_staff = True
    person.save()
    signed_in = Client()
    signed_in.force_login(person)
    return signed_in


def test_who_keeps_the_installation_starts_it_once(stack_is_there: list[str]) -> None:
    """One is queued and the page says who started it; a second is refused while it waits or runs."""
    client = keeper()
    assert "Run the benchmark" in page(client, "")
    assert client.post("/alpha/experiments/start/").status_code == 302
    text = page(client, "")
    assert "kay started a benchmark at" in text and "Run the benchmark" not in text
    response = client.post("/alpha/experiments/start/")
    assert response.status_code == 400 and "under way already" in response.content.decode()
    assert stack_is_there == [benchmark.TASK]


def test_others_do_not_start_it(client: Client, stack_is_there: list[str]) -> None:
    """A member sees no button and is refused; so is everybody where no stack of `up` runs."""
    assert "Run the benchmark" not in page(client, "")
    assert client.post("/alpha/experiments/start/").status_code == 403
    assert keeper().get("/alpha/experiments/start/").status_code == 405
    (Path(benchmark.settings.VAR_DIR) / "up.json").unlink()
    assert keeper("kim").post("/alpha/experiments/start/").status_code == 400
    assert stack_is_there == [] and benchmark.running() is None


def test_a_broker_that_is_away_leaves_nothing_claimed(folder: Path, settings: Settings) -> None:
    """It can be asked for again at once. No broker runs beside these tests."""
    settings.VAR_DIR = folder
    (folder / "up.json").write_text("{}")
    assert keeper().post("/alpha/experiments/start/").status_code == 400
    assert benchmark.running() is None


def test_what_could_not_be_run_is_said(stack_is_there: list[str]) -> None:
    """The command is really started; here it finds no stack, and the page says what it said."""
    client = keeper()
    client.post("/alpha/experiments/start/")
    assert benchmark.run() == 2
    text = page(client, "")
    assert "The last benchmark could not be run" in text and "does not lead to a running stack" in text
    assert "Run the benchmark" in text


def test_a_claim_that_nobody_holds_is_old(stack_is_there: list[str], folder: Path) -> None:
    """A worker that died leaves a claim; it stands in nobody's way once it is older than a queue may take."""
    assert benchmark.claim("ann")
    told = json.loads((folder / benchmark.CLAIM).read_text())
    (folder / benchmark.CLAIM).write_text(json.dumps(told | {"since": "2026-11-30T00:00:00+00:00"}))
    assert benchmark.running() is None
    with (folder / benchmark.CLAIM).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert benchmark.running() is not None and not benchmark.claim("ben")
    assert benchmark.claim("ben")
