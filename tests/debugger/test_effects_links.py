"""Numbers of the page of effects lead to exactly the runs they count: those of stored events, by every grouping."""

import html
import re
from collections import Counter
from typing import Any

import pytest
from django.test import Client

from ingest.accept import accept_events
from knowledge import chains, rolling
from knowledge.effect_report import GROUPS
from knowledge.models import Activation
from tests.factories import make_person, make_project
from tests.knowledge.streams import wire_of

pytestmark = pytest.mark.django_db
NAMES = ("hint_helped", "hint_ignored", "holdout_offered", "holdout_withheld", "mcp_first_call")


@pytest.mark.parametrize("group", GROUPS)
def test_the_searches_of_a_group_lead_to_the_runs_that_made_them(group: str) -> None:
    """Followed as a browser does, each link lists the runs with such a search, and no other."""
    project = make_project()
    for name in NAMES:
        events = wire_of(name)
        accept_events(project.pk, events)
        chains.refresh_run(project.pk, events[0]["run_id"])
    rolling.roll_up(project.pk)
    client = Client()
    client.force_login(make_person("ann", project))
    made: dict[str, set[str]] = {}
    n_searches: Counter[str] = Counter()
    rows: list[dict[str, Any]] = list(Activation.objects.filter(project=project).values("run_id", "result", group))
    for row in rows:
        made.setdefault(row[group] or "", set()).add(row["run_id"])
        n_searches[row[group] or ""] += row["result"] != "skipped"
    text = client.get(f"/alpha/effects/?days=7&group={group}").content.decode()
    found = re.findall(r'data-label="searches"><a href="([^"]*)">([\d,]+)</a>', text)
    links = [(html.unescape(address), int(number)) for address, number in found]
    known = [value for value in made if value]
    assert len(links) == len(known) + (len(made) > 1)
    led = sorted((number, sorted(_runs(client, address))) for address, number in links[: len(known)])
    assert led == sorted((n_searches[value], sorted(made[value])) for value in known)


def _runs(client: Client, address: str) -> set[str]:
    response = client.get(address)
    assert response.status_code == 200
    return set(re.findall(r'href="/alpha/runs/([^/"?]+)/"', response.content.decode()))
