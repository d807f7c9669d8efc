"""The worker process starts, waits and stops as a service should, and what a tool prints leaves it redacted."""

import asyncio
import base64
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from debugger.embedded.sockets import free_port
from kernel.messages import RunResult
from kernel.runtime.config import ConfigError, worker_config
from tests.kernel.test_activities import CANARY
from tests.kernel.worker_process import SOURCE, Kernel, kernel_at, until


@pytest.fixture
async def kernel(temporal_address: str, postgres_url: str, tmp_path: Path) -> AsyncIterator[Kernel]:
    async with kernel_at(temporal_address, postgres_url, tmp_path) as made:
        yield made


def payloads(value: Any) -> list[str]:
    """Every payload of a history's JSON, decoded."""
    if isinstance(value, dict):
        data = value.get("data")
        own = [base64.b64decode(data).decode(errors="replace")] if isinstance(data, str) else []
        return own + [text for inner in value.values() for text in payloads(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in payloads(inner)]
    return []


async def test_a_secret_a_tool_prints_is_nowhere(kernel: Kernel, temporal_address: str) -> None:
    """Not in the workflow's history, the transcript, an event, a request to anybody, or the worker's log."""
    client = await Client.connect(temporal_address)
    await kernel.start()
    # The model's own arguments name the secret: they stand in the kernel's transcript alone, where the tool reads them.
    handle = await kernel.run(client, "canary")
    result: RunResult = await asyncio.wait_for(handle.result(), 60)
    assert result.status == "completed"
    history = (await handle.fetch_history()).to_json()
    decoded = "\n".join(payloads(json.loads(history)))
    assert "tool.failed" in decoded, "the payloads are readable"
    replies = [message.text for message in await kernel.transcript(kernel.run_id("canary")) if message.role == "tool"]
    told = [asked.body for asked in kernel.server.asked if asked.path.startswith("/v1/")]
    everything = {
        "history": history + decoded,
        "replies": json.dumps(replies),
        "events and searches": json.dumps(told),
        "log": kernel.log.read_text(),
    }
    for place, text in everything.items():
        assert CANARY not in text, place
    assert "[REDACTED:" in everything["replies"] and "[REDACTED:" in everything["events and searches"]


async def test_a_stop_is_clean_and_the_run_goes_on_elsewhere(kernel: Kernel, temporal_address: str) -> None:
    """Asked to stop during a tool the worker ends with status 0; another worker finishes the run."""
    client = await Client.connect(temporal_address)
    first = await kernel.start()
    handle = await kernel.run(client, "tool")
    run_id = kernel.run_id("tool")
    await until(lambda: kernel.in_work(run_id, "ran"))
    first.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(first.wait(), 60) == 0
    await kernel.start()
    assert (await asyncio.wait_for(handle.result(), 60)).status == "completed"
    assert kernel.in_work(run_id, "ran") == "x\n"


async def test_it_waits_for_temporal_and_says_so(kernel: Kernel) -> None:
    """Without Temporal the worker waits, names the variable, and can still be stopped."""
    kernel.environment["TEMPORAL_ADDRESS"] = f"127.0.0.1:{free_port()}"
    process = await kernel.start()
    await kernel.said("waiting for Temporal at 127.0.0.1")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 60) == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TEMPORALITY_URL", "", "TEMPORALITY_URL is not set"),
        ("TEMPORALITY_URL", "localhost", "must start with http"),
        ("TEMPORALITY_API_KEY", "", "TEMPORALITY_API_KEY is not set"),
        ("KERNEL_DATABASE_URL", "", "KERNEL_DATABASE_URL is not set"),
        ("KERNEL_WORK_DIR", "", "KERNEL_WORK_DIR is not set"),
        ("KERNEL_TOOL_SECONDS", "soon", "KERNEL_TOOL_SECONDS must be seconds"),
        ("KERNEL_TOOL_SECONDS", "1000", "at most 240"),
    ],
)
async def test_a_bad_setting_is_named(kernel: Kernel, name: str, value: str, said: str) -> None:
    """What is missing or unusable is refused by name."""
    with pytest.raises(ConfigError, match=said):
        worker_config({**kernel.environment, name: value})


async def test_an_unusable_database_ends_the_worker(kernel: Kernel) -> None:
    """A transcript store that cannot be opened is said by its variable, without the address and its password."""
    kernel.environment["KERNEL_DATABASE_URL"] = "postgresql://user:hunter2hunter2@127.0.0.1:1/none?connect_timeout=1"
    process = await kernel.start()
    assert await asyncio.wait_for(process.wait(), 60) == 2
    log = kernel.log.read_text()
    assert "KERNEL_DATABASE_URL does not lead to a usable database" in log
    assert "hunter2" not in log


async def test_a_demo_is_started_from_the_command_line(kernel: Kernel) -> None:
    """The command prints the run's id and, asked to wait, how it ended; the same id is not started twice."""
    await kernel.start()
    run_id = kernel.run_id("demo")
    command = [sys.executable, "-m", "kernel.runtime.start", "--demo", "release-package", "--run-id", run_id, "--wait"]
    said = []
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=SOURCE,
            env=kernel.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 60)
        said.append((process.returncode, output.decode()))
    assert said[0] == (
        0,
        f"{run_id}\ncompleted: I could not record the release: git wants an author and I know none.\n",
    )
    assert said[1][0] == 2
    assert "exists already" in said[1][1]
