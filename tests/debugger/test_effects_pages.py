"""The pages of effects: verdicts in words, a funnel without an experiment, items to suspend, where numbers lead."""

import html
import json
import re
from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client

from debugger.queries.effects import AskedWrongly, read_asked
from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import KnowledgeItem
from tests.effect_runs import DAY, Series, run_experiment
from tests.factories import make_person, make_project

pytestmark = pytest.mark.django_db
DAYS = "since=2026-11-01&until=2026-11-30"
TODAY = date(2026, 11, 30)


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def client(project: Project) -> Client:
    signed_in = Client()
    signed_in.force_login(make_person("ann", project))
    return signed_in


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.content.decode()[:300]
    return html.unescape(response.content.decode())


def figures(text: str) -> dict[str, Any]:
    """The figures of a page by their titles."""
    found = [json.loads(raw) for raw in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)]
    return {figure["layout"]["meta"]["title"]: figure for figure in found}


def test_a_clear_effect_is_said_in_words_and_drawn(client: Client, project: Project) -> None:
    """Hints that turn most failures around are told to help, with both rates, the interval and the points."""
    run_experiment(project, Series("offered", 150, 130), Series("withheld", 150, 40))
    text = page(client, f"/alpha/effects/?{DAYS}")
    assert "Better with hints: +60.0 points" in text
    assert "87% of 150" in text and "27% of 150" in text
    (trace,) = figures(text)["Effect of offering, with its interval"]["data"]
    assert trace["x"] == [60.0]
    assert trace["marker"]["color"] == ["var(--ok)"]


def test_without_a_holdout_only_a_funnel_is_shown(client: Client, project: Project) -> None:
    """Who withheld nothing is told that no effect can be shown, and is shown none."""
    run_experiment(project, Series("", 40, 30))
    text = page(client, f"/alpha/effects/?{DAYS}")
    assert "only a funnel can be shown and no effect" in text
    assert "Effect of offering, with its interval" not in figures(text)
    funnel = figures(text)["How far knowledge came"]["data"][0]
    assert funnel["y"] == ["retrieved", "offered", "selected", "injected", "used", "helpful"]
    assert funnel["x"] == [80, 40, 40, 40, 30, 30]


def test_few_points_are_still_collecting(client: Client, project: Project) -> None:
    """The number that is too small is named with its limit."""
    run_experiment(project, Series("offered", 12, 9), Series("withheld", 12, 3))
    text = page(client, f"/alpha/effects/?{DAYS}")
    assert "Still collecting: 12 of 30 outcomes where hints went in" in text


def test_a_broken_draw_is_not_compared(client: Client, project: Project) -> None:
    """Arms that do not have their share are said to be incomparable; no interval is drawn."""
    run_experiment(project, Series("offered", 180, 130), Series("withheld", 60, 20))
    text = page(client, f"/alpha/effects/?{DAYS}")
    assert "Not comparable: 60 of 240 situations were withheld where about 120 were to be expected" in text
    assert "Effect of offering, with its interval" not in figures(text)


def test_groups_are_compared_by_themselves_and_lead_to_their_runs(client: Client, project: Project) -> None:
    """Grouped by tool each tool has its row; its numbers lead to the runs of that tool on these days."""
    run_experiment(
        project,
        Series("offered", 60, 50, tool="shell"), Series("withheld", 60, 10, tool="shell"),
        Series("offered", 60, 20, tool="<make>"), Series("withheld", 60, 50, tool="<make>"),
    )  # fmt: skip
    text = page(client, f"/alpha/effects/?{DAYS}&group=tool")
    trace = figures(text)["Effect of offering, with its interval"]["data"][0]
    assert dict(zip(trace["y"], trace["marker"]["color"], strict=True)) == {
        "‹make›": "var(--bad)", "shell": "var(--ok)",
    }  # fmt: skip
    days = "since=2026-11-01T00:00:00Z&until=2026-12-01T00:00:00Z".replace(":", "%3A")
    assert f"/alpha/runs/?search_tool=shell&{days}" in text
    raw = client.get(f"/alpha/effects/?{DAYS}&group=tool").content.decode()
    assert "<make>" not in raw


def test_strata_stand_with_the_numbers_of_their_arms(client: Client, project: Project) -> None:
    """Each stratum is named by what is known before its draw, with what both arms came to in it."""
    run_experiment(project, Series("offered", 40, 30), Series("withheld", 40, 10))
    text = page(client, f"/alpha/effects/?{DAYS}")
    row = re.search(r"<th[^>]*>tool.failed · shell · attempt 1 · 50% withheld</th>(.*?)</tr>", text, re.S)
    assert row and re.findall(r"<td[^>]*>(.*?)</td>", row[1])[:2] == ["75% of 40", "25% of 40"]


