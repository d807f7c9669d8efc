"""Starts runs from a page and reads back how one was started and whether it is over, within a web request's bounds."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from debugger.kernel_client import LOOK_SECONDS, NotDrivenHere, RunAddress, ask_temporal, find_own
from debugger.launching import Runtime, start_through, with_grants

RPC_TIMEOUT: Final = timedelta(seconds=LOOK_SECONDS)


def start(runtime: Runtime, spec: Mapping[str, object], project: str, granted: Iterable[str]) -> str:
    """Start a run for the project with what its people granted, and return its id; the same run again is left alone.

    Raises LaunchError when Temporal refuses, or NoAnswer, after which the run may be started all the same.
    """
    whole = with_grants(spec, granted)
    return ask_temporal(runtime, lambda client: start_through(client, runtime.task_queue, whole, project))


def started_spec(runtime: Runtime, run: RunAddress) -> dict[str, Any]:
    """Return the spec that a run of the project was started with, as Temporal keeps it.

    Raises NotDrivenHere when Temporal knows no such run, or does not keep how it began any more, and NoAnswer.
    """
    return ask_temporal(runtime, lambda client: _spec(client, run))


def is_over(runtime: Runtime, run: RunAddress) -> bool:
    """Tell whether a run of the project has ended, as far as Temporal knows. Raises NotDrivenHere or NoAnswer."""
    return ask_temporal(runtime, lambda client: _is_over(client, run))


async def _is_over(client: Client, run: RunAddress) -> bool:
    _, is_running = await find_own(client, run)
    return not is_running


async def _spec(client: Client, run: RunAddress) -> dict[str, Any]:
    """Read the input of the first workflow run: one that continues it carries the state, and no spec."""
    found, _ = await find_own(client, run)
    first: WorkflowHandle[Any, Any] = client.get_workflow_handle(
        run.run_id, run_id=found.first_execution_run_id or found.run_id
    )
    given: list[Any] = []
    try:
        async for event in first.fetch_history_events(page_size=1, rpc_timeout=RPC_TIMEOUT):
            payloads = event.workflow_execution_started_event_attributes.input.payloads
            given = await client.data_converter.decode(payloads)
            break
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
    spec = given[0].get("spec") if given and isinstance(given[0], dict) else None
    if not isinstance(spec, dict):
        raise NotDrivenHere("Temporal does not keep any more how this run was started")
    return spec
