"""A worker process of a test's own, with its world outside, its transcript and its work folders."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from temporalio.client import Client, WorkflowHandle

from kernel.edge.transcript import message_from_json
from kernel.messages import Limits, Message, RunInput, RunResult, RunSpec, Switches
from kernel.runtime.workflow import AgentRun
from kernel.tools.registry import Toolbox
from tests.kernel.http_server import LocalServer, local_server
from tests.kernel.outside import CANARY_COMMAND, DONE, FAILS, Outside, Say, shell, waits

SOURCE = Path(__file__).parent.parent.parent
SECONDS = 90.0
PLANS: dict[str, list[Say]] = {
    "plain": [shell(FAILS), DONE],
    "tool": [shell(waits("{gate}")), DONE],
    "canary": [shell(CANARY_COMMAND), DONE],
}
Handle = WorkflowHandle[Any, RunResult]


async def until(look: Callable[[], Any], what: str = "") -> None:
    """Wait until `look` returns something true."""
    try:
        async with asyncio.timeout(SECONDS):
            while not look():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what or look}") from None


@dataclass
class Kernel:
    """Worker processes of one task queue, one after the other, and what their runs left."""

    environment: dict[str, str]
    log: Path
    outside: Outside
    server: LocalServer
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._toolbox = Toolbox(Path(self.environment["KERNEL_WORK_DIR"]))

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
        await until(lambda: text in self.log.read_text(), text)

    @property
    def queue(self) -> str:
        return self.environment["TEMPORAL_TASK_QUEUE"]

    def run_id(self, task: str) -> str:
        return f"{task}-{self.queue}"

    async def run(self, client: Client, task: str, **fields: Any) -> Handle:
        """Start a run whose task begins with `task` and return its handle; `fields` are more of its spec."""
        run_id = fields.pop("run_id", self.run_id(task))
        given: dict[str, Any] = {
            "agent": "openai_chat",
            "model": "m",
            "limits": Limits(retrieval_timeout_ms=2_000),
            "switches": Switches(off=("task.priming",)),
            **fields,
        }
        spec = RunSpec(run_id, f"{task} {run_id}", **given)
        return await client.start_workflow(AgentRun.run, RunInput(spec), id=run_id, task_queue=self.queue)

    def gate(self, run_id: str) -> Path:
        """The file a run's command waits for."""
        return Path(self.outside.folder) / f"{run_id}.gate"

    def in_work(self, run_id: str, name: str) -> str:
        """What stands in a file of the run's work folder; nothing when there is none."""
        path = self._toolbox.folders(run_id).work / name
        return path.read_text() if path.exists() else ""

    async def rows(self, query: str, *values: Any) -> list[Any]:
        async with await psycopg.AsyncConnection.connect(self.environment["KERNEL_DATABASE_URL"]) as connection:
            return await (await connection.execute(query, values)).fetchall()

    async def transcript(self, run_id: str) -> list[Message]:
        """The run's messages; no position is missing."""
        rows = await self.rows("SELECT seq, message FROM kernel.message WHERE run_id = %s ORDER BY seq", run_id)
        assert [seq for seq, _ in rows] == list(range(len(rows)))
        return [message_from_json(message) for _, message in rows]

    async def stop(self) -> None:
        """End what is left of the processes."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def kernel_at(
    temporal_address: str, postgres_url: str, folder: Path, plans: dict[str, list[Say]] = PLANS
) -> AsyncIterator[Kernel]:
    """A kernel of its own queue; no process is started."""
    outside = Outside(plans)
    outside.folder = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
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
            outside.gates.open_all()
            await kernel.stop()
