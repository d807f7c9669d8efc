"""Launching runs through Temporal: by name, once per run id, with a clear error when it cannot be."""

import asyncio
import uuid

import pytest
from temporalio.client import Client

from debugger.embedded.sockets import free_port
from debugger.launching import LaunchError, Runtime, start_run, wait_for_run


@pytest.fixture
def runtime(temporal_address: str) -> Runtime:
    """A task queue that no worker serves: runs are started and stay waiting."""
    return Runtime(temporal_address, "default", f"queue-{uuid.uuid4().hex}")


async def described(runtime: Runtime, run_id: str) -> tuple[str, str]:
    client = await Client.connect(runtime.address)
    found = await client.get_workflow_handle(run_id).describe()
    return found.workflow_type, found.task_queue


def test_a_run_is_started_by_name_under_its_run_id(runtime: Runtime) -> None:
    """The workflow is `AgentRun`, its id is the run id, its queue the kernel's."""
    run_id = f"run-{uuid.uuid4().hex}"
    assert start_run(runtime, {"run_id": run_id, "task": "a task"}) == run_id
    assert asyncio.run(described(runtime, run_id)) == ("AgentRun", runtime.task_queue)


def test_a_run_id_is_started_once(runtime: Runtime) -> None:
    """Starting again leaves the run that is there."""
    run_id = f"run-{uuid.uuid4().hex}"
    assert start_run(runtime, {"run_id": run_id, "task": "first"}) == run_id
    assert start_run(runtime, {"run_id": run_id, "task": "second"}) == run_id


def test_waiting_is_bounded(runtime: Runtime) -> None:
    """A run that nobody executes is reported after the time limit."""
    run_id = start_run(runtime, {"run_id": f"run-{uuid.uuid4().hex}", "task": "a task"})
    with pytest.raises(LaunchError, match=f"{run_id} did not end within 0 s"):
        wait_for_run(runtime, run_id, 0.2)


def test_an_unknown_run_cannot_be_waited_for(runtime: Runtime) -> None:
    """A run id that was never started is named."""
    with pytest.raises(LaunchError, match="no-such-run"):
        wait_for_run(runtime, "no-such-run", 5)


@pytest.mark.parametrize("spec", [{}, {"run_id": ""}, {"run_id": 7}])
def test_a_spec_without_a_run_id_is_refused(spec: dict[str, object]) -> None:
    """The run id is the caller's to give."""
    with pytest.raises(LaunchError, match="names no run_id"):
        start_run(Runtime("127.0.0.1:1", "default", "queue"), spec)


def test_a_temporal_that_is_not_there_is_named() -> None:
    """The address that does not answer is in the message."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(LaunchError, match=f"Temporal at {address} does not answer"):
        start_run(Runtime(address, "default", "queue"), {"run_id": "r"})
