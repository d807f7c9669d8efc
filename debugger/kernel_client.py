"""Owns the way to a run under way: what waits for a person, their answers, cancelling. By workflow name and ids only.

Workflow ids are global in Temporal and run ids are their senders' words, so a run of another project can have the
same id. A workflow is taken for a project's run only when it was started for that project: `launching.py` writes
the project into the workflow's memo, which nothing that is sent to us can change. (Seed 001 §7.3, §15.)
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from debugger.launching import PROJECT_MEMO, WORKFLOW, Runtime

LOOK_SECONDS: Final = 2.0  # for reaching Temporal, and again for the run to say where it stands
ANSWER_SECONDS: Final = 5.0  # for the run to take an answer
TOTAL_SECONDS: Final = 8.0  # for all of it: a page holds one of the web server's threads meanwhile
AT_ONCE: Final = 4  # conversations of one web process: a Temporal that hangs must not take all of its threads
NOT_WAITING: Final = "not_waiting"  # the error type with which a run refuses an answer nobody waits for

Kind = Literal["approval", "question"]
T = TypeVar("T")

_places: Final = threading.BoundedSemaphore(AT_ONCE)


class KernelError(Exception):
    """A run could not be asked or answered; the message says why in one line that a page can show."""


class NotDrivenHere(KernelError):
    """No workflow of that id was started for this project: the run is somebody else's, or runs elsewhere."""


class RunEnded(KernelError):
    """The run is over."""


class NotWaiting(KernelError):
    """What was to be answered is not waiting any more, or is not what the person was shown."""


class NoAnswer(KernelError):
    """Temporal did not answer in time."""


class RunSilent(NoAnswer):
    """Temporal knows the run as one of this project; the worker that executes it did not answer in time."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing a run waits for. `text` is the question, or the call's redacted and bounded arguments.

    `key` stands for all of it: another ask, even of the same call id, has another key. `timeout_ms` is how long a
    question waits, 0 for ever.
    """

    kind: Kind
    call_id: str
    text: str
    tool: str
    key: str
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where a run under way stands and what it waits for, in the order it asked."""

    phase: str
    turn: int
    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says to one ask of that kind; texts are redacted. `approved` is for approvals."""

    kind: Kind
    by: str
    text: str = ""
    approved: bool = False


@dataclass(frozen=True, slots=True)
class RunAddress:
    """A run as a page names it: the project it belongs to and its id there."""

    project: str
    run_id: str


def look(runtime: Runtime, run: RunAddress) -> Waiting:
    """Return what the run waits for. Raises NotDrivenHere, RunEnded or NoAnswer."""
    return ask_temporal(runtime, lambda client: _look(client, run))


def answer(runtime: Runtime, run: RunAddress, ask_key: str, given: Answer) -> None:
    """Answer the ask of that key. The same answer of the same person again changes nothing and is no error.

    Raises NotDrivenHere, RunEnded, NotWaiting, or NoAnswer, after which the answer may still arrive.
    """
    ask_temporal(runtime, lambda client: _answer(client, run, ask_key, given))


def cancel(runtime: Runtime, run: RunAddress, reason: str) -> None:
    """Ask the run to stop; asking again changes nothing. Raises NotDrivenHere, RunEnded or NoAnswer."""
    ask_temporal(runtime, lambda client: _cancel(client, run, reason))


def read_asks(status: Mapping[str, Any]) -> tuple[Ask, ...]:
    """Return the asks in the answer to the query `status`. What is no ask is left out."""
    turn = status.get("turn")
    approvals = [
        _ask("approval", turn, one, text=one.get("excerpt"), tool=one.get("tool"))
        for one in _objects(status.get("pending_approvals"))
    ]
    questions = [
        _ask("question", turn, one, text=one.get("question"), tool="")
        for one in _objects(status.get("pending_questions"))
    ]
    return tuple(approvals + questions)


def _objects(value: object) -> list[Mapping[str, Any]]:
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, dict) and isinstance(one.get("call_id"), str)]


def _ask(kind: Kind, turn: object, pending: Mapping[str, Any], *, text: object, tool: object) -> Ask:
    call_id, said = str(pending["call_id"]), text if isinstance(text, str) else ""
    name, timeout_ms = tool if isinstance(tool, str) else "", pending.get("timeout_ms")
    key = _digest(kind, str(turn), call_id, name, said)
    return Ask(kind, call_id, said, name, key, timeout_ms if isinstance(timeout_ms, int) else 0)