def test_losses_have_their_reasons_and_lead_on(client: Client, project: Project) -> None:
    """What was held back and what was dropped stand apart, with their meanings and their counts."""
    run_experiment(project, Series("offered", 30, 20), Series("withheld", 30, 10))
    text = page(client, f"/alpha/effects/?{DAYS}")
    assert re.search(r"Found, not offered</td><td[^>]*>retired.*?>60<", text, re.S)
    assert re.search(r"Offered, not injected</td><td[^>]*>holdout.*?drop_reason=holdout.*?>30<", text, re.S)


def test_days_are_a_line_and_a_table(client: Client, project: Project) -> None:
    """Over several days both arms have a line, and the same numbers stand in a table."""
    days = [DAY + timedelta(days=n) for n in range(3)]
    run_experiment(project, *(Series(arm, 10, 5, day=day) for day in days for arm in ("offered", "withheld")))
    text = page(client, f"/alpha/effects/?{DAYS}")
    lines = figures(text)["Good outcomes a day, by arm"]["data"]
    assert [line["y"] for line in lines] == [[0.5] * 3] * 2
    assert text.count('<th scope="row">2026-11-2') == 3


def test_what_is_not_rolled_up_yet_is_said(client: Client, project: Project) -> None:
    """A report that lags says by how many runs."""
    run_experiment(project, Series("offered", 3, 3), roll=False)
    assert "3 runs are not in these numbers yet" in page(client, f"/alpha/effects/?{DAYS}")


def test_nothing_on_these_days_is_said(client: Client, project: Project) -> None:
    """A project without searches is told so, and what would bring some."""
    assert "Nothing was searched for on these days" in page(client, "/alpha/effects/")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"group": "colour"}, "group must be one of: trigger, tool"),
        ({"days": "31"}, "days must be one of: 7, 30, 90, 365"),
        ({"since": "yesterday"}, "since must be a day such as 2026-01-31"),
        ({"since": "2026-12-01", "until": "2026-11-01"}, "since must not be later than until"),
        ({"since": "2020-01-01", "until": "2026-11-01"}, "at most 366 days apart"),
        ({"tool": "x" * 201}, "tool must be a text of at most 200 characters"),
        ({"colour": "red"}, "unknown parameter 'colour'"),
    ],
)
def test_what_cannot_be_asked_is_named(params: dict[str, str], said: str, client: Client) -> None:
    """The parameter, its limit and what would do; on the page the same words."""
    with pytest.raises(AskedWrongly, match=re.escape(said)):
        read_asked(params, TODAY)
    for address in ("/alpha/effects/", "/alpha/effects/items/"):
        response = client.get(address, params)
        assert response.status_code == 400
        assert said in html.unescape(response.content.decode())


