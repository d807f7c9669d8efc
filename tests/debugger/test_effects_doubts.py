"""What the pages of effects say beside a verdict that may be slanted, and where a number leads nowhere."""

import html
import re
from dataclasses import replace

import pytest
from django.test import Client

from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.rolling import keep_contribution, roll_up
from tests.effect_runs import DAY, Series, chain, run_experiment
from tests.factories import make_person, make_project

pytestmark = pytest.mark.django_db
ADDRESS = "/alpha/effects/?since=2026-11-01&until=2026-11-30&group=tool"
ITEMS = "/alpha/effects/items/?since=2026-11-01&until=2026-11-30"
SAID = "Outcomes are unknown more often in one arm"


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def client(project: Project) -> Client:
    signed_in = Client()
    signed_in.force_login(make_person("ann", project))
    return signed_in


def rows_of(client: Client, address: str = ADDRESS) -> dict[str, str]:
    """The rows of the first table by the text of their heads."""
    response = client.get(address)
    assert response.status_code == 200, response.content.decode()[:300]
    table = re.search(r"<tbody>(.*?)</tbody>", response.content.decode(), re.S)
    assert table is not None
    found = re.findall(r'<th scope="row"[^>]*>(.*?)</th>(.*?)</tr>', table[1], re.S)
    return {re.sub(r"<[^>]+>", "", head).strip(): html.unescape(row) for head, row in found}


def lose_outcomes(project: Project, tool: str, arm: str, knowledge_id: str = "k-git") -> None:
    """Keep 60 runs of each arm, of which one arm lacks 40 outcomes, all of them good ones."""
    for drawn in ("offered", "withheld"):
        series = Series(drawn, 60, 50, knowledge_id, tool=tool)
        for number in range(series.n):
            made = chain(f"{tool}-{drawn}-{number}", series, number < series.n_good)
            if drawn == arm and number < 40:
                made = replace(made, activations=(replace(made.activations[0], near=None, resolved=None),))
            keep_contribution(project.pk, f"{tool}-{drawn}-{number}", DAY, made)
    roll_up(project.pk)


def test_a_group_whose_outcomes_lack_in_one_arm_says_so_where_the_total_is_even(
    client: Client, project: Project
) -> None:
    """One tool lacks good outcomes of one arm, another those of the other arm: each row warns, none else does."""
    lose_outcomes(project, "git", "withheld")
    lose_outcomes(project, "make", "offered")
    run_experiment(project, Series("offered", 40, 30, tool="tar"), Series("withheld", 40, 10, tool="tar"))
    rows = rows_of(client)
    assert {name: SAID in row for name, row in rows.items()} == {"git": True, "make": True, "tar": False}


def test_an_item_is_not_proposed_without_a_word_of_what_lacks(client: Client, project: Project) -> None:
    """The proposal, which becomes the reason in the item's history, holds the doubt about its numbers."""
    create_item(project, ItemDraft(knowledge_id="k-git", proposition="Rule"), by="ann", reason="seen")
    lose_outcomes(project, "git", "offered")
    run_experiment(project, Series("offered", 200, 20, tool="git"), Series("withheld", 240, 200, tool="git"))
    text = html.unescape(client.get(ITEMS).content.decode())
    proposal = re.search(r"<p>(Proposed for suspension: .*?)</p>", text)
    assert proposal is not None and SAID in proposal[1]


def test_what_was_not_reported_leads_to_no_list_of_everything(client: Client, project: Project) -> None:
    """Searches without a tool have their numbers; no run list can be asked for them, so none is linked."""
    run_experiment(project, Series("offered", 4, 3, tool=""), Series("withheld", 4, 2, tool="git"))
    rows = rows_of(client)
    assert rows.keys() == {"git", "no tool"}
    assert "<a " not in rows["no tool"] and "75% of 4" in rows["no tool"] and ">4<" in rows["no tool"]
    assert "search_tool=git" in rows["git"]


def test_a_page_of_many_groups_says_that_they_are_many(client: Client, project: Project) -> None:
    """Beside the verdicts stands what looking at many of them, or at a period that moves on, costs."""
    run_experiment(project, *(Series("offered", 1, 1, tool=f"t{number}") for number in range(12)))
    text = " ".join(client.get(ADDRESS).content.decode().split())
    assert "12 groups beside each other are as many: among many, some look clear by chance" in text
    assert "while the first day stays the same" in text
