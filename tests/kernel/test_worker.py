"""The worker process: killed in every phase nothing happens twice; it starts, waits and stops as a service should."""

import asyncio
import base64
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from temporalio.client import Client

from debugger.embedded.sockets import free_port
from kernel.messages import Limits, RunInput, RunResult, RunSpec, Switches
from kernel.runtime.config import ConfigError, worker_config
from kernel.runtime.workflow import AgentRun
from kernel.tools.registry import Toolbox
from tests.kernel.http_server import Answer, Asked, LocalServer, local_server
from tests.kernel.test_activities import CANARY, completion

SOURCE = Path(__file__).parent.parent.parent


class Outside:
    """What the kernel speaks to: a model that follows the task's first word, Observation with one hint, an ingest.

    Until `open_gates` is called, what a task waits for does not answer.
    """

    def __init__(self) -> None:
        self.gates_open = False
        self.events: list[dict[str, Any]] = []
        self.requests: list[list[dict[str, Any]]] = []
        self.hint_runs: list[str] = []

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/v1/events":
            self.events += asked.body["events"]
            return Answer(body={"accepted": len(asked.body["events"]), "rejected": []})
        if asked.path == "/v1/observations/hints/batch":
            return self._hints(asked.body["requests"])
        return self._model(asked.body["messages"])

    def _hints(self, requests: list[dict[str, Any]]) -> Answer:
        self.hint_runs += [request["run"] for request in requests]
        if requests[0]["query"].startswith("hints") and not self.gates_open:
            return Answer(silent=True)
        answers = [{"activation_id": one["activation_id"], "hints": [self._hint(one)]} for one in requests]
        return Answer(body={"answers": answers})

    def _hint(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "hint_id": f"{request['activation_id']}:h1",
            "knowledge_id": "k-1",
            "revision": 1,
            "proposition": "Run `git init` first.",
            "state": "confirmed",
        }

    def _model(self, messages: list[dict[str, Any]]) -> Answer:
        self.requests.append(messages)
        task = messages[1]["content"].split()[0]
        if sum(message["role"] == "tool" for message in messages) == 0:
            command = {"tool": "echo x >> ran; sleep 600", "canary": f"echo key {CANARY}; echo {CANARY} >&2; exit 1"}
            return Answer(body=completion("", command.get(task, "echo x >> ran; git status")))
        if task == "model" and not self.gates_open:
            return Answer(silent=True)
        return Answer(body=completion("done"))

    def of(self, task: str) -> list[list[dict[str, Any]]]:
        """The requests to the model of one task."""
        return [messages for messages in self.requests if messages[1]["content"].startswith(task)]

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        """The events of a run by number, what was sent again taken once; sent again must mean sent the same."""
        by_id: dict[str, dict[str, Any]] = {}
        for event in self.events:
            if event["run_id"] == run_id:
                assert by_id.setdefault(event["event_id"], event) == event
        return sorted(by_id.values(), key=lambda event: int(event["seq"]))