def test_htmx_gets_only_what_stands_under_the_filters(client: Client, project: Project) -> None:
    """A fragment is no page."""
    run_experiment(project, Series("offered", 3, 3))
    text = client.get(f"/alpha/effects/?{DAYS}", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in text and "How far knowledge came" in text


def items_of_two_kinds(project: Project) -> None:
    for knowledge_id in ("k-bad", "k-good"):
        create_item(
            project,
            ItemDraft(knowledge_id=knowledge_id, proposition=f"Rule of {knowledge_id}"),
            by="ann",
            reason="seen",
        )
    run_experiment(
        project,
        Series("offered", 150, 20, "k-bad"), Series("withheld", 150, 90, "k-bad"),
        Series("offered", 150, 120, "k-good"), Series("withheld", 150, 50, "k-good"),
    )  # fmt: skip


def test_an_item_that_harms_is_proposed_with_its_evidence_and_suspended(client: Client, project: Project) -> None:
    """The proposal names both rates; one click suspends, another takes that back, and the history says why."""
    items_of_two_kinds(project)
    text = page(client, f"/alpha/effects/items/?{DAYS}")
    proposals = re.findall(r'<li class="notice bad"><b class="mono">(.*?)</b>', text)
    assert proposals == ["k-bad"]
    assert "13 % of 150 outcomes were good, where it was withheld 60 % of 150" in text
    form = {"suspended": "true", "revision": "1", "reason": "it harms", "query": DAYS}
    response = client.post("/alpha/effects/items/k-bad/suspend/", form)
    assert response.status_code == 302 and response["Location"] == f"/alpha/effects/items/?{DAYS}"
    item = KnowledgeItem.objects.get(project=project, knowledge_id="k-bad")
    assert item.suspended_dynamic
    assert item.changes.latest("pk").reason == "it harms"
    text = page(client, f"/alpha/effects/items/?{DAYS}")
    assert "Proposed for suspension" not in text and "Take back" in text
    client.post("/alpha/effects/items/k-bad/suspend/", {**form, "suspended": "false"})
    item.refresh_from_db()
    assert not item.suspended_dynamic


def test_nobody_suspends_without_a_reason_on_an_old_revision_or_looking_on(client: Client, project: Project) -> None:
    """A refusal names what is wrong and changes nothing."""
    items_of_two_kinds(project)
    form = {"suspended": "true", "revision": "1", "reason": "it harms"}
    for changed, said in (({"reason": ""}, "Say why"), ({"revision": "7"}, "Nothing was changed")):
        response = client.post("/alpha/effects/items/k-bad/suspend/", {**form, **changed})
        assert response.status_code == 400 and said in response.content.decode()
    stranger = Client()
    stranger.force_login(make_person("eve"))
    assert stranger.post("/alpha/effects/items/k-bad/suspend/", form).status_code == 404
    assert client.get("/alpha/effects/items/k-bad/suspend/").status_code == 405
    assert not KnowledgeItem.objects.get(project=project, knowledge_id="k-bad").suspended_dynamic


def test_one_item_has_a_report_of_its_own(client: Client, project: Project) -> None:
    """Filtered by an item the sums are that item's."""
    items_of_two_kinds(project)
    text = page(client, f"/alpha/effects/?{DAYS}&knowledge_id=k-good")
    assert "Better with hints: +46.7 points" in text


def test_experiments_stand_beside_each_other(client: Client, project: Project) -> None:
    """Each experiment has its share, its arms and its verdict, and what it takes to see an effect."""
    run_experiment(
        project,
        Series("offered", 100, 80), Series("withheld", 100, 30),
        Series("offered", 4, 2, experiment="<new>"), Series("withheld", 4, 2, experiment="<new>"),
    )  # fmt: skip
    text = page(client, "/alpha/experiments/")
    rows = re.findall(r'<th scope="row" class="mono"><a href="(.*?)">(.*?)</a>', text)
    assert [name for _, name in rows] == ["nightly", "<new>"]
    assert "experiment=nightly" in rows[0][0]
    assert "helps" in text and "collecting" in text
    assert "31% of situations end well without hints (as here)" in text


def test_tables_are_files_with_the_numbers_as_they_are(client: Client, project: Project) -> None:
    """Groups, items and experiments as JSON and CSV: the filters of the page, raw numbers, the total last."""
    run_experiment(project, Series("offered", 60, 50), Series("withheld", 60, 10))

    def rows(address: str) -> list[dict[str, Any]]:
        return json.loads(b"".join(client.get(address)))["rows"]  # type: ignore[arg-type]

    groups = rows(f"/alpha/effects/file/?{DAYS}&group=tool&form=json")
    assert [(row["tool"], row["is_total"], row["offered_near_success"]) for row in groups] == [
        ("shell", False, 50), ("", True, 50),
    ]  # fmt: skip
    assert groups[0]["near_verdict"] == "helps" and groups[0]["near_effect"] == pytest.approx(40 / 60)
    (item, *_) = rows(f"/alpha/effects/items/file/?{DAYS}&form=json")
    assert item["knowledge_id"] == "k-git" and item["withheld_n_points"] == 60
    (experiment,) = rows("/alpha/experiments/file/?form=json")
    assert experiment["experiment"] == "nightly"
    text = b"".join(client.get(f"/alpha/effects/file/?{DAYS}")).decode()  # type: ignore[arg-type]
    assert text.startswith("\ufefftrigger,is_total,n_activations") and "tool.failed,false,120" in text
    assert client.get("/alpha/effects/file/?group=colour").status_code == 400
    assert client.get(f"/alpha/effects/file/?{DAYS}&form=xls").status_code == 404


def test_arms_cost_what_followed_them(client: Client, project: Project) -> None:
    """Failed calls after a situation stand by arm; of an experiment without draws there is no such table."""
    run_experiment(project, Series("offered", 40, 30), Series("withheld", 40, 10))
    text = page(client, f"/alpha/effects/?{DAYS}")
    found = re.search(r"failed calls after it.*?>(0\.\d\d)</td>.*?>(1\.\d\d)</td>", text, re.S)
    assert found is not None and found.groups() == ("0.50", "1.50")


def test_another_projects_runs_are_in_no_number(client: Client, project: Project) -> None:
    """The same runs in a project next door change nothing."""
    run_experiment(project, Series("offered", 5, 5))
    addresses = (f"/alpha/effects/?{DAYS}", f"/alpha/effects/items/?{DAYS}")

    def shown() -> list[str]:
        return [
            re.sub(r'value="\w{64}"', "", page(client, each).partition('<div id="effects"')[2]) for each in addresses
        ]

    before = shown()
    run_experiment(make_project("beta"), Series("offered", 50, 5), Series("withheld", 50, 5, "k-beta"))
    assert shown() == before
    assert all(before)
