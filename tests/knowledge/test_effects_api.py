"""`GET /v1/reports/effects` and that of items: the numbers of the pages, to the shapes of the document."""

from typing import Any

import jsonschema
import pytest
from django.test import Client

from ingest.authentication import create_key
from ingest.models import Project
from knowledge.effect_shapes import components
from tests.effect_runs import Series, run_experiment
from tests.factories import make_project

pytestmark = pytest.mark.django_db
DAYS = {"since": "2026-11-01", "until": "2026-11-30"}


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def headers(project: Project) -> dict[str, str]:
    return {"Authorization": f"Bearer {create_key(project, 'report', ['read'])[1]}"}


def nullable(shape: Any) -> Any:
    """The shape in JSON Schema, which says null as a type of its own."""
    if isinstance(shape, list):
        return [nullable(each) for each in shape]
    if not isinstance(shape, dict):
        return shape
    told = {name: nullable(each) for name, each in shape.items() if name != "nullable"}
    return {"anyOf": [told, {"type": "null"}]} if shape.get("nullable") is True else told


def get(path: str, headers: dict[str, str], **params: str) -> dict[str, Any]:
    response = Client().get(f"/v1/reports/{path}", {**DAYS, **params}, headers=headers)
    assert response.status_code == 200, response.content
    body: dict[str, Any] = response.json()
    jsonschema.validate(body, nullable(components()["Effects" if path == "effects" else "ItemEffects"]))
    return body


def test_the_report_by_group_is_that_of_the_pages(project: Project, headers: dict[str, str]) -> None:
    """Both arms, the verdict and what decided it, by the dimension that is asked for."""
    run_experiment(project, Series("offered", 60, 50), Series("withheld", 60, 10), Series("", 5, 5, tool="make"))
    body = get("effects", headers, group="tool")
    assert [(group["value"], group["near"]["verdict"]) for group in body["groups"]] == [
        ("shell", "helps"),
        ("make", "collecting"),
    ]
    assert body["groups"][0]["withheld"]["near"] == {"n_success": 10, "n": 60}
    assert body["groups"][0]["near"]["effect"]["value"] == pytest.approx(40 / 60)
    assert body["total"]["counts"]["n_activations"] == 125
    assert get("effects", headers, tool="make")["total"]["counts"]["n_activations"] == 5


def test_items_have_their_proposal(project: Project, headers: dict[str, str]) -> None:
    """An item that harms comes first, with why it is proposed for suspension."""
    run_experiment(project, Series("offered", 100, 10), Series("withheld", 100, 60))
    (first, held) = get("effects/items", headers)["items"]
    assert first["knowledge_id"] == "k-git" and "Proposed for suspension" in first["suspension_proposed"]
    assert held["near"] is None and held["counts"]["n_retrieved"] == 200


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"group": "colour"}, "group must be one of"),
        ({"since": "x"}, "since must be a day"),
        ({"since": "2026-12-01", "until": "2026-11-30"}, "since must not be later than until"),
        ({"since": "2020-01-01"}, "at most 366 days apart"),
        ({"colour": "red"}, "unknown parameter"),
    ],
)
def test_what_cannot_be_asked_is_named(params: dict[str, str], said: str, headers: dict[str, str]) -> None:
    """The parameter, its limit and what would do."""
    response = Client().get("/v1/reports/effects", params, headers=headers)
    assert response.status_code == 400 and said in response.json()["detail"]
