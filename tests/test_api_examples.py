"""The calls of docs/api.md and of the README are run as they stand there, and answer what is shown beneath them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django.live_server_helper import LiveServer

from ingest.authentication import create_key
from ingest.models import Event, Project
from tests.source_rules import ROOT

BLOCK = re.compile(r"^```(sh|python|json)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:8000"
SECONDS = 30
ANYTHING = "…"

pytestmark = pytest.mark.django_db(transaction=True)


def examples(document: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (language, text, answer shown beneath it or None) of the calls in a document, in order."""
    blocks = BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))
    for place, (language, text) in enumerate(blocks):
        if language != "json" and ADDRESS in text:
            following = blocks[place + 1] if place + 1 < len(blocks) else ("", "")
            yield language, text, json.loads(following[1]) if following[0] == "json" else None


def run(language: str, text: str, base_url: str, key: str) -> Any:
    """Run an example against the server at `base_url` and return the JSON that it printed."""
    command = [sys.executable, "-c"] if language == "python" else ["bash", "-euc"]
    environment = {**os.environ, "KEY": key, "NO_PROXY": "*", "no_proxy": "*"}
    done = subprocess.run(
        [*command, text.replace(ADDRESS, base_url)], env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shown(expected: Any, actual: Any) -> bool:
    """Tell whether the answer is the one shown: what is left out or written as … may be anything."""
    if expected == ANYTHING:
        return actual is not None
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(name in actual and shown(value, actual[name]) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(shown, expected, actual))
    return bool(expected == actual)


@pytest.fixture
def key() -> str:
    """A key that may do everything, of a project without runs that knows the starter set."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    call_command("import_knowledge", "knowledge/starter", project="alpha", verbosity=0)
    return create_key(project, "reader", ["ingest", "observe", "read", "curate"])[1]


def test_examples_of_the_api_document_run(live_server: LiveServer, key: str) -> None:
    """One after the other, as a newcomer would, on a project without runs."""
    n_shown = 0
    for language, text, expected in examples("docs/api.md"):
        answer = run(language, text, live_server.url, key)
        assert expected is not None, text
        assert shown(expected, answer), (text, answer)
        n_shown += 1
    assert n_shown >= 13


def test_examples_of_the_readme_run(live_server: LiveServer, key: str) -> None:
    """What the README tells a newcomer to send is stored whole."""
    answers = [run(language, text, live_server.url, key) for language, text, _ in examples("README.md")]
    assert answers and all(answer["rejected"] == [] and answer["accepted"] > 0 for answer in answers)
    assert Event.objects.count() == sum(answer["accepted"] for answer in answers)
