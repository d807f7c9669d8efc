"""Starts agent runs: through Temporal and by the workflow's name, as any customer of the kernel would."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, islice
from typing import Final

from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

WORKFLOW = "AgentRun"
DEFAULT_GRANTS: Final = ("*",)  # of a spec that names none, as the kernel reads it
NAMES_LIMIT: Final = 100  # grants of a spec that the kernel takes
NAMES_BYTES: Final = 4_096  # of all names of a spec together, as JSON
SPARE_BYTES: Final = 100  # for defaults that the spec does not spell out
NAMING_FIELDS: Final = ("skills", "blocked_tools", "approval_tools", "tools", "namespaces_off", "switches")
PROJECT_MEMO = "project"  # the memo entry with the slug of the project a run was started for


class LaunchError(Exception):
    """A run could not be started or followed; the message says why in one line."""


class NotEnded(LaunchError):
    """A run that was waited for goes on."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where runs are executed: a Temporal server, one of its namespaces, the kernel's task queue."""

    address: str
    namespace: str
    task_queue: str


@dataclass(frozen=True, slots=True)
class Started:
    """A run that Temporal knows."""

    at: datetime
    is_over: bool


def find_run(runtime: Runtime, run_id: str) -> Started | None:
    """Return what Temporal knows of a run id, None when nothing. Raises LaunchError when it does not tell."""
    return asyncio.run(_find_run(runtime, run_id))


def start_run(runtime: Runtime, spec: Mapping[str, object], project: str = "", *, granted: Iterable[str] = ()) -> str:
    """Start one run of `spec` (the fields of the kernel's RunSpec) and return its run id, which `spec` names.

    `project` is the slug of the project it is started for: only that project's people can answer and cancel it from
    its page, and without one nobody can. `granted` are tools that people have granted beside those of the spec. A run
    of that id that was started before for the same project is left as it is. Raises LaunchError when Temporal refuses,
    or when the id is taken by a run of another project.
    """
    return asyncio.run(_start_run(runtime, with_grants(spec, granted), project))


def with_grants(spec: Mapping[str, object], tools: Iterable[str]) -> dict[str, object]:
    """Return the spec whose grants name `tools` as well. It requests no tool: what it does not name is not offered.

    The kernel refuses a spec with too many names: those that the spec requests come first, and who comes after the
    last that fits is left out.
    """
    given = spec.get("grants", DEFAULT_GRANTS)
    if not isinstance(given, list | tuple):
        return dict(spec)  # the kernel refuses it and says why
    requested = spec.get("tools")
    wanted = requested if isinstance(requested, list | tuple) else ()
    added = sorted((name for name in tools if name not in given), key=lambda name: name not in wanted)
    named = json.dumps([given, *(spec.get(field, ()) for field in NAMING_FIELDS)])
    sizes = accumulate((len(json.dumps(name)) + len(", ") for name in added), initial=len(named) + SPARE_BYTES)
    n_fitting = sum(size <= NAMES_BYTES for size in islice(sizes, 1, None))
    added = added[: max(0, min(n_fitting, NAMES_LIMIT - len(given)))]
    return {**spec, "grants": [*given, *added]} if added else dict(spec)


def wait_for_run(runtime: Runtime, run_id: str, seconds: float) -> str:
    """Wait for the run to end and return its status. Raises NotEnded when `seconds` pass first, LaunchError when the
    workflow itself fails."""
    return asyncio.run(_wait_for_run(runtime, run_id, seconds))


async def _connect(runtime: Runtime) -> Client:
    try:
        return await Client.connect(runtime.address, namespace=runtime.namespace)
    except (RPCError, RuntimeError, OSError) as error:
        raise LaunchError(f"Temporal at {runtime.address} does not answer: {error}") from error


async def _find_run(runtime: Runtime, run_id: str) -> Started | None:
    client = await _connect(runtime)
    try:
        found = await client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise LaunchError(f"Temporal does not tell whether run {run_id} is there: {error}") from error
    return Started(found.start_time, found.close_time is not None)


async def _start_run(runtime: Runtime, spec: Mapping[str, object], project: str) -> str:
    _run_id(spec)
    return await start_through(await _connect(runtime), runtime.task_queue, spec, project)


async def start_through(client: Client, task_queue: str, spec: Mapping[str, object], project: str) -> str:
    """Start one run through a client that is connected already, as `start_run` does."""
    run_id = _run_id(spec)
    try:
        await client.start_workflow(
            WORKFLOW,
            {"spec": dict(spec), "state": ""},
            id=run_id,
            task_queue=task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            memo={PROJECT_MEMO: project} if project else None,
        )
    except WorkflowAlreadyStartedError:
        await _refuse_foreign(client, run_id, project)
    except RPCError as error:
        raise LaunchError(f"Temporal refused run {run_id}: {error}") from error
    return run_id


def _run_id(spec: Mapping[str, object]) -> str:
    run_id = spec.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise LaunchError("the spec names no run_id: give it a non-empty text")
    return run_id


async def _refuse_foreign(client: Client, run_id: str, project: str) -> None:
    """Raise LaunchError unless the run that has the id already was started for the same project."""
    try:
        found = await client.get_workflow_handle(run_id).describe()
        owner = await found.memo_value(PROJECT_MEMO, default="")
    except RPCError as error:
        raise LaunchError(f"Temporal does not tell whose run {run_id} is: {error}") from error
    if owner != project:
        raise LaunchError(f"the run id {run_id} is taken: give another one")


async def _wait_for_run(runtime: Runtime, run_id: str, seconds: float) -> str:
    client = await _connect(runtime)
    try:
        result = await asyncio.wait_for(client.get_workflow_handle(run_id).result(), seconds)
    except TimeoutError:
        raise NotEnded(f"run {run_id} did not end within {seconds:.0f} s") from None
    except (WorkflowFailureError, RPCError) as error:
        raise LaunchError(f"run {run_id} failed: {error.__cause__ or error}") from error
    if not isinstance(result, dict) or not isinstance(result.get("status"), str):
        raise LaunchError(f"run {run_id} returned no status")
    return str(result["status"])
