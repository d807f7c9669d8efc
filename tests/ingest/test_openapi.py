"""The OpenAPI document: complete, without a warning, its limits those of the settings, its examples valid."""

import io
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver

from ingest.limits import all_limits

METHODS = ("get", "post", "put", "patch", "delete")


def read_document() -> dict[str, Any]:
    return json.loads(Client().get("/v1/schema?format=json").content)


@pytest.fixture
def document() -> dict[str, Any]:
    return read_document()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method} {path}", item[method]


def test_document_is_made_without_a_warning() -> None:
    """The generator finds nothing to guess, and the result is valid OpenAPI."""
    told = io.StringIO()
    call_command("spectacular", "--fail-on-warn", "--validate", stdout=told)
    assert told.getvalue().startswith("openapi: 3.0.3")


def test_document_is_served_as_json_and_yaml(document: dict[str, Any]) -> None:
    """Both forms name the same addresses, without a key."""
    as_yaml = Client().get("/v1/schema")
    assert as_yaml.headers["Content-Type"].startswith("application/vnd.oai.openapi")
    assert as_yaml.content.startswith(b"openapi: 3.0.3\n")
    assert all(f"\n  {path}:\n".encode() in as_yaml.content for path in document["paths"])
    as_json = Client().get("/v1/schema", headers={"Accept": "application/json"})
    assert json.loads(as_json.content) == document


def test_document_names_every_address(document: dict[str, Any]) -> None:
    """Every address under /v1/ that is for programs stands in the document."""
    patterns = [
        str(one.pattern)
        for resolver in get_resolver().url_patterns
        if str(resolver.pattern) == "v1/"
        for one in resolver.url_patterns
    ]
    served = {"/v1/" + pattern.replace("<id:", "{").replace(">", "}") for pattern in patterns} - {"/v1/schema"}
    assert served == set(document["paths"])
    assert len(served) >= 12


def test_document_describes_events_as_they_are_checked(document: dict[str, Any]) -> None:
    """The bounds of a batch and of its fields, and every answer there is."""
    shapes = document["components"]["schemas"]
    assert shapes["Events"]["properties"]["events"]["maxItems"] == 1_000
    assert shapes["Event"]["properties"]["event_id"]["maxLength"] == 200
    assert shapes["Event"]["properties"]["tool"]["maxLength"] == 200
    for number in ("262144", "64 levels", "512 bytes"):
        assert number in shapes["Event"]["properties"]["data"]["description"]
    post = document["paths"]["/v1/events"]["post"]
    assert set(post["responses"]) == {"200", "207", "400", "401", "403", "413", "415", "429", "503"}
    assert document["components"]["securitySchemes"]["ApiKey"]["scheme"] == "bearer"


def test_answers_that_ask_for_patience_document_the_header(document: dict[str, Any]) -> None:
    """Every 429 and 503 has Retry-After."""
    found = 0
    for name, operation in operations(document):
        for status in ("429", "503"):
            if status in operation["responses"]:
                assert "Retry-After" in operation["responses"][status].get("headers", {}), (name, status)
                found += 1
    assert found >= 12


def test_limits_are_those_of_the_settings(settings: Any) -> None:
    """A changed setting changes the document: `x-limits` and the shapes alike."""
    settings.INGEST_MAX_EVENTS = 77
    settings.INGEST_EVENTS_PER_MINUTE = 4_321
    changed = read_document()
    assert changed["x-limits"]["events_per_request"]["value"] == 77
    assert changed["x-limits"]["events_per_minute"]["value"] == 4_321
    assert changed["components"]["schemas"]["Events"]["properties"]["events"]["maxItems"] == 77
    assert {name: one["value"] for name, one in changed["x-limits"].items()} == {
        limit.name: limit.value for limit in all_limits()
    }


def as_json_schema(node: Any) -> Any:
    """Return an OpenAPI 3.0 shape as JSON Schema: `nullable` becomes a type."""
    if isinstance(node, list):
        return [as_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    shape = {name: as_json_schema(value) for name, value in node.items()}
    if shape.pop("nullable", False) is True:
        return {"anyOf": [shape, {"type": "null"}]}
    return shape


def examples(document: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (place, shape, example) of every example in the document."""
    for name, shape in document["components"]["schemas"].items():
        if isinstance(shape, dict) and "example" in shape:
            yield name, shape, shape["example"]
    for name, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for media in body.get("content", {}).values():
                for title, example in media.get("examples", {}).items():
                    yield f"{name} {title}", media["schema"], example["value"]


def test_every_example_is_valid(document: dict[str, Any]) -> None:
    """What is shown as an example fits the shape it is shown for."""
    whole = as_json_schema(document)
    n_checked = 0
    for place, shape, example in examples(document):
        schema = {**as_json_schema(shape), "components": whole["components"]}
        problems = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(example)]
        assert problems == [], place
        n_checked += 1
    assert n_checked >= 5


def test_an_unknown_address_is_a_404_for_programs() -> None:
    """An address that is none answers as every refusal does, whatever the method."""
    for response in (Client().get("/v1/nowhere"), Client().post("/v1/runs/a/b/c/d"), Client().get("/v1/runs/%00")):
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
