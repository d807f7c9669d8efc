"""What docs/mcp.md shows to be pasted works as it stands there."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from pytest_django.live_server_helper import LiveServer

from ingest.authentication import create_key
from ingest.models import Project
from knowledge.chains import refresh_run
from knowledge.client.mcp_shapes import FoundHints
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import Candidate
from tests.knowledge.mcp_run import found, over_http, serving, settled
from tests.source_rules import ROOT

BLOCK = re.compile(r"^```(json|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:8000"
PLACE = "/path/to/temporality"
PLACEHOLDER = "tk_…"

pytestmark = pytest.mark.django_db(transaction=True)


def shown(language: str) -> list[str]:
    text = (ROOT / "docs/mcp.md").read_text(encoding="utf-8")
    return [code for kind, code in BLOCK.findall(text) if kind == language]


@pytest.fixture
def key() -> str:
    project = Project.objects.create(slug="alpha", name="Alpha")
    rule = "Not a git repository: run `git init` in the project folder first."
    draft = ItemDraft("git-init", rule, state="confirmed", entities=("not a git repository",))
    create_item(project, draft, by="tester", reason="test")
    return create_key(project, "agent", ["observe", "ingest"])[1]


def test_the_configuration_to_paste_starts_a_server(live_server: LiveServer, key: str, tmp_path: Path) -> None:
    """As an agent starts it: from another folder, with nothing but what stands in the configuration."""
    filled = shown("json")[0].replace(ADDRESS, live_server.url).replace(PLACEHOLDER, key)
    config = json.loads(filled.replace(f"{PLACE}/.venv/bin/python", sys.executable).replace(PLACE, str(ROOT)))
    server = config["mcpServers"]["temporality"]

    async def work() -> dict[str, Any]:
        parameters = StdioServerParameters(
            command=server["command"], args=server["args"], env=server["env"], cwd=tmp_path
        )
        async with Client(parameters, cache=None) as client:
            return await found(client, tool="shell", tool_result="fatal: not a git repository", trigger="tool.failed")

    answer = FoundHints.model_validate(asyncio.run(work()))
    settled(answer.run)
    assert [hint.knowledge_id for hint in answer.hints] == ["git-init"]


def test_the_address_and_header_to_paste_reach_a_server(live_server: LiveServer, key: str) -> None:
    """The path and the header of the HTTP configuration are those the server listens for."""
    server = json.loads(shown("json")[1])["mcpServers"]["temporality"]
    assert server["headers"]["Authorization"] == f"Bearer {PLACEHOLDER}"

    async def work(address: str) -> dict[str, Any]:
        async with over_http(address, key) as client:
            return await found(client, tool_result="fatal: not a git repository")

    with serving(live_server.url) as running:
        assert running.address.endswith(server["url"].rpartition("/")[2])
        answer = asyncio.run(work(running.address))
    settled(answer["run"])
    assert len(answer["hints"]) == 1


def test_the_example_in_python_runs(live_server: LiveServer, key: str) -> None:
    """It prints the block, and what it reports stands in the chain."""
    (example,) = shown("python")
    environment = {"KEY": key, "PATH": os.environ["PATH"], "NO_PROXY": "*"}
    done = subprocess.run(
        [sys.executable, "-c", example.replace(ADDRESS, live_server.url).replace("timeout=2.0", "timeout=30.0")],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *block, last = done.stdout.splitlines()
    assert (first.strip(), last) == ("success", "stored")
    assert block[0].startswith("<temporality.memory ") and "git init" in "".join(block)
    refresh_run(Project.objects.get().pk, "run-17")
    candidate = Candidate.objects.get(run_id="run-17")
    assert (candidate.usage_source, candidate.outcome) == ("reported", "helpful")