def _digest(*parts: str) -> str:
    lengths = ",".join(str(len(part)) for part in parts)
    return hashlib.sha256("\0".join((lengths, *parts)).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def ask_temporal(runtime: Runtime, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Do `work` with a client within the bounds of a web request. Raises NoAnswer, and what `work` raises."""
    if not _places.acquire(timeout=LOOK_SECONDS / 2):
        raise NoAnswer("Too many people are asking for runs at once")
    try:
        return asyncio.run(_with_client(runtime, work))
    finally:
        _places.release()


async def _with_client(runtime: Runtime, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            async with asyncio.timeout(LOOK_SECONDS):
                client = await Client.connect(runtime.address, namespace=runtime.namespace)
            return await work(client)
    except (RPCError, RuntimeError, OSError) as error:  # a TimeoutError is an OSError
        raise NoAnswer(f"Temporal at {runtime.address} does not answer") from error


async def _look(client: Client, run: RunAddress) -> Waiting:
    return await _waiting(await _own_run(client, run))


async def _waiting(handle: WorkflowHandle[Any, Any]) -> Waiting:
    try:
        status = await handle.query("status", rpc_timeout=timedelta(seconds=LOOK_SECONDS))
    except (RPCError, WorkflowQueryFailedError) as error:
        raise RunSilent(
            f"The run did not say within {LOOK_SECONDS:g} s where it stands: its worker may be down"
        ) from error
    if not isinstance(status, dict):
        raise RunSilent("The run said where it stands in a form that is not known here")
    turn = status.get("turn")
    return Waiting(str(status.get("phase", "")), turn if isinstance(turn, int) else 0, read_asks(status))


async def _answer(client: Client, run: RunAddress, ask_key: str, given: Answer) -> None:
    handle, is_running = await find_own(client, run)
    asks = (await _waiting(handle)).asks if is_running else ()
    ask = next((one for one in asks if one.key == ask_key and one.kind == given.kind), None)
    update_id = _digest(ask_key, given.kind, given.by, str(given.approved), given.text)
    if ask is None:
        if not await _was_taken(handle, update_id):
            raise NotWaiting("It is not waiting any more") if is_running else RunEnded("The run has ended")
        return
    name, body = _update(ask, given)
    try:
        await handle.execute_update(name, body, id=update_id, rpc_timeout=timedelta(seconds=ANSWER_SECONDS))
    except WorkflowUpdateFailedError as error:
        raise _refusal(error) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise RunSilent(f"The run did not take it within {ANSWER_SECONDS:g} s") from error
    except RPCError as error:
        raise _rpc_refusal(error, NotWaiting("It is not waiting any more: the run went on or has ended")) from error


def _update(ask: Ask, given: Answer) -> tuple[str, Mapping[str, object]]:
    """Return the update and its argument: the kernel's ApprovalAnswer or QuestionAnswer."""
    if ask.kind == "approval":
        body = {"call_id": ask.call_id, "approved": given.approved, "by": given.by, "note": given.text}
        return "decide_approval", body
    return "answer_question", {"call_id": ask.call_id, "text": given.text, "by": given.by}


async def _was_taken(handle: WorkflowHandle[Any, Any], update_id: str) -> bool:
    """Tell whether exactly this answer was taken before: a second click on the same button."""
    try:
        await handle.get_update_handle(update_id).result(rpc_timeout=timedelta(seconds=LOOK_SECONDS))
    except (WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError, RPCError):
        return False
    return True


def _refusal(error: WorkflowUpdateFailedError) -> KernelError:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == NOT_WAITING:
        return NotWaiting("It is not waiting any more")
    return RunEnded("The run ended before it took the answer")


def _rpc_refusal(error: RPCError, over: KernelError) -> KernelError:
    """Return what a failed call means: `over` when the workflow run it was for is closed."""
    if error.status == RPCStatusCode.NOT_FOUND:
        return over
    return NoAnswer(f"Temporal did not take it ({error.status.name.lower()})")


async def _cancel(client: Client, run: RunAddress, reason: str) -> None:
    """Stop the run wherever it has got to: the workflow run that was looked at, or one that continues it."""
    own = await _own_run(client, run)
    chain: WorkflowHandle[Any, Any] = client.get_workflow_handle(
        run.run_id, first_execution_run_id=own.first_execution_run_id
    )
    try:
        await chain.cancel(reason=reason, rpc_timeout=timedelta(seconds=ANSWER_SECONDS))
    except RPCError as error:
        raise _rpc_refusal(error, RunEnded("The run has ended")) from error


async def _own_run(client: Client, run: RunAddress) -> WorkflowHandle[Any, Any]:
    """Return the handle of a run of this project that is under way. Raises NotDrivenHere or RunEnded."""
    handle, is_running = await find_own(client, run)
    if not is_running:
        raise RunEnded("The run has ended")
    return handle


async def find_own(client: Client, run: RunAddress) -> tuple[WorkflowHandle[Any, Any], bool]:
    """Return the handle of the workflow that was started for this project, and whether it is under way.

    It is pinned to the workflow run that was checked: another one, after continue-as-new, waits for other things.
    """
    found = await _described(client.get_workflow_handle(run.run_id))
    if found is None or found.workflow_type != WORKFLOW or await _project_of(found) != run.project:
        raise NotDrivenHere("No run of this project is executed under this id")
    first = found.raw_description.workflow_execution_info.first_run_id
    handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(
        run.run_id, run_id=found.run_id, first_execution_run_id=first or None
    )
    return handle, found.status == WorkflowExecutionStatus.RUNNING


async def _project_of(found: WorkflowExecutionDescription) -> str:
    """Return the project a workflow was started for. A delegate and a continued run have the memo they came from."""
    project = await found.memo_value(PROJECT_MEMO, default="")
    return project if isinstance(project, str) else ""


async def _described(handle: WorkflowHandle[Any, Any]) -> WorkflowExecutionDescription | None:
    try:
        return await handle.describe(rpc_timeout=timedelta(seconds=LOOK_SECONDS))
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT) and not _lacks_namespace(error):
            return None
        raise


def _lacks_namespace(error: RPCError) -> bool:
    return any(detail.type_url.endswith("NamespaceNotFoundFailure") for detail in error.grpc_status.details)