@dataclass
class Kernel:
    """A worker process of a test's own, with its world."""

    environment: dict[str, str]
    log: Path
    outside: Outside
    server: LocalServer
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kernel.runtime.worker"),
                cwd=SOURCE,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    async def said(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.log.read_text():
                await asyncio.sleep(0.05)

    def run_id(self, task: str) -> str:
        return f"{task}-{self.environment['TEMPORAL_TASK_QUEUE']}"

    async def run(self, client: Client, task: str) -> Any:
        """Start a run of one task and return its handle."""
        limits = Limits(retrieval_timeout_ms=2_000)
        spec = RunSpec(
            self.run_id(task),
            f"{task} task",
            agent="openai_chat",
            model="m",
            limits=limits,
            switches=Switches(priming=False),
        )
        queue = self.environment["TEMPORAL_TASK_QUEUE"]
        return await client.start_workflow(AgentRun.run, RunInput(spec), id=spec.run_id, task_queue=queue)

    def ran(self, task: str) -> str:
        path = Toolbox(Path(self.environment["KERNEL_WORK_DIR"])).folders(self.run_id(task)).work / "ran"
        return path.read_text() if path.exists() else ""

    async def transcript(self, task: str) -> list[dict[str, Any]]:
        query = "SELECT seq, message FROM kernel.message WHERE run_id = %s ORDER BY seq"
        async with await psycopg.AsyncConnection.connect(self.environment["KERNEL_DATABASE_URL"]) as connection:
            rows = await (await connection.execute(query, [self.run_id(task)])).fetchall()
        assert [seq for seq, _ in rows] == list(range(len(rows)))
        return [json.loads(message) for _, message in rows]


@asynccontextmanager
async def kernel_at(temporal_address: str, postgres_url: str, folder: Path) -> AsyncIterator[Kernel]:
    outside = Outside()
    with local_server(outside.answer) as server:
        environment = {
            "PATH": os.environ["PATH"],
            "TEMPORAL_ADDRESS": temporal_address,
            "TEMPORAL_TASK_QUEUE": uuid.uuid4().hex[:12],
            "TEMPORALITY_URL": server.url,
            "TEMPORALITY_API_KEY": "tk_key",
            "KERNEL_DATABASE_URL": postgres_url,
            "KERNEL_WORK_DIR": str(folder / "work"),
            "OPENAI_BASE_URL": f"{server.url}/model",
            "OPENAI_API_KEY": "sk-key",
        }
        kernel = Kernel(environment, folder / "worker.log", outside, server)
        try:
            yield kernel
        finally:
            for process in kernel.processes:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


@pytest.fixture
async def kernel(temporal_address: str, postgres_url: str, tmp_path: Path) -> AsyncIterator[Kernel]:
    async with kernel_at(temporal_address, postgres_url, tmp_path) as made:
        yield made


async def until(look: Any) -> None:
    async with asyncio.timeout(60):
        while not look():
            await asyncio.sleep(0.02)


async def test_killed_in_every_phase_nothing_happens_twice(kernel: Kernel, temporal_address: str) -> None:
    """kill -9 in a model call, a tool and a retrieval: the runs go on elsewhere, no message, hint or event twice."""
    client = await Client.connect(temporal_address)
    first = await kernel.start()
    runs = {task: await kernel.run(client, task) for task in ("model", "tool", "hints")}
    await until(lambda: len(kernel.outside.of("model")) == 2)
    await until(lambda: kernel.ran("tool"))
    await until(lambda: kernel.run_id("hints") in kernel.outside.hint_runs)
    first.kill()
    await first.wait()
    kernel.outside.gates_open = True
    await kernel.start()
    results = {task: await asyncio.wait_for(handle.result(), 90) for task, handle in runs.items()}

    assert {task: (result.status, result.answer) for task, result in results.items()} == dict.fromkeys(
        runs, ("completed", "done")
    )
    for task in runs:
        assert kernel.ran(task) == "x\n", "the command ran once"
        messages = await kernel.transcript(task)
        assert [message["role"] for message in messages].count("assistant") == 2
        events = kernel.outside.events_of(kernel.run_id(task))
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert [event["type"] for event in events].count("run.completed") == 1
        sent = json.dumps(kernel.outside.of(task)[-1])
        assert sent.count("<temporality.memory") == (1 if task == "model" else 0)

    # The model call was made again with the very same request, hint included.
    before, again = kernel.outside.of("model")[1:]
    assert before == again
    assert [message["role"] for message in await kernel.transcript("model")][-2:] == ["context", "assistant"]
    assert kernel.outside.hint_runs.count(kernel.run_id("model")) == 1
    # The tool was not run again: the model was told that its effect is not known.
    tool_reply = next(message for message in await kernel.transcript("tool") if message["role"] == "tool")
    assert "whether it ran to its end is not known" in tool_reply["text"]
    # The retrieval was not repeated: one attempt, reported as a timeout.
    assert kernel.outside.hint_runs.count(kernel.run_id("hints")) == 1
    [activation] = [
        event for event in kernel.outside.events_of(kernel.run_id("hints")) if event["type"] == "activation.completed"
    ]
    assert activation["data"]["result"] == "timeout"


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
    replies = [message["text"] for message in await kernel.transcript("canary") if message["role"] == "tool"]
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
    await until(lambda: kernel.ran("tool"))
    first.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(first.wait(), 15) == 0
    await kernel.start()
    assert (await asyncio.wait_for(handle.result(), 60)).status == "completed"
    assert kernel.ran("tool") == "x\n"


async def test_it_waits_for_temporal_and_says_so(kernel: Kernel) -> None:
    """Without Temporal the worker waits, names the variable, and can still be stopped."""
    kernel.environment["TEMPORAL_ADDRESS"] = f"127.0.0.1:{free_port()}"
    process = await kernel.start()
    await kernel.said("waiting for Temporal at 127.0.0.1")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 15) == 0


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
