"""A real worker with a runtime from outside: named in its environment, run on Temporal, and not replaced unnoticed."""

import asyncio
import signal
from pathlib import Path

from temporalio.client import Client

from tests.kernel.test_plugin_outside import EXAMPLE, NAMED
from tests.kernel.worker_process import kernel_at, until

WAITS = """
import asyncio


class Waits:
    async def run_turn(self, turn):
        await turn.invoke("shell", {"command": "echo x >> ran"})
        await asyncio.Event().wait()
"""


async def test_a_worker_serves_a_runtime_from_outside(temporal_address: str, postgres_url: str, tmp_path: Path) -> None:
    """The README's runtime runs whole with the real shell. A run whose worker is replaced meanwhile fails with the
    reason, and the command it had run is not run again."""
    (tmp_path / "my_agent.py").write_text(EXAMPLE + WAITS)
    async with kernel_at(temporal_address, postgres_url, tmp_path / "kernel") as kernel:
        kernel.environment |= {"PYTHONPATH": str(tmp_path), "KERNEL_DRIVERS": f"{NAMED},waits=my_agent:Waits"}
        client = await Client.connect(temporal_address)
        worker = await kernel.start()
        handle = await kernel.run(client, "read", agent="reader", setup="echo 'buy milk' > notes.txt")
        result = await asyncio.wait_for(handle.result(), 120)
        assert (result.status, result.answer.strip()) == ("completed", "buy milk")
        handle = await kernel.run(client, "wait", agent="waits")
        await until(lambda: kernel.in_work(kernel.run_id("wait"), "ran"))
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 60) == 0
        await kernel.start()
        result = await asyncio.wait_for(handle.result(), 120)
        assert result.status == "failed"
        told = kernel.outside.events_of(kernel.run_id("wait"))
        [failed] = [event["data"] for event in told if event["type"] == "turn.failed"]
        assert (failed["code"], failed["source"]) == ("runtime_lost", "envelope")
        assert kernel.in_work(kernel.run_id("wait"), "ran") == "x\n"
